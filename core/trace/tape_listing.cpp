// Collects the listing, and writes it as text. Operators that run inside a backward pass are part
// of that node's time and get no entry of their own.
#include "core/trace/tape_listing.h"

#include "core/io/text.h"
#include "core/io/text_table.h"

#include <algorithm>
#include <cmath>

namespace whisker {
namespace {

// Tensors without a node are known by the memory they cover, as long as they live.
std::string memory_key(const Tensor& x) {
  return fmt::format("{}+{} {}", static_cast<const void*>(x.storage().get()), x.offset(),
                     x.shape());
}

double norm_of(const Tensor& x) {
  double sum = 0;
  for (const double value : x.to_vector()) sum += value * value;
  return std::sqrt(sum);
}

std::string saved_text(const TapeEntry& entry) {
  std::string text;
  for (const TapeSaved& saved : entry.saved) {
    if (!text.empty()) text += ", ";
    text += saved.what;
    if (saved.what == "workspace") text += fmt::format(" {} {}", saved.shape, saved.dtype);
  }
  if (!entry.recorded) return "not recorded";
  return text.empty() ? "nothing" : text;
}

// The operands by number or name; with `wanting`, only those that get a gradient.
std::string operands_text(const std::vector<TapeEntry>& entries, const TapeEntry& entry,
                          bool wanting = false) {
  std::string text;
  for (const size_t input : entry.inputs) {
    const TapeEntry& source = entries[input];
    if (wanting && (source.kind == TapeKind::constant || !source.recorded)) continue;
    if (!text.empty()) text += ", ";
    text += source.kind == TapeKind::op ? fmt::format("{}", source.number) : source.name;
  }
  return text;
}

std::string bytes_text(int64_t bytes) {
  return bytes > 0 ? human_bytes(static_cast<uint64_t>(bytes)) : std::string();
}

std::string norm_text(double norm) {
  return std::isnan(norm) ? std::string() : fmt::format("{:.3g}", norm);
}

}  // namespace

TapeListing::TapeListing(const Options& options)
    : options_(options), previous_(grad_mode.observer), mark_(Clock::now()) {
  grad_mode.observer = this;
}

TapeListing::~TapeListing() {
  grad_mode.observer = previous_;
}

void TapeListing::name(const Tensor& tensor, const std::string& text) {
  if (tensor.requires_grad()) {
    leaf_names_[tensor.node()->sequence()] = text;
  } else {
    constant_names_[memory_key(tensor)] = text;
    alive_.push_back(tensor);
  }
  mark_ = Clock::now();
}

double TapeListing::lap_ms() {
  return std::chrono::duration<double, std::milli>(Clock::now() - mark_).count();
}

void TapeListing::on_save(const Tensor& tensor) {
  if (backward_depth_ == 0) pending_.push_back(tensor);
}

void TapeListing::on_scope_begin(std::string_view layer) {
  layers_.emplace_back(layer);
  mark_ = Clock::now();
}

void TapeListing::on_scope_end() {
  layers_.pop_back();
  mark_ = Clock::now();
}

size_t TapeListing::entry_of(const Node& leaf) {
  const auto [found, is_new] = by_node_.try_emplace(leaf.sequence(), entries_.size());
  if (is_new) {
    const auto name = leaf_names_.find(leaf.sequence());
    entries_.push_back({.kind = TapeKind::leaf,
                        .name = name == leaf_names_.end() ? leaf.name() : name->second,
                        .layer = {},
                        .shape = leaf.outputs()[0].shape,
                        .dtype = leaf.outputs()[0].dtype});
  }
  return found->second;
}

size_t TapeListing::entry_of(const Tensor& operand) {
  if (operand.requires_grad()) return entry_of(*operand.node());
  const std::string key = memory_key(operand);
  const auto [found, is_new] = by_memory_.try_emplace(key, entries_.size());
  if (is_new) {
    const auto name = constant_names_.find(key);
    entries_.push_back({.kind = TapeKind::constant,
                        .name = name == constant_names_.end() ? "constant" : name->second,
                        .layer = {},
                        .shape = operand.shape(),
                        .dtype = operand.dtype()});
    alive_.push_back(operand);
  }
  return found->second;
}

std::vector<TapeEntry> TapeListing::entries() const {
  std::vector<bool> wanted(entries_.size(), false);
  bool any = false;
  for (size_t i = entries_.size(); i-- > 0;) {  // inputs stand before what uses them
    const TapeEntry& entry = entries_[i];
    if (entry.kind == TapeKind::op && entry.recorded) wanted[i] = any = true;
    if (!wanted[i]) continue;
    for (const size_t input : entry.inputs) wanted[input] = true;
  }
  std::vector<TapeEntry> result;
  std::vector<size_t> place(entries_.size());
  int operators = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (any && !wanted[i]) continue;
    place[i] = result.size();
    result.push_back(entries_[i]);
    TapeEntry& entry = result.back();
    for (size_t& input : entry.inputs) input = place[input];
    if (entry.kind == TapeKind::op) entry.number = ++operators;
  }
  return result;
}

TapeEntry& TapeListing::add_operator(const char* name, Tensors inputs, const Tensor& output) {
  TapeEntry entry{.name = name,
                  .layer = layers_.empty() ? std::string() : layers_.back(),
                  .shape = output.shape(),
                  .dtype = output.dtype(),
                  .forward_ms = lap_ms()};
  for (const Tensor* input : inputs) {
    if (input->defined()) entry.inputs.push_back(entry_of(*input));
  }
  entries_.push_back(std::move(entry));
  return entries_.back();
}

