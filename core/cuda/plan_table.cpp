// Rows in and out of JSON: see Note [CUDA plan table].
#include "core/cuda/plan_table.h"

#include "core/io/json.h"

namespace whisker::cuda {

std::optional<std::string> PlanTable::find(Kind kind, const std::string& request) const {
  const Rows& known = rows(kind);
  const auto found = known.find(request);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

void PlanTable::set(Kind kind, const std::string& request, std::string algorithm) {
  (kind == Kind::product ? products_ : convolutions_)[request] = std::move(algorithm);
}

void PlanTable::clear() {
  convolutions_.clear();
  products_.clear();
}

std::string PlanTable::text() const {
  if (convolutions_.empty() && products_.empty()) return "";
  JsonWriter json;
  json.begin_object().field("cudnn", environment_.cudnn);
  json.field("cublas_lt", environment_.cublas_lt).field("device", environment_.device);
  json.key("convolutions").begin_object();
  for (const auto& [request, algorithm] : convolutions_) json.field(request, algorithm);
  json.end_object().key("products").begin_object();
  for (const auto& [request, algorithm] : products_) json.field(request, algorithm);
  json.end_object().end_object();
  return json.str();
}

void PlanTable::add(std::string_view text) {
  if (text.empty()) return;
  const JsonValue json =
      JsonValue::parse(text, {.name = "plan table", .kind = ErrorKind::checkpoint});
  // A table of the CPU backend has none of these members: another environment.
  if (!json.find("cudnn")) return;
  const PlanEnvironment theirs{.cudnn = json.at("cudnn").as_int(),
                               .cublas_lt = json.at("cublas_lt").as_int(),
                               .device = json.at("device").as_string()};
  if (theirs != environment_) return;
  Rows convolutions = convolutions_;
  Rows products = products_;
  for (const auto& [request, algorithm] : json.at("convolutions").members()) {
    convolutions[request] = algorithm.as_string();
  }
  for (const auto& [request, algorithm] : json.at("products").members()) {
    products[request] = algorithm.as_string();
  }
  convolutions_ = std::move(convolutions);
  products_ = std::move(products);
}

}  // namespace whisker::cuda
