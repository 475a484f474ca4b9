#include "train/data/feature_source.h"

#include "core/autograd/autograd.h"
#include "core/io/counted.h"
#include "core/io/text.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

namespace whisker {
namespace {

bool trains(const Module& layer) {
  return std::ranges::any_of(layer.parameters(), [](const auto& p) { return p->trains(); });
}

class FeatureSource final : public BatchSource {
 public:
  FeatureSource(const Network& network, std::unique_ptr<BatchSource> plain,
                std::unique_ptr<BatchSource> after, std::unique_ptr<Sampler> sampler,
                const FeatureOptions& options)
      : network_(network),
        plain_(std::move(plain)),
        after_(std::move(after)),
        sampler_(std::move(sampler)),
        options_(options) {}

  int64_t batches() const override { return (after_ ? after_ : plain_)->batches(); }
  void start_epoch(int64_t epoch, int64_t first_batch) override {
    // A validation is always of epoch 0.
    serves_ = (options_.epochs == 0 || epoch < options_.epochs) && first_layers_frozen();
    if (!serves_) return later().start_epoch(epoch, first_batch);
    epoch_ = epoch;
    next_ = first_batch;
    order_.clear();
  }
  std::optional<Batch> next() override;
  void write_into(const Tensor& inputs) override {
    if (!serves_) later().write_into(inputs);
  }
  double jpeg_share() const override { return after_ ? after_->jpeg_share() : -1; }
  void set_jpeg_share(double share) override { later().set_jpeg_share(share); }
  LoaderStats stats() const override;
  std::string take_note() override;
  void on_preparing(std::function<void(const Preparing&)> receive) override {
    preparing_ = std::move(receive);
  }
  const std::vector<BadSample>& bad_samples() const override {
    const bool plain = !after_ || after_->bad_samples().empty();
    return (plain ? plain_ : after_)->bad_samples();
  }

 private:
  bool first_layers_frozen() const;
  BatchSource& later() { return after_ ? *after_ : *plain_; }
  void compute();
  void append(const Batch& batch, const Tensor& features);

