// The GPU warm-ups' exercises: kernels, run on an emulated block
// (docs/course/gpu/block_emulation.h) or on a GPU. Values are float.
#include "apps/study/grading/exercises.h"
#include "core/ops/ops.h"

#include <algorithm>
#include <cmath>

namespace whisker {
namespace {

using V = const Values&;

constexpr TensorOptions in_f64{.dtype = DType::f64, .device = reference_device};

Exercise kernel(Exercise exercise) {
  exercise.lesson = 0;
  exercise.in_double = false;
  exercise.answer_file = "answer.cu";
  return exercise;
}

// element(k) for each k below `count`.
template <class F>
Tensor filled(Shape shape, F element) {
  Tensor result = zeros(shape, in_f64);
  auto elements = result.data<double>();
  for (size_t k = 0; k < elements.size(); ++k) elements[k] = element(static_cast<int64_t>(k));
  return result;
}

Exercise vector_add() {
  return kernel(
      {.name = "vector_add",
       .title = "sum = a + b, a thread for each element",
       .signature = "launch_vector_add(View<const T> a, View<const T> b, View<T> sum)",
       .setups = {{"1 element, a last block that is not full", {{"a", {1}}, {"b", {1}}}},
                  {"128 elements, whole blocks", {{"a", {128}}, {"b", {128}}}},
                  {"200 elements, a last block that is not full", {{"a", {200}}, {"b", {200}}}}},
       .expected = [](V v, std::string_view) { return v["a"] + v["b"]; },
       .faults = {{"sum", "it holds a alone: b is not added", [](V v) { return v["a"]; }},
                  {"sum", "it is a - b", [](V v) { return v["a"] - v["b"]; }},
                  {"sum", "it is a b: it multiplies", [](V v) { return v["a"] * v["b"]; }}}});
}

Exercise grid_stride() {
  const auto at = [](V v, int64_t k) { return v["x"].to_vector()[static_cast<size_t>(k)]; };
  return kernel(
      {.name = "grid_stride",
       .title = "y = a x + y with a grid of any size",
       .signature = "launch_saxpy(T a, View<const T> x, View<const T> y, View<T> result)",
       .setups = {{"100 elements, less than threads", {{"a", {}}, {"x", {100}}, {"y", {100}}}},
                  {"300 elements, more than threads", {{"a", {}}, {"x", {300}}, {"y", {300}}}}},
       .expected = [](V v, std::string_view) { return v["a"] * v["x"] + v["y"]; },
       .faults = {{"result", "y is not added: it is a x", [](V v) { return v["a"] * v["x"]; }},
                  {"result", "y is added twice: y[i] += where y[i] = a x[i] + y[i] has it already",
                   [](V v) { return v["a"] * v["x"] + v["y"] + v["y"]; }},
                  {"result", "a is left out: it is x + y", [](V v) { return v["x"] + v["y"]; }},
                  {"result",
                   "each thread takes one element: behind the first 128, y is as it was. A loop is "
                   "missing, or it "
                   "ends after one step",
                   [at](V v) {
                     return v["y"] + filled(v["y"].shape(), [&](int64_t k) {
                              return k < 128 ? v.number("a") * at(v, k) : 0.0;
                            });
                   }},
                  {"result", "y is as it was", [](V v) { return v["y"].clone(); }}}});
}

Tensor sums_of_blocks(V v, int64_t first, int64_t last) {
  const std::vector<double> x = v["x"].to_vector();
  const auto n = static_cast<int64_t>(x.size());
  return filled({(n + 255) / 256}, [&](int64_t block) {
    double sum = 0;
    for (int64_t i = block * 256 + first; i < std::min(n, block * 256 + last); ++i)
      sum += x[static_cast<size_t>(i)];
    return sum;
  });
}

Exercise block_sum() {
  return kernel(
      {.name = "block_sum",
       .title = "the sum of each block of 256 elements, in shared memory",
       .signature = "launch_block_sum(View<const T> x, View<T> sums)",
       .setups = {{"1 whole block", {{"x", {256}}}},
                  {"3 blocks, the last one not full", {{"x", {600}}}}},
       .expected = [](V v, std::string_view) { return sums_of_blocks(v, 0, 256); },
       .faults = {
           {"sums", "it is the first element of the block: nothing is added",
            [](V v) { return sums_of_blocks(v, 0, 1); }},
           {"sums", "it adds the first half of the block alone",
            [](V v) { return sums_of_blocks(v, 0, 128); }},
           {"sums", "the last step is missing: every second element is left out",
            [](V v) {
              const std::vector<double> x = v["x"].to_vector();
              const auto n = static_cast<int64_t>(x.size());
              return filled({(n + 255) / 256}, [&](int64_t block) {
                double sum = 0;
                for (int64_t i = block * 256; i < std::min(n, block * 256 + 256); i += 2)
                  sum += x[static_cast<size_t>(i)];
                return sum;
              });
            }},
           {"sums", "each block has the sum of the first one: blockIdx.x is left out", [](V v) {
              const Tensor all = sums_of_blocks(v, 0, 256);
              return filled(all.shape(), [&](int64_t) { return all.to_vector()[0]; });
            }}}});
}

Exercise transpose_tile() {
  return kernel(
      {.name = "transpose",
       .title = "transposition through a tile of shared memory",
       .signature = "launch_transpose(View<const T> x, View<T> y)",
       .setups = {{"1 tile", {{"x", {32, 32}}}},
                  {"2 x 3 tiles, not square", {{"x", {64, 96}}}},
                  {"33 x 70, tiles that are not full, not square", {{"x", {33, 70}}}}},
       .expected =
           [](V v, std::string_view) {
             return transpose(v["x"], {1, 0}).clone();
           },
       .faults = {{"y", "it is a copy of x: nothing is transposed",
                   [](V v) {
                     return v["x"].clone().reshape({v["x"].extent(1), v["x"].extent(0)});
                   }},
                  {"y",
                   "each tile is where it belongs, but not transposed itself: "
                   "tile[threadIdx.x][...] reads it the other way",
                   [](V v) {
                     const Tensor& x = v["x"];
                     const int64_t rows = x.extent(0), columns = x.extent(1);
                     const std::vector<double> values = x.to_vector();
                     return filled({columns, rows}, [&](int64_t k) {
                       const int64_t r = k / rows, c = k % rows;  // of y
                       const int64_t from = (c / 32 * 32 + r % 32) * columns + r / 32 * 32 + c % 32;
                       return values[static_cast<size_t>(std::min(from, rows * columns - 1))];
                     });
                   }}}});
}

Tensor sums_of_rows(V v, int64_t first_column, int64_t past_column, int64_t step) {
  const std::vector<double> x = v["x"].to_vector();
  const int64_t columns = v["x"].extent(1);
  return filled({v["x"].extent(0)}, [&](int64_t row) {
    double sum = 0;
    for (int64_t i = first_column; i < std::min(columns, past_column); i += step)
      sum += x[static_cast<size_t>(row * columns + i)];
    return sum;
  });
}

Exercise row_sum() {
  return kernel(
      {.name = "row_sum",
       .title = "the sum of each row, read by neighbouring threads",
       .signature = "launch_row_sum(View<const T> x, View<T> sums)",
       .setups = {{"32 columns", {{"x", {3, 32}}}},
                  {"7 columns, less than lanes", {{"x", {2, 7}}}},
                  {"100 columns, more than lanes", {{"x", {4, 100}}}}},
       .expected = [](V v, std::string_view) { return sums_of_rows(v, 0, 1 << 30, 1); },
       .faults = {
           {"sums", "it adds the first 32 columns alone: a loop over the others is missing",
            [](V v) { return sums_of_rows(v, 0, 32, 1); }},
           {"sums", "it is the sum of lane 0: the other lanes' sums are not added",
            [](V v) { return sums_of_rows(v, 0, 1 << 30, 32); }},
           {"sums", "each row has the sum of the first one: blockIdx.x is left out", [](V v) {
              const double first = sums_of_rows(v, 0, 1 << 30, 1).to_vector()[0];
              return filled({v["x"].extent(0)}, [&](int64_t) { return first; });
            }}}});
}

Exercise softmax_rows() {
  return kernel({.name = "softmax_rows",
                 .title = "softmax of each row: a maximum, a sum, a division",
                 .signature = "launch_softmax_rows(View<const T> x, View<T> y)",
                 .setups = {{"128 columns, small numbers", {{"x", {2, 128}}}},
                            {"5 columns, small numbers, less than threads", {{"x", {3, 5}}}},
                            {"200 columns, large numbers, more than threads", {{"x", {2, 200}}}}},
                 .prepare =
                     [](Values& v, uint64_t) {
                       if (v["x"].extent(1) == 200) v.set("x", affine(v["x"], 100, 0));
                     },
                 .expected = [](V v, std::string_view) { return softmax(v["x"]); },
                 .faults = {{"y", "the division by the sum is missing", [](V v) {
                               const int64_t columns = v["x"].extent(1);
                               const std::vector<double> x = v["x"].to_vector();
                               return filled(v["x"].shape(), [&](int64_t k) {
                                 const auto row = x.begin() + k / columns * columns;
                                 return std::exp(x[static_cast<size_t>(k)] -
                                                 *std::max_element(row, row + columns));
                               });
                             }}}});
}

Exercise matmul_tiled() {
  return kernel({.name = "matmul_tiled",
                 .title = "matrix product through tiles in shared memory",
                 .signature = "launch_matmul_tiled(View<const T> a, View<const T> b, View<T> c)",
                 .setups = {{"16 x 16, one tile", {{"a", {16, 16}}, {"b", {16, 16}}}},
                            {"k is 48, several tiles", {{"a", {16, 48}}, {"b", {48, 16}}}},
                            {"20 x 18 and k is 21, tiles that are not full, several tiles",
                             {{"a", {20, 21}}, {"b", {21, 18}}}}},
                 .expected = [](V v, std::string_view) { return matmul(v["a"], v["b"]); },
                 .faults = {{"c", "it multiplies the first tiles alone: the loop over k is missing",
                             [](V v) {
                               const int64_t some = std::min<int64_t>(16, v["a"].extent(1));
                               return matmul(slice(v["a"], 1, 0, some), slice(v["b"], 0, 0, some));
                             }},
                            {"c", "it multiplies the last tiles alone: sum = in place of sum +=",
                             [](V v) {
                               const int64_t k = v["a"].extent(1), from = (k - 1) / 16 * 16;
                               return matmul(slice(v["a"], 1, from, k), slice(v["b"], 0, from, k));
                             }},
                            {"c", "the last tiles of k are left out where they are not full",
                             [](V v) {
                               const int64_t whole = v["a"].extent(1) / 16 * 16;
                               return matmul(slice(v["a"], 1, 0, whole),
                                             slice(v["b"], 0, 0, whole));
                             }},
                            {"c", "it is A B^T: the tile of B is read the other way", [](V v) {
                               return matmul(v["a"], transpose(v["b"], {1, 0}));
                             }}}});
}

Exercise histogram() {
  const auto counted = [](V v, auto value_of) {
    std::vector<double> counts(static_cast<size_t>(v["start"].count()));
    for (const double value : v["values"].to_vector())
      counts[static_cast<size_t>(value)] = value_of(counts, value);
    return filled(v["start"].shape(), [&](int64_t k) { return counts[static_cast<size_t>(k)]; });
  };
  return kernel({.name = "histogram",
                 .title = "a histogram with atomicAdd, in shared memory first",
                 .signature = "launch_histogram(View<const int> values, View<T> counts)",
                 .setups = {{"64 values, whole blocks", {{"values", {64}}, {"start", {10}}}},
                            {"500 values, a last block that is not full",
                             {{"values", {500}}, {"start", {32}}}}},
                 .prepare =
                     [](Values& v, uint64_t) {
                       const int64_t bins = v["start"].count();
                       const std::vector<double> drawn = v["values"].to_vector();
                       Tensor values = zeros(v["values"].shape(),
                                             {.dtype = DType::i64, .device = reference_device});
                       auto whole = values.data<int64_t>();
                       for (size_t i = 0; i < drawn.size(); ++i) {
                         whole[i] = static_cast<int64_t>(std::fabs(drawn[i]) * 4) % bins;
                       }
                       v.set("values", values);
                     },
                 .expected =
                     [counted](V v, std::string_view) {
                       return counted(v, [](const auto& counts, double value) {
                         return counts[static_cast<size_t>(value)] + 1;
                       });
                     },
                 .faults = {{"counts", "a count is 1 at most: = in place of +=", [counted](V v) {
                               return counted(v, [](const auto&, double) { return 1.0; });
                             }}}});
}

Tensor convolved(V v, const std::function<double(int64_t i, int64_t k)>& weight) {
  const std::vector<double> x = v["x"].to_vector();
  const auto n = static_cast<int64_t>(x.size());
  return filled({n}, [&](int64_t i) {
    double sum = 0;
    for (int64_t k = 0; k < 5; ++k) {
      const int64_t from = i - 2 + k;
      if (from >= 0 && from < n) sum += weight(i, k) * x[static_cast<size_t>(from)];
    }
    return sum;
  });
}

Exercise stencil() {
  const auto w = [](V v, int64_t k) { return v["w"].to_vector()[static_cast<size_t>(k)]; };
  return kernel(
      {.name = "stencil",
       .title = "five weighted neighbours: a tile with a halo",
       .signature = "launch_stencil(View<const T> x, View<const T> w, View<T> y)",
       .setups = {{"64 elements, one block", {{"x", {64}}, {"w", {5}}}},
                  {"192 elements, several blocks", {{"x", {192}}, {"w", {5}}}},
                  {"150 elements, several blocks, the last one not full",
                   {{"x", {150}}, {"w", {5}}}}},
       .expected =
           [w](V v, std::string_view) {
             return convolved(v, [&](int64_t, int64_t k) { return w(v, k); });
           },
       .faults = {{"y", "the halo is missing: neighbours in other blocks count as 0",
                   [w](V v) {
                     return convolved(v, [&](int64_t i, int64_t k) {
                       return (i - 2 + k) / 64 == i / 64 ? w(v, k) : 0.0;
                     });
                   }},
                  {"y", "the weights are in the reverse order: w[0] belongs to x[i - 2]", [w](V v) {
                     return convolved(v, [&](int64_t, int64_t k) { return w(v, 4 - k); });
                   }}}});
}

Exercise tensor_cores() {
  Exercise exercise =
      kernel({.name = "tensor_cores",
              .title = "a product of 16 x 16 on tensor cores (needs a GPU)",
              .signature = "launch_tensor_cores(View<const T> a, View<const T> b, View<T> c)",
              .setups = {{"16 x 16", {{"a", {16, 16}}, {"b", {16, 16}}}}},
              .prepare =
                  [](Values& v, uint64_t) {  // what f16 holds, so that products are exact
                    for (const char* name : {"a", "b"}) {
                      Tensor x = v[name].clone();
                      for (double& value : x.data<double>()) value = std::round(value * 8) / 8;
                      v.set(name, x);
                    }
                  },
              .expected = [](V v, std::string_view) { return matmul(v["a"], v["b"]); }});
  exercise.needs_gpu = true;
  return exercise;
}

Exercise async_copy() {
  Exercise exercise =
      kernel({.name = "async_copy",
              .title = "copies to shared memory beside the computation (needs a GPU)",
              .signature = "launch_async_copy(View<const T> x, View<T> y)",
              .setups = {{"1 tile", {{"x", {64}}}}, {"5 tiles", {{"x", {320}}}}},
              .expected = [](V v, std::string_view) { return affine(v["x"], 2, 0); }});
  exercise.needs_gpu = true;
  return exercise;
}

}  // namespace

std::vector<Exercise> gpu_exercises() {
  return {vector_add(),     grid_stride(),  block_sum(), row_sum(),
          transpose_tile(), softmax_rows(), histogram(), stencil(),
          matmul_tiled(),   tensor_cores(), async_copy()};
}

}  // namespace whisker
