// Everything the backend chooses once per shape, with the table that exports it.
#pragma once

#include "core/cuda/convolution/conv_algorithms.h"
#include "core/cuda/gemm/gemm_algorithms.h"
#include "core/cuda/recurrent/recurrent_choice.h"

namespace whisker::cuda {

class AlgorithmChoices {
 public:
  AlgorithmChoices(Context& context, Allocator& allocator, const CudaOptions& options);

  ConvAlgorithms& convolutions() { return convolutions_; }
  GemmAlgorithms& gemms() { return gemms_; }
  CudnnRecurrentPlans& recurrent() { return recurrent_; }
  RecurrentChoice& recurrent_choice() { return recurrent_choice_; }
  const AutotuneTable& table() const { return table_; }

  /// AutotuneTable::add; what was compiled before is made again by the new choices.
  void import(std::string_view text);
  /// After a change of options: forgets every choice when `forget`, keeps to the time limit.
  void options_changed(const CudaOptions& options, bool forget);

 private:
  void forget();

  AutotuneTable table_;
  SearchBudget budget_;
  ConvAlgorithms convolutions_;
  GemmAlgorithms gemms_;
  CudnnRecurrentPlans recurrent_;
  RecurrentChoice recurrent_choice_;
};

}  // namespace whisker::cuda
