#include "apps/commands/worst_page.h"

#include "apps/terminal/inputs.h"
#include "core/draw/markup.h"
#include "core/draw/page.h"
#include "core/error.h"
#include "core/io/counted.h"
#include "core/io/text.h"
#include "data/codec/encode_jpeg.h"
#include "train/inference/shown_example.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

namespace whisker {
namespace {

constexpr size_t most_pairs = 6;
constexpr size_t cards_per_pair = 6;

std::string data_uri(const Image& image) {
  constexpr int quality = 82;
  return "data:image/jpeg;base64," +
         base64(encode_jpeg(image, {.quality = quality, .comment = ""}));
}

// The file's name with its class folder.
std::string short_name(const std::string& path) {
  const size_t slash = path.rfind('/');
  const size_t folder =
      slash == std::string::npos || slash == 0 ? slash : path.rfind('/', slash - 1);
  return folder == std::string::npos ? path : path.substr(folder + 1);
}

// The size of the folder that all examples lie in, with its slash. A page is for others to see:
// what is before says where its maker has them.
size_t common_folder_size(const std::vector<EvaluatedExample>& examples) {
  std::string_view common = examples.empty() ? "" : std::string_view(examples[0].path);
  for (const EvaluatedExample& one : examples) {
    const auto differs = std::ranges::mismatch(common, one.path).in1;
    common = common.substr(0, static_cast<size_t>(differs - common.begin()));
  }
  return common.rfind('/') + 1;  // 0 for npos
}

class Page {
 public:
  Page(const Network& network, size_t folder_size)
      : network_(network), classes_(network.classes()), folder_size_(folder_size) {}

  std::string card(const EvaluatedExample& one) {
    const std::string& label = classes_[static_cast<size_t>(one.label)];
    const std::string& predicted = classes_[static_cast<size_t>(one.predicted)];
    const bool right = one.label == one.predicted;
    std::string text = fmt::format("<li class=\"card {}\">\n", right ? "right" : "wrong");
    text += one.shown.empty()
                ? images_of(one, predicted)
                : fmt::format("<p class=\"text\">{}</p>\n", markup(one.shown, KeptLines::all));
    text += fmt::format(
        "<p class=\"verdict\"><span>{}</span> <strong>{}</strong> {:.1f} %</p>\n"
        "<p>label <strong>{}</strong> {:.1f} % · loss {:.2f}</p>\n"
        "<p class=\"path\" title=\"{}\">{}</p>\n</li>\n",
        right ? "right:" : "wrong:", markup(predicted),
        100 * one.probabilities[static_cast<size_t>(one.predicted)], markup(label),
        100 * one.probabilities[static_cast<size_t>(one.label)], one.loss,
        markup(below_folder(one.path)), markup(short_name(one.path)));
    return text;
  }

 private:
  std::string images_of(const EvaluatedExample& one, const std::string& predicted) {
    const auto found = made_.find(one.path);
    if (found != made_.end()) return found->second;
    std::string text;
    try {
      const ShownImage image = shown_image(network_, one.path, one.predicted);
      const Image& seen = image.seen;
      text = fmt::format(
          "<div class=\"pair\"><img src=\"{}\" width=\"{}\" height=\"{}\" alt=\"{}\" "
          "loading=\"lazy\"><img src=\"{}\" width=\"{}\" height=\"{}\" alt=\"where the network "
          "sees "
          "{}\" loading=\"lazy\"></div>\n",
          data_uri(seen), seen.width, seen.height, markup(short_name(one.path)),
          data_uri(image.heat), seen.width, seen.height, markup(predicted));
    } catch (const Error& error) {
      text = fmt::format("<p>{}</p>\n", markup(bare_reason(one.path, error.what())));
    }
    return made_[one.path] = text;
  }

  std::string below_folder(const std::string& path) const {
    const std::string below = path.substr(folder_size_);
    return below.starts_with('/') ? short_name(path) : below;  // some are absolute, some not
  }

