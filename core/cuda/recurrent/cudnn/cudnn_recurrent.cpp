// Note [cuDNN's reserve]
// cuDNN's backward changes the reserve that its forward filled. An eager backward pass works on a
// copy, since the same graph may run backward again (retain_graph). A captured pass, which is a
// training step, needs none.
#include "core/cuda/recurrent/cudnn/cudnn_recurrent.h"

#include "core/cuda/memory/aligned.h"
#include "core/cuda/memory/operand.h"
#include "core/cuda/ops/elementwise.h"
#include "core/cuda/recurrent/cudnn/batched_copy.h"
#include "core/cuda/recurrent/recurrent_sizes.h"
#include "core/cuda/runtime/streams.h"

#include <algorithm>
#include <deque>

namespace whisker::cuda {
namespace {

/// The state from cell `first` on; null stays null.
void* state_from(const RecurrentGeometry& g, void* state, int64_t first, int64_t extent) {
  return state ? static_cast<char*>(state) + first * g.batch * extent * width_of(g) : nullptr;
}

}  // namespace

/// The layers of one cuDNN call, and their part of the reserve.
struct CudnnRecurrent::Segment {
  RecurrentGeometry geometry;
  int64_t first_cell = 0;
  CudnnRecurrentPlan* plan = nullptr;
  int64_t reserve_at = 0;
  int64_t result_at = 0;  // where its result is kept, unless it is the last

