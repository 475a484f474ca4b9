// What a step of training left behind, to be compared with what another way of computing it leaves.
#pragma once

#include "core/autograd.h"
#include "core/parameters.h"
#include "layers/sequential.h"

#include <string>
#include <utility>
#include <vector>

namespace whisker::test {

using StepResults = std::vector<std::pair<std::string, std::vector<double>>>;

/// Gradients and running statistics by name, and the logits of an evaluation.
inline StepResults step_results(Sequential& net, const ParameterArena& arena,
                                const Tensor& images) {
  StepResults all;
  for (const auto& parameter : arena.parameters()) {
    if (!parameter->is_buffer() && !parameter->trainable()) continue;
    const Tensor value = parameter->is_buffer() ? parameter->value() : parameter->value().grad();
    all.emplace_back(parameter->name(), value.to_vector());
  }
  const NoGrad evaluation;
  all.emplace_back("logits", net(images, {}).to_vector());
  return all;
}

}  // namespace whisker::test
