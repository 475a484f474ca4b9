// Loading is all or nothing. Damaged files, and whole ones of another model, leave weights,
// moments and steps as they were. And what last/ holds after a save, a kill and another save.
#include "core/backend/recurrent_operands.h"
#include "core/io/file.h"
#include "core/tensor/philox.h"
#include "layers/weights/weights.h"
#include "tests/support/error_of.h"
#include "tests/support/tiny_training.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace whisker::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::string content_of(const fs::path& path) {
  return read_file(path, 1 << 26, ErrorKind::data);
}

void put(const fs::path& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  ASSERT_TRUE(out.flush()) << path;
}

/// A damaged copy: cut, with a flipped bit, overwritten, grown, or shortened inside.
std::string damaged(const std::string& original, uint64_t number) {
  const auto draw = philox_block(7, 1, number);
  std::string bytes = original;
  const size_t at = draw[0] % bytes.size();
  const size_t count = 1 + draw[1] % 32;
  switch (number % 5) {
    case 0:
      bytes.resize(at);
      break;
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << draw[1] % 8));
      break;
    case 2:
      bytes.replace(at, std::min<size_t>(16, bytes.size() - at), 16, '\x5a');
      break;
    case 3:
      bytes.insert(at, count, '\0');
      break;
    default:
      bytes.erase(at, count);
      break;
  }
  return bytes;
}

/// A finished epoch on disk, and an untrained experiment of the same configuration.
class CheckpointFiles : public testing::Test {
 protected:
  CheckpointFiles() : config_(data_.config({"ema.decay=0.9", "train.epochs=1"})) {
    TestRun run(config_);
    run.train();
    folder_ = run.folder.path();
    trained_ = hash_of(run.experiment);
    experiment_ = std::make_unique<Experiment>(config_);
    before_ = hash_of(*experiment_);
  }
  void load() {
    restore(load_last(last()), *experiment_->arena, *experiment_->optimizer,
            experiment_->average.get());
  }
  fs::path last() const { return folder_ / "last"; }
  /// True when `action` throws checkpoint and left no trace.
  template <class Action>
  bool refused(Action action) {
    const std::string message = message_of(ErrorKind::checkpoint, action);
    if (message == "no error") return false;
    EXPECT_EQ(hash_of(*experiment_), before_) << message;
    return true;
  }

  StripeFolder data_;
  Config config_;
  fs::path folder_;
  std::string trained_, before_;
  std::unique_ptr<Experiment> experiment_;
};

TEST_F(CheckpointFiles, TwoHundredBadOnesChangeNothing) {
  int refusals = 0;
  for (const char* name : {"model-5.safetensors", "optim-5.safetensors"}) {
    const std::string original = content_of(last() / name);
    for (uint64_t i = 0; i < 60; ++i) {
      const std::string bad = damaged(original, i);
      if (bad == original) continue;
      put(last() / name, bad);
      ASSERT_TRUE(refused([&] { load(); })) << name << ", mutant " << i;
      ++refusals;
    }
    put(last() / name, original);
  }
  const std::string state = content_of(last() / "state.json");
  for (size_t bytes = 0; bytes < state.size() - 2; bytes += state.size() / 40) {
    put(last() / "state.json", state.substr(0, bytes));
    ASSERT_TRUE(refused([&] { load(); })) << bytes << " bytes of state.json";
    ++refusals;
  }
  put(last() / "state.json", state);

  // Whole files of another model, with hashes that are right: the last tensor is the wrong one.
  const Snapshot model = state_dict(*experiment_->arena, 5);
  const Snapshot optimizer =
      snapshot_optimizer(*experiment_->arena, *experiment_->optimizer, experiment_->average.get());
  const TrainState saved = load_last(last()).state;
  for (const bool in_model : {true, false}) {
    for (size_t i = 0; i < (in_model ? model : optimizer).size(); ++i) {
      for (const int change : {0, 1, 2, 3}) {
        Snapshot m = model, o = optimizer;
        WeightsTensor& tensor = (in_model ? m : o)[i];
        if (tensor.name.ends_with("num_batches_tracked")) continue;
        if (change == 0) tensor.name += "x";
        if (change == 1) tensor.shape.push_back(1);
        if (change == 2) tensor.dtype = DType::i32;
        if (change == 3) tensor.bytes[3] = tensor.bytes[2] = std::byte{0xff};  // NaN
        CheckpointWriter writer(last(), 1);
        writer.save_last(m, o, saved);
        writer.finish();
        ASSERT_TRUE(refused([&] { load(); })) << tensor.name << ", change " << change;
        ++refusals;
      }
    }
  }
  EXPECT_GE(refusals, 200);
  fmt::print("bad checkpoints refused without a trace: {}\n", refusals);
}

TEST_F(CheckpointFiles, ControlAGoodOneChangesEverything) {
  load();
  experiment_->optimizer->set_steps(5);
  EXPECT_EQ(hash_of(*experiment_), trained_);
  EXPECT_NE(trained_, before_);
}

