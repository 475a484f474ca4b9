#include "apps/commands/data_page.h"

#include "apps/terminal/inputs.h"
#include "core/draw/html_table.h"
#include "core/draw/markup.h"
#include "core/draw/page.h"
#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/duration.h"
#include "core/io/file.h"
#include "core/io/text.h"
#include "data/codec/decode.h"
#include "data/tools/statistics.h"
#include "train/report/report_examples.h"
#include "train/report/report_sections.h"

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <span>
#include <vector>

namespace whisker {
namespace {

constexpr size_t most_listed_classes = 1000, most_groups = 60, most_of_group = 6, most_odd = 500;

std::string classes_of_data(const CheckedFolders& data) {
  const auto& [train, val, val_name] = data;
  const bool same = val && val->classes == train.classes;
  const std::vector<int64_t> counts = train.counts();
  const std::vector<int64_t> val_counts = same ? val->counts() : std::vector<int64_t>();
  const bool other = val && !same;
  return class_sizes_section(train.classes, counts, val_counts, "images", val_name) +
         (other ? report_note(fmt::format(
                      "The {} images are left out: their classes are not the same, see Odd files.",
                      val_name))
                : "");
}

std::string sides_text(const CheckedFolders& data) {
  const std::string name = name_of_data(data.val->root);
  if (data.val_name == "validation") return fmt::format("Validation is {}.", name);
  return fmt::format(
      "Test is {}. Training would hold back a fifth of {} for validation "
      "(data.val, data.val_split).",
      name, name_of_data(data.train.root));
}

std::string sizes_of_data(const ImageFolder& train) {
  constexpr std::string_view heading = "Image sizes";
  try {
    const FolderStatistics s = folder_statistics(train);
    int64_t most = 1;
    for (const SizeBin& bin : s.short_sides) most = std::max(most, bin.count);
    HtmlTable table({"short side, pixels", "training images"});
    for (const SizeBin& bin : s.short_sides) {
      table.row().text(fmt::format("{} to {}", bin.from, bin.to - 1)).html(bar_of(bin.count, most));
    }
    return report_section(
        "sizes", heading,
        fmt::format(
            "<p>Height {} to {}, {:.0f} on average; width {} to {}, {:.0f} on average.</p>\n",
            s.min_height, s.max_height, s.mean_height, s.min_width, s.max_width, s.mean_width) +
            table.str());
  } catch (const Error& error) {
    return report_section("sizes", heading,
                          report_note(fmt::format("Not known: {}", error.what())));
  }
}

std::string examples_of_data(const ImageFolder& train, ContactSheet& sheet) {
  constexpr size_t most_images = 240, most_of_class = 6;
  const size_t n = train.classes.size();
  const size_t each = std::clamp<size_t>(most_images / std::max<size_t>(n, 1), 1, most_of_class);
  std::vector<std::vector<int64_t>> of_class(n);
  for (int64_t i = 0; i < train.size(); ++i) {
    of_class[static_cast<size_t>(train.files[static_cast<size_t>(i)].label)].push_back(i);
  }
  std::string html;
  size_t shown = 0;
  for (; shown < std::min(n, most_images); ++shown) {
    const std::vector<int64_t>& own = of_class[shown];
    const size_t count = std::min(each, own.size());
    bool room = true;
    for (size_t i = 0; i < count && room; ++i) {
      const int64_t index = own[(2 * i + 1) * own.size() / (2 * count)];
      room = sheet.add(train.file(index), train.files[static_cast<size_t>(index)].path, "");
    }
    const std::string images = sheet.take();
    if (!room && images.empty()) break;
    html += fmt::format("<h3>{}</h3>\n{}", markup(train.classes[shown]),
                        images.empty() ? report_note("no images") : images);
  }
  return report_section("examples", "Examples of each class",
                        html + left_out_note(n, shown, "classes"));
}

std::string duplicates_of_data(const CheckedFolders& data, const CheckResult& result,
                               ContactSheet& sheet) {
  const auto& [train, val, val_name] = data;
  std::vector<const DuplicateGroup*> groups;
  for (const DuplicateGroup& group : result.duplicates) groups.push_back(&group);
  std::ranges::stable_sort(groups, {}, [](const DuplicateGroup* group) {
    return -(group->across_classes + group->across_splits);
  });
  const size_t shown = std::min(groups.size(), most_groups);
  std::string html = report_note(
      result.duplicates.empty() ? "None."
                                : fmt::format("{}: {} across training and {}, {} across classes.",
                                              counted(std::ssize(groups), "group", "groups"),
                                              result.duplicates_across_splits, val_name,
                                              result.duplicates_across_classes));
  for (const DuplicateGroup* group : std::span(groups).first(shown)) {
    html += fmt::format("<h3>{}{}{}</h3>\n", group->same_bytes ? "Same file" : "Same pixels",
                        group->across_splits ? fmt::format(", in training and {}", val_name) : "",
                        group->across_classes ? ", under different labels" : "");
    for (const FoundFile& file :
         std::span(group->files).first(std::min(group->files.size(), most_of_group))) {
      const ImageFolder& folder = file.in_val ? *val : train;
      const ImageFile& one = folder.files[static_cast<size_t>(file.index)];
      const std::string line = (file.in_val ? fmt::format("{}: ", val_name) : "") + one.path;
      if (!sheet.add(folder.file(file.index), line,
                     folder.classes[static_cast<size_t>(one.label)])) {
        html += report_note(line);  // without its image
      }
    }
    html += sheet.take();
    if (group->files.size() > most_of_group) {
      html += report_note(fmt::format("and {} more", group->files.size() - most_of_group));
    }
  }
  return report_section("duplicates", "Duplicates",
                        html + left_out_note(groups.size(), shown, "groups", "whisker data check"));
}

std::string odd_files_of_data(const ImageFolder& train, const ImageFolder* val,
                              const CheckResult& result, const std::string& said) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const std::string& problem : result.problems) {
    rows.emplace_back("problem", without_folders(problem));
  }
  for (const std::string& note : result.notes) rows.emplace_back("note", without_folders(note));
  for (const BadFile& bad : result.bad) {
    const ImageFolder& folder = bad.in_val ? *val : train;
    rows.emplace_back(folder.files[static_cast<size_t>(bad.index)].path,
                      without_folders(bad.reason));
  }
  for (const ImageFolder* folder : {&train, val}) {
    if (!folder) continue;
    for (const std::vector<SkippedFile>* list : {&folder->unreadable, &folder->skipped}) {
      for (const SkippedFile& file : *list) {
        rows.emplace_back(without_folders(file.path), "skipped: " + file.reason);
      }
    }
  }
  return odd_section("Odd files", rows, "files", said);
}

}  // namespace

