// Lesson 7: recurrent layers, backwards through time.
#include "apps/study/grading/exercises.h"
#include "core/ops/ops.h"

#include <string_view>
#include <vector>

namespace whisker {
namespace {

// h(t + 1) = tanh(x(t) w + h(t) u); h(0) is given.
std::vector<Tensor> states(const Values& v) {
  std::vector<Tensor> h = {v["h0"]};
  for (int64_t t = 0; t < v["x"].extent(0); ++t) {
    const Tensor x = slice(v["x"], 0, t, t + 1).reshape({v["x"].extent(1), v["x"].extent(2)});
    h.push_back(tanh(matmul(x, v["w"]) + matmul(h.back(), v["u"])));
  }
  return h;
}

struct RnnFault {
  bool last_step = false, next_state = false, no_slope = false, not_transposed = false,
       one_step_back = false;
};
// dw or du, backwards through time.
Tensor rnn_gradient(const Values& v, bool of_w, RnnFault fault) {
  const std::vector<Tensor> h = states(v);
  Tensor dh = v["dy"], total;
  const auto steps = static_cast<int64_t>(h.size()) - 1;
  for (int64_t t = steps - 1; t >= 0; --t) {
    const Tensor& y = h[static_cast<size_t>(t) + 1];
    const Tensor da = fault.no_slope ? dh : dh * affine(y * y, -1, 1);
    const Tensor x = slice(v["x"], 0, t, t + 1).reshape({v["x"].extent(1), v["x"].extent(2)});
    const Tensor& before = fault.next_state ? y : h[static_cast<size_t>(t)];
    const Tensor part = matmul(transpose(of_w ? x : before, {1, 0}), da);
    total = total.defined() ? total + part : part;
    if (fault.last_step || (fault.one_step_back && t == steps - 2)) break;
    dh = matmul(da, fault.not_transposed ? v["u"] : transpose(v["u"], {1, 0}));
  }
  return total;
}

Exercise rnn_backward() {
  const auto with = [](bool of_w, RnnFault fault) {
    return [=](const Values& v) { return rnn_gradient(v, of_w, fault); };
  };
  Exercise exercise{
      .name = "rnn",
      .lesson = 7,
      .title = "back-propagation through time: h(t+1) = tanh(x(t) w + h(t) u)",
      .signature =
          "rnn_backward(View<const T> dy, View<const T> x, View<const T> h, "
          "View<const T> u, View<T> dw, View<T> du)",
      .setups = {{"1 step", {{"x", {1, 2, 3}}, {"w", {3, 2}}, {"u", {2, 2}}, {"h0", {2, 2}}}},
                 {"several steps",
                  {{"x", {3, 2, 2}}, {"w", {2, 3}}, {"u", {3, 3}}, {"h0", {2, 3}}}},
                 {"several steps, 1 example",
                  {{"x", {5, 1, 3}}, {"w", {3, 2}}, {"u", {2, 2}}, {"h0", {1, 2}}}}},
      .prepare =
          [](Values& v, uint64_t) {
            std::vector<Tensor> all;
            for (const Tensor& h : states(v))
              all.push_back(h.reshape({1, h.extent(0), h.extent(1)}));
            v.set("h", concat(all, 0));
          },
      .forward = [](const Values& v) { return states(v).back(); }};
  for (const bool of_w : {true, false}) {
    const std::string_view name = of_w ? "dw" : "du";
    exercise.faults.insert(
        exercise.faults.end(),
        {{name, "the last step alone counts: the weights are read at each step, so go back",
          with(of_w, {.last_step = true})},
         {name, "it stops after two steps: go back to step 0", with(of_w, {.one_step_back = true})},
         {name, "the slope of tanh is missing: 1 - h(t+1)^2", with(of_w, {.no_slope = true})},
         {name, "u is not transposed on the way back: dh = da u^T",
          with(of_w, {.not_transposed = true})}});
  }
  exercise.faults.push_back({"du", "the wrong state: step t multiplies h(t) by u, not h(t+1)",
                             with(false, {.next_state = true})});
  return exercise;
}

// One step of an LSTM. `a` holds four gates of `units` columns each, before their activations.
struct LstmGates {
  Tensor i, f, g, o, c_next;
};
LstmGates lstm_gates(const Values& v, bool o_before_g = false) {
  const int64_t units = v["c"].extent(1);
  const auto part = [&](int64_t k) { return slice(v["a"], 1, k * units, (k + 1) * units); };
  const int g = o_before_g ? 3 : 2;
  LstmGates gates{.i = sigmoid(part(0)),
                  .f = sigmoid(part(1)),
                  .g = tanh(part(g)),
                  .o = sigmoid(part(5 - g)),
                  .c_next = {}};
  gates.c_next = gates.f * v["c"] + gates.i * gates.g;
  return gates;
}

struct LstmFault {
  bool o_before_g = false, no_tanh_of_cell = false, no_slope_of_cell = false, no_dc_next = false,
       no_dh_next = false, next_cell = false, no_slopes_of_gates = false, tanh_as_sigmoid = false,
       no_forget = false, input_for_forget = false;
};
// da or dc.
Tensor lstm_gradient(const Values& v, bool of_a, LstmFault fault) {
  const auto [i, f, g, o, c_next] = lstm_gates(v, fault.o_before_g);
  const Tensor t = tanh(c_next);
  Tensor dcell = v["dh_next"] * o;
  if (!fault.no_slope_of_cell) dcell = dcell * affine(t * t, -1, 1);
  if (fault.no_dh_next)
    dcell = v["dc_next"];
  else if (!fault.no_dc_next)
    dcell = dcell + v["dc_next"];
  if (!of_a) return fault.no_forget ? dcell : dcell * (fault.input_for_forget ? i : f);
  const auto slope = [&](const Tensor& gate) {
    return fault.no_slopes_of_gates ? ones(gate.shape(), gate.options())
                                    : gate * affine(gate, -1, 1);
  };
  const Tensor of_g =
      fault.no_slopes_of_gates || fault.tanh_as_sigmoid ? slope(g) : affine(g * g, -1, 1);
  const Tensor da_g = dcell * i * of_g;
  const Tensor da_o = v["dh_next"] * (fault.no_tanh_of_cell ? c_next : t) * slope(o);
  return concat({dcell * g * slope(i), dcell * (fault.next_cell ? c_next : v["c"]) * slope(f),
                 fault.o_before_g ? da_o : da_g, fault.o_before_g ? da_g : da_o},
                1);
}

Exercise lstm_backward() {
  const auto with = [](bool of_a, LstmFault fault) {
    return [=](const Values& v) { return lstm_gradient(v, of_a, fault); };
  };
  const auto setup = [](std::string_view says, int64_t examples, int64_t units) {
    const Shape state{examples, units};
    return Setup{
        says,
        {{"dh_next", state}, {"dc_next", state}, {"a", {examples, 4 * units}}, {"c", state}},
        {}};
  };
  Exercise exercise{
      .name = "lstm",
      .lesson = 7,
      .title = "one step of an LSTM: through four gates to the state before",
      .signature =
          "lstm_backward(View<const T> dh_next, View<const T> dc_next, View<const T> a, "
          "View<const T> c, View<T> da, View<T> dc)",
      .setups = {setup("1 example, 1 unit", 1, 1), setup("several units", 1, 3),
                 setup("several units, more examples", 5, 2)},
      .forward = [](const Values& v) {
        const LstmGates gates = lstm_gates(v);
        return sum(v["dh_next"] * gates.o * tanh(gates.c_next) + v["dc_next"] * gates.c_next);
      }};
  for (const bool of_a : {true, false}) {
    const std::string_view name = of_a ? "da" : "dc";
    exercise.faults.insert(
        exercise.faults.end(),
        {{name, "the order of the gates is wrong: the columns of a are i, f, g, o",
          with(of_a, {.o_before_g = true})},
         {name, "the slope of the cell's tanh is missing: h_next = o tanh(c_next)",
          with(of_a, {.no_slope_of_cell = true})},
         {name,
          "dc_next is not used: c_next is read by the next step, too, so its gradient is "
          "a sum of two",
          with(of_a, {.no_dc_next = true})},
         {name, "dh_next does not reach the cell: h_next = o tanh(c_next) reads c_next",
          with(of_a, {.no_dh_next = true})}});
  }
  exercise.faults.insert(
      exercise.faults.end(),
      {{"da", "the tanh of the cell is forgotten: h_next = o tanh(c_next)",
        with(true, {.no_tanh_of_cell = true, .no_slope_of_cell = true})},
       {"da", "the tanh of the cell is forgotten: the gradient of o is dh_next tanh(c_next)",
        with(true, {.no_tanh_of_cell = true})},
       {"da", "the wrong state: the forget gate multiplies c, not c_next",
        with(true, {.next_cell = true})},
       {"da", "the slopes of the gates' own activations are missing: i (1 - i), 1 - g^2",
        with(true, {.no_slopes_of_gates = true})},
       {"da", "g is no sigmoid: the slope of its tanh is 1 - g^2",
        with(true, {.tanh_as_sigmoid = true})},
       {"dc", "the forget gate is missing: c_next = f c + i g, so f is c's factor",
        with(false, {.no_forget = true})},
       {"dc", "the wrong gate: c's factor is the forget gate f, not i",
        with(false, {.input_for_forget = true})}});
  return exercise;
}

}  // namespace

std::vector<Exercise> recurrent_exercises() {
  return {rnn_backward(), lstm_backward()};
}

}  // namespace whisker
