// Parameters by name, and what surrounds the one operator: carried states and the last step.
#include "layers/recurrent.h"

#include "core/ops/ops.h"
#include "core/ops/recurrent_cells.h"
#include "core/tensor/philox.h"
#include "layers/initializers.h"
#include "layers/memory_plan.h"

#include <algorithm>

namespace whisker {
namespace {

// Keras' bias: zeros, but ones for an lstm's forget gate, the second of its four blocks.
Initializer keras_bias(RecurrentKind kind, int64_t units, bool of_input) {
  const bool remembers = kind == RecurrentKind::lstm && of_input;
  return [units, remembers](uint64_t, uint64_t, std::span<float> values) {
    std::fill(values.begin(), values.end(), 0.0f);
    const auto forget = values.begin() + units;
    if (remembers) std::fill(forget, forget + units, 1.0f);
  };
}

}  // namespace

Recurrent::Recurrent(const Options& options) : options_(options) {
  const Options& o = options_;
  if (o.features < 1 || o.units < 1 || o.layers < 1 || o.projection < 0) {
    fail(ErrorKind::usage,
         "{}: {} input features, {} units, {} layers and projection {}; all but the projection "
         "must be at least 1",
         type(), o.features, o.units, o.layers, o.projection);
  }
  if (o.projection > 0 && o.kind != RecurrentKind::lstm) {
    fail(ErrorKind::usage, "{}: only an lstm has a projection, got {}", type(), o.projection);
  }
  if (o.projection >= o.units) {
    fail(ErrorKind::usage, "{}: the projection {} must be smaller than the {} units", type(),
         o.projection, o.units);
  }
  if (!(o.dropout >= 0 && o.dropout < 1)) {
    fail(ErrorKind::usage, "{}: expected a dropout in [0, 1), got {}", type(), o.dropout);
  }
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    for (int64_t direction = 0; direction < directions(); ++direction) {
      cells_.push_back(make_cell(layer, direction));
    }
  }
}

int64_t Recurrent::gates() const {
  return RecurrentGeometry{.kind = options_.kind}.gates();
}

Recurrent::Cell Recurrent::make_cell(int64_t layer, int64_t direction) {
  const Options& o = options_;
  const std::string suffix = fmt::format("_l{}{}", layer, direction == 1 ? "_reverse" : "");
  const int64_t rows = gates() * o.units;
  const Initializer torch_start = make_initializer({}, {.in = o.units});
  const auto weight = [&](const char* name, const Shape& shape, InitializerKind keras) {
    return add_parameter(
        name + suffix, shape, ParameterRole::weight,
        o.keras_start ? make_initializer({.kind = keras}, fans_of(shape)) : torch_start);
  };
  const auto bias = [&](const char* name, bool of_input) {
    if (!o.bias) return std::shared_ptr<Parameter>();
    return add_parameter(name + suffix, {rows}, ParameterRole::bias,
                         o.keras_start ? keras_bias(o.kind, o.units, of_input) : torch_start);
  };
  Cell cell;
  cell.w_ih = weight("weight_ih", {rows, inputs(layer)}, InitializerKind::glorot_uniform);
  cell.w_hh = weight("weight_hh", {rows, output()}, InitializerKind::orthogonal);
  cell.b_ih = bias("bias_ih", true);
  cell.b_hh = bias("bias_hh", false);
  if (o.projection > 0) {
    cell.w_hr = weight("weight_hr", {o.projection, o.units}, InitializerKind::glorot_uniform);
  }
  return cell;
}

RecurrentState Recurrent::carried(const Pass& pass, int64_t batch) const {
  if (!pass.states) return {};
  const auto found = pass.states->find(path());
  if (found == pass.states->end()) return {};
  if (const int64_t held = found->second.h.extent(1); held != batch) {
    fail(ErrorKind::usage,
         "{}: the carried state of '{}' is that of {} sequences, x has {}. Clear the states where "
         "the sequences change.",
         type(), path(), held, batch);
  }
  return found->second;
}

Tensor Recurrent::forward(const Tensor& x, const Pass& pass) {
  const Options& o = options_;
  output_shape(x.shape());
  const Tensor sequence = o.batch_first ? transpose(x, {1, 0, 2}) : x;  // (T, N, features)
  const int64_t batch = sequence.extent(1);
  const auto value = [](const std::shared_ptr<Parameter>& p) { return p ? p->value() : Tensor(); };
  std::vector<RecurrentParameters> parameters;
  for (const Cell& cell : cells_) {
    parameters.push_back(
        {value(cell.w_ih), value(cell.w_hh), value(cell.b_ih), value(cell.b_hh), value(cell.w_hr)});
  }
  const RecurrentOptions options{.kind = o.kind,
                                 .bidirectional = o.bidirectional,
                                 .initial = carried(pass, batch),
                                 .lengths = pass.lengths,
                                 .dropout = pass.training ? o.dropout : 0,
                                 .key = {.seed = pass.seed,
                                         .stream = stream_of(path()),
                                         .step = pass.step,
                                         .offset = pass.random_offset}};
  const RecurrentResult result = by_cells_ ? recurrent_by_cells(sequence, parameters, options)
                                           : recurrent(sequence, parameters, options);
  const RecurrentState& last = result.last;
  if (pass.states) {
    (*pass.states)[path()] = {.h = last.h.detach(), .c = last.c ? last.c.detach() : Tensor()};
  }
  if (o.return_sequences) return o.batch_first ? transpose(result.y, {1, 0, 2}) : result.y;
  const auto cells = static_cast<int64_t>(cells_.size());
  const Tensor top = slice(last.h, 0, cells - directions(), cells);  // (directions, N, output)
  const Tensor beside = o.bidirectional ? transpose(top, {1, 0, 2}) : top;
  return beside.reshape({batch, directions() * output()});
}

