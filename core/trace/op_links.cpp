// Which formula each operator has.
#include "core/trace/op_linker.h"

#include <algorithm>

namespace whisker {
namespace {

using Links = bool (*)(const OpLinker&);
struct LinkRow {
  std::string_view names;  // between blanks
  Links links;
};
constexpr LinkRow link_rows[] = {
    {" reshape cast recompute ", [](const OpLinker& l) { return l.same_order(); }},
    {" cross_entropy binary_cross_entropy_with_logits ",
     [](const OpLinker& l) { return l.to_scalar(); }},
    {" sum mean max min ", [](const OpLinker& l) { return l.reduction(); }},
    {" sum_products_to ", [](const OpLinker& l) { return l.sum_to(); }},
    {" transpose ", [](const OpLinker& l) { return l.transpose(); }},
    {" concat ", [](const OpLinker& l) { return l.concat(); }},
    {" split ", [](const OpLinker& l) { return l.split(); }},
    {" slice ", [](const OpLinker& l) { return l.slice(); }},
    {" matmul ", [](const OpLinker& l) { return l.matmul(); }},
    {" linear ", [](const OpLinker& l) { return l.linear(); }},
    {" conv2d ", [](const OpLinker& l) { return l.windows(OpLinker::Windows::convolve); }},
    {" max_pool2d ", [](const OpLinker& l) { return l.windows(OpLinker::Windows::maximum); }},
    {" avg_pool2d ", [](const OpLinker& l) { return l.windows(OpLinker::Windows::average); }},
    {" conv2d_max_pool2d ", [](const OpLinker& l) { return l.conv_max_pool(); }},
    {" gather ", [](const OpLinker& l) { return l.gather(); }},
    {" pad ", [](const OpLinker& l) { return l.pad(); }},
    {" embedding ", [](const OpLinker& l) { return l.embedding(); }},
    {" add sub mul div maximum minimum affine exp log sqrt reciprocal abs pow clamp relu "
     "leaky_relu gelu silu sigmoid tanh softplus relu6 hard_sigmoid hard_swish dropout where "
     "broadcast_to softmax log_softmax batch_norm layer_norm group_norm ",
     [](const OpLinker& l) { return l.elementwise(); }},
};

}  // namespace

std::vector<int64_t> strides_over(const Shape& shape, bool broadcast) {
  std::vector<int64_t> strides(static_cast<size_t>(shape.rank()));
  int64_t count = 1;
  for (size_t axis = strides.size(); axis-- > 0;) {
    const int64_t extent = shape[static_cast<int>(axis)];
    strides[axis] = broadcast && extent == 1 ? 0 : count;
    count *= extent;
  }
  return strides;
}

const TapeOutput* operand_at(const Recording& recording, const TapeEntry& entry, size_t position) {
  for (const TapeInput& input : entry.inputs) {
    if (input.position == position) return &recording.entries[input.entry].outputs[input.output];
  }
  return nullptr;
}

bool for_each_link(const Recording& recording, const TapeEntry& entry,
                   const std::function<void(const OpLink&)>& visit) {
  const auto is_small = [](const TapeOutput& tensor) {
    return tensor.shape.count() > 0 && tensor.shape.count() <= most_recorded_values;
  };
  bool small = std::all_of(entry.outputs.begin(), entry.outputs.end(), is_small);
  for (const TapeInput& input : entry.inputs) {
    small = small && is_small(recording.entries[input.entry].outputs[input.output]);
  }
  if (!small) return false;
  const std::string name = fmt::format(" {} ", entry.name);
  for (const LinkRow& row : link_rows) {
    if (row.names.find(name) != std::string_view::npos) {
      return row.links(OpLinker(recording, entry, visit));
    }
  }
  return false;
}

}  // namespace whisker
