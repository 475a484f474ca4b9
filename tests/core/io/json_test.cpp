// Writing and reading JSON: exact texts, round trips, and one message for every refusal.
#include "core/io/json.h"

#include "tests/support/error_of.h"

#include <bit>
#include <clocale>
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace whisker {
namespace {

std::string refusal(std::string_view text) {
  return test::message_of(ErrorKind::data, [&] {
    JsonValue::parse(text, {.name = "s.json", .max_depth = 4, .max_values = 8});
  });
}

TEST(Json, WritesOneCompactLine) {
  JsonWriter json(NonFinite::null);
  json.begin_object().field("loss", 0.1).field("step", 3).field("ok", true).field("n", NAN);
  json.key("list").begin_array().value("a\"\\\n\t\x01").value(-1).value(UINT64_MAX).value(0.1f);
  json.null().begin_array().end_array().begin_object().end_object().end_array().end_object();
  EXPECT_EQ(
      json.str(),
      "{\"loss\":0.1,\"step\":3,\"ok\":true,\"n\":null,\"list\":[\"a\\\"\\\\\\n\\t\\u0001\",-1,"
      "18446744073709551615,0.1,null,[],{}]}");
}

TEST(Json, ReplacesBytesThatAreNotUtf8) {
  JsonWriter json;
  json.value("gr\xc3\xb6\xff\xc3.jpg");
  EXPECT_EQ(json.str(), "\"gr\xc3\xb6\xef\xbf\xbd\xef\xbf\xbd.jpg\"");
}

TEST(Json, EscapesWhatSteersATerminal) {
  const std::string hostile = "\x1b\x7f\u009b\u0085\u202e\u2066\u200f\u2028";
  JsonWriter json;
  json.begin_array().value(hostile).end_array();
  EXPECT_EQ(json.str(), R"(["\u001b\u007f\u009b\u0085\u202e\u2066\u200f\u2028"])");
  EXPECT_EQ(JsonValue::parse(json.str(), {}).items()[0].as_string(), hostile);
}

TEST(Json, RefusesNonFiniteNumbersUnlessAsked) {
  JsonWriter json;
  json.begin_array();
  EXPECT_EQ(test::message_of(ErrorKind::internal, [&] { json.value(HUGE_VAL); }),
            "JsonWriter: expected a finite number, got inf after [");
}

TEST(Json, CatchesMisuse) {
  const auto internal = [](auto&& action) { return test::message_of(ErrorKind::internal, action); };
  EXPECT_EQ(internal([] { JsonWriter().begin_object().value(1); }),
            "JsonWriter: a value without its place after {");
  EXPECT_EQ(internal([] { JsonWriter().value(1).value(2); }),
            "JsonWriter: a value without its place after 1");
  EXPECT_EQ(internal([] { JsonWriter().begin_array().key("a"); }),
            "JsonWriter: key 'a' outside an object");
  EXPECT_EQ(internal([] { JsonWriter().begin_array().end_object(); }),
            "JsonWriter: '}' closes nothing after [");
  EXPECT_EQ(internal([] { (void)JsonWriter().begin_array().str(); }),
            "JsonWriter: unfinished text [");
}

TEST(Json, DoublesRoundTripInAnyLocale) {
  std::mt19937_64 random(7);
  const char* locale = std::setlocale(LC_ALL, "de_DE.UTF-8");  // decimal comma, where installed
  int n = 0;
  for (int i = 0; i < 20'000; ++i) {
    const double number = std::bit_cast<double>(random());
    if (!std::isfinite(number)) continue;
    JsonWriter json;
    json.value(number);
    EXPECT_EQ(JsonValue::parse(json.str(), {}).as_double(), number) << json.str();
    ++n;
  }
  std::setlocale(LC_ALL, "C");
  fmt::print("n = {} doubles, locale {}\n", n, locale == nullptr ? "C" : locale);
}

TEST(Json, ReadsATreeInOrder) {
  const JsonValue root = JsonValue::parse(
      " {\"b\": [1, -2, 2.5, true, null], \"a\": {\"x\\u00e9\": \"\\ud83d\\ude00\"}} ", {});
  EXPECT_EQ(root.members()[0].first, "b");
  const JsonValue::Items& items = root.at("b").items();
  EXPECT_EQ(items[0].as_uint(), 1u);
  EXPECT_EQ(items[0].as_int(), 1);
  EXPECT_EQ(items[0].as_double(), 1.0);
  EXPECT_EQ(items[1].as_int(), -2);
  EXPECT_EQ(items[2].as_double(), 2.5);
  EXPECT_TRUE(items[3].as_bool());
  EXPECT_TRUE(items[4].is_null());
  EXPECT_EQ(root.at("a").at("x\xc3\xa9").as_string(), "\xf0\x9f\x98\x80");
  EXPECT_EQ(root.find("absent"), nullptr);
}

TEST(Json, GettersNameFileKeyAndTypes) {
  const JsonValue root =
      JsonValue::parse("{\"step\": \"x\", \"n\": -1, \"big\": 9223372036854775808}",
                       {.name = "state.json", .kind = ErrorKind::checkpoint});
  const auto message = [](auto&& action) {
    return test::message_of(ErrorKind::checkpoint, action);
  };
  EXPECT_EQ(message([&] { root.at("step").as_uint(); }),
            "state.json: step: expected an integer of 0 or more, got text.");
  EXPECT_EQ(message([&] { root.at("n").as_uint(); }),
            "state.json: n: expected an integer of 0 or more, got an integer.");
  EXPECT_EQ(message([&] { root.at("big").as_int(); }),
            "state.json: big: expected an integer below 2^63, got an integer.");
  EXPECT_EQ(message([&] { root.at("hash"); }),
            "state.json: expected an object with the key 'hash', got an object.");
}

TEST(Json, RefusesWhatIsNotOneBoundedText) {
  EXPECT_EQ(refusal(""), "s.json: expected valid JSON in UTF-8, got an error at byte 1.");
  EXPECT_EQ(refusal("{\"a\":1} x"),
            "s.json: expected valid JSON in UTF-8, got an error at byte 9.");
  EXPECT_EQ(refusal(std::string_view("[]\0[", 4)),
            "s.json: expected valid JSON in UTF-8, got an error at byte 3.");
  EXPECT_EQ(refusal("[\"\xff\"]"), "s.json: expected valid JSON in UTF-8, got an error at byte 3.");
  EXPECT_EQ(refusal("[\"\\ud800\"]"),
            "s.json: expected valid JSON in UTF-8, got an error at byte 9.");
  EXPECT_EQ(refusal("[NaN]"), "s.json: expected valid JSON in UTF-8, got an error at byte 2.");
  EXPECT_EQ(refusal("[1e999]"), "s.json: expected valid JSON in UTF-8, got an error at byte 6.");
  EXPECT_EQ(refusal("{\"a\":1,\"b\":2,\"a\":3}"),
            "s.json: expected every key once, got 'a' twice.");
  EXPECT_EQ(refusal("{\"a\":18446744073709551616}"),
            "s.json: expected integers of at most 64 bits, got '18446744073709551616'.");
  EXPECT_EQ(refusal("[[[[[]]]]]"), "s.json: expected at most 4 nested objects and arrays.");
  EXPECT_EQ(refusal(std::string(1'000'000, '[')),
            "s.json: expected at most 4 nested objects and arrays.");
  EXPECT_EQ(refusal("[1,2,3,4,5,6,7,8]"), "s.json: expected at most 8 values.");
}

}  // namespace
}  // namespace whisker
