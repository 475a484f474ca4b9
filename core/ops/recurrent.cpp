// Recurrent layers as one operator: all steps, layers and directions in one call of the backend.
#include "core/ops/recurrent.h"

#include "core/autograd/autograd.h"
#include "core/autograd/op_attributes.h"
#include "core/backend/backend.h"
#include "core/backend/recurrent.h"
#include "core/ops/checks.h"

#include <array>
#include <string>
#include <vector>

namespace whisker {
namespace {

using Cells = std::span<const RecurrentParameters>;

// The operands of the tape: x, the initial state, then five per cell.
constexpr size_t first_parameter = 3;
constexpr size_t per_cell = 5;

std::array<const Tensor*, per_cell> members(const RecurrentParameters& p) {
  return {&p.w_ih, &p.w_hh, &p.b_ih, &p.b_hh, &p.w_hr};
}

constexpr std::array<const char*, per_cell> member_names = {"w_ih", "w_hh", "b_ih", "b_hh", "w_hr"};

void check_member(size_t cell, size_t member, const Tensor& p, const Shape& shape, const Tensor& x,
                  const char* reason) {
  const std::string name = fmt::format("{} of cell {}", member_names[member], cell);
  if (!p.defined() || !(p.shape() == shape)) {
    fail(ErrorKind::usage, "recurrent: expected {} of shape {} for {}, got {}.", name, shape,
         reason, p.defined() ? p.shape().str() : "none");
  }
  check_alike("recurrent", "x", x, name.c_str(), p);
}

void check_parameters(const RecurrentGeometry& g, const Tensor& x, Cells parameters) {
  const int64_t rows = g.gates() * g.hidden;
  for (size_t cell = 0; cell < parameters.size(); ++cell) {
    const RecurrentParameters& p = parameters[cell];
    const int64_t layer = static_cast<int64_t>(cell) / g.directions;
    const std::string what = fmt::format("{} with {} inputs and {} hidden units", name_of(g.kind),
                                         g.inputs(layer), g.hidden);
    check_member(cell, 0, p.w_ih, {rows, g.inputs(layer)}, x, what.c_str());
    check_member(cell, 1, p.w_hh, {rows, g.output()}, x, what.c_str());
    if (g.bias) {
      check_member(cell, 2, p.b_ih, {rows}, x, what.c_str());
      check_member(cell, 3, p.b_hh, {rows}, x, what.c_str());
    } else if (p.b_ih.defined() || p.b_hh.defined()) {
      fail(ErrorKind::usage,
           "recurrent: cell 0 has no b_ih, but cell {} has a bias. Give both biases to every cell "
           "or to none.",
           cell);
    }
    if (g.projection > 0) check_member(cell, 4, p.w_hr, {g.projection, g.hidden}, x, what.c_str());
    if (g.projection == 0 && p.w_hr.defined()) {
      fail(ErrorKind::usage,
           "recurrent: cell 0 has no w_hr, but cell {} has one. Give it to every cell or to none.",
           cell);
    }
  }
}

void check_state(const char* name, const Tensor& state, const Shape& shape, const Tensor& x) {
  if (!state.defined()) return;
  if (!(state.shape() == shape)) {
    fail(ErrorKind::usage,
         "recurrent: expected {} of shape {} (layers directions, N, extent) for x {}, got {}.",
         name, shape, x.shape(), state.shape());
  }
  check_alike("recurrent", "x", x, name, state);
}

void check_lengths(const RecurrentGeometry& g, const Tensor& lengths, const Tensor& x) {
  if (!lengths.defined()) return;
  if (lengths.dtype() != DType::i64 || !(lengths.shape() == Shape{g.batch})) {
    fail(ErrorKind::usage, "recurrent: expected lengths i64 of shape ({}) for x {}, got {} {}.",
         g.batch, x.shape(), lengths.dtype(), lengths.shape());
  }
  check_device("recurrent", "x", x, "lengths", lengths);
  if (lengths.is_cuda()) return;  // its kernels keep within [0, T]
  for (const int64_t length : lengths.data<int64_t>()) {
    if (length < 0 || length > g.steps) {
      fail(ErrorKind::usage, "recurrent: length {} is outside [0, {}]: x {}.", length, g.steps,
           x.shape());
    }
  }
}

// Initial states, lengths and parameters kept for backward.
struct SavedInputs {
  Saved x, h, c, lengths;
  std::vector<std::array<Saved, per_cell>> parameters;
  RandomKey key;

