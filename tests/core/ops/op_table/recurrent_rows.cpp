// Recurrent layers against their equations, one number at a time: every kind, depth, direction,
// length and initial state. A row's result is y, then the last states.
#include "core/tensor/philox.h"
#include "tests/core/cases/recurrent_case.h"
#include "tests/core/ops/op_table/rows.h"

#include <array>
#include <cmath>

namespace whisker::test {
namespace {

double squash(double x) {
  return 1 / (1 + std::exp(-x));
}

double dot(const Values& w, int64_t row, const Values& x) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += w[static_cast<size_t>(row) * x.size() + i] * x[i];
  return sum;
}

struct PlainCell {
  Values w_ih, w_hh, b_ih, b_hh, w_hr;
};

/// One step of one sequence: h and c are those before it, then those after it.
void plain_step(const RecurrentCase& s, const PlainCell& p, const Values& x, Values& h, Values& c) {
  const Values before = h;
  Values m;
  for (int64_t j = 0; j < s.hidden; ++j) {
    const auto at = static_cast<size_t>(j);
    const auto side = [&](const Values& w, const Values& b, int64_t gate, const Values& v) {
      const int64_t row = gate * s.hidden + j;
      return dot(w, row, v) + (s.bias ? b[static_cast<size_t>(row)] : 0);
    };
    const auto input = [&](int64_t gate) { return side(p.w_ih, p.b_ih, gate, x); };
    const auto recurred = [&](int64_t gate) { return side(p.w_hh, p.b_hh, gate, before); };
    const auto z = [&](int64_t gate) { return input(gate) + recurred(gate); };
    if (s.is_lstm()) {
      c[at] = squash(z(1)) * c[at] + squash(z(0)) * std::tanh(z(2));
      m.push_back(squash(z(3)) * std::tanh(c[at]));
    } else if (s.kind == RecurrentKind::gru) {
      const double candidate = std::tanh(input(2) + squash(z(0)) * recurred(2));
      m.push_back(candidate + squash(z(1)) * (before[at] - candidate));
    } else {
      m.push_back(s.kind == RecurrentKind::rnn_tanh ? std::tanh(z(0)) : std::fmax(z(0), 0));
    }
  }
  h = m;
  if (s.projection > 0) {
    for (int64_t i = 0; i < s.projection; ++i) h[static_cast<size_t>(i)] = dot(p.w_hr, i, m);
    h.resize(static_cast<size_t>(s.projection));
  }
}

bool plain_keeps(const RecurrentCase& s, int64_t layer, int64_t element) {
  uint64_t z = s.key.step;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  z = (s.key.stream + static_cast<uint64_t>(layer)) ^ z ^ (z >> 31);
  const auto i = static_cast<uint64_t>(element);
  return philox_block(s.key.seed, z, i / 4)[i % 4] >= std::round(s.dropout * 4294967296.0);
}

Values plain_recurrent(const RecurrentCase& s, Plain in) {
  size_t next = 1;
  std::vector<PlainCell> cells;
  for (int64_t cell = 0; cell < s.cells(); ++cell) {
    PlainCell p{.w_ih = in[next], .w_hh = in[next + 1], .b_ih = {}, .b_hh = {}, .w_hr = {}};
    next += 2;
    if (s.bias) p.b_ih = in[next++];
    if (s.bias) p.b_hh = in[next++];
    if (s.projection > 0) p.w_hr = in[next++];
    cells.push_back(p);
  }
  const auto states = [&](int64_t extent, bool given) {
    return given ? in[next++] : Values(static_cast<size_t>(s.cells() * s.batch * extent));
  };
  Values h_all = states(s.output(), s.initial);
  Values c_all = states(s.hidden, s.initial && s.is_lstm());
  Values input = in[0];
  const int64_t width = s.directions * s.output();
  Values y;
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    y.assign(static_cast<size_t>(s.steps * s.batch * width), 0.0);
    for (int64_t direction = 0; direction < s.directions; ++direction) {
      const int64_t cell = layer * s.directions + direction;
      for (int64_t n = 0; n < s.batch; ++n) {
        const int64_t length = s.lengths.empty() ? s.steps : s.lengths[static_cast<size_t>(n)];
        const auto h_at = h_all.begin() + (cell * s.batch + n) * s.output();
        const auto c_at = c_all.begin() + (cell * s.batch + n) * s.hidden;
        Values h(h_at, h_at + s.output()), c(c_at, c_at + s.hidden);
        for (int64_t i = 0; i < length; ++i) {
          const int64_t place = (direction == 0 ? i : length - 1 - i) * s.batch + n;
          const auto from = input.begin() + place * s.inputs(layer);
          plain_step(s, cells[static_cast<size_t>(cell)], Values(from, from + s.inputs(layer)), h,
                     c);
          std::copy(h.begin(), h.end(), y.begin() + place * width + direction * s.output());
        }
        std::copy(h.begin(), h.end(), h_at);
        std::copy(c.begin(), c.end(), c_at);
      }
    }
    input = y;
    for (size_t i = 0; s.dropout > 0 && i < input.size(); ++i) {
      const bool keeps = plain_keeps(s, layer, static_cast<int64_t>(i));
      input[i] = keeps ? input[i] / (1 - s.dropout) : 0;
    }
  }
  y.insert(y.end(), h_all.begin(), h_all.end());
  if (s.is_lstm()) y.insert(y.end(), c_all.begin(), c_all.end());
  return y;
}

