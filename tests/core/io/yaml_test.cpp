// Reading YAML: trees, places, typed values, and one exact message for every yaml_refusal.
#include "core/io/yaml.h"

#include "tests/support/error_of.h"
#include "tests/support/peak_memory.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

namespace whisker {
namespace {

YamlNode parsed(std::string_view text) {
  return YamlNode::parse(text, "c.yaml");
}

template <class Action>
std::string usage_error(Action&& action) {
  return test::message_of(ErrorKind::usage, action);
}

std::string yaml_refusal(std::string_view text) {
  return usage_error([&] { parsed(text); });
}

TEST(Yaml, NodesKnowKindTextPlaceAndPath) {
  const YamlNode root = parsed(
      "# cats\n"
      "name: cats\n"
      "model:\n"
      "  layers:\n"
      "    - conv2d: {filters: 32, kernel: 3}\n"
      "    - flatten:\n"
      "    - 'dense'\n");
  ASSERT_TRUE(root.is_map());
  EXPECT_THAT(root.keys(), testing::ElementsAre("name", "model"));
  EXPECT_EQ(root.find("name")->as_string(), "cats");
  EXPECT_EQ(root.find("absent"), nullptr);
  const YamlNode* filters = root.find_path("model.layers[0].conv2d.filters");
  ASSERT_NE(filters, nullptr);
  EXPECT_EQ(filters->path(), "model.layers[0].conv2d.filters");
  EXPECT_EQ(filters->mark().str(), "c.yaml:5:25");
  EXPECT_EQ(filters->as_int(), 32);
  EXPECT_FALSE(filters->quoted());
  EXPECT_TRUE(root.find_path("model.layers[1].flatten")->is_null());
  EXPECT_TRUE(root.find_path("model.layers[2]")->quoted());
  EXPECT_EQ(root.key_mark(1).str(), "c.yaml:3:1");
  EXPECT_EQ(root.find_path("model.layers[3]"), nullptr);
}

TEST(Yaml, ColumnsCountCodePointsAndSkipTheByteOrderMark) {
  const YamlNode root = parsed(
      "\xef\xbb\xbf# \r\n{gr\xc3\xb6\xc3\x9f"
      "e: 1, b: x}\r\n");
  EXPECT_EQ(root.mark().str(), "c.yaml:2:1");
  EXPECT_EQ(root.find("b")->mark().str(), "c.yaml:2:15");
}

TEST(Yaml, EmptyTextIsNull) {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n", "~"}) {
    EXPECT_TRUE(parsed(text).is_null()) << text;
  }
}

TEST(Yaml, TypedValues) {
  const YamlNode root = parsed(
      "a: 1e-3\nb: 1e3\nc: no\nd: On\ne: -12\nf: .5\ng: 0\nh: null\ni: 9223372036854775807\n"
      "j: -9223372036854775808\nk: .inf\nl: -0.25\nm: +7\nn: 12e2\no: .nan\n");
  const auto at = [&](const char* key) -> const YamlNode& { return *root.find(key); };
  EXPECT_EQ(at("a").as_double(), 1e-3);
  EXPECT_EQ(at("b").as_double(), 1e3);
  EXPECT_EQ(at("b").as_int(), 1000);
  EXPECT_EQ(at("c").as_bool(), false);
  EXPECT_EQ(at("c").as_string(), "no");
  EXPECT_EQ(at("d").as_bool(), true);
  EXPECT_EQ(at("e").as_int(), -12);
  EXPECT_EQ(at("f").as_double(), 0.5);
  EXPECT_EQ(at("g").as_int(), 0);
  EXPECT_TRUE(at("h").is_null());
  EXPECT_EQ(at("i").as_int(), INT64_MAX);
  EXPECT_EQ(at("j").as_int(), INT64_MIN);
  EXPECT_EQ(at("k").as_double({}, true), HUGE_VAL);
  EXPECT_EQ(at("l").as_double(), -0.25);
  EXPECT_EQ(at("m").as_int(), 7);
  EXPECT_EQ(at("n").as_int(), 1200);
  EXPECT_TRUE(std::isnan(at("o").as_double({}, true)));
}

TEST(Yaml, TypedErrorsNamePlacePathExpectedAndGot) {
  const YamlNode root = parsed(
      "optimizer:\n"
      "  lr: fast\n"
      "  nan: .nan\n"
      "  big: 9223372036854775808\n"
      "  zeros: 010\n"
      "  part: 1.5\n"
      "  quoted: '3'\n"
      "  list: [1]\n"
      "  none:\n"
      "  hex: 0x10\n"
      "  huge: 1e999\n"
      "  neg: 1e-3\n");
  const YamlNode& o = *root.find("optimizer");
  const auto at = [&](const char* key) -> const YamlNode& { return *o.find(key); };
  EXPECT_EQ(usage_error([&] { at("lr").as_double(); }),
            "c.yaml:2:7: optimizer.lr: expected a number, got 'fast'.");
  EXPECT_EQ(usage_error([&] { at("lr").as_double({.min = 0}); }),
            "c.yaml:2:7: optimizer.lr: expected a number of 0 or more, got 'fast'.");
  EXPECT_EQ(usage_error([&] { at("lr").as_bool(); }),
            "c.yaml:2:7: optimizer.lr: expected true or false, got 'fast'.");
  EXPECT_EQ(usage_error([&] { at("nan").as_double(); }),
            "c.yaml:3:8: optimizer.nan: expected a number, got '.nan'.");
  EXPECT_EQ(
      usage_error([&] { at("big").as_int(); }),
      "c.yaml:4:8: optimizer.big: expected an integer, got '9223372036854775808'. It must fit "
      "64 bits.");
  EXPECT_EQ(usage_error([&] { at("zeros").as_int(); }),
            "c.yaml:5:10: optimizer.zeros: expected an integer, got '010'. Remove the leading "
            "zeros.");
  EXPECT_EQ(usage_error([&] { at("part").as_int({.min = 1, .max = 4}); }),
            "c.yaml:6:9: optimizer.part: expected an integer from 1 to 4, got '1.5'.");
  EXPECT_EQ(usage_error([&] { at("quoted").as_int(); }),
            "c.yaml:7:11: optimizer.quoted: expected an integer, got '3'. Remove the quotes.");
  EXPECT_EQ(usage_error([&] { at("list").as_string(); }),
            "c.yaml:8:9: optimizer.list: expected text, got a list.");
  EXPECT_EQ(usage_error([&] { at("none").as_sequence(); }),
            "c.yaml:9:3: optimizer.none: expected a list, got nothing.");
  EXPECT_EQ(usage_error([&] { at("hex").as_int(); }),
            "c.yaml:10:8: optimizer.hex: expected an integer, got '0x10'.");
  EXPECT_EQ(usage_error([&] { at("huge").as_double(); }),
            "c.yaml:11:9: optimizer.huge: expected a number, got '1e999'. It must fit a double.");
  EXPECT_EQ(usage_error([&] { at("neg").as_int(); }),
            "c.yaml:12:8: optimizer.neg: expected an integer, got '1e-3'.");
  EXPECT_EQ(usage_error([&] { o.fail_at_key(0, "unknown key."); }),
            "c.yaml:2:3: optimizer.lr: unknown key.");
}

TEST(Yaml, RefusesEverythingOutsideTheSubset) {
  EXPECT_EQ(yaml_refusal("a: 1\nb: 2\na: 3\n"),
            "c.yaml:3:1: a: expected each key once, line 1 has it already.");
  EXPECT_EQ(yaml_refusal("a: {b: 1, c: 2, b: 3}"),
            "c.yaml:1:17: a.b: expected each key once, line 1 has it already.");
  EXPECT_EQ(yaml_refusal("a: &x 1\n"),
            "c.yaml:1:4: expected no anchors; quote a text that begins with '&'.");
  EXPECT_EQ(yaml_refusal("&a [*a]"),
            "c.yaml:1:1: expected no anchors; quote a text that begins with '&'.");
  EXPECT_EQ(yaml_refusal("a: !!int 3\n"),
            "c.yaml:1:4: expected no tags; quote a text that begins with '!'.");
  EXPECT_EQ(yaml_refusal("a: ! 3\n"),
            "c.yaml:1:4: expected no tags; quote a text that begins with '!'.");
  EXPECT_EQ(yaml_refusal("a: ! [3]\n"),
            "c.yaml:1:4: expected no tags; quote a text that begins with '!'.");
  EXPECT_EQ(yaml_refusal("a: 1\n---\nb: 2\n"),
            "c.yaml:2:1: expected one YAML document, got more after its end.");
  EXPECT_EQ(yaml_refusal(","), "c.yaml:1:1: expected one YAML document, got more after its end.");
  EXPECT_EQ(yaml_refusal("[a]: 1"),
            "c.yaml:1:1: expected text as a key, got a list or a map; is a bracket not closed?");
  EXPECT_EQ(yaml_refusal(": 1"),
            "c.yaml:1:1: expected a key before ':', got none. Quote a key named null.");
  EXPECT_EQ(yaml_refusal("a: \xff"), "c.yaml:1:4: expected printable UTF-8, got byte 0xff.");
  EXPECT_EQ(yaml_refusal(std::string_view("a: b\nc: \0", 9)),
            "c.yaml:2:4: expected printable UTF-8, got byte 0x00.");
  EXPECT_EQ(yaml_refusal("a: \"b\\0c\""), "c.yaml:1:4: expected no NUL; leave out the escape \\0.");
  EXPECT_EQ(yaml_refusal("\"b\\x00\": 1"),
            "c.yaml:1:1: expected no NUL; leave out the escape \\0.");
  EXPECT_EQ(yaml_refusal("a: \x04"), "c.yaml:1:4: expected printable UTF-8, got byte 0x04.");
  EXPECT_EQ(yaml_refusal(std::string(300, 'k') + ": 1"),
            "c.yaml:1:1: expected keys of at most 256 bytes.");
  EXPECT_EQ(yaml_refusal(std::string(17, '[') + std::string(17, ']')),
            "c.yaml:1:17: expected at most 16 nested lists and maps.");
  EXPECT_EQ(yaml_refusal(std::string((1 << 20) + 1, ' ')),
            "c.yaml: expected at most 1.0 MiB of YAML, got 1.0 MiB.");
  std::string many = "[";
  for (int i = 0; i < 10'000; ++i) many += "1,";
  EXPECT_EQ(yaml_refusal(many + "]"), "c.yaml:1:20000: expected at most 10000 values in one file.");
  EXPECT_EQ(yaml_refusal("a: [1, 2\nb: 3"),
            "c.yaml:2:2: expected YAML, got a syntax error: end of sequence flow not found.");
  EXPECT_EQ(yaml_refusal("a: \"x\\N\""),
            "c.yaml:1:4: expected no escapes \\N and \\_; write \\u0085 and \\u00a0.");
  EXPECT_EQ(yaml_refusal(std::string(131'073, '[')),
            "c.yaml:1:1: expected at most 131072 of the characters []{},:?'\"&*! in one file, got "
            "131073.");
  // yaml-cpp 0.8 names the anchor, 0.7 does not.
  EXPECT_TRUE(yaml_refusal("a:\n\tb: 1\n")
                  .ends_with(" Line 2 begins with a tab; YAML is indented by spaces."));
  EXPECT_TRUE(yaml_refusal("a: *b").starts_with(
      "c.yaml:1:4: expected YAML, got a syntax error: the referenced anchor is not defined"));
  EXPECT_EQ(usage_error([] { YamlNode::parse_file("/nonexistent/c.yaml"); }),
            "/nonexistent/c.yaml: cannot open: No such file or directory.");
}

TEST(Yaml, OverridesReplaceAddAndCarryTheirOrigin) {
  YamlNode root = parsed("train: {epochs: 3, lr: 0.1}\nlayers: [a, b]\n");
  root.set_override("train.epochs=25");
  root.set_override("data.train=/data/cats dogs");
  root.set_override("layers[1]={dense: 3}");
  root.set_override("freeze=[x, 'y.*']");
  root.set_override("train.note=");
  EXPECT_EQ(root.find_path("train.epochs")->as_int(), 25);
  EXPECT_EQ(root.find_path("data.train")->as_string(), "/data/cats dogs");
  EXPECT_EQ(root.find_path("layers[1].dense")->as_int(), 3);
  EXPECT_EQ(root.find_path("layers[1].dense")->path(), "layers[1].dense");
  EXPECT_EQ(root.find_path("freeze")->size(), 2u);
  EXPECT_TRUE(root.find_path("train.note")->is_null());
  root.set_override("train.lr=quick");
  EXPECT_EQ(usage_error([&] { root.find_path("train.lr")->as_double(); }),
            "command line: train.lr: expected a number, got 'quick'.");
  EXPECT_EQ(usage_error([&] { root.set_override("train.epochs.x=1"); }),
            "command line: train.epochs.x: expected a map to hold 'x', train.epochs is '25'.");
  YamlNode list = parsed("- a\n- b\n");
  EXPECT_EQ(usage_error([&] { list.set_override("train.epochs=1"); }),
            "c.yaml:1:1: expected a map of keys to set 'train.epochs' in, got a list.");
  EXPECT_EQ(usage_error([&] { root.set_override("layers[2]=1"); }),
            "command line: layers[2]: expected an index of an existing list, got [2] in a list of "
            "2.");
  EXPECT_EQ(usage_error([&] { root.set_override("train"); }),
            "command line: expected section.key=value, got 'train'.");
  EXPECT_EQ(usage_error([&] { root.set_override("a..b=1"); }),
            "'a..b': expected a key path such as model.layers[2].filters.");
  EXPECT_EQ(
      usage_error([&] { root.set_override("a=[1"); }),
      "command line:1:1: expected text as a key, got a list or a map; is a bracket not closed? "
      "In the override of 'a'.");
}

TEST(Yaml, KeysWithDotsAreQuotedInPaths) {
  const YamlNode root = parsed("lr: {'features.0': 1}");
  const YamlNode& rate = (*root.find("lr"))[0];
  EXPECT_EQ(rate.path(), "lr.'features.0'");
  EXPECT_EQ(root.find_path(rate.path()), &rate);
}

TEST(Yaml, MergeIsDeepAndTheUpperTreeWins) {
  YamlNode base = parsed("a: {x: 1, y: [1, 2]}\nb: 2\n");
  base.merge(YamlNode::parse("a: {y: [3], z: {w: 4}}\nc: 5\n", "over.yaml"));
  EXPECT_EQ(base.emit(), "a:\n  x: 1\n  y: [3]\n  z:\n    w: 4\nb: 2\nc: 5\n");
  EXPECT_EQ(base.find_path("a.z.w")->path(), "a.z.w");
  EXPECT_EQ(base.find_path("a.z.w")->mark().str(), "over.yaml:1:20");
}

TEST(Yaml, EmittedTextSteersNoTerminal) {
  const YamlNode tree = parsed("a: x\u202ey\n\u200fb: [\u2066, \"\\e\\x9b\"]\n");
  EXPECT_EQ(tree.emit(), "a: \"x\\u202ey\"\n\"\\u200fb\": [\"\\u2066\", \"\\u001b\\u009b\"]\n");
  EXPECT_TRUE(parsed(tree.emit()) == tree);
}

TEST(Yaml, EmittedTextParsesToTheSameTree) {
  const std::vector<std::string> texts = {
      "a: 1\nb: [1, 2.5, x]\nc: {d: {}, e: []}\nf:\n  - g: 1\n    h: 2\n  - - 1\n    - {i: j}\n",
      "a: 'null'\nb: \"tab\\tline\\nend\"\nc: ''\nd: ~\ne: '- x'\nf: 'a: b'\ng: '#'\nh: 'x #y'\n",
      "text: |\n  two\n  lines\nfolded: >\n  one\n  line\n",
      "- -1\n- --x\n- '---'\n- ...\n- '?'\n- 'a:'\n- a:b\n- 'yes'\n- http://x/y?z#w\n",
      "'key with: colon': 1\n'': 2\n'a.b': 3\n\"new\\nline\": 4\n",
      "just text",
      "'quoted'",
      "[]",
      "{}",
      "gr\xc3\xb6\xc3\x9f"
      "e: \xe2\x98\x83\nodd: \"\\x85\\u2028\\ufeff\\x01\"\n",
      "- plain?or not\n- b\n",
      "a:\n  plain over\n  two lines\nb:\n  with\n\n  a gap\n",
      "long: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaa, bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb, "
      "cccccccccccccccccccccc, dddddddddddddd]\n",
  };
  for (const std::string& text : texts) {
    const YamlNode tree = parsed(text);
    const std::string emitted = tree.emit();
    SCOPED_TRACE(text + "\n=>\n" + emitted);
    const YamlNode again = YamlNode::parse(emitted, "emitted");
    EXPECT_TRUE(tree == again);
    EXPECT_EQ(again.emit(), emitted);
  }
  EXPECT_EQ(parsed(texts[0]).emit(),
            "a: 1\nb: [1, 2.5, x]\nc:\n  d: {}\n  e: []\nf:\n  - g: 1\n    h: 2\n  -\n    - 1\n    "
            "- i: j\n");
  EXPECT_FALSE(parsed("a: 1") == parsed("a: '1'"));
  EXPECT_FALSE(parsed("a: 1") == parsed("b: 1"));
}

// `unit` again and again, up to 1 MiB or to the last repetition below the limit on signs.
std::string repeat(const std::string& head, const std::string& unit) {
  size_t signs = 0;
  for (const char c : unit) signs += std::strchr("[]{},:?'\"&*!", c) != nullptr ? 1 : 0;
  const size_t times = ((1 << 20) - head.size()) / unit.size();
  const size_t most = signs == 0 ? times : std::min(times, (131'072 - head.size()) / signs);
  std::string text = head;
  for (size_t i = 0; i < most; ++i) text += unit;
  return text;
}

// What our guards are for: texts that yaml-cpp as it comes reads without a word.
TEST(Yaml, ControlTheUnguardedParserTakesThem) {
  const std::vector<std::string> refused = {"a: 1\na: 2\n", "a: &x 1\nb: *x\n", "a: !!int 1\n",
                                            "a: 1\n---\nb: 2\n"};
  int taken = 0;
  for (const std::string& text : refused) {
    EXPECT_THROW(parsed(text), Error) << text;
    taken += YAML::Load(text).IsMap();
  }
  fmt::print("texts that only the guards refuse: {} of {}\n", taken, refused.size());
  EXPECT_EQ(taken, std::ssize(refused));
}

// Repetitions that make a parser loop, recurse or grow quadratically. Each must end within 1 s.
TEST(Yaml, HostileRepetitionsEndWithinASecond) {
  const std::vector<std::string> units = {
      ",",     "[",    "]",    "{",           "}",        "[,",    "{,",       "? ",   "- ",
      ": ",    "a: ",  "a:\n", "- a\n",       "\n",       "\t",    " ",        "#\n",  "#",
      "'",     "\"",   "\"\\", "\\",          "|\n",      ">\n ",  "&a ",      "*a ",  "!a ",
      "!",     "%",    "%a\n", "%TAG ! a\n",  "---\n",    "...\n", "--- ",     "a",    "a b ",
      "a\n",   "'' ",  "a,",   "[a]",         "{a: b}, ", "- - ",  "\r",       "\r\n", "? a\n: ",
      "[[],",  "{a: ", "@",    "`",           "a #",      "<<: ",  "\xc3\xa9", "0,",   "\n ",
      "- |\n", "\"\n", "'\n",  "%YAML 1.2\n", "? ? :",    "!<",    "-\n",      "?\n",  ":\n",
      "[?",    "{?",   "[:",   "{:",          "!!a\n"};
  const std::vector<std::string> heads = {"",   "[",    "{",    "a: ", "- ",     "'",
                                          "\"", "|\n ", ">\n ", "%",   "a: |\n "};
  double slowest = 0;
  std::string slowest_text;
  int n = 0;
  const bool long_run = std::getenv("WHISKER_LONG") != nullptr;
  for (const std::string& head : heads) {
    if (!long_run && !head.empty() && head != "[") continue;
    for (const std::string& unit : units) {
      const std::string text = repeat(head, unit);
      const std::clock_t start = std::clock();  // of this process, whatever else the machine does
      try {
        parsed(text);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::usage);
      }
      const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
      if (seconds > slowest) {
        slowest = seconds;
        slowest_text = head + unit;
      }
      ++n;
    }
  }
  const int64_t growth = peak_growth_bytes([&] {
    for (const std::string& unit : units) {
      try {
        parsed(repeat("[", unit));
      } catch (const Error&) {  // refused above, here only its memory counts
      }
    }
  });
  fmt::print("n = {} texts of up to 1 MiB, slowest {:.3f} s: {}, peak memory {:.1f} MiB\n", n,
             slowest, slowest_text, static_cast<double>(growth) / 0x1p20);
  if (!is_instrumented) {
    EXPECT_LE(growth, 64 << 20);
  }
  EXPECT_LT(slowest, is_instrumented ? 10.0 : 1.0) << slowest_text;
}

}  // namespace
}  // namespace whisker
