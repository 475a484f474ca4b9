// The page is filled by its scripts (apps/study/page) from the JSON that is written here. They set
// text as text; in the JSON every < is escaped, so that no name ends its element.
#include "apps/study/graph_page.h"

#include "core/draw/markup.h"
#include "core/draw/page.h"
#include "core/io/counted.h"
#include "core/io/json.h"
#include "core/io/text.h"
#include "core/trace/local_rule.h"
#include "core/trace/tape_style.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace whisker {
namespace {

constexpr std::string_view page_mark = "whisker study graph";

// Between <body> and the data.
constexpr std::string_view page_body = R"html(<header>
<h1 id="title"></h1>
<div class="controls">
<label class="steps"><span id="place"></span>
<input type="range" id="slider" min="0" value="0" aria-label="step"></label>
<span class="group"><button id="previous" title="previous (p)">◀</button>
<button id="next" title="next (n)">▶</button>
<button id="loss" title="the loss (b)">loss</button>
<button id="end" title="the end (f)">end</button></span>
<input type="search" id="search" placeholder="search (/), Enter" aria-label="search">
<span class="group"><button id="out" title="smaller (-)">−</button>
<button id="fit" title="fit (0)">fit</button>
<button id="in" title="larger (+)">+</button></span>
<span class="group"><button id="fold">fold</button>
<button id="unfold">unfold</button></span>
<label><input type="checkbox" id="leaves"> parameters, inputs</label>
<label><input type="checkbox" id="all"> all values (v)</label>
</div>
</header>
<main>
<section id="graph" aria-label="graph"></section>
<section id="frame" aria-label="operator"></section>
</main>
<details id="legend"><summary>Legend and keys</summary></details>
)html";

// In the shortest digits that tell a number from the others of its dtype.
void write_number(JsonWriter& json, double value, DType dtype = DType::f32) {
  if (!std::isfinite(value)) {
    json.value(fmt::format("{}", value));
  } else if (dtype == DType::f64 || !is_floating(dtype)) {
    json.value(value);
  } else {
    json.value(static_cast<float>(value));
  }
}

class PageData {
 public:
  PageData(const Recording& recording, size_t most_values)
      : recording_(recording), most_values_(most_values) {}

  const std::string& json() {
    json_.begin_object().field("schema_version", 1).field("title", printable(recording_.title));
    json_.field("beside", recording_.beside);
    json_.list("families", tape_families(), [&](const TapeFamily& family) {
      json_.begin_object().field("name", family.name).field("legend", family.legend).end_object();
    });
    json_.list("entries", recording_.entries, [&](const TapeEntry& entry) { write(entry); });
    return json_.field("left_out", left_out()).end_object().str();
  }
  std::string escaped() {
    std::string text;
    for (const char c : json()) text += c == '<' ? std::string("\\u003c") : std::string(1, c);
    return text;
  }

  /// "" when nothing is, once the JSON is made.
  std::string left_out() const {
    if (reduced_ == 0) return "";
    return fmt::format(
        "so that the page stays below {}, {} of more than {} values have statistics instead of "
        "values; study step shows up to {}",
        human_bytes(most_page_bytes), counted(reduced_, "tensor"),
        grouped(static_cast<int64_t>(most_values_)), grouped(most_recorded_values));
  }

