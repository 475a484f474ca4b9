// Open MPI, opened at run time and never linked: its functions are called with prototypes of our
// own (MPI 3.1 standard), its constants are addresses of variables in libmpi.so.40.
#pragma once

#include "core/communicator/communicator.h"

#include <string>
#include <string_view>
#include <vector>

namespace whisker {

/// The processes that one mpirun started. When one ends without leave(), mpirun ends the others.
class MpiGroup final : public RankGroup {
 public:
  /// Throws device, naming the package, when the library cannot be opened.
  explicit MpiGroup(const RankEnvironment& environment);
  std::vector<std::string> all_gather(std::string_view bytes) override;
  void leave() override;
  bool is_mpi() const override { return true; }
};

/// All-reduces host memory.
class MpiCommunicator final : public Communicator {
 public:
  using Communicator::Communicator;
  std::string description() const override;
  std::optional<double> waited_s() const override { return waited_s_; }
  void all_reduce(const Tensor& tensor, ReduceKind kind) override;
  void broadcast(const Tensor& tensor) override;

 private:
  void reduce(const Tensor& tensor, ReduceKind kind);

  std::vector<float> wide_;  // 16-bit values are summed in f32
  double waited_s_ = 0;
};

}  // namespace whisker
