// Recurrent layers by cuDNN: all layers in one call; with dropout one layer per call, since Whisker
// draws the masks (core/backend/dropout_mask.h); over sequences of different lengths one cell.
// cuDNN reads all weights from one block: they are copied into it before every call, and gradients
// out of it afterwards. The host never reads a length, so a step can be captured.
//
// Note [Flagged steps]
// Over sequences of different lengths a cell computes its valid steps first (the backward direction
// in reverse). The steps after them have an input of zeros and one more feature, the flag, which is
// 1. The weights of the flag saturate the gates: an lstm keeps c, a gru keeps h, an rnn's state is
// -1 (tanh) or 0 (relu). So the last c is that of the last valid step and later states stay
// bounded. Saturated gates have a slope of exactly 0: no gradient passes through these steps. h is
// read at the last valid step, and its gradient enters there. Zeros follow the flag up to a
// multiple of 8 features, for tensor cores.
//
// Note [cuDNN's reserve]
// cuDNN's backward changes the reserve that its forward filled. An eager backward pass works on a
// copy, since the same graph may run backward again (retain_graph). A captured pass, which is a
// training step, needs none.
#include "core/cuda/recurrent/recurrent_pass.h"
#include "core/cuda/runtime/libraries.h"
#include "core/cuda/runtime/streams.h"

#include <utility>

namespace whisker::cuda {
namespace {

/// The cells of one cuDNN call, and their part of the reserve.
struct Segment {
  RecurrentGeometry geometry;  // features: with the flag and what follows it
  int64_t first_cell = 0;
  int64_t layer = 0, direction = 0;  // of the first cell
  int64_t features = 0;              // without the flag
  CudnnRecurrentPlan* plan = nullptr;
  int64_t reserve_at = 0;
  int64_t results_at = 0;  // where its results are kept, unless they are y itself

  std::vector<RecurrentParameters> cells(const std::vector<RecurrentParameters>& all) const {
    return {all.begin() + first_cell, all.begin() + first_cell + geometry.cells()};
  }
};

struct Segments {
  std::vector<Segment> all;
  int64_t reserve_bytes = 0;
};

Segments segments_of(CudnnRecurrent& layers, const RecurrentGeometry& g) {
  const int64_t cells = g.lengths ? 1 : g.dropout > 0 ? g.directions : g.cells();
  Segments segments;
  int64_t& at = segments.reserve_bytes;
  for (int64_t first = 0; first < g.cells(); first += cells) {
    const int64_t layer = first / g.directions, features = g.inputs(layer);
    RecurrentGeometry own = g;
    own.features = g.lengths ? (features + 1 + 7) / 8 * 8 : features;
    own.directions = g.lengths ? 1 : g.directions;
    own.layers = cells / own.directions;
    own.lengths = false;
    own.dropout = 0;
    CudnnRecurrentPlan& plan = layers.plan(own);
    segments.all.push_back({.geometry = own,
                            .first_cell = first,
                            .layer = layer,
                            .direction = first % g.directions,
                            .features = features,
                            .plan = &plan,
                            .reserve_at = at,
                            .results_at = at + on_reserve_grid(plan.reserve_bytes())});
    at = segments.all.back().results_at;
    if (g.lengths || first + cells < g.cells()) at += on_reserve_grid(result_bytes(own));
  }
  return segments;
}

/// A level are the segments that read the same input.
class CudnnPass : RecurrentPass {
 public:
  CudnnPass(CudaDevice& device, CudnnRecurrent& layers, const RecurrentGeometry& g,
            const RecurrentInputs& in, const RecurrentOutputs& out)
      : RecurrentPass(device, g, in, out), segments_(segments_of(layers, g).all) {}

  void forward() {
    const void* input = x_;
    const bool kept = reserve_ && !g_.lengths;  // y of the layers below
    for (size_t i = 0; i < segments_.size(); i += level_size_) {
      const bool last = i + level_size_ == segments_.size();
      void* const y = last   ? out_.y.raw()
                      : kept ? reserve_ + segments_[i].results_at
                             : memory_.take(result_bytes(g_));
      for (const Segment& segment : level(i)) run(segment, input, y);
      if (!last) input = next_input(segments_[i].layer, y, kept);
    }
  }

