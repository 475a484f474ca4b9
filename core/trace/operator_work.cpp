// See Note [Operator work].
#include "core/trace/operator_work.h"

#include "core/tensor/dtype.h"
#include "core/trace/rule_table.h"

#include <set>
#include <utility>

namespace whisker {
namespace {

// Spaces around each name.
bool is_one_of(std::string_view names, const std::string& name) {
  return names.find(" " + name + " ") != std::string_view::npos;
}

constexpr std::string_view movers =
    " reshape transpose broadcast_to concat split slice pad gather embedding cast recompute ";
constexpr std::string_view reducers = " sum mean max min excite ";
constexpr std::string_view softmaxes =
    " softmax log_softmax cross_entropy binary_cross_entropy_with_logits ";
constexpr double softmax_operations = 5, norm_operations = 8, inference_norm_operations = 2;

double elements_of(const Shape& shape) {
  return static_cast<double>(shape.count());
}

double tensor_bytes(const Shape& shape, DType dtype) {
  return elements_of(shape) * static_cast<double>(size_of(dtype));
}

class Worker {
 public:
  Worker(const Recording& recording, size_t entry)
      : recording_(recording), index_(entry), entry_(recording.entries[entry]) {}

  OperatorWork work() {
    OperatorWork work;
    if (entry_.name == recompute_name) {
      work.backward = recomputed();
    } else {
      count_operations();
      if (!is_view()) {
        work.forward = {.what = {}, .operations = products_ + others_, .bytes = forward_bytes()};
      }
      if (entry_.recorded) work.backward = backward();
    }
    work.forward.what = work.backward.what = entry_.name;
    return work;
  }

 private:
  const TapeOutput* operand(size_t position) const {
    for (const TapeInput& input : entry_.inputs) {
      if (input.position == position) return &recording_.entries[input.entry].outputs[input.output];
    }
    return nullptr;
  }
  double operand_elements(size_t position) const {
    const TapeOutput* const x = operand(position);
    return x ? elements_of(x->shape) : 0;
  }
  int64_t extent(size_t position, int axis) const {
    const TapeOutput* const x = operand(position);
    return x && x->shape.rank() > 0 && x->shape.rank() >= (axis < 0 ? -axis : axis + 1)
               ? x->shape[axis]
               : 0;
  }
  bool wants_gradient(const TapeInput& input) const {
    const TapeEntry& source = recording_.entries[input.entry];
    return source.kind == TapeKind::leaf || source.on_tape();
  }
  bool is_wanted(size_t position) const {
    return std::any_of(entry_.inputs.begin(), entry_.inputs.end(), [&](const TapeInput& input) {
      return input.position == position && wants_gradient(input);
    });
  }
  double number(std::string_view name, size_t i, double otherwise) const {
    const std::vector<double> numbers = entry_.attribute(name);
    return i < numbers.size() ? numbers[i] : otherwise;
  }

  // The result is the operand's memory.
  bool is_view() const {
    return entry_.name == "reshape" ||
           (is_one_of(" slice split ", entry_.name) && number("axis", 0, 1) == 0);
  }

  double norm_of(double x) const {
    return x * (entry_.name != "batch_norm" || entry_.has_attribute("training")
                    ? norm_operations
                    : inference_norm_operations);
  }

  // A product with weights at position `w`, of whose rows each makes an element of the result.
  void add_product(double results, size_t w) {
    const double own_rows = static_cast<double>(extent(w, 0));
    if (own_rows > 0) products_ += 2 * results * operand_elements(w) / own_rows;
    gradients_ += (is_wanted(0) ? 1 : 0) + (is_wanted(w) ? 1 : 0);
  }

