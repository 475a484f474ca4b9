#include "apps/commands/metrics_report.h"

#include "apps/terminal/command.h"
#include "apps/terminal/inputs.h"
#include "apps/terminal/terminal.h"
#include "core/error.h"

namespace whisker {

void Unreadable::add(const std::string& path, const std::string& reason) {
  tell_unreadable(path, reason);
  files_.push_back({path, bare_reason(path, reason)});
}

void Unreadable::write(JsonWriter& json) const {
  json.list("unreadable", files_, [&](const SkippedFile& file) {
    json.begin_object().field("path", file.path).field("error", file.reason).end_object();
  });
}

int print_metrics(const Network& network, const Metrics& metrics, const Unreadable& unreadable,
                  bool as_json, std::optional<int64_t> trained) {
  if (as_json) {
    JsonWriter json(NonFinite::null);
    json.begin_object().field("schema_version", 3);
    metrics.write(json);
    json.field("precision", name_of(network.arena().compute_dtype()));
    if (trained) json.field("trained_on", *trained);
    unreadable.write(json);
    print_result(json.end_object().str() + "\n");
  } else {
    const std::string table = metrics.table(terminal_width(stdout));
    print_result(fmt::format(
        "{} {}  {}{}\n{}{}", network.signature().examples(), metrics.count(), metrics.line(),
        unreadable.any() ? fmt::format("  unreadable {}", unreadable.count()) : std::string(),
        table.empty() ? "" : "\n", table));
  }
  return unreadable.any() ? static_cast<int>(ErrorKind::data) : 0;
}

}  // namespace whisker