  explicit SavedInputs(const RecurrentInputs& in)
      : x(save(in.x)),
        h(save(in.initial.h)),
        c(save(in.initial.c)),
        lengths(save(in.lengths)),
        key(in.key) {
    for (const RecurrentParameters& p : in.parameters) {
      parameters.push_back({save(p.w_ih), save(p.w_hh), save(p.b_ih), save(p.b_hh), save(p.w_hr)});
    }
  }
  RecurrentInputs operator()(const Gradients& g) const {
    RecurrentInputs in{
        .x = x(g), .initial = {.h = h(g), .c = c(g)}, .lengths = lengths(g), .key = key};
    for (const auto& p : parameters) {
      in.parameters.push_back({p[0](g), p[1](g), p[2](g), p[3](g), p[4](g)});
    }
    return in;
  }
};

RecurrentGradients gradients_of(const RecurrentGeometry& geometry, Gradients& g) {
  const auto arrived = [&](size_t output) { return g.has_dy(output) ? g.dy(output) : Tensor(); };
  RecurrentGradients result{.dy = arrived(0), .dlast = {.h = arrived(1)}};
  if (geometry.is_lstm()) result.dlast.c = arrived(2);
  result.dx = g.grad_buffer_if_needed(0);
  result.dinitial = {.h = g.grad_buffer_if_needed(1), .c = g.grad_buffer_if_needed(2)};
  for (size_t cell = 0; cell < static_cast<size_t>(geometry.cells()); ++cell) {
    const size_t at = first_parameter + cell * per_cell;
    result.dparameters.push_back({g.grad_buffer_if_needed(at), g.grad_buffer_if_needed(at + 1),
                                  g.grad_buffer_if_needed(at + 2), g.grad_buffer_if_needed(at + 3),
                                  g.grad_buffer_if_needed(at + 4)});
  }
  return result;
}

}  // namespace

std::string_view name_of(RecurrentKind kind) {
  switch (kind) {
    case RecurrentKind::rnn_tanh:
      return "rnn_tanh";
    case RecurrentKind::rnn_relu:
      return "rnn_relu";
    case RecurrentKind::lstm:
      return "lstm";
    case RecurrentKind::gru:
      return "gru";
  }
  return "";
}

RecurrentGeometry recurrent_geometry(const Tensor& x, Cells parameters,
                                     const RecurrentOptions& options) {
  if (x.rank() != 3 || x.count() == 0) {
    fail(ErrorKind::usage,
         "recurrent: expected x (T,N,features) with at least one element, got {}.", x.shape());
  }
  check_computes("recurrent", "x", x);
  const int64_t directions = options.bidirectional ? 2 : 1;
  const auto cells = static_cast<int64_t>(parameters.size());
  if (cells < 1 || cells % directions != 0) {
    fail(ErrorKind::usage, "recurrent: expected parameters of {} per layer, got {}.",
         options.bidirectional ? "two cells" : "one cell", cells);
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    fail(ErrorKind::usage, "recurrent: expected a dropout in [0, 1), got {}.", options.dropout);
  }
  const RecurrentParameters& first = parameters[0];
  RecurrentGeometry g{.kind = options.kind,
                      .steps = x.extent(0),
                      .batch = x.extent(1),
                      .features = x.extent(2),
                      .layers = cells / directions,
                      .directions = directions,
                      .bias = first.b_ih.defined(),
                      .lengths = options.lengths.defined(),
                      .dropout = cells > directions ? options.dropout : 0,
                      .dtype = x.dtype()};
  check_rank("recurrent", "w_hh of cell 0", first.w_hh, 2);
  if (first.w_hh.count() == 0 || first.w_hh.extent(0) % g.gates() != 0) {
    fail(ErrorKind::usage,
         "recurrent: expected w_hh of cell 0 with {} rows per hidden unit of {}, got {}.",
         g.gates(), name_of(g.kind), first.w_hh.shape());
  }
  g.hidden = first.w_hh.extent(0) / g.gates();
  if (first.w_hr.defined()) {
    if (!g.is_lstm()) {
      fail(ErrorKind::usage, "recurrent: {} has no projection, got w_hr {}. Leave it out.",
           name_of(g.kind), first.w_hr.shape());
    }
    check_rank("recurrent", "w_hr of cell 0", first.w_hr, 2);
    check_not_empty("recurrent", "w_hr of cell 0", first.w_hr);
    g.projection = first.w_hr.extent(0);
  }
  check_parameters(g, x, parameters);
  check_state("initial.h", options.initial.h, {g.cells(), g.batch, g.output()}, x);
  if (!g.is_lstm() && options.initial.c.defined()) {
    fail(ErrorKind::usage, "recurrent: {} has no state c, got initial.c {}. Leave it out.",
         name_of(g.kind), options.initial.c.shape());
  }
  check_state("initial.c", options.initial.c, {g.cells(), g.batch, g.hidden}, x);
  check_lengths(g, options.lengths, x);
  return g;
}

RecurrentResult recurrent(const Tensor& x, Cells parameters, const RecurrentOptions& options) {
  const RecurrentGeometry geometry = recurrent_geometry(x, parameters, options);
  RecurrentKernels& kernels = backend_of(x.device()).recurrent();
  std::vector<const Tensor*> inputs = {&x, &options.initial.h, &options.initial.c};
  for (const RecurrentParameters& cell : parameters) {
    for (const Tensor* member : members(cell)) inputs.push_back(member);
  }
  bool backward_follows = false;
  for (const Tensor* input : inputs) backward_follows |= needs_grad(*input);

  const RecurrentInputs in{.x = x,
                           .initial = options.initial,
                           .lengths = options.lengths,
                           .parameters = {parameters.begin(), parameters.end()},
                           .key = options.key};
  RecurrentOutputs out{
      .y = empty({geometry.steps, geometry.batch, geometry.directions * geometry.output()},
                 x.options()),
      .last = {.h = empty({geometry.cells(), geometry.batch, geometry.output()}, x.options())}};
  if (geometry.is_lstm()) {
    out.last.c = empty({geometry.cells(), geometry.batch, geometry.hidden}, x.options());
  }
  if (backward_follows) {
    if (const int64_t bytes = kernels.reserve_bytes(geometry); bytes > 0) {
      out.reserve = empty({bytes}, {.dtype = DType::u8, .device = x.device()});
    }
  }
  kernels.forward(geometry, in, out);

  const Tensor* const outputs[] = {&out.y, &out.last.h, &out.last.c};
  describe_op("{}{}{}", name_of(geometry.kind), options.bidirectional ? ", bidirectional" : "",
              geometry.dropout > 0 ? fmt::format(", dropout {}", geometry.dropout) : "");
  record(
      "recurrent", inputs, std::span(outputs, geometry.is_lstm() ? 3 : 2),
      [geometry, in = SavedInputs(in), y = save_output(out.y),
       reserve = save(out.reserve)](Gradients& g) {
        g.no_double_backward("Use the cells of core/ops/recurrent_cells.h to differentiate twice.");
        const RecurrentOutputs result{.y = y(g), .reserve = reserve(g)};
        backend_of(result.y.device())
            .recurrent()
            .backward(geometry, in(g), result, gradients_of(geometry, g));
      });
  return {.y = out.y, .last = out.last};
}

}  // namespace whisker
