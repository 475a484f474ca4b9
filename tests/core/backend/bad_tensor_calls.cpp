// Wrong calls of the operators on plain tensors: arithmetic, reductions, shapes and products.
#include "tests/core/backend/bad_calls.h"

#include <array>
#include <limits>

namespace whisker::test {

std::vector<BadCall> bad_arithmetic() {
  return {
      {"add_shapes", [](auto o) { add(o(2, 3), o(4)); },
       "add: shapes (2,3) and (4) do not broadcast: axis -1 has 3 and 4; they must be equal or 1"},
      {"add_dtypes", [](auto o) { add(o(2), i64(o)(2)); },
       "add: a (2) is f32, b (2) is i64. Convert one of them with to(f32)."},
      {"add_devices",
       [](auto) {
         add(zeros({2}, {.device = reference_device}), zeros({2}, {.device = cpu_device}));
       },
       "add: a (2) is on reference, b (2) is on cpu. Copy one of them with to(reference)."},
      {"undefined", [](auto o) { add(o(2), Tensor()); },
       "tensor: used before it was given a value (undefined tensor)"},
      {"clamp_order", [](auto o) { clamp(o(2), 1, -1); },
       "clamp: expected low <= high, got 1 and -1 for x (2)."},
      {"clamp_nan", [](auto o) { clamp(o(2), 0, std::numeric_limits<double>::quiet_NaN()); },
       "clamp: expected low <= high, got 0 and nan for x (2)."},
      {"leaky_relu_slope", [](auto o) { leaky_relu(o(2), -0.5); },
       "leaky_relu: expected a slope of leaky_relu of at least 0, got -0.5."},
      {"where_condition", [](auto o) { where(o(2), o(2), o(2)); },
       "where: expected a condition of bool, got f32 (2). Use not_equal(x, zero)."},
      {"dropout_rate", [](auto o) { dropout(o(2), 1, {}); },
       "dropout: expected a rate in [0, 1), got 1 for x (2)."},
      {"rank_9", [](auto o) { o(1, 1, 1, 1, 1, 1, 1, 1, 1); },
       "shape: expected at most 8 axes, got 9"},
      {"negative_extent", [](auto o) { o(2, -1); },
       "shape: expected extents of 0 or more, got -1 in (2,-1)"},
      {"extents_overflow",
       [](auto o) {
         zeros({int64_t{1} << 32, int64_t{1} << 32}, o);
       },
       "shape: (4294967296,4294967296) has more than 2^59 elements"},
  };
}

std::vector<BadCall> bad_reductions_and_shapes() {
  return {
      {"sum_axis", [](auto o) { sum(o(2, 3), {2}); },
       "sum: axis 2 is outside shape (2,3) of rank 2"},
      {"mean_axis_twice",
       [](auto o) {
         mean(o(2, 3), {1, -1});
       },
       "mean: axis -1 of (2,3) is given twice."},
      {"mean_of_nothing", [](auto o) { mean(o(0, 3), {0}); },
       "mean: x (0,3) has no elements to reduce."},
      {"max_of_nothing", [](auto o) { max(o(2, 0), {1}); },
       "max: x (2,0) has no elements to reduce."},
      {"var_of_one", [](auto o) { var(o(1)); },
       "var: expected more than 1 elements per result, got 1 from x (1). Lower correction."},
      {"argmax_axis", [](auto o) { argmax(o(2), 1); },
       "argmax: axis 1 is outside shape (2) of rank 1"},
      {"argmax_of_nothing", [](auto o) { argmax(o(2, 0), 1); },
       "argmax: x (2,0) has no elements. Leave empty batches out."},
      {"sum_to", [](auto o) { sum_to(o(2, 3), {2}); },
       "sum_to: shape (2) does not broadcast to x (2,3)."},
      {"sum_products_to", [](auto o) { sum_products_to(o(2, 3), o(2, 3), {2}); },
       "sum_products_to: shape (2) does not broadcast to x (2,3)."},
      {"reshape", [](auto o) { reshape(o(2, 3), {4}); },
       "reshape: expected 6 elements for x (2,3), got shape (4) of 4."},
      {"transpose_count", [](auto o) { transpose(o(2, 3), {0}); },
       "transpose: expected an order of 2 axes for x (2,3), got (0)."},
      {"transpose_twice",
       [](auto o) {
         transpose(o(2, 3), {1, 1});
       },
       "transpose: axis 1 appears twice in the order (1,1) for x (2,3)."},
      {"broadcast_to",
       [](auto o) {
         broadcast_to(o(2, 3), {2, 1});
       },
       "broadcast_to: x (2,3) does not broadcast to (2,1)."},
      {"concat_nothing", [](auto) { concat(std::span<const Tensor>(), 0); },
       "concat: expected at least one tensor, got none."},
      {"concat_shapes",
       [](auto o) {
         concat({o(2, 3), o(2, 4)}, 0);
       },
       "concat: shapes (2,3) and (2,4) differ off axis 0."},
      {"slice_range", [](auto o) { slice(o(2, 3), 1, 2, 5); },
       "slice: expected 0 <= begin <= end <= 3 on axis 1, got [2, 5): x (2,3)."},
      {"split_sizes",
       [](auto o) {
         split(o(2, 3), std::array<int64_t, 2>{1, 1}, 1);
       },
       "split: expected sizes of 0 or more that add up to 3 on axis 1, got (1,1): x (2,3)."},
      {"pad_negative",
       [](auto o) {
         pad(o(2), std::array{std::pair<int64_t, int64_t>{-1, 0}});
       },
       "pad: expected amounts in [0, 2147483647], got (-1,0) on axis 0 of x (2)."},
      {"gather_index",
       [](auto o) {
         gather(o(2, 3), 1, full({2, 1}, 3, i64(o)));
       },
       "gather: index 3 is outside [0, 3): x (2,3), index (2,1)."},
      {"gather_dtype", [](auto o) { gather(o(2, 3), 1, o(2, 1)); },
       "gather: expected an index of i64, got f32 (2,1). Convert it with to(i64)."},
      {"embedding_index", [](auto o) { embedding(o(4, 3), full({2}, -1, i64(o))); },
       "embedding: index -1 is outside [0, 4): x (4,3), index (2)."},
      {"one_hot_label", [](auto o) { one_hot(full({2}, 5, i64(o)), 5); },
       "one_hot: index 5 is outside [0, 5): x (2), index (2)."},
      {"one_hot_classes", [](auto o) { one_hot(i64(o)(2), 0); },
       "one_hot: expected classes in [1, 2147483647], got 0 for index (2)."},
  };
}

std::vector<BadCall> bad_gemms() {
  return {
      {"matmul_rank", [](auto o) { matmul(o(3), o(3, 2)); },
       "matmul: expected two axes or more, got a (3) and b (3,2). Use reshape()."},
      {"matmul_inner", [](auto o) { matmul(o(2, 3), o(4, 2)); },
       "matmul: a has 3 columns, b has 4 rows: a (2,3), b (4,2)."},
      {"matmul_batch", [](auto o) { matmul(o(2, 1, 3), o(3, 3, 1)); },
       "matmul: shapes (2) and (3) do not broadcast: axis -1 has 2 and 3; they must be equal or 1"},
      {"linear_features", [](auto o) { linear(o(2, 3), o(4, 5), {}); },
       "linear: expected x with 5 features on its last axis: x (2,3), w (4,5)."},
      {"linear_bias", [](auto o) { linear(o(2, 3), o(4, 3), o(3)); },
       "linear: expected b of shape (4) for w (4,3), got (3)."},
  };
}

}  // namespace whisker::test
