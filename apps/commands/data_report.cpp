#include "apps/commands/data_report.h"

#include "apps/terminal/inputs.h"
#include "apps/terminal/terminal.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/codec/unsupported_formats.h"
#include "data/files/file_walk.h"
#include "data/images/cropped_images.h"
#include "data/images/png_bits.h"

#include <map>
#include <utility>
#include <vector>

namespace whisker {
namespace {

std::string name_of_file(const ImageFolder& train, const ImageFolder* val, const FoundFile& file) {
  return (file.in_val ? *val : train).file(file.index).string();
}

std::vector<SkippedFile> skipped_files(const ImageFolder& train, const ImageFolder* val) {
  std::vector<SkippedFile> files = train.skipped;
  if (val) files.insert(files.end(), val->skipped.begin(), val->skipped.end());
  return files;
}

// Lines as "files      48 of 60 files used", for JSON: "files: 48 of 60 files used"; notes as such.
std::vector<std::string> notes_of(const std::string& lines) {
  std::vector<std::string> notes;
  for (size_t begin = 0, end; (end = lines.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string_view line = std::string_view(lines).substr(begin, end - begin);
    const size_t word = line.find(' '), rest = line.find_first_not_of(' ', word);
    const std::string_view kind = line.substr(0, word), text = line.substr(rest);
    notes.push_back(kind == "note" ? std::string(text) : fmt::format("{}: {}", kind, text));
  }
  return notes;
}

}  // namespace

std::string crop_line(const ImageFolder& folder) {
  const std::string note = find_cropped(folder, -1).note();
  return note.empty() ? note : fmt::format("crop       {}\n", note);
}

std::string said_lines(const ImageFolder& train, const ImageFolder* val) {
  std::string text;
  for (const ImageFolder* folder : {&train, val}) {
    const std::string use = folder ? folder->use() : "";
    if (use.empty()) continue;
    text += fmt::format("files      {}: {}\n", printable(folder->root.string()), use);
  }
  if (const std::string depth = find_png_bits(train, -1).note(); !depth.empty()) {
    text += "depth      " + depth + "\n";
  }
  return text + crop_line(train);
}

void write_check(JsonWriter& json, const CheckResult& result, const std::string& splits,
                 const ImageFolder& train, const ImageFolder* val) {
  std::vector<std::string> notes = result.notes;
  for (std::string& note : notes_of(splits + said_lines(train, val))) {
    notes.push_back(std::move(note));
  }
  json.begin_object().field("schema_version", 2).field("images", result.images);
  json.field("skipped", count_unsupported_formats(skipped_files(train, val)));
  json.list("problems", result.problems).list("notes", notes);
  json.list("bad", result.bad, [&](const BadFile& bad) {
    json.begin_object().field("path", name_of_file(train, val, {bad.in_val, bad.index}));
    json.field("reason", bad.reason).end_object();
  });
  json.list("duplicates", result.duplicates, [&](const DuplicateGroup& group) {
    json.begin_object().field("same_bytes", group.same_bytes);
    json.field("across_splits", group.across_splits).field("across_classes", group.across_classes);
    json.list("paths", group.files,
              [&](const FoundFile& file) { json.value(name_of_file(train, val, file)); });
    json.end_object();
  });
  json.end_object();
}

std::string check_text(const CheckResult& result, const ImageFolder& train,
                       const ImageFolder* val) {
  std::string text;
  for (const std::string& problem : result.problems) {
    text += fmt::format("problem    {}\n", printable(problem));
  }
  for (const std::string& note : result.notes) {
    text += fmt::format("note       {}\n", printable(note));
  }
  for (const BadFile& bad : result.bad) {
    const std::string name = name_of_file(train, val, {bad.in_val, bad.index});
    text += fmt::format("bad        {}: {}\n", printable(name), printable(bad.reason));
  }
  for (const DuplicateGroup& group : result.duplicates) {
    text += fmt::format("duplicate  {}{}{}\n", group.same_bytes ? "same file" : "same pixels",
                        group.across_splits ? ", in train and in val" : "",
                        group.across_classes ? ", under different labels" : "");
    for (const FoundFile& file : group.files) {
      text += fmt::format("             {}\n", printable(name_of_file(train, val, file)));
    }
  }
  text += said_lines(train, val);
  std::map<std::string, std::vector<std::string>> reasons;  // of images that are skipped
  for (const SkippedFile& file : skipped_files(train, val)) {
    if (file.format.empty() && has_image_name(file.path)) {
      reasons[file.reason].push_back(file.path);
    }
  }
  for (const auto& [reason, files] : reasons) {
    text += fmt::format("skipped    {}: {}\n", reason, quoted_list(files));
  }
  return text + fmt::format("{}, {} bad, {} ({} across train and val, {} across classes)\n",
                            counted(result.images, "image"), result.bad.size(),
                            counted(std::ssize(result.duplicates), "group of duplicates",
                                    "groups of duplicates"),
                            result.duplicates_across_splits, result.duplicates_across_classes);
}

void write_stats(JsonWriter& json, const FolderStatistics& s, const std::string& said) {
  json.begin_object().field("schema_version", 2).field("images", s.images);
  json.field("unreadable", std::ssize(s.unreadable));
  json.list("classes", s.classes, [&](const FolderStatistics::Class& c) {
    json.begin_object().field("name", c.name).field("files", c.files);
    json.field("bytes", c.bytes).end_object();
  });
  json.key("height").begin_object().field("min", s.min_height);
  json.field("mean", s.mean_height).field("max", s.max_height).end_object();
  json.key("width").begin_object().field("min", s.min_width);
  json.field("mean", s.mean_width).field("max", s.max_width).end_object();
  json.list("short_sides", s.short_sides, [&](const SizeBin& bin) {
    json.begin_object().field("from", bin.from).field("to", bin.to);
    json.field("count", bin.count).end_object();
  });
  json.list("mean", s.mean).list("std", s.deviation).list("notes", notes_of(said)).end_object();
}

std::string stats_text(const FolderStatistics& s) {
  std::string text = fmt::format("{:<24} {:>8}  {:>10}\n", "class", "files", "bytes");
  for (const auto& c : s.classes) {
    text += fmt::format("{:<24} {:>8}  {:>10}\n", printable(c.name), c.files, human_bytes(c.bytes));
  }
  text += fmt::format(
      "\n{}, {} unreadable\nheight {} to {}, mean {:.0f}\nwidth  {} to {}, mean {:.0f}\n",
      counted(s.images, "image"), s.unreadable.size(), s.min_height, s.max_height, s.mean_height,
      s.min_width, s.max_width, s.mean_width);
  text += "\nshort side, pixels\n";
  for (const SizeBin& bin : s.short_sides) {
    text += fmt::format("{:>6} to {:<6} {:>8}\n", bin.from, bin.to - 1, bin.count);
  }
  return text + fmt::format("\ndata.mean: [{:.4f}]\ndata.std:  [{:.4f}]\n", fmt::join(s.mean, ", "),
                            fmt::join(s.deviation, ", "));
}

}  // namespace whisker
