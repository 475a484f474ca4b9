// One way to compute a request.
#pragma once

#include "core/cuda/runtime/context.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace whisker::cuda {

template <class Operands>
class Algorithm {
 public:
  virtual ~Algorithm() = default;
  /// Its name in the autotune table.
  virtual std::string name() const = 0;
  virtual int64_t workspace_bytes() const { return 0; }
  /// Enqueues the work; `workspace` has workspace_bytes().
  virtual void run(const KernelSite& site, const Operands& operands, void* workspace) const = 0;
};

/// An algorithm that calls a function.
template <class Operands>
class FunctionAlgorithm final : public Algorithm<Operands> {
 public:
  using Run = std::function<void(const KernelSite&, const Operands&, void* workspace)>;
  FunctionAlgorithm(std::string name, Run run, int64_t workspace_bytes = 0)
      : name_(std::move(name)), run_(std::move(run)), workspace_bytes_(workspace_bytes) {}
  std::string name() const override { return name_; }
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  void run(const KernelSite& site, const Operands& operands, void* workspace) const override {
    run_(site, operands, workspace);
  }

 private:
  std::string name_;
  Run run_;
  int64_t workspace_bytes_;
};

}  // namespace whisker::cuda
