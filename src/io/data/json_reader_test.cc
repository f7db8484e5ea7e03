#include "io/data/table_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/data/data_columns.h"
#include "io/data/labels.h"
#include "io/data/testing/letter_encoder.h"
#include "io/data/text_split.h"

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
      {"missing comma", true, "{\"a\": 1 \"b\": 2}\n", {"4: f.json:1:9: not valid JSON"}},
      {"comma after a row",
       true,
       "{\"a\": 1},\n{\"a\": 2},\n",
       {"4: f.json:1:9: a comma follows the row, but rows of JSON Lines have only line ends between them; "
        "remove "
        "it, or write all rows as a list"}},
      {"cut short line", true, "{\"a\": 1}\n{\"a\": \"x\n", {"4: f.json:2:", "not valid JSON"}},
      {"two values a line", true, "{\"a\": 1} {\"a\": 2}\n", {"4: f.json:1:", "not valid JSON"}},
      {"a list as row", true, "[1, 2]\n", {"4: f.json:1:1: every row must be an object", "[1, 2]"}},
      {"a number as row", false, "[\n1]", {"4: f.json:2:1: every row must be an object"}},
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
      {"a list as lines",
       true,
       "[{\"a\": 1},\n{\"a\": 2}]",
       {"4: f.json:1:1: the file is one list of rows", "rename the file to .json"}},
      {"a list in one line",
       true,
       "[{\"a\": 1}, {\"a\": 2}]",
       {"4: f.json:1:1: the file is one list of rows"}},
      {"a list over several lines", true, "[\n  {\n", {"4: f.json:1:1: a row extends over several lines"}},
      {"objects over several lines",
       true,
       "{\n  \"a\": 1\n}\n",
       {"4: f.json:1:1: a row extends over several lines"}},
      {"a first row that is cut", true, "{\"a\": 1", {"4: f.json:1:", "not valid JSON"}},
      {"a list in a list", false, "[[{\"a\": 1}]]", {"4: f.json:1:2: every row must be an object"}},
      {"dictionaries of Python",
       true,
       "{\"a\": 1}\n{'a': 1}\n",
       {"4: f.json:2:1: the rows are dictionaries as Python prints them", "json.dumps()"}},
      {"a list of dictionaries of Python",
       true,
       "[{'a': 1}]\n",
       {"4: f.json:1:1: the rows are dictionaries as Python prints them"}},
      {"None of Python",
       true,
       "{\"a\": None}\n",
       {"4: f.json:1:7: None is a value as Python writes it, not JSON"}},
      {"True of Python", false, "[{\"a\": True}]\n", {"4: f.json:1:8: True is a value as Python writes it"}},
      {"a text in single quotes",
       true,
       "{\"a\": 'b'}\n",
       {"4: f.json:1:7: 'b' is a value as Python writes it"}},
      {"a dictionary of Python",
       false,
       "{'data': [{'a': 1}]}\n",
       {"4: f.json: the file contains a value as Python writes it"}},
      {"a tuple of Python",
       false,
       "({'a': 1},)\n",
       {"4: f.json: the file contains a value as Python writes it"}},
      {"CSV",
       true,
       "text,label\nx,1\n",
       {"4: f.json:1:1: the file does not contain JSON", "rename it to .csv"}},
      {"TSV", true, "text\tlabel\nx\t1\n", {"fields separated by tabs, rename it to .tsv"}},
      {"splits in one object",
       false,
       "{\n\"version\": [1],\n\"train\": [{\"a\": 1}],\n\"dev\": [ {\"a\": 1}],\n\"test\": []}",
       {"4: f.json: the file is one object with lists of rows in 'train', 'dev', but"}},
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
      {"raw control character", true, "{\"a\": \"x\ty\"}\n", {"4: f.json:1:"}},
  };
  for (const auto& c : cases) {
    const std::string error =
        error_of([&] { c.lines ? read_jsonl(file(c.bytes)) : read_json(file(c.bytes)); });
    for (const char* part : c.parts) {
      EXPECT_NE(error.find(part), std::string::npos) << c.name << ": " << error << "\n  expected " << part;
    }
  }
}

