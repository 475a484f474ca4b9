// Snapshots, the background writer, and restoring.
#include "train/checkpoint/checkpoint.h"

#include "core/backend/recurrent_operands.h"
#include "core/io/file.h"
#include "core/io/hash.h"
#include "core/io/json.h"
#include "core/io/text.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <exception>

namespace whisker {
namespace fs = std::filesystem;
namespace {

WeightsTensor snapshot_of(std::string name, const Parameter& parameter,
                          const std::vector<float>& memory) {
  WeightsTensor tensor{.name = std::move(name), .dtype = DType::f32, .shape = {}, .bytes = {}};
  for (const int64_t extent : file_shape(parameter)) {
    tensor.shape.push_back(static_cast<uint64_t>(extent));
  }
  const std::vector<float> values = to_file_order(parameter, memory);
  const auto bytes = std::as_bytes(std::span(values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

constexpr int state_version = 1;

void write_file_entry(JsonWriter& json, const char* key, const fs::path& path,
                      const WrittenFile& file) {
  json.key(key).begin_object().field("name", path.filename().string());
  json.field("bytes", file.bytes).field("hash", file.hash).end_object();
}

std::string state_json(const TrainState& state, const fs::path& model,
                       const WrittenFile& model_file, const fs::path& optimizer,
                       const WrittenFile& optimizer_file) {
  JsonWriter json;
  json.begin_object().field("version", state_version);
  write_file_entry(json, "model", model, model_file);
  write_file_entry(json, "optimizer", optimizer, optimizer_file);
  state.write(json);
  json.end_object();
  return json.str() + "\n";
}

SafetensorsFile open_checked(const fs::path& folder, const JsonValue& entry) {
  const std::string& name = entry.at("name").as_string();
  if (name.find('/') != std::string::npos) {
    fail(ErrorKind::checkpoint, "{}/state.json: '{}' is not a file of this folder",
         printable(folder.string()), name);
  }
  const fs::path path = folder / name;
  const MappedFile file(path, ErrorKind::checkpoint);
  Hash64 hash;
  hash.update(file.bytes());
  if (file.bytes().size() != entry.at("bytes").as_uint() ||
      hash.value() != entry.at("hash").as_uint()) {
    fail(ErrorKind::checkpoint,
         "{}: not the file that state.json describes ({} bytes with hash {}; expected {} with {}). "
         "It was changed or damaged.",
         printable(path.string()), file.bytes().size(), hash.value(), entry.at("bytes").as_uint(),
         entry.at("hash").as_uint());
  }
  return SafetensorsFile::open(path);
}

LoadedCheckpoint read_last(const fs::path& last, const fs::path& state) {
  constexpr size_t most_bytes = 1 << 24;
  const JsonValue json =
      JsonValue::parse(read_file(state, most_bytes, ErrorKind::checkpoint),
                       {.name = printable(state.string()), .kind = ErrorKind::checkpoint});
  if (const int64_t version = json.at("version").as_int(); version != state_version) {
    fail(ErrorKind::checkpoint, "{}: version {} is not supported by this program, which reads {}.",
         printable(state.string()), version, state_version);
  }
  return {.state = TrainState::read(json),
          .model = open_checked(last, json.at("model")),
          .optimizer = open_checked(last, json.at("optimizer"))};
}

// Keeps the generation of `step` and the `keep` - 1 before it. Those of later steps are what a run
// killed between its files left behind: no state.json names them.
void remove_old_generations(const fs::path& folder, int64_t step, int64_t keep) {
  std::map<int64_t, std::vector<fs::path>, std::greater<>> generations;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string stem = entry.path().stem().string();
    for (const std::string_view prefix : {"model-", "optim-", "state-"}) {
      if (!stem.starts_with(prefix)) continue;
      int64_t own = -1;
      const char* end = stem.data() + stem.size();
      const auto [stop, error] = std::from_chars(stem.data() + prefix.size(), end, own);
      if (error == std::errc() && stop == end && own >= 0) generations[own].push_back(entry.path());
    }
  }
  for (const auto& [own, paths] : generations) {
    if (own <= step && keep-- > 0) continue;
    for (const fs::path& path : paths) {
      std::error_code ignored;  // what cannot be removed now goes with the next checkpoint
      fs::remove(path, ignored);
    }
  }
}

}  // namespace

Snapshot snapshot_optimizer(const ParameterArena& arena, const Optimizer& optimizer,
                            const WeightAverage* average) {
  Snapshot snapshot;
  for (const auto& parameter : arena.parameters()) {
    if (!parameter->trainable()) continue;
    for (const Optimizer::Moment& moment : optimizer.moments()) {
      snapshot.push_back(snapshot_of(fmt::format("{}.{}", moment.name, parameter->name()),
                                     *parameter, arena.read(moment.flat, *parameter)));
    }
    if (average) {
      snapshot.push_back(snapshot_of("ema." + parameter->name(), *parameter,
                                     arena.read(average->flat(), *parameter)));
    }
  }
  return snapshot;
}

void add_states(const CarriedStates& states, Snapshot& snapshot) {
  for (const auto& [path, state] : states) {
    for (const auto& [part, tensor] : {std::pair{"h", state.h}, {"c", state.c}}) {
      if (!tensor.defined()) continue;
      const Tensor host = tensor.to(cpu_device);
      WeightsTensor stored{.name = fmt::format("state.{}.{}", part, path),
                           .dtype = host.dtype(),
                           .shape = {},
                           .bytes = {}};
      for (const int64_t extent : host.shape()) {
        stored.shape.push_back(static_cast<uint64_t>(extent));
      }
      const auto* bytes = static_cast<const std::byte*>(host.raw());
      stored.bytes.assign(bytes, bytes + host.bytes());
      snapshot.push_back(std::move(stored));
    }
  }
}

CarriedStates restore_states(const SafetensorsFile& file, Device device) {
  CarriedStates states;
  for (const SafetensorsTensor& stored : file.tensors()) {
    const bool hidden = stored.name.starts_with("state.h.");
    if (!hidden && !stored.name.starts_with("state.c.")) continue;
    check_finite(file, stored);
    std::vector<int64_t> extents;
    for (const uint64_t extent : stored.shape) extents.push_back(static_cast<int64_t>(extent));
    const Tensor host = empty(Shape(std::span<const int64_t>(extents)), {.dtype = stored.dtype});
    std::memcpy(host.raw(), stored.bytes.data(), stored.bytes.size());
    RecurrentState& state = states[stored.name.substr(std::string_view("state.h.").size())];
    (hidden ? state.h : state.c) = host.to(device).clone();
  }
  return states;
}

std::string first_non_finite(const Snapshot& snapshot) {
  for (const WeightsTensor& tensor : snapshot) {
    if (!all_finite(tensor.dtype, tensor.bytes)) return tensor.name;
  }
  return "";
}

CheckpointWriter::CheckpointWriter(fs::path last, int64_t keep)
    : last_(std::move(last)), keep_(keep) {}

CheckpointWriter::~CheckpointWriter() {
  if (running_.valid()) running_.wait();
}

void CheckpointWriter::enqueue(std::function<std::string()> job) {
  finish();
  running_ = std::async(std::launch::async, std::move(job));
}

void CheckpointWriter::after_saving(std::function<void()> job) {
  running_ = std::async(std::launch::async,
                        [before = std::move(running_), job = std::move(job)]() mutable {
                          std::string note = before.valid() ? before.get() : std::string();
                          job();
                          return note;
                        });
}

void CheckpointWriter::finish() {
  if (!running_.valid()) return;
  if (std::string note = running_.get(); !note.empty()) note_ = std::move(note);
}

void CheckpointWriter::save_last(Snapshot model, Snapshot optimizer, const TrainState& state) {
  enqueue([last = last_, keep = keep_, model = std::move(model), optimizer = std::move(optimizer),
           state] {
    const fs::path model_path = last / fmt::format("model-{}.safetensors", state.step);
    const fs::path optimizer_path = last / fmt::format("optim-{}.safetensors", state.step);
    const WrittenFile model_file =
        write_safetensors(model_path, {{"format", "pt"}}, entries_of(model));
    const WrittenFile optimizer_file = write_safetensors(optimizer_path, {}, entries_of(optimizer));
    const std::string json =
        state_json(state, model_path, model_file, optimizer_path, optimizer_file);
    if (keep > 1) write_file_atomically(last / fmt::format("state-{}.json", state.step), json);
    write_file_atomically(last / "state.json", json);  // see Note [Commit point]
    remove_old_generations(last, state.step, keep);
    return std::string();
  });
}

void CheckpointWriter::save_best(fs::path path, Snapshot model,
                                 std::map<std::string, std::string> metadata,
                                 std::function<void()> after) {
  enqueue([path = std::move(path), model = std::move(model), metadata = std::move(metadata),
           after = std::move(after)] {
    write_safetensors(path, metadata, entries_of(model));
    try {
      if (after) after();
    } catch (const std::exception& error) {
      return fmt::format("{} The run goes on without this file.", error.what());
    }
    return std::string();
  });
}

LoadedCheckpoint load_last(const fs::path& last) {
  const fs::path path = last / "state.json";
  const fs::path best = last.parent_path() / "best.safetensors";
  const bool has_best = fs::exists(best);
  const std::string remedy = has_best ? fmt::format("Start a new run from {} with --init instead.",
                                                    printable(best.string()))
                                      : std::string("Start it again.");
  if (!fs::exists(path)) {
    fail(ErrorKind::checkpoint, "{}: nothing to resume from: {}. {}", printable(last.string()),
         has_best ? "state.json is missing" : "the run stopped before its first checkpoint",
         remedy);
  }
  try {
    return read_last(last, path);
  } catch (const Error& error) {
    fail(error.kind(), "{} {}", error.what(), remedy);
  }
}

void restore(const LoadedCheckpoint& checkpoint, ParameterArena& arena, Optimizer& optimizer,
             WeightAverage* average) {
  struct Write {
    const Parameter* parameter;
    const Tensor* flat;  // null: the parameter itself
    std::vector<float> values;
  };
  std::vector<Write> writes;  // everything is read and checked before anything is written
  const auto read = [&](const SafetensorsFile& file, const std::string& name,
                        const Parameter& parameter, const Tensor* flat) {
    const SafetensorsTensor* tensor = file.find(name);
    const Shape shape = file_shape(parameter);
    if (!tensor || tensor->dtype != DType::f32 ||
        !std::ranges::equal(tensor->shape, shape,
                            [](uint64_t a, int64_t b) { return a == static_cast<uint64_t>(b); })) {
      fail(ErrorKind::checkpoint,
           "{}: expected tensor {} of shape {} in f32, got {}. The model in config.yaml is not the "
           "one this run was started with.",
           file.name(), name, shape,
           tensor ? fmt::format("({}) {}", fmt::join(tensor->shape, ","), tensor->dtype) : "none");
    }
    check_finite(file, *tensor);
    std::vector<float> stored(static_cast<size_t>(shape.count()));
    std::memcpy(stored.data(), tensor->bytes.data(), tensor->bytes.size());
    writes.push_back({&parameter, flat, from_file_order(parameter, stored)});
  };
  for (const auto& parameter : arena.parameters()) {
    read(checkpoint.model, parameter->name(), *parameter, nullptr);
    if (!parameter->trainable()) continue;
    for (const Optimizer::Moment& moment : optimizer.moments()) {
      read(checkpoint.optimizer, fmt::format("{}.{}", moment.name, parameter->name()), *parameter,
           &moment.flat);
    }
    if (average) {
      read(checkpoint.optimizer, "ema." + parameter->name(), *parameter, &average->flat());
    }
  }
  for (const Write& write : writes) {
    if (write.flat) {
      arena.write(*write.flat, *write.parameter, write.values);
    } else {
      arena.write(*write.parameter, write.values);
    }
  }
  if (average) average->set_updates(checkpoint.state.ema_updates);
}

}  // namespace whisker
