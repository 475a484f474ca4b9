// Every operator of core/ops/ops.h once, as a function of arguments that the caller draws.
// `whisker study gradcheck` calls the rows with the usual arguments; tests also with large ones and
// with wrong ones.
#pragma once

#include "core/ops/ops.h"

#include <span>
#include <string>
#include <vector>

namespace whisker {

/// Arguments of one call. The operands are f64 on the reference device and the same in every call
/// after restart(); the rest is what the row names as usual. Subclasses draw something else.
class Arguments {
 public:
  struct Operand {
    std::string name;
    Tensor tensor;
  };

  /// `seed` tells the operands of one row from those of another.
  explicit Arguments(uint64_t seed) : seed_(seed) {}
  virtual ~Arguments() = default;
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  virtual Shape shape(const Shape& usual) { return usual; }
  /// A tensor that gets a gradient: distinct values spread over (low, high), so that no two tie and
  /// none is 0.
  virtual Tensor operand(const char* name, const Shape& shape, double low = -1, double high = 1);
  /// A tensor without a gradient.
  virtual Tensor constant(const Shape& shape, double low = -1, double high = 1);
  /// i64 in [0, extent).
  virtual Tensor index(const Shape& shape, int64_t extent);
  /// An attribute that is meant to be in [low, high].
  virtual int64_t integer(int64_t usual, int64_t /*low*/, int64_t /*high*/) { return usual; }
  /// One of `count` possibilities, numbered from 0.
  virtual int choice(int usual, int /*count*/) { return usual; }
  virtual double real(double usual) { return usual; }
  virtual Axes axes(const Axes& usual) { return usual; }

  /// The next call asks for the same arguments from the first on.
  void restart() { next_operand_ = next_constant_ = 0; }
  /// What operand() gave, in order.
  const std::vector<Operand>& operands() const { return operands_; }

 private:
  uint64_t seed_;
  size_t next_operand_ = 0, next_constant_ = 0;
  std::vector<Operand> operands_;
};

struct OperatorRow {
  const char* name;  ///< the function's in ops.h, or what it records instead
  Tensor (*call)(Arguments&);
};

/// In the order of ops.h.
std::span<const OperatorRow> operator_table();

}  // namespace whisker