std::string left_out_note(size_t all, size_t shown, std::string_view of, std::string_view command) {
  if (all <= shown) return "";
  return report_note(fmt::format("The first {} of {} {}{}.", grouped(static_cast<int64_t>(shown)),
                                 grouped(static_cast<int64_t>(all)), of,
                                 command.empty() ? "" : fmt::format("; {} lists all", command)));
}

std::string dated_note(std::string_view done) {
  return report_note(fmt::format("{} on {}.", done, local_time_text(std::time(nullptr))));
}

std::string bar_of(int64_t count, int64_t most) {
  return fmt::format(
      "<span class=\"sized\"><span class=\"bar\" style=\"width: calc({:.3f} * min(200px, 25vw))\">"
      "</span>{}</span>",
      static_cast<double>(count) / static_cast<double>(most), grouped(count));
}

std::string class_sizes_section(std::span<const std::string> classes,
                                std::span<const int64_t> counts,
                                std::span<const int64_t> val_counts, std::string_view of,
                                std::string_view val_name) {
  const int64_t most = counts.empty() ? 1 : std::max<int64_t>(1, std::ranges::max(counts));
  std::vector<std::string> heads = {"class", std::string(of)};
  if (!val_counts.empty()) heads = {"class", fmt::format("training {}", of), std::string(val_name)};
  HtmlTable table(heads);
  const size_t shown = std::min(counts.size(), most_listed_classes);
  for (size_t c = 0; c < shown; ++c) {
    table.row().text(classes[c]).html(bar_of(counts[c], most));
    if (!val_counts.empty()) table.number(grouped(val_counts[c]));
  }
  return report_section(
      "classes", "Class sizes",
      table.str() + left_out_note(counts.size(), shown, "classes", "whisker data stats"));
}

std::string odd_section(std::string_view heading,
                        std::span<const std::pair<std::string, std::string>> rows,
                        std::string_view of, const std::string& said) {
  const size_t shown = std::min(rows.size(), most_odd);
  HtmlTable table;
  for (const auto& [name, reason] : rows.first(shown)) table.row().name(name).lines(reason);
  std::string html = (rows.empty() ? report_note("None.") : table.str()) +
                     left_out_note(rows.size(), shown, of, "whisker data check");
  if (!said.empty()) {
    html += fmt::format("<pre>{}</pre>\n", markup(without_folders(said), KeptLines::all));
  }
  return report_section("odd", heading, html);
}

bool ContactSheet::add(const std::filesystem::path& file, const std::string& line,
                       const std::string& more) {
  constexpr size_t most_bytes = 1'700'000;  // a third more in the page
  constexpr size_t largest_file = size_t{256} << 20;
  constexpr int most_pixels = 128;
  if (bytes_ > most_bytes) {
    ++left_out_;
    return false;
  }
  std::string shown;
  try {
    const std::string bytes = read_file(file, largest_file, ErrorKind::data);
    const std::string jpeg = shown_jpeg(
        decode({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}), most_pixels);
    bytes_ += jpeg.size();
    shown = image_html(jpeg, line);
  } catch (const Error& error) {
    shown = fmt::format("<p>{}</p>", markup(without_folders(error.what())));
  }
  items_ += fmt::format("<li>{}<p class=\"path\">{}</p>{}</li>\n", shown, markup(line),
                        more.empty() ? "" : fmt::format("<p>{}</p>", markup(more)));
  return true;
}

std::string ContactSheet::take() {
  if (items_.empty()) return "";
  const std::string html = "<ul class=\"samples\">\n" + items_ + "</ul>\n";
  items_.clear();
  return html;
}

std::string data_check_page(const CheckedFolders& data, const CheckResult& result,
                            const std::string& said) {
  const auto& [train, val, val_name] = data;
  const std::string name = name_of_data(train.root);
  std::string body = classes_of_data(data) + sizes_of_data(train);
  // Duplicates come first in what the page has room for.
  ContactSheet sheet;
  const std::string copies = duplicates_of_data(data, result, sheet);
  body += examples_of_data(train, sheet) + copies + odd_files_of_data(train, val, result, said);
  return report_page(
      name.empty() ? "Data" : "Data " + name,
      fmt::format("<p class=\"sentence\">{} in {}; {} cannot be read.</p>\n",
                  counted(result.images, "image"),
                  counted(std::ssize(train.classes), "class", "classes"), result.bad.size()) +
          (val ? report_note(sides_text(data)) : "") + dated_note("Checked"),
      body, data_check_mark);
}

bool is_data_check_page(std::string_view content) {
  return is_page(content, data_check_mark);
}

bool is_label_issues_page(std::string_view content) {
  return is_page(content, label_issues_mark);
}

}  // namespace whisker
