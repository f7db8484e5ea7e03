#include "io/data/csv_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/data/table_reader.h"
#include "io/data/testing/letter_encoder.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Table parse(const std::string& bytes, const CsvOptions& options = {}) {
  return read_csv(text_file_from_memory("f.csv", bytes), options);
}

CsvOptions tabs() {
  CsvOptions options;
  options.delimiter = '\t';
  return options;
}

Rows rows_of(const Table& table) {
  Rows rows;
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    rows.emplace_back();
    for (int64_t column = 0; column < table.num_columns(); ++column) {
      rows.back().emplace_back(table.cell(row, column));
    }
  }
  return rows;
}

TEST(CsvReader, ReadsWhatRfc4180Says) {
  const struct {
    const char* name;
    std::string bytes;
    Rows rows;
  } cases[] = {
      {"plain", "a,b\n1,2\n3,4\n", {{"1", "2"}, {"3", "4"}}},
      {"no line end at the end", "a,b\n1,2", {{"1", "2"}}},
      {"CRLF", "a,b\r\n1,2\r\n3,4\r\n", {{"1", "2"}, {"3", "4"}}},
      {"lone CR", "a,b\r1,2\r3,4", {{"1", "2"}, {"3", "4"}}},
      {"byte order mark",
       "\xEF\xBB\xBF"
       "a,b\n1,2\n",
       {{"1", "2"}}},
      {"quoted delimiter", "a,b\n\"1,5\",2\n", {{"1,5", "2"}}},
      {"quoted line ends", "a,b\n\"1\n5\r\n6\",2\n", {{"1\n5\r\n6", "2"}}},
      {"doubled quotes", "a,b\n\"say \"\"hi\"\"\",\"\"\"\"\n", {{"say \"hi\"", "\""}}},
      {"empty fields", "a,b\n,\n\"\",x\n", {{"", ""}, {"", "x"}}},
      {"delimiter at the end", "a,b\n1,", {{"1", ""}}},
      {"quote inside a field", "a,b\n5\" disk,it's \"so\"\n", {{"5\" disk", "it's \"so\""}}},
      {"empty lines", "\n\na,b\n\n1,2\n\r\n3,4\n\n", {{"1", "2"}, {"3", "4"}}},
      {"one column", "text\nfirst\n\"\"\nlast\n", {{"first"}, {""}, {"last"}}},
      {"spaces are kept", "a,b\n 1 , 2\n", {{" 1 ", " 2"}}},
      {"quoted header", "\"a,1\",\"b\"\n1,2\n", {{"1", "2"}}},
      {"beyond ASCII",
       "a,b\n\xC3\xA4,\xE6\x97\xA5\xE6\x9C\xAC\n",
       {{"\xC3\xA4", "\xE6\x97\xA5\xE6\x9C\xAC"}}},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(rows_of(parse(c.bytes)), c.rows) << c.name;
  }
}

TEST(CsvReader, TabsWithAndWithoutQuotes) {
  const std::string bytes = "a\tb\n\"x\ty\"\t1\n";
  EXPECT_EQ(rows_of(parse(bytes, tabs())), (Rows{{"x\ty", "1"}}));
  CsvOptions raw = tabs();
  raw.quotes = QuoteRule::kNone;
  EXPECT_EQ(rows_of(parse("a\tb\n\"open\tit\"s\n", raw)), (Rows{{"\"open", "it\"s"}}));
}

TEST(CsvReader, KnowsTheLineOfEachRow) {
  const Table table = parse("a,b\n1,\"x\ny\rz\r\n\"\n\n3,4\n");
  EXPECT_EQ(table.line(0), 2);
  EXPECT_EQ(table.line(1), 7);
}

TEST(CsvReader, FillsRaggedRowsWhenAsked) {
  CsvOptions options = tabs();
  options.ragged = RaggedRule::kFill;
  const Table table = parse("a\tb\tc\n1\n1\t2\t3\t4\n5\t6\t7\n", options);
  EXPECT_EQ(rows_of(table), (Rows{{"1", "", ""}, {"1", "2", "3"}, {"5", "6", "7"}}));
  EXPECT_EQ(table.kind(0, 0), CellKind::kText);
  EXPECT_EQ(table.kind(0, 1), CellKind::kNull);
  EXPECT_EQ(table.kind(1, 2), CellKind::kText);
}

TEST(CsvReader, NamesColumnsWithoutANameAsPandasDoes) {
  EXPECT_EQ(parse(",text\n0,x\n").columns(), (std::vector<std::string>{"Unnamed: 0", "text"}));
}

