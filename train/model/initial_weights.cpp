#include "train/model/initial_weights.h"

#include "core/io/counted.h"
#include "core/io/text.h"
#include "layers/weights/weights.h"
#include "train/model/hub_folder.h"
#include "train/model/signature.h"

#include <algorithm>

namespace whisker {
namespace {

std::string some_of(const std::vector<std::string>& classes) {
  constexpr size_t most = 4;
  std::string text = fmt::format(
      "{}", fmt::join(classes.begin(),
                      classes.begin() + static_cast<std::ptrdiff_t>(std::min(classes.size(), most)),
                      ", "));
  if (classes.size() > most) text += fmt::format(" and {} more", classes.size() - most);
  return printable(text);
}

}  // namespace

InitialWeights load_initial_weights(const InitConfig& init, const Model& model,
                                    ParameterArena& arena,
                                    const std::vector<std::string>& classes) {
  const SafetensorsFile file = open_described_weights(init.from, init.key);
  const std::vector<std::string> stored = classes_of(file.metadata(), file.name());
  const bool named = !stored.empty() && !classes.empty();
  const bool others = named && stored != classes;
  const LoadReport report =
      load_weights(file, model, arena,
                   {.skip = init.skip, .allow_new_head = init.new_head, .other_classes = others});
  const std::string compared = named ? fmt::format("the classes differ (weights: {}; data: {})",
                                                   some_of(stored), some_of(classes))
                                     : std::string("the number of classes differs");
  std::vector<std::string> notes = file.notes();
  notes.push_back(
      fmt::format("{} loaded from {}", counted(report.loaded, "tensor"), printable(init.from)));
  for (std::string& note : report.notes(init.from)) notes.push_back(std::move(note));
  if (!report.new_head.empty()) {
    notes.push_back(fmt::format("new head, because {}: {} are re-initialised", compared,
                                fmt::join(report.new_head, ", ")));
  } else if (others && !init.new_head) {
    notes.push_back(fmt::format("init.new_head: false keeps the head, though {}", compared));
  }
  return {.notes = std::move(notes), .batches_tracked = report.batches_tracked};
}

}  // namespace whisker