  const Network& network_;
  std::unique_ptr<BatchSource> plain_, after_;
  std::unique_ptr<Sampler> sampler_;
  FeatureOptions options_;
  bool serves_ = true;  // features, in this epoch
  int64_t epoch_ = 0;
  int64_t next_ = 0;  // batch
  std::vector<int64_t> order_;
  bool computed_ = false;
  std::vector<std::byte> features_;  // a row per image that could be read
  Shape row_shape_;                  // (1, ...)
  DType dtype_ = DType::f32;
  std::vector<int64_t> labels_, indices_;
  std::string note_;
  std::function<void(const Preparing&)> preparing_;
};

bool FeatureSource::first_layers_frozen() const {
  for (size_t i = 0; i < options_.first_layer; ++i) {
    if (trains(*network_.model().net->layer(i))) return false;
  }
  return true;
}

void FeatureSource::compute() {
  const NoGrad no_grad;
  const auto start = std::chrono::steady_clock::now();
  computed_ = true;
  const auto tell = [&](int64_t done, int64_t all) {
    if (preparing_) preparing_({.what = "computing features", .done = done, .all = all});
  };
  tell(0, options_.images);
  plain_->start_epoch(0);
  while (const std::optional<Batch> batch = plain_->next()) {
    append(*batch, network_.run_layers({0, options_.first_layer}, batch->inputs).to(cpu_device));
    if (std::ssize(labels_) < options_.images) tell(std::ssize(labels_), options_.images);
  }
  tell(std::ssize(labels_), std::ssize(labels_));  // some may be unreadable
  note_ = fmt::format("features of {}, {} each, computed in {:.1f} s",
                      counted(std::ssize(labels_), "image"), row_shape_, seconds_since(start));
}

void FeatureSource::append(const Batch& batch, const Tensor& features) {
  if (features_.empty()) {
    const int64_t row = features.bytes() / features.extent(0);
    features_.reserve(static_cast<size_t>(
        std::min(options_.most_bytes, row * plain_->batches() * options_.batch_size)));
  }
  row_shape_ = features.shape().with(0, 1);
  dtype_ = features.dtype();
  const auto* const bytes = static_cast<const std::byte*>(features.raw());
  features_.insert(features_.end(), bytes, bytes + features.bytes());
  const auto labels = batch.labels.data<const int64_t>();
  labels_.insert(labels_.end(), labels.begin(), labels.end());
  indices_.insert(indices_.end(), batch.indices.begin(), batch.indices.end());
  if (std::ssize(features_) <= options_.most_bytes) return;
  fail(ErrorKind::usage,
       "features: the features of {} images, {} each, take more than their part of "
       "data.cache_limit_mib ({}), which training and validation images share. Raise it, or use "
       "features: computed.",
       labels_.size(), row_shape_, human_bytes(static_cast<uint64_t>(options_.most_bytes)));
}

std::optional<Batch> FeatureSource::next() {
  if (!serves_) return later().next();
  if (!computed_) compute();
  if (order_.empty()) {
    order_.resize(labels_.size());
    std::iota(order_.begin(), order_.end(), 0);
    if (sampler_) order_ = sampler_->order(epoch_);
  }
  const int64_t begin = next_ * options_.batch_size;
  const int64_t count = std::min(options_.batch_size, std::ssize(order_) - begin);
  if (count <= 0 || (options_.drop_last && sampler_ && count < options_.batch_size)) return {};
  ++next_;
  Batch batch{.inputs = empty(row_shape_.with(0, count), {.dtype = dtype_}),
              .labels = empty({count}, {.dtype = DType::i64}),
              .first_layer = options_.first_layer};
  const size_t width = features_.size() / labels_.size();
  auto* const rows = static_cast<std::byte*>(batch.inputs.raw());
  for (int64_t row = 0; row < count; ++row) {
    const auto from = static_cast<size_t>(order_[static_cast<size_t>(begin + row)]);
    std::memcpy(rows + static_cast<size_t>(row) * width, features_.data() + from * width, width);
    batch.labels.data<int64_t>()[static_cast<size_t>(row)] = labels_[from];
    batch.indices.push_back(indices_[from]);
  }
  return batch;
}

LoaderStats FeatureSource::stats() const {
  LoaderStats sum = plain_->stats();
  if (!after_) return sum;
  const LoaderStats own = after_->stats();
  sum.wait_seconds += own.wait_seconds;
  sum.work_seconds += own.work_seconds;
  sum.samples += own.samples;
  sum.batches += own.batches;
  return sum;
}

std::string FeatureSource::take_note() {
  std::string note = std::exchange(note_, {});
  for (BatchSource* source : {plain_.get(), after_.get()}) {
    if (!source) continue;
    const std::string own = source->take_note();
    if (!note.empty() && !own.empty()) note += "; ";
    note += own;
  }
  return note;
}

// Values that differ from epoch to epoch cannot be cached.
bool draws(const Module& layer) {
  if (layer.type() == "dropout" || layer.type() == "drop_path") return true;
  return std::ranges::any_of(layer.children(),
                             [](const auto& child) { return draws(*child.module); });
}

}  // namespace

size_t first_trained_layer(const Network& network) {
  const Sequential& net = *network.model().net;
  size_t frozen = 0;  // behind the last frozen one
  for (size_t i = 0; i < net.size(); ++i) {
    const Module& layer = *net.layer(i);
    if (trains(layer)) break;
    if (!layer.parameters().empty()) frozen = i + 1;
  }
  if (frozen == 0) {
    fail(ErrorKind::usage,
         "features: expected the network's first layers to be frozen for cached; freeze names "
         "none of them. `whisker summary` lists the names.");
  }
  size_t at = frozen;
  while (at < net.size() && !trains(*net.layer(at)) && !draws(*net.layer(at))) ++at;
  return at;
}

std::unique_ptr<BatchSource> feature_source(const Network& network,
                                            std::unique_ptr<BatchSource> plain,
                                            std::unique_ptr<BatchSource> after,
                                            std::unique_ptr<Sampler> sampler,
                                            const FeatureOptions& options) {
  return std::make_unique<FeatureSource>(network, std::move(plain), std::move(after),
                                         std::move(sampler), options);
}

}  // namespace whisker
