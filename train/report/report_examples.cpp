// The file: images as U8 tensors, "mistakes.0.seen", all else as JSON in the metadata.
#include "train/report/report_examples.h"

#include "core/error.h"
#include "core/io/json.h"
#include "core/io/safetensors.h"

#include <map>
#include <string_view>

namespace whisker {
namespace {

constexpr size_t most_examples = 100, most_curve_points = 1000, most_image_bytes = 2'000'000;

struct NamedList {
  std::string_view name;
  std::vector<ReportExample> ReportExamples::*list;
};
constexpr NamedList lists[] = {{"mistakes", &ReportExamples::mistakes},
                               {"training", &ReportExamples::training},
                               {"validation", &ReportExamples::validation}};
struct NamedImage {
  std::string_view name;
  std::string ReportExample::*image;
};
constexpr NamedImage example_images[] = {{"seen", &ReportExample::seen},
                                         {"heat", &ReportExample::heat}};

std::string tensor_name(std::string_view list, size_t i, std::string_view image) {
  return fmt::format("{}.{}.{}", list, i, image);
}

std::string description_of(const ReportExamples& all) {
  JsonWriter json(NonFinite::null);
  json.begin_object().field("epoch", all.epoch).field("left_out", all.left_out);
  for (const NamedList& one : lists) {
    json.list(one.name, all.*one.list, [&](const ReportExample& example) {
      json.begin_object().field("index", example.index).field("label", example.label);
      json.field("text", example.text);
      json.list("words", example.words, [&](const auto& word) {
        json.begin_array().value(word.first).value(word.second).end_array();
      });
      json.list("curve", example.curve, [&](const auto& point) {
        json.begin_array().value(point.first).value(point.second).end_array();
      });
      json.end_object();
    });
  }
  return json.end_object().str();
}

}  // namespace

void write_examples_file(const std::filesystem::path& file, const ReportExamples& all) {
  std::vector<SafetensorsEntry> entries;
  for (const NamedList& one : lists) {
    const std::vector<ReportExample>& list = all.*one.list;
    for (size_t i = 0; i < list.size(); ++i) {
      for (const NamedImage& image : example_images) {
        const std::string& bytes = list[i].*image.image;
        if (bytes.empty()) continue;
        entries.push_back({.name = tensor_name(one.name, i, image.name),
                           .dtype = DType::u8,
                           .shape = {static_cast<uint64_t>(bytes.size())},
                           .bytes = [&bytes] { return std::as_bytes(std::span(bytes)); }});
      }
    }
  }
  write_safetensors(
      file,
      {{"format", "whisker report examples"}, {"version", "1"}, {"examples", description_of(all)}},
      std::move(entries));
}

ReportExamples read_report_examples(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const auto found = file.metadata().find("examples");
  if (found == file.metadata().end()) {
    fail(ErrorKind::checkpoint, "{}: expected the examples of a report, got other tensors.",
         file.name());
  }
  const JsonValue json =
      JsonValue::parse(found->second, {.name = file.name(), .kind = ErrorKind::checkpoint});
  size_t bytes = 0;
  ReportExamples all;
  all.epoch = json.at("epoch").as_int(0);
  all.left_out = json.at("left_out").as_string();
  for (const NamedList& one : lists) {
    const JsonValue::Items& items = json.at(one.name).items();
    for (size_t i = 0; i < std::min(items.size(), most_examples); ++i) {
      ReportExample example{.index = items[i].at("index").as_int(-1),
                            .label = items[i].at("label").as_string(),
                            .text = items[i].at("text").as_string()};
      for (const JsonValue& word : items[i].at("words").items()) {
        if (word.items().size() != 2 || !word.items()[1].is_number()) continue;
        example.words.emplace_back(word.items()[0].as_string(), word.items()[1].as_double());
      }
      // Older versions wrote none.
      const JsonValue* const curve = items[i].find("curve");
      for (const JsonValue& point : curve ? curve->items() : JsonValue::Items()) {
        const JsonValue::Items& both = point.items();
        if (both.size() != 2 || !both[0].is_number() || !both[1].is_number()) continue;
        if (example.curve.size() == most_curve_points) break;
        example.curve.emplace_back(both[0].as_double(), both[1].as_double());
      }
      for (const NamedImage& image : example_images) {
        const SafetensorsTensor* tensor = file.find(tensor_name(one.name, i, image.name));
        if (!tensor || tensor->dtype != DType::u8) continue;
        bytes += tensor->bytes.size();
        if (bytes > most_image_bytes) {
          fail(ErrorKind::checkpoint, "{}: expected at most {} bytes of images.", file.name(),
               most_image_bytes);
        }
        example.*image.image =
            std::string(reinterpret_cast<const char*>(tensor->bytes.data()), tensor->bytes.size());
      }
      (all.*one.list).push_back(std::move(example));
    }
  }
  return all;
}

}  // namespace whisker
