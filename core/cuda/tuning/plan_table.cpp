// Rows in and out of JSON: see Note [CUDA plan table].
#include "core/cuda/tuning/plan_table.h"

#include "core/io/json.h"

#include <algorithm>

namespace whisker::cuda {
namespace {

// By PlanTable::Kind.
constexpr std::array<const char*, 3> members = {"convolutions", "products", "recurrent"};

}  // namespace

std::optional<std::string> PlanTable::find(Kind kind, const std::string& request) const {
  const Rows& known = rows_[static_cast<size_t>(kind)];
  const auto found = known.find(request);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

void PlanTable::set(Kind kind, const std::string& request, std::string algorithm) {
  rows_[static_cast<size_t>(kind)][request] = std::move(algorithm);
}

void PlanTable::clear() {
  for (Rows& rows : rows_) rows.clear();
}

const PlanEnvironment& PlanTable::environment() const {
  if (!environment_) environment_ = ask_environment_();
  return *environment_;
}

std::string PlanTable::text() const {
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

void PlanTable::add(std::string_view text) {
  if (text.empty()) return;
  const JsonValue json =
      JsonValue::parse(text, {.name = "plan table", .kind = ErrorKind::checkpoint});
  // A table of the CPU backend has none of these members, one of earlier versions no kernels:
  // another environment.
  if (!json.find("cudnn") || !json.find("kernels")) return;
  const PlanEnvironment theirs{.cudnn = json.at("cudnn").as_int(),
                               .cublas_lt = json.at("cublas_lt").as_int(),
                               .kernels = json.at("kernels").as_int(),
                               .device = json.at("device").as_string()};
  if (theirs != environment()) return;
  std::array<Rows, kinds> all = rows_;
  for (size_t kind = 0; kind < kinds; ++kind) {
    for (const auto& [request, algorithm] : json.at(members[kind]).members()) {
      all[kind][request] = algorithm.as_string();
    }
  }
  rows_ = std::move(all);
}

}  // namespace whisker::cuda