  void backward(const RecurrentGradients& gradients) {
    // See Note [cuDNN's reserve].
    if (!capturing(stream_)) reserve_ = static_cast<char*>(memory_.copied(out_.reserve));
    const void* dy = memory_.aligned(gradients.dy);
    if (!dy && !g_.lengths) dy = memory_.zeros(result_bytes(g_));
    dh_last_ = memory_.aligned(gradients.dlast.h);
    dc_last_ = memory_.aligned(gradients.dlast.c);
    for (size_t i = segments_.size(); i > 0;) {
      i -= level_size_;
      const bool first = i == 0;
      const int64_t features = segments_[i].features;
      const void* const input = first ? x_ : result_below(i - level_size_);
      void* dx = first ? pointer(gradients.dx) : nullptr;
      if (!dx && !(first && g_.lengths)) dx = memory_.take(sequence_bytes(g_, features));
      void* sides[2] = {dx, nullptr};  // gradients of the segments' inputs
      for (const Segment& segment : level(i)) {
        void*& side = sides[segment.direction];
        if (g_.lengths) side = memory_.take(sequence_bytes(g_, segment.geometry.features));
        run_backward(segment, gradients, input, dy, side);
      }
      if (g_.lengths && dx) {
        reorder(segments_[i], {.x = {sides[0], segments_[i].geometry.features},
                               .backward = sides[1],
                               .y = {dx, features},
                               .columns = features});
      }
      if (!first) drop(segments_[i].layer - 1, dx, dx);
      dy = dx;
    }
  }

 private:
  std::span<const Segment> level(size_t first) const {
    return std::span(segments_).subspan(first, level_size_);
  }
  void reorder(const Segment& segment, const kernels::ReorderedSteps& steps) const {
    kernels::reorder_steps(stream_, sequences(segment.direction == 1), steps);
  }

  /// The input of the layer above `layer`, whose result is y; in other memory if y is `kept`.
  void* next_input(int64_t layer, void* y, bool kept) {
    if (kept) return dropped(layer, y, memory_);
    drop(layer, y, y);
    return y;
  }

  /// The result of the level that begins at segment `first`, again, as the next one reads it.
  void* result_below(size_t first) {
    const Segment& below = segments_[first];
    if (!g_.lengths) return next_input(below.layer, reserve_ + below.results_at, true);
    void* const y = memory_.take(result_bytes(g_));
    for (const Segment& segment : level(first)) {
      store_results(segment, reserve_ + segment.results_at, y);
    }
    return next_input(below.layer, y, false);
  }

  void store_results(const Segment& segment, const void* results, void* y) const {
    reorder(segment, {.x = {results, g_.output()},
                      .y = {y, g_.directions * g_.output(), segment.direction * g_.output()},
                      .columns = g_.output()});
  }

  /// w_ih, or memory for its gradient, with columns for the flag.
  static Tensor with_flag_columns(const Segment& segment, const Tensor& w_ih) {
    return empty({w_ih.extent(0), segment.geometry.features}, w_ih.options());
  }

  /// The operands of a call, with weights in one block and, where sequences have lengths, flags.
  RecurrentCall prepared(const Segment& segment, const void* input, void* results,
                         RecurrentMemory& memory) const {
    void* const weights = memory.take(segment.plan->weight_bytes());
    RecurrentCall call{.x = input,
                       .y = results,
                       .h = h_of(segment.first_cell, h_),
                       .c = c_of(segment.first_cell, c_),
                       .weights = weights,
                       .workspace = memory.take(segment.plan->workspace_bytes()),
                       .reserve = advance(reserve_, segment.reserve_at)};
    std::vector<RecurrentParameters> parameters = segment.cells(in_.parameters);
    if (g_.lengths) {
      const int64_t width = segment.geometry.features;
      void* const x = memory.take(sequence_bytes(g_, width));
      reorder(segment, {.x = {input, segment.features},
                        .y = {x, width},
                        .columns = segment.features,
                        .flag_columns = width - segment.features});
      call.x = x;
      const Tensor w_ih =
          std::exchange(parameters[0].w_ih, with_flag_columns(segment, parameters[0].w_ih));
      kernels::flag_weights(stream_, g_.kind, g_.dtype, g_.hidden, w_ih.raw(), segment.features,
                            parameters[0].w_ih.raw(), width);
    }
    for (const auto& [unpacked, packed, bytes] : segment.plan->copies(parameters, weights)) {
      copy_on_device(stream_, unpacked, packed, bytes);
    }
    return call;
  }

