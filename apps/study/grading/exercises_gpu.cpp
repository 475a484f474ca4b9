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

// element(k) for each k below `count`.
template <class F>
Tensor filled(Shape shape, F element) {
  Tensor result = zeros(shape, in_f64);
  auto elements = result.data<double>();
  for (size_t k = 0; k < elements.size(); ++k) elements[k] = element(static_cast<int64_t>(k));
  return result;
}

Exercise vector_add() {
  return {.name = "vector_add",
          .title = "sum = a + b, a thread for each element",
          .signature = "launch_vector_add(View<const T> a, View<const T> b, View<T> sum)",
          .setups = {{"1 element, a last block that is not full", {{"a", {1}}, {"b", {1}}}},
                     {"128 elements, whole blocks", {{"a", {128}}, {"b", {128}}}},
                     {"200 elements, a last block that is not full", {{"a", {200}}, {"b", {200}}}}},
          .expected = [](V v, std::string_view) { return v["a"] + v["b"]; },
          .faults = {{"sum", "it holds a alone: b is not added", [](V v) { return v["a"]; }}}};
}

Exercise grid_stride() {
  return {
      .name = "grid_stride",
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
                  "missing, or it ends after one step",
                  [](V v) {
                    return v["y"] + v["a"] * v["x"] * filled(v["x"].shape(), [](int64_t k) {
                                      return k < 128 ? 1.0 : 0.0;
                                    });
                  }},
                 {"result", "y is as it was", [](V v) { return v["y"].clone(); }}}};
}

// Of each `width` elements the sum of every `step`-th of the first `past`.
Tensor sums_of(V v, int64_t width, int64_t past, int64_t step = 1) {
  const std::vector<double> x = v["x"].to_vector();
  const auto n = static_cast<int64_t>(x.size());
  return filled({(n + width - 1) / width}, [&](int64_t group) {
    const int64_t begin = group * width, end = std::min(n, begin + std::min(width, past));
    double sum = 0;
    for (int64_t i = begin; i < end; i += step) sum += x[static_cast<size_t>(i)];
    return sum;
  });
}

// Its first element everywhere.
Tensor first_of(const Tensor& all) {
  return full(all.shape(), all.to_vector()[0], in_f64);
}

Exercise block_sum() {
  return {.name = "block_sum",
          .title = "the sum of each block of 256 elements, in shared memory",
          .signature = "launch_block_sum(View<const T> x, View<T> sums)",
          .setups = {{"1 whole block", {{"x", {256}}}},
                     {"3 blocks, the last one not full", {{"x", {600}}}}},
          .expected = [](V v, std::string_view) { return sums_of(v, 256, 256); },
          .faults = {{"sums", "it is the first element of the block: nothing is added",
                      [](V v) { return sums_of(v, 256, 1); }},
                     {"sums", "it adds the first half of the block alone",
                      [](V v) { return sums_of(v, 256, 128); }},
                     {"sums", "the last step is missing: every second element is left out",
                      [](V v) { return sums_of(v, 256, 256, 2); }},
                     {"sums", "each block has the sum of the first one: blockIdx.x is left out",
                      [](V v) { return first_of(sums_of(v, 256, 256)); }}}};
}

Exercise transpose_tile() {
  return {.name = "transpose",
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
                          const int64_t from =
                              (c / 32 * 32 + r % 32) * columns + r / 32 * 32 + c % 32;
                          return values[static_cast<size_t>(std::min(from, rows * columns - 1))];
                        });
                      }}}};
}

Exercise row_sum() {
  const auto row_sums = [](V v, int64_t step = 1) {
    const int64_t columns = v["x"].extent(1);
    return sums_of(v, columns, columns, step);
  };
  return {
      .name = "row_sum",
      .title = "the sum of each row, read by neighbouring threads",
      .signature = "launch_row_sum(View<const T> x, View<T> sums)",
      .setups = {{"32 columns", {{"x", {3, 32}}}},
                 {"7 columns, less than lanes", {{"x", {2, 7}}}},
                 {"100 columns, more than lanes", {{"x", {4, 100}}}}},
      .expected = [row_sums](V v, std::string_view) { return row_sums(v); },
      .faults = {{"sums", "it adds the first 32 columns alone: a loop over the others is missing",
                  [](V v) { return sums_of(v, v["x"].extent(1), 32); }},
                 {"sums", "it is the sum of lane 0: the other lanes' sums are not added",
                  [row_sums](V v) { return row_sums(v, 32); }},
                 {"sums", "each row has the sum of the first one: blockIdx.x is left out",
                  [row_sums](V v) { return first_of(row_sums(v)); }}}};
}

