// The expected texts are the output of Python 3.11's repr and json.dumps.
#include "base/json.h"

#include <gtest/gtest.h>

#include <limits>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

TEST(PythonJson, FloatsAreReprs) {
  const std::pair<double, const char*> cases[] = {{0.0, "0.0"},
                                                  {-0.0, "-0.0"},
                                                  {3.0, "3.0"},
                                                  {0.1, "0.1"},
                                                  {1e-4, "0.0001"},
                                                  {9.999e-05, "9.999e-05"},
                                                  {1e-05, "1e-05"},
                                                  {1e15, "1000000000000000.0"},
                                                  {1e16, "1e+16"},
                                                  {1.2345678901234568e+17, "1.2345678901234568e+17"},
                                                  {5e-324, "5e-324"},
                                                  {0.00012345, "0.00012345"},
                                                  {1.5e300, "1.5e+300"},
                                                  {-2.5e-10, "-2.5e-10"},
                                                  {123456789.125, "123456789.125"},
                                                  {0.30000000000000004, "0.30000000000000004"},
                                                  {1e22, "1e+22"},
                                                  {9007199254740993.0, "9007199254740992.0"},
                                                  {1.7976931348623157e+308, "1.7976931348623157e+308"},
                                                  {2.0 / 3, "0.6666666666666666"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(python_float(value), text);
  EXPECT_THROW(python_float(std::numeric_limits<double>::quiet_NaN()), Error);
}

TEST(PythonJson, IndentsSortsAndEscapes) {
  const auto value = nlohmann::json::parse(
      R"({"b": [], "a": {}, "c": [1, -2, true, null], "d": {"y": "\u00e9\u007f\n\"\\\ud83d\ude00", "x": "\\u007f"}})");
  EXPECT_EQ(
      python_json(value, 2),
      "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [\n    1,\n    -2,\n    true,\n    null\n  ],\n  \"d\": {\n"
      "    \"x\": \"\\\\u007f\",\n    \"y\": \"\\u00e9\\u007f\\n\\\"\\\\\\ud83d\\ude00\"\n  }\n}");
  EXPECT_EQ(python_json(nlohmann::json(3), 2), "3");
  EXPECT_EQ(python_json({{"b", {1, 2.5, nullptr}}, {"a", "\u00e9\n"}, {"c", nlohmann::json::object()}}, 2),
            "{\n  \"a\": \"\\u00e9\\n\",\n  \"b\": [\n    1,\n    2.5,\n    null\n  ],\n  \"c\": {}\n}");
  EXPECT_EQ(python_json(nlohmann::json::array(), 4), "[]");
}

TEST(PythonJson, BytesThatAreNotTextBecomeReplacementCharacters) {
  EXPECT_EQ(python_json("a\xff", 2), "\"a\\ufffd\"");
}

}  // namespace
}  // namespace plimsoll