  void run(const Segment& segment, const void* input, void* y) const {
    RecurrentMemory memory(context_, allocator_);
    void* results = y;
    if (g_.lengths) {
      results =
          reserve_ ? reserve_ + segment.results_at : memory.take(sequence_bytes(g_, g_.output()));
    }
    const RecurrentCall call = prepared(segment, input, results, memory);
    char* const h_last = h_of(segment.first_cell, pointer(out_.last.h));
    segment.plan->forward(call, g_.lengths ? nullptr : h_last,
                          c_of(segment.first_cell, pointer(out_.last.c)));
    if (!g_.lengths) return;
    store_results(segment, results, y);
    if (!h_last) return;
    kernels::last_results(stream_, sequences(segment.direction == 1), results, call.h, h_last,
                          g_.output());
  }

  void run_backward(const Segment& segment, const RecurrentGradients& gradients, const void* input,
                    const void* dy, void* dx) const {
    RecurrentMemory memory(context_, allocator_);
    const bool is_y = !g_.lengths && &segment == &segments_.back();
    const RecurrentCall call =
        prepared(segment, input, is_y ? out_.y.raw() : reserve_ + segment.results_at, memory);
    char* const dh_last = h_of(segment.first_cell, dh_last_);
    char* const dh = h_of(segment.first_cell, pointer(gradients.dinitial.h));
    if (g_.lengths) {
      void* const dresults = memory.take(sequence_bytes(g_, g_.output()));
      reorder(segment, {.x = {dy, g_.directions * g_.output(), segment.direction * g_.output()},
                        .last = dh_last,
                        .y = {dresults, g_.output()},
                        .columns = g_.output()});
      dy = dresults;
    }
    segment.plan->backward_data(call, dy, g_.lengths ? nullptr : dh_last,
                                c_of(segment.first_cell, dc_last_), dx, dh,
                                c_of(segment.first_cell, pointer(gradients.dinitial.c)));
    if (g_.lengths && dh) {
      kernels::last_results(stream_, sequences(segment.direction == 1), nullptr, dh_last, dh,
                            g_.output());
    }
    weights_gradient(segment, call, segment.cells(gradients.dparameters), memory);
  }

  void weights_gradient(const Segment& segment, const RecurrentCall& call,
                        std::vector<RecurrentParameters> wanted, RecurrentMemory& memory) const {
    const Tensor dw = wanted[0].w_ih;
    if (g_.lengths && dw.defined()) wanted[0].w_ih = with_flag_columns(segment, dw);
    const int64_t bytes = segment.plan->weight_bytes();
    void* const dweights = memory.take(bytes);
    const auto copies = segment.plan->copies(wanted, dweights);
    if (copies.empty()) return;
    check(cudaMemsetAsync(dweights, 0, static_cast<size_t>(bytes), stream_),
          "clearing the weights' gradient");
    segment.plan->backward_weights(call, dweights);
    for (const auto& [unpacked, packed, part] : copies) {
      copy_on_device(stream_, packed, unpacked, part);
    }
    if (!g_.lengths || !dw.defined()) return;
    const auto row = static_cast<size_t>(segment.features * width_of(g_));
    const auto wide_row = static_cast<size_t>(segment.geometry.features * width_of(g_));
    check(cudaMemcpy2DAsync(dw.raw(), row, wanted[0].w_ih.raw(), wide_row, row,
                            static_cast<size_t>(dw.extent(0)), cudaMemcpyDeviceToDevice, stream_),
          "narrowing the gradient of recurrent weights");
  }

  const std::vector<Segment> segments_;
  const size_t level_size_ = g_.lengths ? static_cast<size_t>(g_.directions) : 1;
  const void* const x_ = memory_.aligned(in_.x);
  const void *dh_last_ = nullptr, *dc_last_ = nullptr;
  char* reserve_ = static_cast<char*>(pointer(out_.reserve));
};

}  // namespace

CudnnRecurrentPlan& CudnnRecurrent::plan(const RecurrentGeometry& g) {
  for (const auto& known : plans_) {
    if (known->computes(g, tf32())) return *known;
  }
  for (const char* part : {"ops", "adv"}) open_cudnn_part(part);
  return *plans_.emplace_back(
      std::make_unique<CudnnRecurrentPlan>(context_, allocator_, g, tf32()));
}

int64_t CudnnRecurrent::reserve_bytes(const RecurrentGeometry& g) {
  return segments_of(*this, g).reserve_bytes;
}

void CudnnRecurrent::forward(const RecurrentGeometry& g, const RecurrentInputs& in,
                             const RecurrentOutputs& out) {
  CudnnPass(device_, *this, g, in, out).forward();
}

void CudnnRecurrent::backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                              const RecurrentOutputs& out, const RecurrentGradients& gradients) {
  CudnnPass(device_, *this, g, in, out).backward(gradients);
}

}  // namespace whisker::cuda