  std::span<const RecurrentParameters> cells(const std::vector<RecurrentParameters>& all) const {
    return std::span(all).subspan(static_cast<size_t>(first_cell),
                                  static_cast<size_t>(geometry.cells()));
  }
};

std::vector<CudnnRecurrent::Segment> CudnnRecurrent::segments(const RecurrentGeometry& g,
                                                              bool training,
                                                              int64_t* reserve_bytes) {
  const bool together = g.dropout == 0;
  std::vector<Segment> all;
  int64_t at = 0;
  for (int64_t layer = 0; layer < g.layers; layer += together ? g.layers : 1) {
    Segment segment{.geometry = g, .first_cell = layer * g.directions};
    segment.geometry.dropout = 0;
    segment.geometry.features = g.inputs(layer);
    if (!together) segment.geometry.layers = 1;
    segment.plan = &algorithms_.plan(segment.geometry, training);
    segment.reserve_at = at;
    segment.result_at = at + on_reserve_grid(segment.plan->reserve_bytes());
    const bool last = together || layer + 1 == g.layers;
    at = segment.result_at + (last ? 0 : on_reserve_grid(result_bytes(g)));
    all.push_back(segment);
  }
  if (reserve_bytes) *reserve_bytes = at;
  return all;
}

int64_t CudnnRecurrent::reserve_bytes(const RecurrentGeometry& g) {
  int64_t bytes = 0;
  segments(g, true, &bytes);
  return bytes;
}

void CudnnRecurrent::forward(const RecurrentGeometry& g, const RecurrentInputs& in,
                             const RecurrentOutputs& out) {
  const cudaStream_t stream = context_.stream();
  const auto reserve = static_cast<char*>(pointer(out.reserve));
  const std::vector<Segment> all = segments(g, reserve != nullptr, nullptr);
  const AlignedInput x(context_, allocator_, in.x);
  const AlignedInput h(context_, allocator_, in.initial.h), c(context_, allocator_, in.initial.c);
  std::deque<Scratch> between;  // results of layers, with and without dropout
  const void* input = x.data();
  for (const Segment& segment : all) {
    const bool last = &segment == &all.back();
    void* result = out.y.raw();
    if (!last && reserve) result = reserve + segment.result_at;
    if (!last && !reserve) result = between.emplace_back(allocator_, result_bytes(g)).data();
    const Scratch weights(allocator_, segment.plan->weight_bytes());
    const Scratch workspace(allocator_, segment.plan->workspace_bytes());
    batched_copy(segment.plan->copies(segment.cells(in.parameters), weights.data()),
                 CopyDirection::pack, stream);
    segment.plan->forward({.x = input,
                           .y = result,
                           .h = state_from(g, h.data(), segment.first_cell, g.output()),
                           .c = state_from(g, c.data(), segment.first_cell, g.hidden),
                           .weights = weights.data(),
                           .workspace = workspace.data(),
                           .reserve = reserve ? reserve + segment.reserve_at : nullptr},
                          state_from(g, pointer(out.last.h), segment.first_cell, g.output()),
                          state_from(g, pointer(out.last.c), segment.first_cell, g.hidden));
    if (last) break;
    void* const dropped = between.emplace_back(allocator_, result_bytes(g)).data();
    kernels::dropout(stream, g.dropout,
                     recurrent_mask_key(in.key, segment.first_cell / g.directions), g.dtype, result,
                     dropped, result_bytes(g) / width_of(g));
    input = dropped;
  }
}

void CudnnRecurrent::backward(const RecurrentGeometry& g, const RecurrentInputs& in,
                              const RecurrentOutputs& out, const RecurrentGradients& gradients) {
  const cudaStream_t stream = context_.stream();
  const std::vector<Segment> all = segments(g, true, nullptr);
  std::deque<Scratch> between;
  auto reserve = static_cast<char*>(out.reserve.raw());
  if (!capturing(stream)) {  // see Note [cuDNN's reserve]
    const int64_t bytes = out.reserve.bytes();
    char* const copied = between.emplace_back(allocator_, bytes).as<char>();
    check(cudaMemcpyAsync(copied, reserve, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                          stream),
          "copying the reserve");
    reserve = copied;
  }
  const AlignedInput x(context_, allocator_, in.x);
  const AlignedInput h(context_, allocator_, in.initial.h), c(context_, allocator_, in.initial.c);
  const AlignedInput given(context_, allocator_, gradients.dy);
  const AlignedInput dh(context_, allocator_, gradients.dlast.h);
  const AlignedInput dc(context_, allocator_, gradients.dlast.c);
  const int64_t elements = result_bytes(g) / width_of(g);
  const auto drop = [&](int64_t layer, const void* from, void* to) {
    kernels::dropout(stream, g.dropout, recurrent_mask_key(in.key, layer), g.dtype, from, to,
                     elements);
  };
  const auto clean = [&](int64_t bytes) {
    void* const memory = between.emplace_back(allocator_, bytes).data();
    check(cudaMemsetAsync(memory, 0, static_cast<size_t>(bytes), stream), "clearing a gradient");
    return memory;
  };
  const void* dy = given.data() ? given.data() : clean(result_bytes(g));
  for (size_t i = all.size(); i-- > 0;) {
    const Segment& segment = all[i];
    const RecurrentGeometry& own = segment.geometry;
    CudnnRecurrentPlan& plan = *segment.plan;
    const int64_t layer = segment.first_cell / g.directions;
    const void* input = x.data();
    if (i > 0) {
      void* const dropped = between.emplace_back(allocator_, result_bytes(g)).data();
      drop(layer - 1, reserve + all[i - 1].result_at, dropped);
      input = dropped;
    }
    const int64_t input_bytes = own.steps * own.batch * own.features * width_of(g);
    void* const dx = i == 0 && gradients.dx.defined()
                         ? gradients.dx.raw()
                         : between.emplace_back(allocator_, input_bytes).data();
    const Scratch weights(allocator_, plan.weight_bytes());
    const Scratch workspace(allocator_, plan.workspace_bytes());
    batched_copy(plan.copies(segment.cells(in.parameters), weights.data()), CopyDirection::pack,
                 stream);
    const bool last = i + 1 == all.size();
    const RecurrentCall call{.x = input,
                             .y = last ? out.y.raw() : reserve + segment.result_at,
                             .h = state_from(g, h.data(), segment.first_cell, g.output()),
                             .c = state_from(g, c.data(), segment.first_cell, g.hidden),
                             .weights = weights.data(),
                             .workspace = workspace.data(),
                             .reserve = reserve + segment.reserve_at};
    plan.backward_data(call, dy, state_from(g, dh.data(), segment.first_cell, g.output()),
                       state_from(g, dc.data(), segment.first_cell, g.hidden), dx,
                       state_from(g, pointer(gradients.dinitial.h), segment.first_cell, g.output()),
                       state_from(g, pointer(gradients.dinitial.c), segment.first_cell, g.hidden));
    const Scratch dweights(allocator_, plan.weight_bytes());
    const std::vector<Copy> wanted =
        plan.copies(segment.cells(gradients.dparameters), dweights.data());
    if (!wanted.empty()) {
      check(cudaMemsetAsync(dweights.data(), 0, static_cast<size_t>(dweights.bytes()), stream),
            "clearing the weights' gradient");
      plan.backward_weights(call, dweights.data());
      batched_copy(wanted, CopyDirection::unpack, stream);
    }
    if (i > 0) drop(layer - 1, dx, dx);
    dy = dx;
  }
}

}  // namespace whisker::cuda
