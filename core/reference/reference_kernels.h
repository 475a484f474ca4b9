// How each kernel family of the reference is made: its class stands in the .cpp of its topic.
#pragma once

#include "core/backend/backend.h"

#include <memory>

namespace whisker::reference {

std::shared_ptr<ElementwiseKernels> make_elementwise();
std::shared_ptr<ShapeIndexKernels> make_shape_index();
std::shared_ptr<ReductionKernels> make_reduction();
std::shared_ptr<GemmKernels> make_gemm();
std::shared_ptr<ConvolutionKernels> make_convolution();
std::shared_ptr<PoolingKernels> make_pooling();
std::shared_ptr<NormalizationKernels> make_normalization();
std::shared_ptr<RecurrentKernels> make_recurrent();
std::shared_ptr<LossKernels> make_losses();
std::shared_ptr<TrainingStepKernels> make_training_step();

}  // namespace whisker::reference