 private:
  void write(const TapeEntry& entry) {
    json_.begin_object().field("kind", tape_kind_names[static_cast<size_t>(entry.kind)]);
    json_.field("name", printable(entry.name)).field("layer", printable(entry.layer));
    json_.field("family", family_of(entry).name).field("number", entry.number);
    json_.field("step", entry.backward_step).field("recorded", entry.recorded);
    const bool op = entry.kind == TapeKind::op;
    if (op) {
      const std::string parts = operator_parts(entry);
      if (parts != entry.name) json_.field("parts", parts);
      json_.field("attributes", printable(entry.attributes));
      json_.field("rule", forward_rule(entry));
      json_.field("example", forward_example(recording_, entry));
    }
    json_.list("inputs", entry.inputs, [&](const TapeInput& input) {
      const TapeEntry& source = recording_.entries[input.entry];
      const bool wants = entry.recorded && source.kind != TapeKind::constant && source.recorded;
      json_.begin_object().field("entry", input.entry).field("output", input.output);
      json_.field("name", operand_name(entry, input.position)).field("wants", wants);
      if (wants) {
        json_.field("rule", backward_rule(recording_, entry, input.position));
        json_.field("example", backward_example(recording_, entry, input.position));
      }
      json_.end_object();
    });
    json_.list("outputs", entry.outputs, [&](const TapeOutput& output) {
      json_.begin_object().list("shape", output.shape).field("dtype", name_of(output.dtype));
      write("value", output.value, output.dtype);
      write("gradient", output.gradient, output.dtype);
      json_.end_object();
    });
    json_.list("given", entry.given, [&](const GivenGradient& given) {
      json_.begin_object().field("input", given.input).field("first", given.first);
      const TapeInput& to = entry.inputs[given.input];
      write("sum", given.sum, recording_.entries[to.entry].outputs[to.output].dtype);
      json_.end_object();
    });
    json_.list("saved", saved_names(recording_, entry),
               [&](const std::string& name) { json_.value(printable(name)); });
    json_.field("bytes", entry.saved_bytes()).key("forward_ms");
    write_number(json_, entry.forward_ms);
    json_.key("backward_ms");
    write_number(json_, entry.backward_ms);
    json_.end_object();
  }

  // All values as an array, or their statistics as an object; nothing where nothing is known.
  void write(std::string_view key, const RecordedValues& values, DType dtype) {
    if (!values.known()) return;
    if (!values.all.empty() && values.all.size() <= most_values_) {
      json_.list(key, values.all, [&](double value) { write_number(json_, value, dtype); });
      return;
    }
    reduced_ += !values.statistics;
    const TensorStatistics s = values.summary();
    json_.key(key).begin_object();
    for (const auto& [name, value] : {std::pair{"mean", s.mean},
                                      {"deviation", s.deviation},
                                      {"minimum", s.minimum},
                                      {"maximum", s.maximum},
                                      {"norm", s.norm}}) {
      json_.key(name);
      write_number(json_, value);
    }
    json_.field("zeros", s.zeros).field("not_finite", s.not_finite);
    json_.list("histogram", s.histogram).end_object();
  }

  const Recording& recording_;
  size_t most_values_;
  int64_t reduced_ = 0;  // tensors whose values the recording has and the page has not
  JsonWriter json_;
};

GraphPage page_with(const Recording& recording, size_t most_values) {
  PageData data(recording, most_values);
  const std::string allowed =
      fmt::format("base-uri 'none'; form-action 'none'; script-src 'sha256-{}'",
                  base64(graph_page_script_hash()));
  const std::string rules = fmt::format("{}{}", tape_rules(), graph_page_style());
  std::string text = fmt::format(
      "{}{}<script type=\"application/json\" id=\"data\">{}</script>\n<script>{}</script>\n",
      page_head(page_mark, recording.title, allowed, rules), page_body, data.escaped(),
      graph_page_script());
  text = finished_page(std::move(text), page_mark);
  return {std::move(text), data.left_out()};
}

}  // namespace

bool is_graph_page(std::string_view content) {
  return is_page(content, page_mark);
}

std::string graph_json(const Recording& recording) {
  return PageData(recording, most_recorded_values).json();
}

GraphPage graph_page(const Recording& recording) {
  size_t bytes = 0;
  for (size_t most_values = most_recorded_values;; most_values /= 4) {
    GraphPage page = page_with(recording, most_values);
    bytes = page.text.size();
    if (bytes <= most_page_bytes) return page;
    if (most_values == 0) break;
  }
  fail(
      ErrorKind::usage,
      "study graph: {} entries need a page of {}, expected at most {}. -o FILE.svg or FILE.dot has "
      "no limit; fewer --steps, or layers without --cells, make fewer operators.",
      recording.entries.size(), human_bytes(bytes), human_bytes(most_page_bytes));
}

}  // namespace whisker
