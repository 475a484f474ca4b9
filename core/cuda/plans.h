// Everything the backend chooses once per shape, with the table that exports it.
#pragma once

#include "core/cuda/chains/chain_plans.h"
#include "core/cuda/convolution/convolution_plans.h"
#include "core/cuda/product/product_plans.h"
#include "core/cuda/recurrent/recurrent_choice.h"

namespace whisker::cuda {

class Plans {
 public:
  Plans(Context& context, Allocator& allocator, const CudaOptions& options);

  ConvolutionPlans& convolutions() { return convolutions_; }
  ChainPlans& chains() { return chains_; }
  ProductPlans& products() { return products_; }
  CudnnRecurrentPlans& recurrent() { return recurrent_; }
  RecurrentChoice& recurrent_choice() { return recurrent_choice_; }
  const PlanTable& table() const { return table_; }

  /// PlanTable::add; what was compiled before is made again by the new choices.
  void import(std::string_view text);
  /// After a change of options: forgets every choice when `forget`, keeps to the time limit.
  void options_changed(const CudaOptions& options, bool forget);

 private:
  void forget();

  PlanTable table_;
  SearchBudget budget_;
  ConvolutionPlans convolutions_;
  ChainPlans chains_;
  ProductPlans products_;
  CudnnRecurrentPlans recurrent_;
  RecurrentChoice recurrent_choice_;
};

}  // namespace whisker::cuda