std::string Recurrent::type() const {
  switch (options_.kind) {
    case RecurrentKind::lstm:
      return "lstm";
    case RecurrentKind::gru:
      return "gru";
    case RecurrentKind::rnn_tanh:
    case RecurrentKind::rnn_relu:
      break;
  }
  return "simple_rnn";
}

std::string Recurrent::describe() const {
  const Options& o = options_;
  std::string text = fmt::format("{}", o.units);
  if (o.kind == RecurrentKind::rnn_relu) text += " relu";
  if (o.layers > 1) text += fmt::format(" x {} layers", o.layers);
  if (o.bidirectional) text += " bidirectional";
  if (o.projection > 0) text += fmt::format(" to {}", o.projection);
  if (o.dropout > 0) text += fmt::format(" dropout {}", o.dropout);
  return text + (o.return_sequences ? " every step" : " last step");
}

Shape Recurrent::output_shape(const Shape& x) const {
  const Options& o = options_;
  if (x.rank() != 3 || x[2] != o.features) {
    fail(ErrorKind::usage, "{}: expected {} with {} features, got {}", type(),
         o.batch_first ? "(N,T,features)" : "(T,N,features)", o.features, x);
  }
  const int64_t width = directions() * output();
  if (o.return_sequences) return x.with(-1, width);
  return {x[o.batch_first ? 0 : 1], width};
}

RecurrentGeometry Recurrent::geometry(const Shape& x) const {
  const Options& o = options_;
  return {.kind = o.kind,
          .steps = x[o.batch_first ? 1 : 0],
          .batch = x[o.batch_first ? 0 : 1],
          .features = o.features,
          .hidden = o.units,
          .projection = o.projection,
          .layers = o.layers,
          .directions = directions(),
          .bias = o.bias,
          .dropout = o.layers > 1 ? o.dropout : 0};
}

OperatorCost Recurrent::cost(const Shape& x, bool x_needs_grad) const {
  const Options& o = options_;
  const int64_t positions = x[0] * x[1];  // T N
  const int64_t width = directions() * output();
  int64_t multiply_adds = 0;  // of one step of one sequence
  int64_t kept = 0;           // elements kept of it for backward, in f32
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    multiply_adds +=
        directions() * (gates() * o.units * (inputs(layer) + output()) + o.projection * o.units);
    // Gates; a cell or a gru's recurrent part; what a projection read; what the next layer reads.
    const bool more = o.kind == RecurrentKind::lstm || o.kind == RecurrentKind::gru;
    kept += directions() * o.units * (gates() + (more ? 1 : 0) + (o.projection > 0 ? 1 : 0));
    if (layer + 1 < o.layers) kept += width;
  }
  const bool needs = x_needs_grad || !frozen();
  return {.multiply_adds = positions * multiply_adds,
          .keeps_input = needs,
          .keeps_output = needs && o.return_sequences,
          .kept_elements = needs && !o.return_sequences ? positions * width : 0,
          .kept_bytes = needs ? positions * kept * element_bytes : 0,
          .transient_bytes = positions * directions() * gates() * o.units * element_bytes,
          .recurrent = geometry(x)};
}

int Recurrent::add_to(MemoryPlan& plan, int x) const {
  const Shape input = plan.shape(x);
  OperatorCost cost = this->cost(input, plan.needs_grad(x));
  if (plan.is_for(DeviceKind::cuda) && cost.keeps_input) keep_as_a_gpu_does(cost, input);
  return plan.add(*this, {x}, output_shape(input), cost);
}

// What deterministic training keeps: that of our own kernels in 16 bits
// (core/cuda/recurrent/persistent/persistent_layers.cpp, which says where they fit), of cuDNN in
// f32. Other choices may keep other amounts.
void Recurrent::keep_as_a_gpu_does(OperatorCost& cost, const Shape& x) const {
  const Options& o = options_;
  const int64_t positions = x[0] * x[1];
  const int64_t states = positions * o.layers * directions() * o.units;
  const int64_t results = o.layers - (o.return_sequences ? 1 : 0);
  cost.kept_elements = positions * directions() * output() * results;
  cost.kept_bytes = cost.kept_in_f32 = 0;
  if (o.projection > 0) cost.kept_elements += states;
  if (o.kind == RecurrentKind::lstm) {
    cost.kept_elements += gates() * states;
    cost.kept_bytes = states * element_bytes;  // cells
  } else if (o.kind == RecurrentKind::gru) {
    cost.kept_elements += (gates() + 1) * states;
    cost.kept_in_f32 = 2 * states * element_bytes;
  } else {
    cost.kept_in_f32 = states * element_bytes;
  }
}

}  // namespace whisker
