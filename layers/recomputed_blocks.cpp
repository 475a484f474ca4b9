#include "layers/recomputed_blocks.h"

#include "core/io/text.h"
#include "layers/branches.h"
#include "layers/sequential.h"

#include <algorithm>

namespace whisker {

bool is_block(const Module& layer) {
  const auto* const product = dynamic_cast<const Multiply*>(&layer);
  return !layer.children().empty() && !(product && product->factors());
}

namespace {

/// Calls visit(block); goes on to the blocks inside where that returns false. A residual's body and
/// a branch are no blocks: they are in no list.
template <class Visit>
void visit_blocks(const Module& module, const Visit& visit) {
  const bool is_list = dynamic_cast<const Sequential*>(&module);
  for (const Module::Child& child : module.children()) {
    const bool found = is_list && (is_block(*child.module) || child.module->recomputes());
    if (!found || !visit(*child.module)) visit_blocks(*child.module, visit);
  }
}

bool selects_all(const std::string& pattern, const Module& block) {
  const ParameterList parameters = block.parameters();
  return !parameters.empty() && std::ranges::all_of(parameters, [&](const auto& parameter) {
    return selects(pattern, parameter->name());
  });
}

/// What all parameters of the block are below: its name, or that of its one branch with parameters.
std::string name_of_block(const Module& block) {
  if (!block.path().empty()) return block.path();
  for (const Module::Child& child : block.children()) {
    if (!child.module->path().empty() && selects_all(child.module->path(), block)) {
      return child.module->path();
    }
  }
  return block.type();
}

}  // namespace

void recompute_blocks(Module& net, std::span<const std::string> patterns) {
  if (patterns.empty()) {
    visit_blocks(net, [](Module& block) {
      block.set_recompute(true);
      return true;
    });
  }
  for (const std::string& pattern : patterns) {
    bool used = false;
    std::vector<std::string> names;
    visit_blocks(net, [&](Module& block) {
      names.push_back(name_of_block(block));
      if (!selects_all(pattern, block)) return false;
      block.set_recompute(true);
      return used = true;
    });
    if (used) continue;
    const std::string nearest = nearest_name(pattern, names);
    fail(ErrorKind::usage, "'{}' selects no block to recompute{}", pattern,
         !nearest.empty() ? fmt::format("; did you mean '{}'?", nearest)
         : names.empty()
             ? std::string(". The model has no sequential, residual, concat or multiply.")
             : fmt::format(". Blocks: {}.", fmt::join(names, ", ")));
  }
}

std::vector<std::string> recomputed_blocks(const Module& net) {
  std::vector<std::string> names;
  visit_blocks(net, [&](const Module& block) {
    if (block.recomputes()) names.push_back(name_of_block(block));
    return block.recomputes();
  });
  return names;
}

std::string recomputed_text(std::span<const std::string> names) {
  if (names.empty()) return {};
  constexpr size_t most_names = 4;
  const bool all = names.size() <= most_names;
  const auto shown = names.first(all ? names.size() : 2);
  return fmt::format("recomputed in backward: {} block{}, {}{}", names.size(),
                     names.size() == 1 ? "" : "s", fmt::join(shown, ", "),
                     all ? std::string() : fmt::format(" ... {}", names.back()));
}

}  // namespace whisker
