// No layer is forgotten: every type of layers/builder/layer_factory.cpp stands in
// docs/reference/models.md and in the list below, has the shape that it promises, keeps for
// backward what its cost says, trains on every device as on the reference, is made of operators of
// the operator table, mixes no samples, reads no padding, and behind a flatten knows the order of
// its features.
#include "core/autograd/autograd.h"
#include "core/io/file.h"
#include "core/ops/ops.h"
#include "core/trace/operator_table.h"
#include "layers/builder/model_builder.h"
#include "layers/memory_plan.h"
#include "tests/layers/layer_cases.h"
#include "tests/layers/step_training.h"

#include <functional>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <vector>

#include <gmock/gmock.h>

namespace whisker::test {
namespace {

using ::testing::UnorderedElementsAreArray;

/// The case's layer between others.
Model build(const std::string& before, const LayerCase& c, const BuildOptions& options) {
  return build_model(YamlNode::parse(fmt::format("{{fuse: false, layers: [{}{}, {{dense: 3}}]}}",
                                                 before, c.item()),
                                     "layer.yaml"),
                     options);
}

/// The layer behind one whose gradient it must give, and before a dense one. It sees four channels
/// of images, six features of sequences: two groups divide both.
Model model_of(const LayerCase& c) {
  const char* before = c.kind == LayerInput::image
                           ? "{conv2d: {filters: 4, kernel: 1, use_bias: false}}, "
                       : c.kind == LayerInput::sequence ? "layer_norm, "
                                                        : "";
  const Shape input = c.kind == LayerInput::image      ? Shape{2, 8, 8, 3}
                      : c.kind == LayerInput::sequence ? Shape{5, 2, 6}
                                                       : Shape{5, 2};
  return build(before, c, {.input = input, .batch_axis = c.kind == LayerInput::image ? 0 : 1});
}

/// What `make` builds, or nothing where the builder refuses it.
std::optional<Model> if_accepted(const std::function<Model()>& make) {
  try {
    return make();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.what();
    return std::nullopt;
  }
}

Tensor input_of(const LayerCase& c, const Model& model, DType dtype, Device device) {
  if (c.kind == LayerInput::tokens) {
    return rand_uniform(model.input, 0, 9, 1, 1).to(DType::i64).to(device);
  }
  return rand_normal(model.input, 0, 1, 1, 1).to(dtype).to(device);
}

/// What is recorded and kept while it lives.
class Tape final : TapeObserver {
 public:
  Tape() { grad_mode.observer = this; }
  ~Tape() override { grad_mode.observer = nullptr; }

  const std::set<std::string>& names() const { return names_; }
  /// Of distinct memory without that of `parameters`.
  int64_t kept_bytes(const ParameterList& parameters) const {
    auto kept = kept_;
    for (const auto& parameter : parameters) kept.erase(parameter->value().storage().get());
    int64_t total = 0;
    for (const auto& [storage, tensor] : kept) {
      // A plan counts tokens, too, as elements of four bytes.
      total += tensor.storage()->bytes() / (tensor.dtype() == DType::i64 ? 2 : 1);
    }
    return total;
  }

 private:
  void on_save(const Tensor& x) override {
    if (x.defined()) pending_.push_back(x.detach());
  }
  void on_record(const Node& node, Tensors, Tensors) override {
    names_.insert(node.name());
    for (const Tensor& x : pending_) kept_.emplace(x.storage().get(), x);
    pending_.clear();
  }
  void on_unrecorded(const char* name, Tensors, Tensors) override {
    names_.insert(name);
    pending_.clear();
  }