Exercise softmax_rows() {
  return {.name = "softmax_rows",
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
          .faults = {{"y", "the division by the sum is missing",
                      [](V v) { return exp(v["x"] - max(v["x"], {1}, {.keep_axes = true})); }}}};
}

Exercise matmul_tiled() {
  const auto of = [](V v, int64_t begin, int64_t end) {  // the part of the sums over k
    return matmul(slice(v["a"], 1, begin, end), slice(v["b"], 0, begin, end));
  };
  return {.name = "matmul_tiled",
          .title = "matrix product through tiles in shared memory",
          .signature = "launch_matmul_tiled(View<const T> a, View<const T> b, View<T> c)",
          .setups = {{"16 x 16, one tile", {{"a", {16, 16}}, {"b", {16, 16}}}},
                     {"k is 48, several tiles", {{"a", {16, 48}}, {"b", {48, 16}}}},
                     {"20 x 18 and k is 21, tiles that are not full, several tiles",
                      {{"a", {20, 21}}, {"b", {21, 18}}}}},
          .expected = [](V v, std::string_view) { return matmul(v["a"], v["b"]); },
          .faults = {{"c", "it multiplies the first tiles alone: the loop over k is missing",
                      [of](V v) { return of(v, 0, std::min<int64_t>(16, v["a"].extent(1))); }},
                     {"c", "it multiplies the last tiles alone: sum = in place of sum +=",
                      [of](V v) {
                        const int64_t k = v["a"].extent(1);
                        return of(v, (k - 1) / 16 * 16, k);
                      }},
                     {"c", "the last tiles of k are left out where they are not full",
                      [of](V v) { return of(v, 0, v["a"].extent(1) / 16 * 16); }},
                     {"c", "it is A B^T: the tile of B is read the other way", [](V v) {
                        return matmul(v["a"], transpose(v["b"], {1, 0}));
                      }}}};
}

Exercise histogram() {
  const auto counts = [](V v) {
    return sum(one_hot(v["values"], v["start"].count(), DType::f64), {0});
  };
  return {.name = "histogram",
          .title = "a histogram with atomicAdd, in shared memory first",
          .signature = "launch_histogram(View<const int> values, View<T> counts)",
          .setups = {{"64 values, whole blocks", {{"values", {64}}, {"start", {10}}}},
                     {"500 values, a last block that is not full",
                      {{"values", {500}}, {"start", {32}}}}},
          .prepare =
              [](Values& v, uint64_t) {
                std::vector<double> values = v["values"].to_vector();
                const auto bins = static_cast<double>(v["start"].count());
                for (double& one : values) one = std::fmod(std::floor(std::fabs(one) * 4), bins);
                v.set("values", from_vector(values, {std::ssize(values)},
                                            {.dtype = DType::i64, .device = reference_device}));
              },
          .expected = [counts](V v, std::string_view) { return counts(v); },
          .faults = {{"counts", "a count is 1 at most: = in place of +=", [counts](V v) {
                        return minimum(counts(v), ones(v["start"].shape(), in_f64));
                      }}}};
}

// `weight` is the number of the weight of y[i]'s neighbour k; -1: none.
Tensor convolved(V v, int64_t (*weight)(int64_t i, int64_t k)) {
  const std::vector<double> x = v["x"].to_vector(), w = v["w"].to_vector();
  const auto n = static_cast<int64_t>(x.size());
  return filled({n}, [&](int64_t i) {
    double sum = 0;
    for (int64_t k = 0; k < 5; ++k) {
      const int64_t from = i - 2 + k, number = weight(i, k);
      if (from < 0 || from >= n || number < 0) continue;
      sum += w[static_cast<size_t>(number)] * x[static_cast<size_t>(from)];
    }
    return sum;
  });
}

