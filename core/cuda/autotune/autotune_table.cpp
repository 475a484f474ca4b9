// Rows to and from JSON: see Note [CUDA autotune table].
#include "core/cuda/autotune/autotune_table.h"

#include "core/io/json.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

// Members of the JSON by AutotuneTable::Kind; "products" are gemms: stored tables keep the name.
constexpr std::array<const char*, 3> members = {"convolutions", "products", "recurrent"};

}  // namespace

std::optional<std::string> AutotuneTable::find(Kind kind, const std::string& request) const {
  const Rows& known = rows_[static_cast<size_t>(kind)];
  const auto found = known.find(request);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

void AutotuneTable::set(Kind kind, const std::string& request, std::string algorithm) {
  rows_[static_cast<size_t>(kind)][request] = std::move(algorithm);
}

void AutotuneTable::clear() {
  for (Rows& rows : rows_) rows.clear();
}

const AutotuneEnvironment& AutotuneTable::environment() const {
  if (!environment_) environment_ = ask_environment_();
  return *environment_;
}

std::string AutotuneTable::text() const {
  if (std::ranges::all_of(rows_, [](const Rows& rows) { return rows.empty(); })) return "";
  JsonWriter json;
  json.begin_object().field("cudnn", environment().cudnn);
  json.field("cublas_lt", environment().cublas_lt).field("kernels", environment().kernels);
  json.field("device", environment().device);
  for (size_t kind = 0; kind < kinds; ++kind) {
    json.key(members[kind]).begin_object();
    for (const auto& [request, algorithm] : rows_[kind]) json.field(request, algorithm);
    json.end_object();
  }
  json.end_object();
  return json.str();
}

void AutotuneTable::add(std::string_view text) {
  if (text.empty()) return;
  const JsonValue json =
      JsonValue::parse(text, {.name = "autotune table", .kind = ErrorKind::checkpoint});
  // Another environment: a table of the CPU backend has no cudnn, an old one no kernels.
  if (!json.find("cudnn") || !json.find("kernels")) return;
  const AutotuneEnvironment stored{.cudnn = json.at("cudnn").as_int(),
                                   .cublas_lt = json.at("cublas_lt").as_int(),
                                   .kernels = json.at("kernels").as_int(),
                                   .device = json.at("device").as_string()};
  if (stored != environment()) return;
  std::array<Rows, kinds> all = rows_;
  for (size_t kind = 0; kind < kinds; ++kind) {
    for (const auto& [request, algorithm] : json.at(members[kind]).members()) {
      all[kind][request] = algorithm.as_string();
    }
  }
  rows_ = std::move(all);
}

}  // namespace whisker::cuda
