// Any bytes as configuration give a tree or one usage error. A tree must survive emit and
// parse, which shows no control, and its typed getters and overrides must give a value or an error.
#include "core/io/text.h"
#include "core/io/yaml.h"

#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace {

using whisker::YamlNode;

template <class Action>
void allow_usage_errors(Action&& action) {
  try {
    action();
  } catch (const whisker::Error& error) {
    if (error.kind() != whisker::ErrorKind::usage) std::abort();
  }
}

void visit(const YamlNode& root, const YamlNode& node) {
  allow_usage_errors([&] { (void)node.as_int(); });
  allow_usage_errors([&] { (void)node.as_double(); });
  allow_usage_errors([&] { (void)node.as_bool(); });
  if (node.mark().line < 1 || node.mark().column < 1) std::abort();
  for (const YamlNode& item : node.items()) visit(root, item);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  allow_usage_errors([&] {
    YamlNode tree = YamlNode::parse(text, "fuzz");
    visit(tree, tree);
    const std::string emitted = tree.emit();
    if (whisker::printable(emitted, whisker::KeptLines::all) != emitted) std::abort();
    // Escapes and margins may carry a text near 1 MiB over the limit; all others must come back.
    if (emitted.size() <= (1 << 20) && !(YamlNode::parse(emitted, "emitted") == tree)) std::abort();
    allow_usage_errors([&] { tree.set_override(text); });
    tree.merge(tree);
  });
  return 0;
}