struct Row {
  const char* name;
  RecurrentCase options;
  std::array<int64_t, 4> extents = {3, 2, 2, 3};  // steps, batch, features, hidden
};

}  // namespace

std::vector<OpCase> recurrent_rows() {
  using enum RecurrentKind;
  const Row all[] = {
      {"tanh", {.kind = rnn_tanh}},
      {"relu", {.kind = rnn_relu}, {3, 2, 2, 4}},
      {"lstm", {.kind = lstm}},
      {"gru", {.kind = gru}},
      {"one_step", {.kind = gru}, {1, 1, 1, 1}},
      {"vectors", {.kind = lstm}, {2, 3, 5, 17}},
      {"vectors_gru", {.kind = gru}, {2, 3, 5, 17}},
      {"no_bias", {.kind = lstm, .bias = false}},
      {"no_bias_gru", {.kind = gru, .bias = false, .initial = true}},
      {"initial_tanh", {.kind = rnn_tanh, .initial = true}},
      {"initial_lstm", {.kind = lstm, .initial = true}},
      {"initial_gru", {.kind = gru, .initial = true}},
      {"layers_relu", {.kind = rnn_relu, .layers = 3}},
      {"layers_lstm", {.kind = lstm, .layers = 2, .initial = true}, {3, 2, 2, 2}},
      {"both_tanh", {.kind = rnn_tanh, .directions = 2, .initial = true}},
      {"both_lstm", {.kind = lstm, .layers = 2, .directions = 2}, {3, 2, 2, 2}},
      {"both_gru", {.kind = gru, .layers = 2, .directions = 2, .initial = true}, {3, 2, 2, 2}},
      {"lengths_tanh", {.kind = rnn_tanh, .initial = true, .lengths = {3, 1, 2}}, {3, 3, 2, 3}},
      {"lengths_relu", {.kind = rnn_relu, .lengths = {0, 3, 2}}, {3, 3, 2, 3}},
      {"lengths_lstm", {.kind = lstm, .initial = true, .lengths = {2, 3, 0}}, {3, 3, 2, 3}},
      {"lengths_short", {.kind = lstm, .lengths = {2, 1}}},
      {"lengths_none", {.kind = gru, .initial = true, .lengths = {0, 0}}},
      {"lengths_both_lstm",
       {.kind = lstm, .layers = 2, .directions = 2, .initial = true, .lengths = {1, 3}},
       {3, 2, 2, 2}},
      {"lengths_both_tanh",
       {.kind = rnn_tanh, .directions = 2, .initial = true, .lengths = {2, 0, 3}},
       {3, 3, 2, 2}},
      {"lengths_both_gru",
       {.kind = gru, .layers = 2, .directions = 2, .initial = true, .lengths = {3, 2}},
       {3, 2, 2, 2}},
      {"projection", {.kind = lstm, .projection = 2, .initial = true}},
      {"projection_all",
       {.kind = lstm,
        .projection = 1,
        .layers = 2,
        .directions = 2,
        .initial = true,
        .lengths = {2, 3},
        .dropout = 0.25},
       {3, 2, 2, 2}},
      {"dropout_lstm", {.kind = lstm, .layers = 2, .dropout = 0.5}},
      {"dropout_gru",
       {.kind = gru, .layers = 2, .directions = 2, .lengths = {3, 2}, .dropout = 0.25},
       {3, 2, 2, 2}},
  };
  std::vector<OpCase> rows;
  for (const Row& small : all) {
    RecurrentCase s = small.options;
    const auto [steps, batch, features, hidden] = small.extents;
    s.steps = steps, s.batch = batch, s.features = features, s.hidden = hidden;
    std::vector<Input> inputs;
    for (const Shape& shape : s.shapes()) inputs.push_back(variable(shape));
    OpCase row{.name = fmt::format("recurrent_{}", small.name),
               .inputs = inputs,
               .op = [s](Inputs x) { return s.run(recurrent, x); },
               .expected = [s](Plain x) { return plain_recurrent(s, x); },
               .twice = Twice::refused,
               .terms = 4 * s.steps * s.layers * (s.gates() * s.hidden + s.features),
               .scale = 1};
    rows.push_back(row);
    if (s.hidden > 4) continue;  // second differences of many elements take long
    row.name = fmt::format("recurrent_by_cells_{}", small.name);
    row.op = [s](Inputs x) { return s.run(recurrent_by_cells, x); };
    row.twice = Twice::works;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace whisker::test