  void count_operations() {
    const std::string& name = entry_.name;
    const double y = elements_of(entry_.shape()), x = operand_elements(0);
    double results = y;  // of what a fused activation follows
    if (name == "matmul") {
      const std::vector<double> transposed = entry_.attribute("transpose");
      const bool of_a = std::find(transposed.begin(), transposed.end(), 0) != transposed.end();
      products_ = 2 * y * static_cast<double>(extent(0, of_a ? -2 : -1));
      gradients_ = (is_wanted(0) ? 1 : 0) + (is_wanted(1) ? 1 : 0);
    } else if (is_one_of(" linear conv2d conv2d_max_pool2d ", name)) {
      if (name == "conv2d_max_pool2d" && entry_.shape().rank() == 4) {
        results = elements_of(entry_.shape().with(1, 1).with(2, 1)) *
                  number("convolved", 0, static_cast<double>(entry_.shape()[1])) *
                  number("convolved", 1, static_cast<double>(entry_.shape()[2]));
        others_ += results;
      }
      add_product(results, 1);
      if (operand(2)) others_ += results;
    } else if (name == "batch_norm_conv2d") {
      add_product(y, 3);
      others_ += norm_of(x);
      results = x;
    } else if (name == "attention") {
      const double tokens = static_cast<double>(extent(0, 1));
      products_ = 4 * y * tokens;
      others_ = softmax_operations * number("heads", 0, 1) * tokens * tokens *
                static_cast<double>(extent(0, 0));
      gradients_ = 2.5;  // the scores again, and four products
    } else if (name == "recurrent") {
      count_recurrent();
    } else if (is_one_of(" batch_norm layer_norm group_norm ", name)) {
      others_ = norm_of(x) + (operand(3) ? x : 0);
    } else if (name == "batch_norm_max_pool2d" || name == "batch_norm_squeeze") {
      others_ = norm_of(x) + x;
      results = x;
    } else if (name == "add_batch_norms") {
      others_ = 2 * norm_of(x) + x;
    } else if (is_one_of(" max_pool2d avg_pool2d ", name)) {
      others_ = y * number("kernel", 0, 1) * number("kernel", 1, 1);
    } else if (is_one_of(softmaxes, name)) {
      others_ = softmax_operations * x;
    } else if (is_one_of(reducers, name)) {
      others_ = x;
    } else if (!is_one_of(movers, name)) {
      others_ = y;
    }
    const bool has_activation = products_ > 0 || name.find("batch_norm") != std::string::npos;
    if (has_activation && !fused_activation(entry_).empty()) others_ += results;
  }

  // Each matrix meets each sequence in each step. Gradients go through all but those of the input
  // (the first of each cell's), whether or not it wants one.
  void count_recurrent() {
    constexpr size_t first = 3, per_cell = 5;
    const double rows_read = 2 * static_cast<double>(extent(0, 0) * extent(0, 1));
    double backward = 0;
    for (const TapeInput& input : entry_.inputs) {
      const Shape& shape = recording_.entries[input.entry].outputs[input.output].shape;
      if (input.position < first || shape.rank() != 2) continue;
      const double product = rows_read * elements_of(shape);
      products_ += product;
      if (wants_gradient(input)) backward += product;
      if ((input.position - first) % per_cell != 0 || is_wanted(0)) backward += product;
    }
    if (products_ > 0) gradients_ = backward / products_;
  }

  double forward_bytes() const {
    double bytes = 0;
    for (const TapeOutput& output : entry_.outputs)
      bytes += tensor_bytes(output.shape, output.dtype);
    if (is_one_of(" slice gather embedding ", entry_.name)) return 2 * bytes;  // reads no more
    std::set<std::pair<size_t, size_t>> read;
    for (const TapeInput& input : entry_.inputs) {
      if (!read.emplace(input.entry, input.output).second) continue;
      const TapeOutput& x = recording_.entries[input.entry].outputs[input.output];
      bytes += tensor_bytes(x.shape, x.dtype);
    }
    for (const TapeSaved& saved : entry_.saved) {
      if (saved.what == "workspace") bytes += tensor_bytes(saved.shape, saved.dtype);
    }
    return bytes;
  }

  // The gradient that arrives is handed on as it is.
  bool hands_on(const TapeInput& input) const {
    if (is_view()) return true;
    const bool sum = entry_.name == "add" || (entry_.name == "sub" && input.position == 0);
    const bool factor = entry_.name == "excite" && input.position == 0;
    const Shape& x = recording_.entries[input.entry].outputs[input.output].shape;
    return (sum || factor) && x == entry_.shape();
  }

  PassWork backward() const {
    PassWork work;
    for (const TapeInput& input : entry_.inputs) {
      const TapeOutput& x = recording_.entries[input.entry].outputs[input.output];
      if (wants_gradient(input) && !hands_on(input)) work.bytes += tensor_bytes(x.shape, x.dtype);
    }
    if (work.bytes == 0) return work;
    for (const TapeOutput& output : entry_.outputs) {
      work.bytes += tensor_bytes(output.shape, output.dtype);
    }
    for (const TapeSaved& saved : entry_.saved)
      work.bytes += tensor_bytes(saved.shape, saved.dtype);
    work.operations = products_ * gradients_ + others_;
    return work;
  }

  // The block forwards, and backwards.
  PassWork recomputed() const {
    PassWork all;
    for (size_t i = first_recomputed(recording_.entries, index_); i < index_; ++i) {
      const TapeEntry& one = recording_.entries[i];
      if (!one.on_tape() || one.name == recompute_name) continue;
      const OperatorWork work = operator_work(recording_, i);
      all.operations += work.forward.operations + work.backward.operations;
      all.bytes += work.forward.bytes + work.backward.bytes;
    }
    return all;
  }

  const Recording& recording_;
  size_t index_;
  const TapeEntry& entry_;
  double products_ = 0, others_ = 0;  // operations forwards
  double gradients_ = 0;              // backward's products for one forwards
};

}  // namespace

OperatorWork operator_work(const Recording& recording, size_t entry) {
  return Worker(recording, entry).work();
}

}  // namespace whisker
