// The kernel families of RecordingBackend: each passes its calls on to a device's, or keeps them
// while a graph is recorded.
#pragma once

#include "core/backend/convolution.h"
#include "core/backend/elementwise.h"
#include "core/backend/gemm.h"
#include "core/backend/losses.h"
#include "core/backend/normalization.h"
#include "core/backend/pooling.h"
#include "core/backend/recurrent.h"
#include "core/backend/reduction.h"
#include "core/backend/shape_index.h"
#include "core/backend/training_step.h"
#include "core/backend/unsummed_grads.h"
#include "core/ops/ops.h"

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace whisker::test {

using Calls = std::vector<std::function<void()>>;

struct CallRecorder {
  template <class Call>
  void submit(Call call) {
    if (calls) {
      calls->emplace_back(std::move(call));
    } else {
      call();
    }
  }
  Calls* calls = nullptr;  // of the graph that is recorded
};

/// A copy of an argument that outlives its call: what an operand struct refers to lies in
/// `tensors`. Structs that hold their tensors are copied as they are.
template <class Argument>
Argument kept(const Argument& argument, std::deque<Tensor>& tensors) {
  const auto keep = [&](const Tensor& x) -> const Tensor& { return tensors.emplace_back(x); };
  if constexpr (requires { Argument(argument.map(keep)); }) {
    return argument.map(keep);
  } else {
    return argument;
  }
}

template <class Kernels>
class Recorded : public Kernels {
 public:
  using K = Kernels;

  Recorded(CallRecorder& recorder, Kernels& device) : device_(device), recorder_(recorder) {}

 protected:
  template <class... Parameters, class... Arguments>
  void record(void (Kernels::*kernel)(Parameters...), const Arguments&... arguments) {
    const auto tensors = std::make_shared<std::deque<Tensor>>();
    recorder_.submit([this, kernel, tensors, kept = std::tuple(kept(arguments, *tensors)...)] {
      std::apply([&](const auto&... values) { (device_.*kernel)(values...); }, kept);
    });
  }

  Kernels& device_;

 private:
  CallRecorder& recorder_;
};

template <auto kernel>
struct ParametersOf;
template <class Kernels, class... Parameters, void (Kernels::*kernel)(Parameters...)>
struct ParametersOf<kernel> {
  using Type = std::tuple<Parameters...>;
};
template <auto kernel, size_t i>
using P = std::tuple_element_t<i, typename ParametersOf<kernel>::Type>;

// Overrides kernel k of K by one that is recorded.
#define WHISKER_RECORD_1(k)        \
  void k(P<&K::k, 0> a) override { \
    record(&K::k, a);              \
  }
#define WHISKER_RECORD_2(k)                       \
  void k(P<&K::k, 0> a, P<&K::k, 1> b) override { \
    record(&K::k, a, b);                          \
  }
#define WHISKER_RECORD_3(k)                                      \
  void k(P<&K::k, 0> a, P<&K::k, 1> b, P<&K::k, 2> c) override { \
    record(&K::k, a, b, c);                                      \
  }
#define WHISKER_RECORD_4(k)                                                     \
  void k(P<&K::k, 0> a, P<&K::k, 1> b, P<&K::k, 2> c, P<&K::k, 3> d) override { \
    record(&K::k, a, b, c, d);                                                  \
  }

struct RecordedElementwise final : Recorded<ElementwiseKernels> {
  using Recorded::Recorded;
  WHISKER_RECORD_2(fill)
  WHISKER_RECORD_2(cast)
  WHISKER_RECORD_3(unary)
  WHISKER_RECORD_4(binary)
  WHISKER_RECORD_2(accumulate)
  WHISKER_RECORD_4(compare)
  WHISKER_RECORD_4(where)
  WHISKER_RECORD_3(activation)
  WHISKER_RECORD_4(activation_backward)
  WHISKER_RECORD_3(activation_second)
  WHISKER_RECORD_4(dropout)
};

struct RecordedShapeIndex final : Recorded<ShapeIndexKernels> {
  using Recorded::Recorded;
  WHISKER_RECORD_4(strided_copy)
  WHISKER_RECORD_4(gather)
  WHISKER_RECORD_4(gather_backward)
  WHISKER_RECORD_3(embedding)
  WHISKER_RECORD_3(embedding_backward)
  WHISKER_RECORD_2(one_hot)
};

struct RecordedReduction final : Recorded<ReductionKernels> {
  using Recorded::Recorded;
  WHISKER_RECORD_4(reduce)
  WHISKER_RECORD_4(sum_products)
  WHISKER_RECORD_3(argmax)
};

struct RecordedGemm final : Recorded<GemmKernels> {
  using Recorded::Recorded;
  WHISKER_RECORD_4(matmul)
  WHISKER_RECORD_3(linear)
  WHISKER_RECORD_4(linear_backward)
};

struct RecordedConvolution final : Recorded<ConvolutionKernels> {
  using Recorded::Recorded;
  WHISKER_RECORD_3(conv2d)
  WHISKER_RECORD_4(conv2d_backward)
};

struct RecordedPooling final : Recorded<PoolingKernels> {
  using Recorded::Recorded;
  int64_t workspace_bytes(const Pool2dGeometry& g) override { return device_.workspace_bytes(g); }
  WHISKER_RECORD_4(pool2d)
  WHISKER_RECORD_4(pool2d_backward)
};

struct RecordedNormalization final : Recorded<NormalizationKernels> {
  using Recorded::Recorded;
  WHISKER_RECORD_4(batch_norm_train)
  WHISKER_RECORD_4(batch_norm_inference)
  bool adds_unsummed_grads() const override { return true; }
  bool scales_grads(const BatchNormGeometry&) const override { return true; }
  void batch_norm_backward(const BatchNormGeometry& g, const NormSaved& saved,
                           const UnsummedGrads& dy, const NormGrads& out) override {
    Tensor sum = dy.first;
    if (dy.factor.defined()) {
      sum = mul(sum, dy.factor);
      ++scaled;
    }
    if (dy.second.defined()) sum = add(sum, dy.second);
    record(&K::batch_norm_backward, g, saved, UnsummedGrads{sum, {}}, out);
  }
  int scaled = 0;  ///< gradients with a factor so far
  WHISKER_RECORD_3(layer_norm)
  WHISKER_RECORD_4(layer_norm_backward)
  WHISKER_RECORD_3(group_norm)
  WHISKER_RECORD_4(group_norm_backward)
};

struct RecordedRecurrent final : Recorded<RecurrentKernels> {
  using Recorded::Recorded;
  int64_t reserve_bytes(const RecurrentGeometry& g) override { return device_.reserve_bytes(g); }
  WHISKER_RECORD_3(forward)
  WHISKER_RECORD_4(backward)
};

struct RecordedLosses final : Recorded<LossKernels> {
  using Recorded::Recorded;
  WHISKER_RECORD_3(softmax)
  WHISKER_RECORD_4(softmax_backward)
  WHISKER_RECORD_3(cross_entropy)
  WHISKER_RECORD_2(binary_cross_entropy)
};

struct RecordedTrainingStep final : Recorded<TrainingStepKernels> {
  using Recorded::Recorded;
  WHISKER_RECORD_3(count_batch)
  WHISKER_RECORD_2(add_squares)
  WHISKER_RECORD_2(begin_update)
  WHISKER_RECORD_1(optimizer_step)
  WHISKER_RECORD_1(moving_average)
  WHISKER_RECORD_4(copy_if)
  WHISKER_RECORD_2(swap)
};

#undef WHISKER_RECORD_4
#undef WHISKER_RECORD_3
#undef WHISKER_RECORD_2
#undef WHISKER_RECORD_1

}  // namespace whisker::test
