#include "core/trace/recording.h"

#include "core/backend/backend.h"
#include "core/tensor/convert.h"
#include "core/tensor/tensor.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <span>
#include <vector>

namespace whisker {
namespace {

// Calls `read` with the elements in host memory, row-major.
template <class Read>
auto with_contents(const Tensor& x, Read read) {
  if (!x.is_cuda()) return read(static_cast<const void*>(x.raw()));
  std::vector<char> copy(static_cast<size_t>(x.bytes()));
  backend_of(x.device()).download(x.raw(), copy.data(), x.bytes());
  return read(static_cast<const void*>(copy.data()));
}

}  // namespace

RecordedValues RecordedValues::of(const Tensor& x, int64_t most) {
  if (x.count() <= most) {
    RecordedValues values{.all = x.to_vector()};
    for (double& one : values.all) {  // whose sign differs between devices
      if (std::isnan(one)) one = std::numeric_limits<double>::quiet_NaN();
    }
    return values;
  }
  return {.all = {}, .statistics = with_contents(x, [&](const void* contents) {
                       return TensorStatistics::of(contents, x.dtype(), x.count());
                     })};
}

int64_t zero_units(const Tensor& x) {
  if (x.rank() == 0 || x.count() == 0) return 0;
  const auto units = static_cast<size_t>(x.extent(-1));
  std::vector<uint8_t> alive(units, 0);
  with_contents(x, [&](const void* contents) {
    visit(x.dtype(), [&]<class T>() {
      const std::span elements(static_cast<const T*>(contents), static_cast<size_t>(x.count()));
      for (size_t i = 0; i < elements.size(); ++i) {
        if (convert<bool>(elements[i])) alive[i % units] = 1;
      }
    });
  });
  return std::count(alive.begin(), alive.end(), uint8_t{0});
}

int64_t TapeEntry::saved_bytes() const {
  if (recomputed()) return 0;
  int64_t bytes = 0;
  for (const TapeSaved& one : saved) bytes += one.bytes;
  return bytes;
}

namespace {

// What follows the attribute's name, up to the comma; nullopt when it is not there.
std::optional<std::string_view> attribute_text(std::string_view attributes, std::string_view name) {
  while (!attributes.empty()) {
    const size_t comma = std::min(attributes.find(", "), attributes.size());
    const std::string_view one = attributes.substr(0, comma);
    if (one.starts_with(name) && (one.size() == name.size() || one[name.size()] == ' ')) {
      return one.substr(name.size());
    }
    attributes.remove_prefix(std::min(comma + 2, attributes.size()));
  }
  return std::nullopt;
}

}  // namespace

std::vector<double> TapeEntry::attribute(std::string_view attribute_name) const {
  std::vector<double> values;
  std::string_view rest = attribute_text(attributes, attribute_name).value_or("");
  while (!rest.empty()) {
    rest.remove_prefix(1);  // the blank
    double value = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    if (error != std::errc()) return {};
    values.push_back(value);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  }
  return values;
}

bool TapeEntry::has_attribute(std::string_view attribute_name) const {
  return attribute_text(attributes, attribute_name).has_value();
}

size_t first_recomputed(std::span<const TapeEntry> entries, size_t recompute) {
  const std::vector<double> operators = entries[recompute].attribute("operators");
  double left = operators.empty() ? 0 : operators[0];
  size_t first = recompute;
  for (; first > 0 && left > 0; --first) left -= entries[first - 1].on_tape() ? 1 : 0;
  return first;
}

std::vector<size_t> Recording::backward_order() const {
  std::vector<size_t> order;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].backward_step > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return entries[a].backward_step < entries[b].backward_step;
  });
  return order;
}

std::string Recording::label(size_t entry) const {
  const TapeEntry& one = entries[entry];
  return one.kind == TapeKind::op ? fmt::format("{} {}", one.number, one.name) : one.name;
}

}  // namespace whisker