Exercise stencil() {
  return {
      .name = "stencil",
      .title = "five weighted neighbours: a tile with a halo",
      .signature = "launch_stencil(View<const T> x, View<const T> w, View<T> y)",
      .setups = {{"64 elements, one block", {{"x", {64}}, {"w", {5}}}},
                 {"192 elements, several blocks", {{"x", {192}}, {"w", {5}}}},
                 {"150 elements, several blocks, the last one not full",
                  {{"x", {150}}, {"w", {5}}}}},
      .expected =
          [](V v, std::string_view) { return convolved(v, [](int64_t, int64_t k) { return k; }); },
      .faults = {{"y", "the halo is missing: neighbours in other blocks count as 0",
                  [](V v) {
                    return convolved(v, [](int64_t i, int64_t k) {
                      return (i - 2 + k) / 64 == i / 64 ? k : -1;
                    });
                  }},
                 {"y", "the weights are in the reverse order: w[0] belongs to x[i - 2]",
                  [](V v) { return convolved(v, [](int64_t, int64_t k) { return 4 - k; }); }}}};
}

Exercise tensor_cores() {
  return {.name = "tensor_cores",
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
          .expected = [](V v, std::string_view) { return matmul(v["a"], v["b"]); },
          .faults = {{"c", "it is A^T B: the fragment of A is declared col_major",
                      [](V v) {
                        return matmul(transpose(v["a"], {1, 0}), v["b"]);
                      }},
                     {"c", "it is A B^T: the fragment of B is declared col_major",
                      [](V v) {
                        return matmul(v["a"], transpose(v["b"], {1, 0}));
                      }},
                     {"c", "it is B A: the operands are interchanged",
                      [](V v) { return matmul(v["b"], v["a"]); }},
                     {"c", "it is A A: the fragment of B is loaded from a",
                      [](V v) { return matmul(v["a"], v["a"]); }}},
          .needs_gpu = true};
}

// 2 x with tile `from(k, last)` in place of tile k; below 0: nothing. Where all are one tile, a
// buffer was never written: not defined.
Fault wrong_tiles(std::string_view says, int64_t (*from)(int64_t k, int64_t last)) {
  return {"y", says, [from](V v) {
            const std::vector<double> x = v["x"].to_vector();
            const int64_t last = std::ssize(x) / 64 - 1;
            if (from(last, last) > last) return zeros({}, in_f64);
            return filled(v["x"].shape(), [&](int64_t i) {
              const int64_t tile = from(i / 64, last);
              return tile < 0 ? 0 : 2 * x[static_cast<size_t>(tile * 64 + i % 64)];
            });
          }};
}

Exercise async_copy() {
  return {.name = "async_copy",
          .title = "copies to shared memory beside the computation (needs a GPU)",
          .signature = "launch_async_copy(View<const T> x, View<T> y)",
          .setups = {{"1 tile", {{"x", {64}}}}, {"5 tiles", {{"x", {320}}}}},
          .expected = [](V v, std::string_view) { return affine(v["x"], 2, 0); },
          .faults =
              {wrong_tiles("each tile is the first one: the address of the copies does not advance",
                           [](int64_t, int64_t) { return int64_t{0}; }),
               wrong_tiles("each tile but the first is the one before: step k copies tile k, where "
                           "tile k + 1 is next",
                           [](int64_t k, int64_t) { return std::max(k - 1, int64_t{0}); }),
               wrong_tiles("it reads the buffer that is being filled: each tile is the next one",
                           [](int64_t k, int64_t last) {
                             return k < last ? k + 1 : last > 0 ? k - 1 : 1;
                           }),
               wrong_tiles("the last tile is left out: the loop ends a step early",
                           [](int64_t k, int64_t last) { return k < last ? k : -1; })},
          .needs_gpu = true};
}

}  // namespace

std::vector<Exercise> gpu_exercises() {
  std::vector<Exercise> all = {vector_add(),     grid_stride(),  block_sum(), row_sum(),
                               transpose_tile(), softmax_rows(), histogram(), stencil(),
                               matmul_tiled(),   tensor_cores(), async_copy()};
  for (Exercise& one : all) {
    one.in_double = false;
    one.answer_file = "answer.cu";
  }
  return all;
}

}  // namespace whisker