void TapeListing::on_record(const Node& node, Tensors inputs, Tensors outputs) {
  if (backward_depth_ > 0) return;
  TapeEntry& entry = add_operator(node.name(), inputs, *outputs[0]);
  by_node_[node.sequence()] = entries_.size() - 1;
  describe_saved(entry, inputs, outputs);
  mark_ = Clock::now();
}

void TapeListing::on_unrecorded(const char* name, Tensors inputs, Tensors outputs) {
  if (backward_depth_ > 0) return;
  pending_.clear();
  add_operator(name, inputs, *outputs[0]).recorded = false;
  for (const Tensor* output : outputs) {
    by_memory_[memory_key(*output)] = entries_.size() - 1;
    alive_.push_back(*output);
  }
  mark_ = Clock::now();
}

void TapeListing::describe_saved(TapeEntry& entry, Tensors inputs, Tensors outputs) {
  for (const Tensor& tensor : pending_) {
    const Storage* storage = tensor.storage().get();
    TapeSaved saved{.what = "workspace", .shape = tensor.shape(), .dtype = tensor.dtype()};
    bool parameter = false;
    for (const Tensor* input : inputs) {
      if (!input->defined() || input->storage().get() != storage) continue;
      const TapeEntry& source = entries_[entry_of(*input)];
      parameter = source.kind == TapeKind::leaf;
      saved.what = source.kind == TapeKind::op ? "input" : source.name;
      break;
    }
    for (const Tensor* output : outputs) {
      if (output->storage().get() == storage && saved.what == "workspace") saved.what = "output";
    }
    if (saved.what == "workspace") {  // no gradient passes it, but it may have a name
      const auto name = constant_names_.find(memory_key(tensor));
      if (name != constant_names_.end()) saved.what = name->second;
    }
    if (kept_storages_.insert(storage).second && !parameter) saved.bytes = tensor.bytes();
    entry.saved.push_back(std::move(saved));
  }
  pending_.clear();
}

void TapeListing::on_backward_begin(const Node& node) {
  if (backward_depth_++ > 0) return;
  if (options_.gradient_norms && node.outputs()[0].gradient.defined()) {
    const auto found = by_node_.find(node.sequence());
    if (found != by_node_.end()) {
      entries_[found->second].gradient_norm = norm_of(node.outputs()[0].gradient);
    }
  }
  mark_ = Clock::now();
}

void TapeListing::on_backward_end(const Node& node) {
  const double elapsed_ms = lap_ms();
  if (--backward_depth_ > 0) return;
  const auto found = by_node_.find(node.sequence());
  if (found == by_node_.end()) return;  // recorded before this listing began
  entries_[found->second].backward_step = ++backward_steps_;
  entries_[found->second].backward_ms = elapsed_ms;
}

std::string TapeListing::str(size_t width) const {
  TextTable forward(
      {">#", "op", "layer", "of", "output", "dtype", "saved for backward", ">bytes", ">ms"});
  const std::vector<TapeEntry> entries = this->entries();
  double forward_ms = 0, backward_ms = 0, total_ms = 0;
  int64_t saved_bytes = 0;
  int operators = 0, recorded = 0, total = 0;
  for (const TapeEntry& entry : entries_) {
    total += entry.kind == TapeKind::op;
    total_ms += entry.forward_ms;
  }
  std::vector<const TapeEntry*> visited;
  for (const TapeEntry& entry : entries) {
    if (entry.backward_step > 0) visited.push_back(&entry);
    backward_ms += entry.backward_ms;
    if (entry.kind != TapeKind::op) continue;
    int64_t bytes = 0;
    for (const TapeSaved& saved : entry.saved) bytes += saved.bytes;
    forward.add({fmt::format("{}", entry.number), entry.name, entry.layer,
                 operands_text(entries, entry), entry.shape.str(),
                 std::string(name_of(entry.dtype)), saved_text(entry), bytes_text(bytes),
                 fmt::format("{:.3f}", entry.forward_ms)});
    forward_ms += entry.forward_ms;
    ++operators;
    saved_bytes += bytes;
    recorded += entry.recorded;
  }
  std::sort(visited.begin(), visited.end(), [](const TapeEntry* a, const TapeEntry* b) {
    return a->backward_step < b->backward_step;
  });
  std::vector<std::string> headings = {
      ">step", "node", "layer", "gradient arrives", "dtype", "gives gradients to", ">ms"};
  if (options_.gradient_norms) headings.push_back(">norm");
  TextTable backward(headings);
  for (const TapeEntry* entry : visited) {
    const bool leaf = entry->kind == TapeKind::leaf;
    std::vector<std::string> cells = {
        fmt::format("{}", entry->backward_step),
        leaf ? "accumulate" : fmt::format("{} {}", entry->number, entry->name),
        leaf ? entry->name : entry->layer,
        entry->shape.str(),
        std::string(name_of(entry->dtype)),
        operands_text(entries, *entry, true),
        fmt::format("{:.3f}", entry->backward_ms)};
    if (options_.gradient_norms) cells.push_back(norm_text(entry->gradient_norm));
    backward.add(std::move(cells));
  }
  std::string text = fmt::format(
      "forward\n{}\nbackward\n{}\n"
      "forward   {} operators, {} on the tape, {:.3f} ms; {} kept for backward\n"
      "backward  {} steps, {:.3f} ms\n",
      forward.str("  ", width), backward.str("  ", width), operators, recorded, forward_ms,
      human_bytes(static_cast<uint64_t>(saved_bytes)), visited.size(), backward_ms);
  if (total > operators) {
    text += fmt::format("beside    {} operators that no gradient passes, {:.3f} ms\n",
                        total - operators, total_ms - forward_ms);
  }
  return text;
}

}  // namespace whisker