TEST_F(CheckpointFiles, BadWeightsFilesChangeNothing) {
  const std::string original = content_of(folder_ / "best.safetensors");
  const fs::path path = folder_ / "bad.safetensors";
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, original.data(), sizeof header_bytes);
  int refusals = 0;
  for (uint64_t i = 0; i < 200; ++i) {  // flips in the numbers themselves are other weights
    std::string bad = original;
    if (i % 2 == 0) {
      bad = damaged(original, i * 5);
    } else {
      const std::string head = damaged(original.substr(0, 8 + header_bytes), i);
      bad = head + original.substr(8 + header_bytes);
    }
    put(path, bad);
    const bool refusal = refused([&] {
      load_weights(SafetensorsFile::open(path), experiment_->network->model(), *experiment_->arena);
    });
    // A slip inside the metadata's texts or class names leaves whole weights: start afresh.
    if (!refusal) experiment_ = std::make_unique<Experiment>(config_);
    refusals += refusal ? 1 : 0;
  }
  EXPECT_GE(refusals, 120);
  fmt::print("bad weights files refused without a trace: {} of 200\n", refusals);
}

/// `tensors` with `value` as the last element of the one at `index`.
Snapshot with_last(Snapshot tensors, size_t index, float value) {
  std::vector<std::byte>& bytes = tensors[index].bytes;
  std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
  return tensors;
}

// Whole files, hashes that are right, and one number in them that no training survives.
TEST_F(CheckpointFiles, TensorsWithNanOrInfAreNamed) {
  const Snapshot model = state_dict(*experiment_->arena, 5);
  Snapshot optimizer =
      snapshot_optimizer(*experiment_->arena, *experiment_->optimizer, experiment_->average.get());
  const TrainState saved = load_last(last()).state;
  const fs::path weights = folder_ / "bad.safetensors";
  const auto save = [&](const Snapshot& m, const Snapshot& o) {
    CheckpointWriter writer(last(), 1);
    writer.save_last(m, o, saved);
    writer.save_best(weights, m, {});
    writer.finish();
  };
  const auto expect_named = [&](const std::string& name, const auto& action) {
    EXPECT_THAT(message_of(ErrorKind::checkpoint, action),
                HasSubstr("tensor '" + name + "': expected values that are finite"));
    EXPECT_EQ(hash_of(*experiment_), before_) << name;
  };
  const auto load_best = [&] {
    load_weights(SafetensorsFile::open(weights), experiment_->network->model(),
                 *experiment_->arena);
  };
  constexpr float inf = std::numeric_limits<float>::infinity();
  int refusals = 0;
  for (const float value : {std::nanf(""), inf, -inf}) {
    for (size_t i = 0; i < model.size(); ++i) {
      if (model[i].dtype != DType::f32) continue;
      save(with_last(model, i, value), optimizer);
      expect_named(model[i].name, [&] { load(); });
      expect_named(model[i].name, load_best);
      refusals += 2;
    }
    for (size_t i = 0; i < optimizer.size(); ++i) {
      save(model, with_last(optimizer, i, value));
      expect_named(optimizer[i].name, [&] { load(); });
      ++refusals;
    }
    CarriedStates states;
    states["lstm"].h = full({2, 3}, value);
    Snapshot carried = optimizer;
    add_states(states, carried);
    save(model, carried);
    expect_named("state.h.lstm", [&] { restore_states(load_last(last()).optimizer, cpu_device); });
    ++refusals;
  }
  save(model, optimizer);  // control: as they were, they load
  load();
  load_best();
  fmt::print("tensors with NaN or Inf refused by name: {}\n", refusals);
}

TEST_F(CheckpointFiles, ValuesThatNoRunHasAreRefused) {
  const std::string state = content_of(last() / "state.json");
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"epoch", {"-1", "2", "9223372036854775807"}},  // of 1
      {"batch", {"-1", "6"}},                         // of 5
      {"step", {"-1", "6", "9223372036854775807"}},
      {"updates", {"-1", "6"}},
      {"loss_scale\":{\"value", {"1e308", "0", "-1", "0.5"}},
      {"good_steps", {"-1", "2000", "4294967296"}},
      {"skipped_in_row", {"-1", "50", "4294967296"}},
      {"loss_sum", {"1e308", "-1e308"}},
      {"correct", {"-1", "9"}},
      {"examples", {"-1", "9223372036854775807"}},
      {"best_epoch", {"-2", "2"}},
      {"validations", {"-1", "9223372036854775807"}},
      {"validated_step", {"-2", "9223372036854775807"}},
      {"stalled", {"-1", "2"}},
      {"ema_updates", {"-1", "9223372036854775807"}},
      {"factor", {"-0.5", "1.5"}},
      {"any\":false,\"stalled", {"-1", "2147483648"}},
      {"cooling", {"-1", "2147483648"}},
      {"seconds", {"-1", "1e308"}},
      {"metrics_bytes", {"-1", "18446744073709551615"}},
      {"epochs", {"-1", "0", "1000001"}},
      {"jpeg_share", {"-2", "1.5"}},
  };
  int refusals = 0;
  for (const auto& [key, values] : cases) {
    const std::string quoted = fmt::format("\"{}\":", key);
    const size_t begin = state.find(quoted);
    ASSERT_NE(begin, std::string::npos) << key;
    const size_t from = begin + quoted.size();
    for (const char* value : values) {
      std::string changed = state;
      changed.replace(from, state.find_first_of(",}", from) - from, value);
      put(last() / "state.json", changed);
      EXPECT_NE(message_of(ErrorKind::checkpoint, [&] { const TestRun run(config_, folder_); }),
                "no error")
          << key << " " << value;
      ++refusals;
    }
  }
  put(last() / "state.json", state);
  const TestRun control(config_, folder_);
  fmt::print("values of state.json refused: {}\n", refusals);
}