TEST(CsvReader, SaysWhatIsWrongAndWhere) {
  const struct {
    const char* name;
    std::string bytes;
    std::vector<const char*> parts;
  } cases[] = {
      {"too few fields",
       "a,b,c\n1,2,3\n4,5\n",
       {"4: f.csv:3: this row has 2 fields, but the header has 3: 'a', 'b', 'c'",
        "line end in double quotes"}},
      {"too many fields",
       "a,b\n1,2,3\n",
       {"4: f.csv:2: this row has 3 fields, but the header has 2", "comma in double quotes"}},
      {"open quote",
       "a,b\n1,2\n3,\"the quick\nbrown\n",
       {"4: f.csv:3: quote opened at column 3 is never closed", "the quick\\nbrown"}},
      {"open quote at the end", "a,b\n1,\"", {"4: f.csv:2: quote opened at column 3 is never closed"}},
      {"open quote in the header", "a,\"b\n1,2\n", {"4: f.csv:1: quote opened at column 3 is never closed"}},
      {"open quote, tabs in the header",
       "a\tb\tc\td\n\"1\n",
       {"it has 3 tabs in its header: rename it to .tsv"}},
      {"text after a quote",
       "a,b\n\"x\"y,2\n",
       {"4: f.csv:2:4: text after the closing quote of the field that begins on line 2, column 1: 'y,2",
        "twice"}},
      {"columns count code points", "a,b\n\xC3\xA4\xC3\xA4,\"x\"y\n", {"f.csv:2:7: text after"}},
      {"header only", "a,b\n", {"4: f.csv: the file has a header ('a', 'b') but no rows; check"}},
      {"empty lines only", "\n\r\n\n", {"4: f.csv: the file has only empty lines"}},
      {"two columns of one name",
       "a,b,a\n1,2,3\n",
       {"4: f.csv:1: two columns of the header have the name 'a'"}},
  };
  for (const auto& c : cases) {
    const std::string error = error_of([&] { parse(c.bytes); });
    for (const char* part : c.parts) {
      EXPECT_NE(error.find(part), std::string::npos) << c.name << ": " << error << "\n  expected " << part;
    }
  }
}

// Writes random tables with every permitted form of quoting and reads them back.
TEST(CsvReader, ReadsBackRandomTables) {
  TestRandom random;
  const std::vector<std::string> pieces = {"a", "bc", "\"", "\n",       "\r", "\r\n",
                                           ",", "\t", " ",  "\xC3\xA4", "'",  ""};
  int64_t num_cells = 0;
  for (int round = 0; round < 300; ++round) {
    const char delimiter = random.below(2) == 0 ? ',' : '\t';
    const std::string line_end = random.below(2) == 0 ? "\n" : "\r\n";
    const int64_t num_columns = 1 + random.below(4);
    const auto written = [&](const std::string& cell) {
      const bool must = cell.find_first_of("\"\r\n" + std::string(1, delimiter)) != std::string::npos ||
                        (cell.empty() && num_columns == 1);
      if (!must && random.below(3) != 0) {
        return cell;
      }
      std::string quoted = "\"";
      for (const char byte : cell) {
        quoted += byte == '"' ? "\"\"" : std::string(1, byte);
      }
      return quoted + "\"";
    };
    std::string bytes;
    for (int64_t column = 0; column < num_columns; ++column) {
      bytes += fmt::format("{}c{}", column == 0 ? "" : std::string(1, delimiter), column);
    }
    Rows rows(static_cast<size_t>(1 + random.below(6)));
    for (std::vector<std::string>& row : rows) {
      bytes += line_end;
      for (int64_t column = 0; column < num_columns; ++column) {
        std::string cell;
        for (int64_t i = random.below(5); i > 0; --i) {
          cell += pieces[static_cast<size_t>(random.below(static_cast<int64_t>(pieces.size())))];
        }
        bytes += (column == 0 ? "" : std::string(1, delimiter)) + written(cell);
        row.push_back(cell);
        ++num_cells;
      }
    }
    bytes += random.below(2) == 0 ? line_end : "";
    CsvOptions options;
    options.delimiter = delimiter;
    ASSERT_EQ(rows_of(parse(bytes, options)), rows) << "seed " << random.seed() << ", round " << round << "\n"
                                                    << bytes;
  }
  EXPECT_GT(num_cells, 1000);
}

TEST(TableReader, PicksTheReaderByExtension) {
  const test::ScratchFolder folder;
  EXPECT_EQ(read_table(folder.write("a.csv", "a,b\n1,2\n")).num_columns(), 2);
  EXPECT_EQ(read_table(folder.write("a.TSV", "a,b\tc\n1\t2\n")).num_columns(), 2);
  EXPECT_EQ(read_table(folder.write("a.jsonl", "{\"a\": 1}\n")).num_columns(), 1);
  EXPECT_EQ(read_table(folder.write("array.json", "[{\"a\": 1}, {\"a\": 2}]")).num_rows(), 2);
  EXPECT_EQ(read_table(folder.write("lines.json", "{\"a\": 1}\n{\"a\": 2}\n")).num_rows(), 2);
  EXPECT_EQ(
      read_table(folder.write("data.json", "{\"data\": [{\"a\": 1}, {\"a\": 2}, {\"a\": 3}]}")).num_rows(),
      3);
  EXPECT_EQ(read_table(folder.write("pretty.json", "{\n \"data\": [\n{\"a\": 1}\n]}\n")).num_rows(), 1);
  EXPECT_EQ(read_table(folder.write("one.json", "{\"a\": 1}")).num_rows(), 1);
  const std::string error = error_of([&] { read_table(folder.write("a.parquet", "x")); });
  EXPECT_TRUE(error.starts_with("2: ")) << error;
  EXPECT_NE(error.find("data files must be .csv, .tsv, .json, .jsonl or .conll"), std::string::npos) << error;
}

}  // namespace
}  // namespace plimsoll
