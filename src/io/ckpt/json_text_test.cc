#include "io/ckpt/json_text.h"

#include <gtest/gtest.h>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

std::string failure_of(std::string_view text) {
  try {
    parse_untrusted_json(text, "c.json");
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ErrorCode::kBadData));
    return error.what();
  }
  return "accepted";
}

struct BadJson {
  const char* name;
  std::string text;
  const char* message;
};

TEST(JsonText, RefusesWithPlaceAndReason) {
  const std::string deep(100000, '[');
  const BadJson cases[] = {
      {"empty", "", "line 1, column 1: not valid JSON"},
      {"truncated", "{\"a\": 1", "line 1, column 7: not valid JSON"},
      {"trailing", "{} x", "line 1, column 4: not valid JSON"},
      {"second line", "{\n  \"a\": nul\n}", "line 2, column 11: not valid JSON"},
      {"duplicate", "{\"a\": 1,\n \"a\": 2}", "line 2, column 4: key 'a' occurs twice in one object"},
      {"duplicate inside", "{\"b\": {\"a\": 1, \"a\": 2}}", "key 'a' occurs twice"},
      {"deep lists", deep, "line 1, column 65: nesting is deeper than 64 levels"},
      {"NaN", "{\"a\": NaN}", "not valid JSON"},
      {"infinity", "{\"a\": -Infinity}", "not valid JSON"},
      {"too large", "{\"a\": 1e999}", "not valid JSON: number overflow"},
      {"NUL", std::string("{}\0 garbage", 11), "column 3: not valid JSON: a NUL byte"},
      {"mark", "\xef\xbb\xbf{}", "byte-order mark"},
      {"invalid UTF-8", "{\"a\": \"\xff\"}", "invalid string: ill-formed UTF-8 byte"},
      {"single quotes", "{'a': 1}", "not valid JSON"},
      {"comment", "{} // note", "not valid JSON"},
      {"lone surrogate", "\"\\ud800\"", "not valid JSON"},
  };
  for (const BadJson& bad : cases) {
    EXPECT_NE(failure_of(bad.text).find(bad.message), std::string::npos)
        << bad.name << ": " << failure_of(bad.text);
    EXPECT_TRUE(failure_of(bad.text).starts_with("c.json: ")) << failure_of(bad.text);
  }
}

TEST(JsonText, TakesTheLimitOfDepth) {
  EXPECT_EQ(failure_of(std::string(64, '[') + std::string(64, ']')), "accepted");
  EXPECT_NE(failure_of(std::string(65, '[') + std::string(65, ']')), "accepted");
  std::string objects = "1";
  for (int i = 0; i < 64; ++i) objects.insert(0, "{\"a\":").append("}");
  EXPECT_EQ(failure_of(objects), "accepted");
}

TEST(JsonText, BuildsTheSameValueAsTheLibrary) {
  const std::string text =
      R"({"a": [1, -2, 3.5, true, null, "x", [], {}, [[1], {"b": [2]}]], "c": {"d": {"e": 18446744073709551615}}, "": "é"})";
  EXPECT_EQ(parse_untrusted_json(text, "x"), nlohmann::json::parse(text));
}

TEST(JsonText, ObjectIsWanted) {
  try {
    parse_untrusted_json_object("[1]", "config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "config.json: expected a JSON object {...}, found array. Check that it is the right file");
  }
}

// The expected texts were created with Python 3.11: json.dumps(value, indent=2, sort_keys=True).
TEST(JsonText, WritesAsPythonDoes) {
  const auto value = nlohmann::json::parse(
      R"({"b": [], "a": {}, "c": [1, -2, true, null], "d": {"y": "\u00e9\u007f\n\"\\\ud83d\ude00", "x": "\\u007f"}})");
  EXPECT_EQ(
      python_json(value, 2),
      "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    -2,\n    true,\n    null\n  ],\n  \"d\": {\n"
      "    \"x\": \"\\\\u007f\",\n    \"y\": \"\\u00e9\\u007f\\n\\\"\\\\\\ud83d\\ude00\"\n  }\n}");
  EXPECT_EQ(python_json(nlohmann::json(3), 2), "3");
}

TEST(JsonText, FloatsAsPythonWritesThem) {
  const std::pair<double, const char*> cases[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {0.1, "0.1"},
      {1e-12, "1e-12"},
      {1e-05, "1e-05"},
      {0.0001, "0.0001"},
      {0.00012345, "0.00012345"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {1.5e300, "1.5e+300"},
      {-2.5e-10, "-2.5e-10"},
      {5e-324, "5e-324"},
      {123456789.125, "123456789.125"},
      {0.30000000000000004, "0.30000000000000004"},
      {1e22, "1e+22"},
      {9007199254740993.0, "9007199254740992.0"},
      {2e-5, "2e-05"},
  };
  for (const auto& [value, text] : cases) EXPECT_EQ(python_json(nlohmann::json(value), 2), text);
}

}  // namespace
}  // namespace plimsoll
