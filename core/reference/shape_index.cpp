// Moving elements about (any dtype), picking them by index, and reductions over axes.
#include "core/backend/shape_index.h"

#include "core/backend/reduction.h"
#include "core/reference/loops.h"
#include "core/reference/reference_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace whisker::reference {
namespace {

/// Calls fn(position among the picks, position in x) for every pick.
template <class Fn>
void for_each_pick(const GatherGeometry& g, const Tensor& index, Fn&& fn) {
  const int64_t* picks = elements<int64_t>(index);  // (outer, picks, inner)
  for (int64_t o = 0; o < g.outer; ++o) {
    for (int64_t p = 0; p < g.picks; ++p) {
      for (int64_t i = 0; i < g.inner; ++i) {
        const int64_t at = (o * g.picks + p) * g.inner + i;
        fn(at, (o * g.extent + picks[at]) * g.inner + i);
      }
    }
  }
}

class ShapeIndex final : public ShapeIndexKernels {
 public:
  void strided_copy(const CopyGeometry& g, bool add, const Tensor& x, const Tensor& y) override {
    visit(x.dtype(), [&]<class T>() {
      const T* source = elements<T>(x) + g.source_offset;
      T* target = elements<T>(y) + g.target_offset;
      for_each_index(g.rank, g.extent, [&](const Extents& index) {
        const T value = source[position(index, g.source_stride, g.rank)];
        T& slot = target[position(index, g.target_stride, g.rank)];
        slot = add ? convert<T>(convert<double>(slot) + convert<double>(value)) : value;
      });
    });
  }

  void gather(const GatherGeometry& g, const Tensor& x, const Tensor& index,
              const Tensor& y) override {
    visit(x.dtype(), [&]<class T>() {
      const T* in = elements<T>(x);  // (outer, extent, inner)
      T* out = elements<T>(y);       // (outer, picks, inner)
      for_each_pick(g, index, [&](int64_t pick, int64_t from) { out[pick] = in[from]; });
    });
  }

  void gather_backward(const GatherGeometry& g, const Tensor& index, const Tensor& dy,
                       const Tensor& dx) override {
    visit_real("gather", dx.dtype(), [&]<class T>() {
      const T* gradient = elements<T>(dy);  // (outer, picks, inner)
      T* out = elements<T>(dx);             // (outer, extent, inner)
      std::vector<double> sum(static_cast<size_t>(dx.count()));
      for_each_pick(g, index, [&](int64_t pick, int64_t from) {
        sum[static_cast<size_t>(from)] += double{gradient[pick]};
      });
      std::transform(sum.begin(), sum.end(), out, convert<T, double>);
    });
  }

  void embedding(const Tensor& table, const Tensor& index, const Tensor& y) override {
    const int64_t features = table.extent(1);
    const int64_t* rows = elements<int64_t>(index);  // (picks)
    visit(table.dtype(), [&]<class T>() {
      const T* in = elements<T>(table);  // (entries, features)
      T* out = elements<T>(y);           // (picks, features)
      for (int64_t p = 0; p < index.count(); ++p) {
        std::copy_n(in + rows[p] * features, features, out + p * features);
      }
    });
  }

  void embedding_backward(const Tensor& index, const Tensor& dy, const Tensor& dtable) override {
    const int64_t features = dtable.extent(1);
    const int64_t* rows = elements<int64_t>(index);  // (picks)
    visit_real("embedding", dtable.dtype(), [&]<class T>() {
      const T* gradient = elements<T>(dy);  // (picks, features)
      T* out = elements<T>(dtable);         // (entries, features)
      std::vector<double> sum(static_cast<size_t>(dtable.count()));
      for (int64_t p = 0; p < index.count(); ++p) {
        for (int64_t f = 0; f < features; ++f) {
          sum[static_cast<size_t>(rows[p] * features + f)] += double{gradient[p * features + f]};
        }
      }
      std::transform(sum.begin(), sum.end(), out, convert<T, double>);
    });
  }

