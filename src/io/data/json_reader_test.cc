#include "io/data/json_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/data/testing/letter_encoder.h"

namespace plimsoll {
namespace {

TextFile file(const std::string& bytes) {
  return text_file_from_memory("f.json", bytes);
}

TEST(JsonReader, ReadsArraysDataAndLinesAlike) {
  const std::string first = R"({"text": "a\n\"b\" \u00e4\ud83d\ude00", "label": 1})";
  const std::string second = R"({"label": 2, "text": "c", "more": [1, {"x": "]"}]})";
  const Table tables[] = {
      read_json(file("[" + first + ",\n" + second + "]")),
      read_json(
          file("{\"version\": {\"data\": [1]}, \"data\": [" + first + ",\n" + second + "], \"z\": \"]}\"}")),
      read_jsonl(file(first + "\n" + second + "\n")),
      read_jsonl(file("\n" + first + "\r\n\r\n  " + second)),
  };
  for (const Table& table : tables) {
    ASSERT_EQ(table.num_rows(), 2);
    EXPECT_EQ(table.columns(), (std::vector<std::string>{"text", "label"}));
    EXPECT_EQ(table.cell(0, 0), "a\n\"b\" \xC3\xA4\xF0\x9F\x98\x80");
    EXPECT_EQ(table.cell(1, 0), "c");
    EXPECT_EQ(table.cell(1, 1), "2");
    EXPECT_EQ(table.kind(1, 1), CellKind::kInteger);
  }
  EXPECT_EQ(tables[0].line(0), 1);
  EXPECT_EQ(tables[0].line(1), 2);
  EXPECT_EQ(tables[3].line(0), 2);
  EXPECT_EQ(tables[3].line(1), 4);
}

TEST(JsonReader, KeepsKindsAndNestedValuesAsText) {
  const Table table = read_jsonl(file(
      R"({"a": null, "b": true, "c": 1.5, "d": [1.0, 0], "e": {"x": 1}, "f": 18446744073709551615, "g": -3})"));
  const CellKind kinds[] = {CellKind::kNull,   CellKind::kBool,    CellKind::kFloat,  CellKind::kList,
                            CellKind::kObject, CellKind::kInteger, CellKind::kInteger};
  for (int64_t column = 0; column < 7; ++column) {
    EXPECT_EQ(table.kind(0, column), kinds[column]) << column;
  }
  EXPECT_EQ(table.cell(0, 3), "[1.0,0]");
  EXPECT_EQ(table.cell(0, 5), "18446744073709551615");
  const std::vector<JsonItem> items = find_json_list(table.cell(0, 3)).value();
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].kind, CellKind::kFloat);
  EXPECT_EQ(items[1].kind, CellKind::kInteger);
}

TEST(JsonReader, AKeyThatIsLeftOutIsNull) {
  const Table table = read_jsonl(file("{\"a\": \"x\", \"b\": 1}\n{\"b\": 2}\n"));
  EXPECT_EQ(table.kind(1, 0), CellKind::kNull);
  EXPECT_EQ(table.cell(1, 1), "2");
}

TEST(JsonReader, CountsLinesInRowsOverSeveral) {
  const Table table = read_json(file("[\n {\n  \"a\": \"x\"\n },\r\n\r\n {\"a\": \"y\"}\n]\n"));
  EXPECT_EQ(table.line(0), 2);
  EXPECT_EQ(table.line(1), 6);
}

TEST(JsonReader, SaysWhatIsWrongAndWhere) {
  const std::string deep(200, '[');
  const std::string deep_end(200, ']');
  const struct {
    const char* name;
    bool lines;
    std::string bytes;
    std::vector<const char*> parts;
  } cases[] = {
      {"NaN", true, "{\"a\": \"x\"}\n{\"a\": NaN}\n", {"4: f.json:2:7: NaN is not JSON", "null"}},
      {"-Infinity", true, "{\"a\": -Infinity}\n", {"4: f.json:1:", "Infinity is not JSON"}},
      {"missing comma", true, "{\"a\": 1 \"b\": 2}\n", {"4: f.json:1:9: not valid JSON"}},
      {"cut short line", true, "{\"a\": 1}\n{\"a\": \"x\n", {"4: f.json:2:", "not valid JSON"}},
      {"two values a line", true, "{\"a\": 1} {\"a\": 2}\n", {"4: f.json:1:", "not valid JSON"}},
      {"a list as row", true, "[1, 2]\n", {"4: f.json:1:1: every row must be an object", "[1, 2]"}},
      {"a number as row", false, "[\n1]", {"4: f.json:2:1: every row must be an object"}},
      {"key twice", true, "{\"a\": 1, \"a\": 2}\n", {"4: f.json:1: the key 'a' occurs twice"}},
      {"empty object", true, "{}\n", {"4: f.json:1: the first row is an empty object"}},
      {"no rows", false, "[]", {"4: f.json: the file has no rows"}},
      {"only spaces", true, " \n \n", {"4: f.json: the file has no rows"}},
      {"deep",
       true,
       "{\"a\": " + deep + deep_end + "}\n",
       {"4: f.json:1:1: this row is nested more than 32 levels deep"}},
      {"deep and open",
       false,
       "[{\"a\": " + deep,
       {"4: f.json:1:2: the value that begins here is never closed"}},
      {"no data", false, "{\"rows\": [1]}", {"4: f.json: the file is an object without \"data\""}},
      {"data is not a list", false, "{\"data\": 3}", {"4: f.json: the file is an object without \"data\""}},
      {"open array",
       false,
       "[{\"a\": 1}",
       {"4: f.json:1:10: expected ',' or ']' after a row, found the end of the file"}},
      {"text behind", false, "[{\"a\": 1}] x", {"4: f.json:1:12: expected the end of the file, found 'x'"}},
      {"open string", false, "[{\"a\": \"xyz", {"4: f.json:1:8: this string is never closed"}},
      {"a word", false, "hello", {"4: f.json:1:1: expected an array of objects"}},
      {"missing comma between rows",
       false,
       "[{\"a\": 1}\n{\"a\": 2}]",
       {"4: f.json:2:1: expected ',' or ']' after a row"}},
      {"wrong bracket", false, "[{\"a\": 1]]", {"4: f.json:1:"}},
      {"comma at the end", false, "[{\"a\": 1},]", {"4: f.json:1:"}},
      {"huge number", true, "{\"a\": 123456789012345678901234567890}\n", {"4: f.json:1:"}},
      {"raw control character", true, "{\"a\": \"x\ty\"}\n", {"4: f.json:1:"}},
      {"half a surrogate pair", true, "{\"a\": \"\\ud83d\"}\n", {"4: f.json:1:"}},
  };
  for (const auto& c : cases) {
    const std::string error =
        error_of([&] { c.lines ? read_jsonl(file(c.bytes)) : read_json(file(c.bytes)); });
    for (const char* part : c.parts) {
      EXPECT_NE(error.find(part), std::string::npos) << c.name << ": " << error << "\n  expected " << part;
    }
  }
}

TEST(JsonReader, ReadsRowsLargerThanThoseBefore) {
  std::string bytes;
  for (int i = 0; i < 12; ++i) {
    bytes += "{\"a\": \"" + std::string(size_t{1} << i, 'x') + "\"}\n";
  }
  const Table table = read_jsonl(file(bytes));
  ASSERT_EQ(table.num_rows(), 12);
  EXPECT_EQ(table.cell(11, 0).size(), 2048u);
}

}  // namespace
}  // namespace plimsoll