  const Network& network_;
  const std::vector<std::string>& classes_;
  size_t folder_size_;  // what the paths of all examples begin with
  std::map<std::string, std::string> made_;
};

constexpr std::string_view page_mark = "whisker evaluate --worst";

// Pairs (label, predicted) with the examples mistaken so, the most frequent first.
using Pairs =
    std::vector<std::pair<std::pair<int64_t, int64_t>, std::vector<const EvaluatedExample*>>>;
Pairs confused_pairs(const std::vector<EvaluatedExample>& examples) {
  std::map<std::pair<int64_t, int64_t>, std::vector<const EvaluatedExample*>> by_pair;
  for (const EvaluatedExample& one : examples) {
    if (one.label != one.predicted) by_pair[{one.label, one.predicted}].push_back(&one);
  }
  Pairs pairs(by_pair.begin(), by_pair.end());
  std::ranges::stable_sort(
      pairs, [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  pairs.resize(std::min(pairs.size(), most_pairs));
  return pairs;
}

}  // namespace

bool is_worst_page(std::string_view content) {
  return is_page(content, page_mark);
}

std::string worst_page(const Network& network, std::vector<EvaluatedExample> examples, size_t count,
                       const std::string& weights) {
  const std::vector<std::string>& classes = network.classes();
  const std::string name_of_all = network.signature().examples();  // "images"
  const std::string_view example = std::string_view(name_of_all).substr(0, name_of_all.size() - 1);
  const bool images = std::holds_alternative<Preprocess>(network.signature().input);
  std::ranges::stable_sort(examples, [](const auto& a, const auto& b) { return a.loss > b.loss; });
  const Pairs pairs = confused_pairs(examples);
  const auto wrong = std::ranges::count_if(
      examples, [](const EvaluatedExample& one) { return one.label != one.predicted; });
  Page page(network, common_folder_size(examples));
  std::string text = begin_page(page_mark, "What the network gets wrong");
  text += fmt::format(
      "<header>\n<h1>What the network gets wrong</h1>\n<p class=\"lead\">{}: {} of {} {} "
      "classified wrong.{}</p>\n</header>\n<main>\n",
      markup(short_name(weights)), wrong, counted(std::ssize(examples), example),
      wrong == 1 ? "is" : "are",
      images ? " Beside each image, as the network sees it, is where it sees the predicted class: "
               "the brighter, the more."
             : "");
  count = std::min(count, examples.size());
  text += fmt::format(
      "<section aria-labelledby=\"worst\">\n<h2 id=\"worst\">The {} of the largest "
      "loss</h2>\n<ul class=\"cards\">\n",
      counted(static_cast<int64_t>(count), example));
  for (size_t i = 0; i < count; ++i) text += page.card(examples[i]);
  text += "</ul>\n</section>\n";
  if (!pairs.empty()) {
    text += fmt::format(
        "<section aria-labelledby=\"confused\">\n<h2 id=\"confused\">Most often confused</h2>\n"
        "<table>\n<thead><tr><th scope=\"col\">label</th><th scope=\"col\">predicted</th>"
        "<th scope=\"col\">{}</th></tr></thead>\n<tbody>\n",
        name_of_all);
    const auto name = [&](int64_t c) { return markup(classes[static_cast<size_t>(c)]); };
    for (const auto& [pair, of_pair] : pairs) {
      text += fmt::format("<tr><td>{}</td><td>{}</td><td class=\"number\">{}</td></tr>\n",
                          name(pair.first), name(pair.second), of_pair.size());
    }
    text += "</tbody>\n</table>\n";
    for (const auto& [pair, of_pair] : pairs) {
      text += fmt::format("<h3>{} taken for {}</h3>\n<ul class=\"cards\">\n", name(pair.first),
                          name(pair.second));
      for (size_t i = 0; i < std::min(of_pair.size(), cards_per_pair); ++i) {
        text += page.card(*of_pair[i]);
      }
      text += "</ul>\n";
    }
    text += "</section>\n";
  }
  return finished_page(text + "</main>\n", page_mark);
}

}  // namespace whisker