  std::set<std::string> names_;
  std::vector<Tensor> pending_;
  std::map<const Storage*, Tensor> kept_;
};

TEST(LayerTypes, AllStandInTheListAbove) {
  std::set<std::string> listed;
  for (const LayerCase& c : layer_cases) listed.insert(c.type());
  EXPECT_THAT(listed, UnorderedElementsAreArray(layer_type_names()));
}

// In the first cell of a row; activations in the row of `activation`.
TEST(LayerTypes, AllStandInTheModelsPage) {
  const std::string page =
      read_file(WHISKER_SOURCE_DIR "/docs/reference/models.md", 1 << 20, ErrorKind::disk);
  const size_t first = page.find("| layer | settings"), last = page.find("\n\n", first);
  ASSERT_NE(first, std::string::npos);
  const std::string table = page.substr(first, last - first);
  const std::regex row(R"(\n\|([^|]*)\|([^\n]*))"), word("`(\\w+)`");
  std::set<std::string> documented;
  for (std::sregex_iterator at(table.begin(), table.end(), row), end; at != end; ++at) {
    std::string names = (*at)[1];
    if (names.find("`activation`") != std::string::npos) names += (*at)[2];
    for (std::sregex_iterator name(names.begin(), names.end(), word); name != end; ++name) {
      documented.insert((*name)[1]);
    }
  }
  documented.erase("linear");  // the activation that is none
  EXPECT_THAT(documented, UnorderedElementsAreArray(layer_type_names()));
}

/// Freezes the layer's parameters; false where it has none.
bool freeze_layer(const Model& model, const LayerCase& c) {
  std::vector<std::string> names;
  const size_t position = c.kind == LayerInput::tokens ? 0 : 1;
  for (const auto& p : model.net->children()[position].module->parameters()) {
    if (!p->is_buffer()) names.push_back(p->name());
  }
  if (!names.empty()) model.net->freeze(names);
  return !names.empty();
}

// Images have samples along the first axis, sequences along the second, and a layer that computes
// on both has to know which.
TEST(LayerTypes, MixNoSamples) {
  int accepted = 0;
  for (LayerCase c : layer_cases) {
    const bool tokens = c.kind == LayerInput::tokens;
    for (const LayerInput kind : tokens ? std::vector{LayerInput::tokens}
                                        : std::vector{LayerInput::image, LayerInput::sequence}) {
      c.kind = kind;
      const std::optional<Model> model = if_accepted([&] { return model_of(c); });
      if (!model) continue;
      SCOPED_TRACE(fmt::format("{} on {}", c.text, model->input));
      ++accepted;
      const ParameterArena arena(model->net->parameters(), reference_device, 3);
      const Tensor x = input_of(c, *model, DType::f32, reference_device);
      const int axis = kind == LayerInput::image ? 0 : 1;
      const Tensor first = slice(x, axis, 0, 1);
      const int result_axis = model->output.rank() == 3 ? 1 : 0;
      const auto first_result = [&](const Tensor& second) {
        const Tensor y = (*model->net)(concat({first, second}, axis));
        return slice(y, result_axis, 0, 1).to_vector();
      };
      EXPECT_EQ(first_result(first), first_result(slice(x, axis, 1, 2)));
    }
  }
  EXPECT_GT(accepted, 40) << "control: most layers were built";
}

TEST(LayerTypes, IgnorePaddedSteps) {
  const TensorOptions index{.dtype = DType::i64, .device = reference_device};
  const Pass pass{.lengths = from_vector({5, 3}, {2}, index)};
  int accepted = 0;
  for (LayerCase c : layer_cases) {
    if (c.kind == LayerInput::image) c.kind = LayerInput::sequence;
    const std::optional<Model> model = if_accepted([&] { return model_of(c); });
    if (!model) continue;
    SCOPED_TRACE(c.text);
    ++accepted;
    const ParameterArena arena(model->net->parameters(), reference_device, 3);
    const Tensor x = input_of(c, *model, DType::f32, reference_device);
    // The second sequence's.
    const auto result = [&](const Tensor& padding) {
      const Tensor y = (*model->net)(concat({slice(x, 0, 0, 3), padding}, 0), pass);
      const bool every_step = y.rank() == 3;
      return slice(every_step ? slice(y, 0, 0, 3) : y, every_step ? 1 : 0, 1, 2).to_vector();
    };
    EXPECT_EQ(result(slice(x, 0, 3, 5)), result(slice(x, 0, 0, 2)));
  }
  EXPECT_GT(accepted, 15) << "control: layers for sequences were built";
}

// Files hold what follows a flatten with the channels first, memory with the channels last.
TEST(LayerTypes, BehindAFlattenKnowTheOrderOfFeatures) {
  int checked = 0;
  for (const LayerCase& c : layer_cases) {
    const std::optional<Model> model = if_accepted([&] {
      return build("flatten, ", c, {.input = {2, 4, 4, 3}});
    });
    if (!model) continue;
    for (const auto& p : model->net->parameters()) {
      if (p->shape()[-1] != 48) continue;
      EXPECT_EQ(p->flattened_channels, 3) << c.text << ": " << p->name();
      ++checked;
    }
  }
  EXPECT_GT(checked, 15) << "control: parameters of all features were found";
}

TEST(LayerTypes, KeepWhatTheirCostSays) {
  for (const LayerCase& c : layer_cases) {
    for (const bool frozen : {false, true}) {
      SCOPED_TRACE(fmt::format("{}{}", c.text, frozen ? ", frozen" : ""));
      const Model model = model_of(c);
      if (frozen && !freeze_layer(model, c)) continue;
      const ParameterArena arena(model.net->parameters(), cpu_device, 3);
      const Tensor x = input_of(c, model, DType::f32, cpu_device);
      const Tape tape;
      const Tensor y = (*model.net)(x, {.training = true, .seed = 4, .step = 2});
      EXPECT_EQ(y.shape(), model.output);
      EXPECT_EQ(tape.kept_bytes(arena.parameters()),
                MemoryPlan::of(*model.net, model.input, cpu_device).kept_bytes(element_bytes));
    }
  }
}

/// y and every gradient and running statistic, by name.
StepResults results_of(const LayerCase& c, Device device, std::optional<DType> compute,
                       bool frozen = false) {
  const Model model = model_of(c);
  if (frozen) freeze_layer(model, c);
  ParameterArena arena(model.net->parameters(), device, 3, ArenaTypes{.compute = compute});
  const Tensor x = input_of(c, model, arena.compute_dtype(), device);
  const Tensor y = (*model.net)(x, {.training = true, .seed = 4, .step = 2});
  backward(y, {.gradient = rand_normal(y.shape(), 0, 1, 2, 2).to(y.dtype()).to(device)});
  arena.commit_buffers();
  StepResults results{{"y", y.to_vector()}};
  for (const auto& p : arena.parameters()) {
    if (!p->is_buffer() && !p->value().requires_grad()) continue;
    const Tensor result = p->is_buffer() ? p->value() : p->value().grad();
    results.emplace_back(p->name(), result.to_vector());
  }
  return results;
}

using LayerTypesOn = NetworkOn;
INSTANTIATE_TEST_SUITE_P(, LayerTypesOn, testing::ValuesIn(network_devices),
                         [](const auto& device) { return test_name(device.param); });

void expect_near(const StepResults& results, const StepResults& expected, double tolerance) {
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(results[i].first, expected[i].first);
    ASSERT_EQ(results[i].second.size(), expected[i].second.size()) << expected[i].first;
    EXPECT_LT(relative_error(results[i].second, expected[i].second), tolerance)
        << expected[i].first;
  }
}

TEST_P(LayerTypesOn, TrainAsOnTheReference) {
  for (const LayerCase& c : layer_cases) {
    const StepResults expected = results_of(c, reference_device, {});
    for (const DType dtype : test_dtypes(GetParam())) {
      SCOPED_TRACE(fmt::format("{} in {}", c.text, dtype));
      std::optional<DType> compute;
      if (dtype != DType::f32) compute = dtype;
      expect_near(results_of(c, GetParam(), compute), expected,
                  dtype == DType::f32    ? 1e-5
                  : dtype == DType::bf16 ? 0.1
                                         : 0.03);
    }
    SCOPED_TRACE(fmt::format("{} frozen", c.text));
    expect_near(results_of(c, GetParam(), {}, true), results_of(c, reference_device, {}, true),
                1e-5);
  }
}

TEST(LayerTypes, AreMadeOfOperatorsOfTheTable) {
  std::set<std::string> rows;
  for (const OperatorRow& row : operator_table()) rows.insert(row.name);
  const Tape tape;
  for (const LayerCase& c : layer_cases) results_of(c, cpu_device, {});
  EXPECT_GT(tape.names().size(), 20u) << "control: names were recorded";
  EXPECT_THAT(tape.names(), ::testing::IsSubsetOf(rows));
}

}  // namespace
}  // namespace whisker::test
