// Wrong calls of the operators that layers and losses are made of: convolution and pooling,
// recurrent layers, norms and losses.
#include "core/ops/recurrent.h"
#include "tests/core/backend/bad_calls.h"

#include <array>

namespace whisker::test {
namespace {

// One cell for 2 features and 3 hidden units.
RecurrentParameters cell(Operands o, int64_t gates = 4) {
  return {
      .w_ih = o(gates * 3, 2), .w_hh = o(gates * 3, 3), .b_ih = o(gates * 3), .b_hh = o(gates * 3)};
}

RecurrentResult lstm(Operands o, std::vector<RecurrentParameters> cells,
                     RecurrentOptions options = {}) {
  return recurrent(o(5, 4, 2), cells, options);
}

}  // namespace

std::vector<BadCall> bad_windows() {
  return {
      {"conv2d_rank", [](auto o) { conv2d(o(8, 8, 3), o(4, 3, 3, 3), {}); },
       "conv2d: expected x (N,H,W,C) and w (c_out,kernel_h,kernel_w,C/groups), got x (8,8,3), w "
       "(4,3,3,3)."},
      {"conv2d_channels", [](auto o) { conv2d(o(1, 8, 8, 1), o(4, 3, 3, 3), {}); },
       "conv2d: x has 1 channel, w expects 3: x (1,8,8,1), w (4,3,3,3). Make w with 1 input "
       "channels, or feed x with 3."},
      {"conv2d_groups", [](auto o) { conv2d(o(1, 8, 8, 4), o(4, 3, 3, 1), {}, {.groups = 3}); },
       "conv2d: groups 3 must divide the 4 channels of x and the 4 filters of w: x (1,8,8,4), w "
       "(4,3,3,1)."},
      {"conv2d_stride_0", [](auto o) { conv2d(o(1, 8, 8, 1), o(4, 3, 3, 1), {}, {.stride = 0}); },
       "conv2d: expected stride in [1, 2147483647], got (0,0)."},
      {"conv2d_slope",
       [](auto o) {
         conv2d(o(1, 8, 8, 1), o(4, 3, 3, 1), {},
                {.activation = {.kind = Activation::leaky_relu, .slope = -1}});
       },
       "conv2d: expected a slope of leaky_relu of at least 0, got -1."},
      {"conv2d_window", [](auto o) { conv2d(o(1, 4, 8, 1), o(4, 3, 3, 1), {}, {.dilation = 2}); },
       "conv2d: a window of 5 (kernel 3, dilation 2) does not fit the height of 4 with padding 0. "
       "Use a smaller kernel or padding: same."},
      {"conv2d_residual",
       [](auto o) { conv2d(o(1, 8, 8, 1), o(4, 3, 3, 1), {}, {}, o(1, 1, 1, 4)); },
       "conv2d: expected a residual shaped as the result (1,6,6,4), got (1,1,1,4)."},
      {"max_pool2d_padding", [](auto o) { max_pool2d(o(1, 4, 4, 1), {.kernel = 2, .padding = 2}); },
       "max_pool2d: expected padding below the kernel (2,2), got (2,2): windows would see no "
       "image."},
      {"avg_pool2d_empty", [](auto o) { avg_pool2d(o(0, 4, 4, 1), {}); },
       "avg_pool2d: expected x (N,H,W,C) with at least one element, got (0,4,4,1)."},
      {"adaptive_output", [](auto o) { adaptive_avg_pool2d(o(1, 4, 4, 1), 0); },
       "adaptive_avg_pool2d: expected output in [1, 2147483647], got (0,0)."},
  };
}

std::vector<BadCall> bad_recurrent_layers() {
  return {
      {"recurrent_rank", [](auto o) { recurrent(o(5, 2), std::array{cell(o)}); },
       "recurrent: expected x (T,N,features) with at least one element, got (5,2)."},
      {"recurrent_empty", [](auto o) { recurrent(o(0, 4, 2), std::array{cell(o)}); },
       "recurrent: expected x (T,N,features) with at least one element, got (0,4,2)."},
      {"recurrent_cells", [](auto o) { lstm(o, {}); },
       "recurrent: expected parameters of one cell per layer, got 0."},
      {"recurrent_directions", [](auto o) { lstm(o, {cell(o)}, {.bidirectional = true}); },
       "recurrent: expected parameters of two cells per layer, got 1."},
      {"recurrent_gates", [](auto o) { lstm(o, {cell(o, 3)}); },
       "recurrent: expected w_hh of cell 0 with 4 rows per hidden unit of lstm, got (9,3)."},
      {"recurrent_w_ih",
       [](auto o) {
         RecurrentParameters p = cell(o);
         p.w_ih = o(12, 5);
         lstm(o, {p});
       },
       "recurrent: expected w_ih of cell 0 of shape (12,2) for lstm with 2 inputs and 3 hidden "
       "units, got (12,5)."},
      {"recurrent_second_layer",
       [](auto o) {
         lstm(o, {cell(o), cell(o)});
       },
       "recurrent: expected w_ih of cell 1 of shape (12,3) for lstm with 3 inputs and 3 hidden "
       "units, got (12,2)."},
      {"recurrent_one_bias",
       [](auto o) {
         RecurrentParameters p = cell(o);
         p.b_hh = {};
         lstm(o, {p});
       },
       "recurrent: expected b_hh of cell 0 of shape (12) for lstm with 2 inputs and 3 hidden "
       "units, got none."},
      {"recurrent_projection_of_gru",
       [](auto o) {
         RecurrentParameters p = cell(o, 3);
         p.w_hr = o(2, 3);
         lstm(o, {p}, {.kind = RecurrentKind::gru});
       },
       "recurrent: gru has no projection, got w_hr (2,3). Leave it out."},
      {"recurrent_initial", [](auto o) { lstm(o, {cell(o)}, {.initial = {.h = o(4, 3)}}); },
       "recurrent: expected initial.h of shape (1,4,3) (layers directions, N, extent) for x "
       "(5,4,2), got (4,3)."},
      {"recurrent_c_of_gru",
       [](auto o) {
         lstm(o, {cell(o, 3)}, {.kind = RecurrentKind::gru, .initial = {.c = o(1, 4, 3)}});
       },
       "recurrent: gru has no state c, got initial.c (1,4,3). Leave it out."},
      {"recurrent_dropout", [](auto o) { lstm(o, {cell(o)}, {.dropout = 1}); },
       "recurrent: expected a dropout in [0, 1), got 1."},
      {"recurrent_lengths", [](auto o) { lstm(o, {cell(o)}, {.lengths = i64(o)(3)}); },
       "recurrent: expected lengths i64 of shape (4) for x (5,4,2), got i64 (3)."},
      {"recurrent_dtypes",
       [](auto o) {
         RecurrentParameters p = cell(o);
         p.w_hh = p.w_hh.to(DType::bf16);
         lstm(o, {p});
       },
       "recurrent: x (5,4,2) is f32, w_hh of cell 0 (12,3) is bf16. Convert one of them with "
       "to(f32)."},
  };
}

std::vector<BadCall> bad_norms_and_losses() {
  return {
      {"batch_norm_gamma",
       [](auto o) { batch_norm(o(4, 3), ones({2}, o), o(3), {}, {.training = true}); },
       "batch_norm: expected gamma of shape (3) for x (4,3), got (2)."},
      {"batch_norm_one_value",
       [](auto o) { batch_norm(o(1, 3), ones({3}, o), o(3), {}, {.training = true}); },
       "batch_norm: training needs at least 2 values per channel, got x (1,3). Use a larger "
       "batch."},
      {"batch_norm_gamma_dtype",
       [](auto o) {
         const TensorOptions whole{.dtype = DType::i64, .device = o.device};
         batch_norm(o(4, 3), ones({3}, whole), zeros({3}, whole), {}, {.training = true});
       },
       "batch_norm: expected gamma and beta of f32 for x of f32, got i64."},
      {"batch_norm_epsilon",
       [](auto o) {
         batch_norm(o(4, 3), ones({3}, o), o(3), {}, {.training = true, .epsilon = 0});
       },
       "batch_norm: expected an epsilon above 0, got 0."},
      {"add_batch_norms_shapes",
       [](auto o) {
         const BatchNormOperands norm{ones({3}, o), o(3), {}, {.training = true}};
         add_batch_norms(o(4, 3), norm, o(2, 3), norm);
       },
       "add_batch_norms: expected two tensors of one shape, got (4,3) and (2,3)."},
      {"add_batch_norms_residual",
       [](auto o) {
         const BatchNormOperands norm{ones({3}, o), o(3), {}, {.training = true}};
         BatchNormOperands added = norm;
         added.residual = o(4, 3);
         add_batch_norms(o(4, 3), norm, o(4, 3), added);
       },
       "add_batch_norms: expected norms without residuals, the second without an activation. What "
       "is added is the second norm's result; the first norm's activation follows."},
      {"batch_norm_max_pool2d_gamma",
       [](auto o) {
         const BatchNormOperands norm{ones({2}, o), o(3), {}, {.training = true}};
         batch_norm_max_pool2d(o(2, 4, 4, 3), norm, {.kernel = 2});
       },
       "batch_norm: expected gamma of shape (3) for x (2,4,4,3), got (2)."},
      {"batch_norm_max_pool2d_rank",
       [](auto o) {
         const BatchNormOperands norm{ones({3}, o), o(3), {}, {.training = true}};
         batch_norm_max_pool2d(o(4, 3), norm, {.kernel = 2});
       },
       "max_pool2d: expected x (N,H,W,C) with at least one element, got (4,3)."},
      {"layer_norm_beta", [](auto o) { layer_norm(o(4, 3), ones({3}, o), o(1)); },
       "layer_norm: expected beta of shape (3) for x (4,3), got (1)."},
      {"group_norm_groups",
       [](auto o) { group_norm(o(4, 2, 2, 6), ones({6}, o), o(6), {.groups = 4}); },
       "group_norm: expected groups that divide the 6 channels of x (4,2,2,6), got 4."},
      {"softmax_axis", [](auto o) { softmax(o(4, 3), -3); },
       "softmax: axis -3 is outside shape (4,3) of rank 2"},
      {"cross_entropy_shape", [](auto o) { cross_entropy(o(4, 3), i64(o)(3)); },
       "cross_entropy: expected i64 class indices (4) or probabilities (4,3) for logits (4,3), got "
       "i64 (3)."},
      {"cross_entropy_label",
       [](auto o) {
         cross_entropy(o(3, 4), from_vector({0, 7, 1}, {3}, i64(o)));
       },
       "cross_entropy: label 7 of row 1 is outside [0, 4).", ErrorKind::data},
      {"cross_entropy_negative_label",
       [](auto o) {
         cross_entropy(o(2, 4), from_vector({-1, 3}, {2}, i64(o)));
       },
       "cross_entropy: label -1 of row 0 is outside [0, 4).", ErrorKind::data},
      {"cross_entropy_smoothing",
       [](auto o) { cross_entropy(o(2, 4), i64(o)(2), {.label_smoothing = 1.5}); },
       "cross_entropy: expected label_smoothing in [0, 1], got 1.5."},
      {"cross_entropy_empty", [](auto o) { cross_entropy(o(0, 4), i64(o)(0)); },
       "cross_entropy: logits (0,4) has no elements. Leave empty batches out."},
      {"binary_cross_entropy_shape",
       [](auto o) { binary_cross_entropy_with_logits(o(4, 1), o(4)); },
       "binary_cross_entropy_with_logits: expected a target of logits' shape (4,1), got (4). Use "
       "reshape()."},
      {"mse_loss_shape", [](auto o) { mse_loss(o(4, 1), o(4)); },
       "mse_loss: expected a target of the prediction's shape (4,1), got (4)."},
  };
}

}  // namespace whisker::test