  void one_hot(const Tensor& index, const Tensor& y) override {
    const int64_t classes = y.extent(-1);
    const int64_t* labels = elements<int64_t>(index);  // (picks)
    visit(y.dtype(), [&]<class T>() {
      T* out = elements<T>(y);  // (picks, classes)
      std::fill_n(out, y.count(), convert<T>(0.0));
      for (int64_t p = 0; p < index.count(); ++p) {
        out[p * classes + labels[p]] = convert<T>(1.0);
      }
    });
  }
};

/// The results of a reduction that begin at `start`, after combine(result) for each element in
/// order, with the result that it belongs to.
template <class Combine>
std::vector<double> reduced(const ReduceGeometry& g, double start, Combine&& combine) {
  // Strides of the kept axes in y; 0 along reduced ones.
  Extents out_stride{};
  int64_t stride = 1;
  for (int axis = g.rank - 1; axis >= 0; --axis) {
    const auto a = static_cast<size_t>(axis);
    if (g.reduced[a]) continue;
    out_stride[a] = stride;
    stride *= g.extent[a];
  }
  std::vector<double> result(static_cast<size_t>(g.out_count), start);
  for_each_index(g.rank, g.extent, [&](const Extents& index) {
    combine(result[static_cast<size_t>(position(index, out_stride, g.rank))]);
  });
  return result;
}

class Reduction final : public ReductionKernels {
 public:
  void reduce(ReduceOp op, const ReduceGeometry& g, const Tensor& x, const Tensor& y) override {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const double start = op == ReduceOp::max ? -infinity : op == ReduceOp::min ? infinity : 0;
    visit(x.dtype(), [&]<class T>() {
      const T* in = elements<T>(x);  // row-major over g.extent
      const auto result = reduced(g, start, [&](double& so_far) {
        const double value = convert<double>(*in++);
        if (op == ReduceOp::max) {
          if (value > so_far || std::isnan(value)) so_far = value;
        } else if (op == ReduceOp::min) {
          if (value < so_far || std::isnan(value)) so_far = value;
        } else {
          so_far += value;
        }
      });
      T* out = elements<T>(y);  // (out_count)
      for (const double value : result) {
        *out++ =
            convert<T>(op == ReduceOp::mean ? value / static_cast<double>(g.reduce_count) : value);
      }
    });
  }

  void sum_products(const ReduceGeometry& g, const Tensor& a, const Tensor& b,
                    const Tensor& y) override {
    visit(a.dtype(), [&]<class T>() {
      const T* left = elements<T>(a);  // row-major over g.extent, as b
      const T* right = elements<T>(b);
      const auto result = reduced(
          g, 0, [&](double& sum) { sum += convert<double>(*left++) * convert<double>(*right++); });
      std::transform(result.begin(), result.end(), elements<T>(y), convert<T, double>);
    });
  }

  void argmax(const SoftmaxGeometry& g, const Tensor& x, const Tensor& y) override {
    visit(x.dtype(), [&]<class T>() {
      const T* in = elements<T>(x);         // (outer, classes, inner)
      int64_t* out = elements<int64_t>(y);  // (outer, inner)
      for (int64_t o = 0; o < g.outer; ++o) {
        for (int64_t i = 0; i < g.inner; ++i) {
          const T* column = in + o * g.classes * g.inner + i;
          int64_t best = 0;
          for (int64_t c = 1; c < g.classes; ++c) {
            const auto value = convert<double>(column[c * g.inner]);
            const auto largest = convert<double>(column[best * g.inner]);
            // The first NaN counts as the largest, so that it is seen.
            if (value > largest || (std::isnan(value) && !std::isnan(largest))) best = c;
          }
          out[o * g.inner + i] = best;
        }
      }
    });
  }
};

}  // namespace

std::shared_ptr<ShapeIndexKernels> make_shape_index() {
  return std::make_shared<ShapeIndex>();
}

std::shared_ptr<ReductionKernels> make_reduction() {
  return std::make_shared<Reduction>();
}

}  // namespace whisker::reference
