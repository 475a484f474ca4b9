// Bad files and duplicates. Sameness is that of 64-bit hashes of content and extents: a chance of
// 10^-7 for one false pair among a million images.
#include "data/tools/check.h"

#include "core/error.h"
#include "core/io/hash.h"
#include "core/io/text.h"

#include <algorithm>
#include <map>

namespace whisker {
namespace {

/// What a file is compared by, in the order train, val, each by index.
struct Seen {
  FoundFile file;
  std::string_view label;
  bool good = false;
  uint64_t bytes_hash = 0;
  uint64_t pixels_hash = 0;
  std::string error;
};

uint64_t hash_pixels(const Image& image) {
  Hash64 hash;
  hash.update(fmt::format("{} {} ", image.height, image.width));
  hash.update(std::as_bytes(std::span(image.rgb)));
  return hash.value();
}

void scan_into(std::vector<Seen>& seen, const ImageFolder& folder, bool in_val,
               const ScanOptions& options) {
  const size_t first = seen.size();
  seen.resize(first + folder.files.size());
  scan_images(folder, options, [&](const ScannedImage& scanned) {
    Seen& one = seen[first + static_cast<size_t>(scanned.index)];
    one.file = {.in_val = in_val, .index = scanned.index};
    const ImageFile& file = folder.files[static_cast<size_t>(scanned.index)];
    one.label = folder.classes[static_cast<size_t>(file.label)];
    one.good = scanned.image != nullptr;
    one.error = scanned.error;
    if (!one.good) return;
    Hash64 hash;
    hash.update(std::as_bytes(scanned.bytes));
    one.bytes_hash = hash.value();
    one.pixels_hash = hash_pixels(*scanned.image);
  });
}

DuplicateGroup make_group(const std::vector<const Seen*>& members, bool same_bytes) {
  DuplicateGroup group;
  group.same_bytes = same_bytes;
  for (const Seen* one : members) {
    group.files.push_back(one->file);
    group.across_splits |= one->file.in_val != members.front()->file.in_val;
    group.across_classes |= one->label != members.front()->label;
  }
  return group;
}

}  // namespace

CheckResult check_images(const ImageFolder& train, const ImageFolder* val,
                         const ScanOptions& options) {
  CheckResult result;
  for (const ImageFolder* folder : {&train, val}) {
    if (folder == nullptr) continue;
    for (const SkippedFile& closed : folder->unreadable) {
      result.problems.push_back(
          fmt::format("{}: {}", printable((folder->root / closed.path).string()), closed.reason));
    }
    result.notes.insert(result.notes.end(), folder->notes.begin(), folder->notes.end());
  }
  for (std::string& pair : similar_classes(train.classes)) result.notes.push_back(std::move(pair));
  try {
    const bool both = val != nullptr && !train.classes.empty() && !val->classes.empty();
    if (both) check_same_classes(train, *val);
  } catch (const Error& error) {
    result.problems.emplace_back(error.what());
  }
  std::vector<Seen> seen;
  scan_into(seen, train, false, options);
  if (val != nullptr) scan_into(seen, *val, true, options);
  result.images = static_cast<int64_t>(seen.size());
  std::map<uint64_t, std::vector<const Seen*>> by_pixels;
  for (const Seen& one : seen) {
    if (one.good) {
      by_pixels[one.pixels_hash].push_back(&one);
    } else {
      result.bad.push_back(
          {.in_val = one.file.in_val, .index = one.file.index, .reason = one.error});
    }
  }
  for (const auto& [hash, members] : by_pixels) {
    if (members.size() < 2) continue;
    const bool same_bytes = std::all_of(members.begin(), members.end(), [&](const Seen* one) {
      return one->bytes_hash == members.front()->bytes_hash;
    });
    result.duplicates.push_back(make_group(members, same_bytes));
  }
  const auto order = [](const DuplicateGroup& group) {
    return std::pair(group.files.front().in_val, group.files.front().index);
  };
  std::sort(result.duplicates.begin(), result.duplicates.end(),
            [&](const auto& a, const auto& b) { return order(a) < order(b); });
  for (const DuplicateGroup& group : result.duplicates) {
    result.duplicates_across_splits += group.across_splits;
    result.duplicates_across_classes += group.across_classes;
  }
  return result;
}

}  // namespace whisker