// Values such as NaN, which Python's json module writes or simdjson refuses, must cause an error only if their column is used.
TEST(JsonReader, KeepsValuesThatNobodyMayRead) {
  const struct {
    const char* name;
    const char* value;
    const char* cell;
    const char* error;  // the expected error if the column is used as text
  } cases[] = {
      {"NaN", "NaN", "NaN", "NaN is not JSON (column 'x'): write a finite number, or null for a missing one"},
      {"nan", "nan", "nan", "nan is not JSON"},
      {"Infinity", "Infinity", "Infinity", "Infinity is not JSON"},
      {"-Infinity", "-Infinity", "-Infinity", "-Infinity is not JSON"},
      {"NaN in a list", "[1, NaN]", "NaN", "NaN is not JSON"},
      {"Infinity in an object", "{\"y\": {\"z\": [Infinity]}}", "Infinity", "Infinity is not JSON"},
      {"2^128", "340282366920938463463374607431768211456", "340282366920938463463374607431768211456",
       "the number 340282366920938463463374607431768211456 in column 'x' does not fit into 64 bits"},
      {"-2^64", "-18446744073709551616", "-18446744073709551616", "the number -18446744073709551616"},
      {"1e400", "1e400", "1e400", "the number 1e400 in column 'x' does not fit into 64 bits"},
      {"half a surrogate pair", "\"a \\ud83d\"", "\\ud83d",
       "the text of column 'x' contains \\ud83d, half of a surrogate pair"},
      {"the other half", "\"\\ude00 a\"", "\\ude00", "the text of column 'x' contains \\ude00"},
      {"two first halves", "\"\\ud83d\\ud83d\\ude00\"", "\\ud83d", "the text of column 'x' contains \\ud83d"},
  };
  for (const auto& c : cases) {
    const std::string row =
        fmt::format(R"({{"text": "good NaN \ud83d\ude00", "x": {}, "label": 1}})", c.value);
    const std::string plain = R"({"text": "b", "x": "c", "label": 0})";
    for (const bool is_first : {true, false}) {
      const std::string& first = is_first ? row : plain;
      const std::string& second = is_first ? plain : row;
      const std::string lines = fmt::format("{}\n{}", first, second);
      const std::string array = fmt::format("[{},{}]", first, second);
      for (const Table& table : {read_jsonl(file(lines)), read_json(file(array)),
                                 read_json(file("{\"z\": NaN, \"data\": " + array + "}"))}) {
        const int64_t at = is_first ? 0 : 1;
        ASSERT_EQ(table.num_rows(), 2) << c.name;
        EXPECT_EQ(table.cell(at, 0), "good NaN \xF0\x9F\x98\x80") << c.name;
        EXPECT_EQ(table.kind(at, 1), CellKind::kInvalid) << c.name;
        EXPECT_EQ(table.cell(at, 1), c.cell) << c.name;
        EXPECT_EQ(table.cell(at, 2), "1") << c.name;
        EXPECT_EQ(table.cell(1 - at, 1), "c") << c.name;
        ColumnChoice columns{.first = "text", .second = {}, .label = "label", .has_label = true};
        EXPECT_EQ(error_of([&] { TextSplit(table, columns); }), "no error") << c.name;
        columns.first = "x";
        const std::string error = error_of([&] { TextSplit(table, columns); });
        EXPECT_NE(error.find(c.error), std::string::npos) << error << "\n  expected " << c.error;
      }
    }
  }
}

TEST(JsonReader, AKeyThatOccursTwiceIsAnErrorIfItIsRead) {
  for (const char* rows : {"{\"a\": \"x\", \"b\": 1, \"b\": 2}\n", "{\"b\": 1, \"a\": \"x\", \"b\": 2}\n"}) {
    const Table table = read_jsonl(file(std::string(rows) + "{\"a\": \"y\", \"b\": 3}\n"));
    EXPECT_EQ(table.num_columns(), 2);
    EXPECT_EQ(table.cell(0, table.find_column("a")), "x");
    EXPECT_EQ(table.kind(0, table.find_column("b")), CellKind::kRepeated);
    EXPECT_EQ(table.cell(1, table.find_column("b")), "3");
    const ColumnChoice labelled{.first = "a", .second = {}, .label = "b", .has_label = true};
    const TextSplit split(table, labelled);
    EXPECT_EQ(error_of([&] { infer_labels(split); }),
              "4: f.json:1: the key 'b' occurs twice in one row; keep one of them");
    EXPECT_TRUE(error_of([&] {
                  encode_labels(split, given_labels({"1", "2"}));
                }).starts_with("4: f.json:1: the key 'b' occurs twice"));
  }
  const Table nested = read_jsonl(file(R"({"a": "x", "b": {"c": 1, "c": 2}})"));
  EXPECT_EQ(nested.kind(0, 1), CellKind::kObject);
}

TEST(JsonReader, LabelsThatCannotBeReadAreNamed) {
  const auto error = [](const std::string& label) {
    const std::string rows = "{\"a\": \"x\", \"label\": 1}\n{\"a\": \"y\", \"label\": " + label + "}\n";
    const ColumnChoice columns{.first = "a", .second = {}, .label = "label", .has_label = true};
    return error_of([&] { infer_labels(TextSplit(read_jsonl(file(rows)), columns)); });
  };
  EXPECT_TRUE(error("NaN").starts_with("4: f.json:2: NaN is not JSON (column 'label')"));
  EXPECT_TRUE(error("340282366920938463463374607431768211456").starts_with("4: f.json:2: the number 3402"));
  EXPECT_EQ(error("18446744073709551615"),
            "4: f.json:2: the label 18446744073709551615 is too large for a class");
}

TEST(JsonReader, ReplacesNothingInBrokenJson) {
  for (const char* row :
       {"{\"a\": NaN, \"b\" 1}", "{\"a\": NaNs}", "{\"a\": NaN", "{\"a\": NaN}}", "{NaN: 1}", "{\"a\": [NaN}",
        "{\"a\": 1, NaN}", "{\"a\": \"\\ud83d\\x\"}", "{\"a\": 01, \"b\": NaN}"}) {
    EXPECT_TRUE(error_of([&] { read_jsonl(file(row)); }).starts_with("4: f.json:1:")) << row;
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