TEST_F(CheckpointFiles, MissingAndStrangeOnesAreNamed) {
  const auto says = [&](const std::string& text) {
    EXPECT_THAT(message_of(ErrorKind::checkpoint, [&] { load(); }), HasSubstr(text));
  };
  const std::string state = content_of(last() / "state.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = state;
    changed.replace(changed.find(from), from.size(), to);
    put(last() / "state.json", changed);
  };
  with("\"version\":1", "\"version\":2");
  says("version 2 is not supported by this program, which reads 1.");
  with("\"name\":\"model-5", "\"name\":\"../model-5");
  says("not a file of this folder");
  with("model-5", "model-6");
  says("model-6.safetensors");
  with("\"step\":5", "\"step\":\"5\"");
  says("step");
  fs::remove(last() / "state.json");
  says("state.json is missing. Start a new run from ");
  put(last() / "state.json", "{");
  says("best.safetensors with --init instead.");
  fs::remove(last() / "state.json");
  fs::remove(last().parent_path() / "best.safetensors");
  says("the run stopped before its first checkpoint. Start it again.");
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

TEST_F(CheckpointFiles, GenerationsAreKeptAndOrphansGo) {
  const Snapshot model = state_dict(*experiment_->arena, 0);
  TrainState state = load_last(last()).state;
  // A run killed between its files leaves a younger model behind that nothing names.
  put(last() / "model-40.safetensors", "orphan");
  put(last() / "model-99999999999999999999999.safetensors", "no step has this number");
  put(last() / "notes.txt", "not ours");
  {
    CheckpointWriter writer(last(), 2);
    for (const int64_t step : {10, 20, 30}) {
      state.step = step;
      writer.save_last(model, {}, state);
    }
    writer.finish();
  }
  EXPECT_THAT(
      names_in(last()),
      ElementsAre("model-20.safetensors", "model-30.safetensors",
                  "model-99999999999999999999999.safetensors", "notes.txt", "optim-20.safetensors",
                  "optim-30.safetensors", "state-20.json", "state-30.json", "state.json"));
  EXPECT_EQ(load_last(last()).state.step, 30);
}

TEST(CheckpointWriting, FailureIsRethrownByTheNextCall) {
  const TemporaryFolder folder;
  CheckpointWriter writer(folder / "missing", 1);
  writer.save_last({}, {}, {});
  EXPECT_THROW(writer.finish(), Error);
  writer.finish();  // said once
  writer.save_best(folder / "missing/best.safetensors", {}, {});
  EXPECT_THROW(writer.save_best(folder / "x.safetensors", {}, {}), Error);
}

TEST(CheckpointWriting, WhatFollowsASaveFindsItOnDisk) {
  const TemporaryFolder folder;
  CheckpointWriter writer(folder.path(), 1);
  bool there = false;
  writer.save_best(folder / "best.safetensors", {}, {});
  writer.after_saving([&] { there = std::filesystem::exists(folder / "best.safetensors"); });
  writer.finish();
  EXPECT_TRUE(there);
  there = false;
  writer.save_best(folder / "missing/best.safetensors", {}, {});
  writer.after_saving([&] { there = true; });
  EXPECT_THROW(writer.finish(), Error);
  EXPECT_FALSE(there);
}

TEST(CheckpointWriting, NamesTheFirstTensorThatIsNotFinite) {
  const auto tensor = [](const char* name, float value) {
    const std::array<float, 2> values = {1, value};
    const auto bytes = std::as_bytes(std::span(values));
    return WeightsTensor{.name = name, .shape = {2}, .bytes = {bytes.begin(), bytes.end()}};
  };
  EXPECT_EQ(first_non_finite({tensor("a", 0), tensor("b", 1e38F)}), "");
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(first_non_finite({tensor("a", 0), tensor("b", -inf), tensor("c", inf)}), "b");
  EXPECT_EQ(first_non_finite({tensor("a", std::nanf(""))}), "a");
}

}  // namespace
}  // namespace whisker::test
