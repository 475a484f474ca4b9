// Requests as text and as hash.
#include "core/cuda/convolution/convolution.h"

#include "core/backend/autotuner.h"

#include <fmt/format.h>

namespace whisker::cuda {

ConvolutionRequest ConvolutionRequest::plain() const {
  ConvolutionRequest request = *this;
  request.geometry.bias = false;
  request.geometry.activation = {};
  request.pooled = false;
  request.residual = false;
  return request;
}

std::string ConvolutionRequest::describe() const {
  std::string text =
      fmt::format("{} {} {}", name_of(pass), name_of(geometry.dtype), text_of(geometry));
  if (pooled) text += " pooled";
  if (residual) text += " residual";
  if (normalised) text += " normalised";
  if (sums) text += " sums";
  if (tf32) text += " tf32";
  return text;
}

size_t ConvolutionRequest::hash() const {
  return WordHash().add(geometry).add(pass, pooled, residual, sums, normalised).value();
}

}  // namespace whisker::cuda
