#include "base/guarded_json.h"

#include <gtest/gtest.h>

#include <string>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

std::string failure_of(std::string_view text, const JsonRules& rules = strict_json()) {
  try {
    parse_json(text, "c.json", rules);
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ErrorCode::kBadData));
    return error.what();
  }
  return "accepted";
}

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

struct BadJson {
  const char* name;
  std::string text;
  const char* message;
};

TEST(GuardedJson, RefusesWithPlaceReasonAndRemedy) {
  EXPECT_EQ(failure_of("{\n  \"a\": 1,\n}"),
            "c.json: line 3, column 1: not valid JSON: unexpected '}'; expected string literal, in '}'. "
            "Correct the file or get it again from its source");
  EXPECT_EQ(failure_of("{", {.remedy = "Write it again"}),
            "c.json: line 1, column 1: not valid JSON: unexpected end of input; expected string literal, in "
            "'{'. Write it again");
  const BadJson cases[] = {
      {"empty", "", "line 1, column 1: not valid JSON: unexpected end of input"},
      {"truncated", "{\"a\": 1",
       "line 1, column 7: not valid JSON: unexpected end of input; expected '}', in"},
      {"trailing", "{} x", "line 1, column 4: not valid JSON"},
      {"second line", "{\n  \"a\": nul\n}", "line 2, column 11: not valid JSON"},
      {"number instead of a colon", "{\"a\" 12}", "line 1, column 7: not valid JSON: unexpected number"},
      {"duplicate", "{\"a\": 1,\n \"a\": 2}",
       "line 2, column 4: the key 'a' occurs twice in one object, in '\"a\"'. "},
      {"duplicate inside", "{\"b\": {\"a\": 1, \"a\": 2}}", "the key 'a' occurs twice"},
      {"duplicate with an escape", "{\"a\": 1, \"\\u0061\": 2}", "the key 'a' occurs twice"},
      {"NaN", "{\"a\": NaN}", "not valid JSON"},
      {"infinity", "{\"a\": -Infinity}", "not valid JSON"},
      {"too large", "{\"a\": 1e999}", "line 1, column 11: expected a number of at most 1.8e308, got '1e999'"},
      {"NUL", std::string("{}\0 garbage", 11), "column 3: not valid JSON: a NUL byte"},
      {"mark", "\xef\xbb\xbf{}", "line 1, column 1: not valid JSON: a byte-order mark"},
      {"invalid UTF-8", "{\"a\": \"\xff\"}",
       "line 1, column 8: not valid JSON: byte 0xFF is not valid UTF-8"},
      {"half of a character", "{\"a\": \"\xe4\xb8\"}", "column 8: not valid JSON: byte 0xE4 is not"},
      {"character outside of a text", "{\xe4\xb8\xad}", "column 2: not valid JSON: invalid literal"},
      {"single quotes", "{'a': 1}", "not valid JSON"},
      {"comment", "{} // note", "not valid JSON"},
      {"lone surrogate", "\"\\ud800\"", "not valid JSON"},
  };
  for (const BadJson& bad : cases) {
    EXPECT_NE(failure_of(bad.text).find(bad.message), std::string::npos)
        << bad.name << ": " << failure_of(bad.text);
    EXPECT_TRUE(failure_of(bad.text).starts_with("c.json: line ")) << failure_of(bad.text);
  }
}

TEST(GuardedJson, MessagesAreShortAndPrintable) {
  const std::string large(1 << 20, 'x');
  for (const std::string& text :
       {"[\"" + large + "\" 1]", "{\"" + large + "\" 1}", "[1" + std::string(1 << 20, '0') + "e999]",
        std::string("[\"a\x1b[2J\"]"), std::string("[1; \"; expected \x1b[2J\"]")}) {
    const std::string message = failure_of(text);
    EXPECT_NE(message, "accepted");
    EXPECT_LT(message.size(), 400u) << message;
    EXPECT_EQ(message.find('\x1b'), std::string::npos) << message;
  }
}

TEST(GuardedJson, BoundsDepth) {
  EXPECT_EQ(failure_of(nested(kMaxJsonDepth)), "accepted");
  for (const int depth : {kMaxJsonDepth + 1, 100000}) {
    EXPECT_NE(failure_of(nested(depth)).find("line 1, column 65: nested deeper than 64 levels"),
              std::string::npos);
  }
  std::string objects = "1";
  for (int i = 0; i < kMaxJsonDepth; ++i) objects.insert(0, "{\"a\":").append("}");
  EXPECT_EQ(failure_of(objects), "accepted");
  EXPECT_NE(failure_of("[" + objects + "]"), "accepted");
  EXPECT_EQ(failure_of("[[], {}, [[]], []]", {.max_depth = 3}), "accepted");
  EXPECT_NE(failure_of("[[], {}, [[]], []]", {.max_depth = 2}), "accepted");
  // Brackets inside strings do not count as depth.
  EXPECT_EQ(failure_of("[\"[[[[\", \"\\\"[[[\", \"\\\\\"]", {.max_depth = 1}), "accepted");
}

TEST(GuardedJson, BoundsSize) {
  EXPECT_EQ(failure_of("[1, 2]", {.max_bytes = 6}), "accepted");
  EXPECT_NE(failure_of("[1, 2]", {.max_bytes = 5}).find("the text has 6 bytes, but at most 5 are read"),
            std::string::npos);
}

TEST(GuardedJson, FollowsTheRulesOfTheReader) {
  const JsonRules lenient;
  EXPECT_EQ(parse_json("{\"a\": [1], \"b\": 2, \"a\": {\"c\": 3}}", "x", lenient),
            nlohmann::json::parse(R"({"a": {"c": 3}, "b": 2})"));
  EXPECT_EQ(parse_json("\xef\xbb\xbf[1]", "x", lenient), nlohmann::json::parse("[1]"));
}

TEST(GuardedJson, BuildsTheSameTreeAsTheLibrary) {
  const std::string good =
      R"({"z": [1, -2, 3.5, true, null, "x", [], {}, [[1], {"b": [2]}]], "c": {"d": {"e": 18446744073709551615}}, "": "\u00e9"})";
  EXPECT_EQ(parse_json(good, "x", strict_json()), nlohmann::json::parse(good));
  const auto ordered = parse_json<nlohmann::ordered_json>(good, "x");
  EXPECT_EQ(ordered, nlohmann::ordered_json::parse(good));
  EXPECT_EQ(ordered.begin().key(), "z");
  for (const char* scalar : {"null", "true", "-3", "3", "0.5", "\"a\""})
    EXPECT_EQ(parse_json(scalar, "x"), nlohmann::json::parse(scalar));
}

TEST(GuardedJson, FindsJsonInTextThatMayBeSomethingElse) {
  EXPECT_EQ(find_json("{\"a\": 1}"), nlohmann::json::parse("{\"a\": 1}"));
  for (const std::string& text : {std::string("high"), std::string(), std::string("{\"a\": 1"), nested(65)}) {
    EXPECT_TRUE(find_json(text).is_discarded()) << text;
    EXPECT_FALSE(find_json(text).is_object() || find_json(text).is_array());
  }
}

TEST(GuardedJson, AnObjectIsWanted) {
  try {
    parse_json_object("[1]", "config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "config.json: expected a JSON object {...}, found array. Check that it is the right file");
  }
}

}  // namespace
}  // namespace plimsoll
