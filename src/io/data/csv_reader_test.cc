#include "io/data/table_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

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

// The expected values are those that pandas 2.3 reads by read_csv(dtype=str, keep_default_na=False).
TEST(CsvReader, ATextGoesOnAfterItsClosingQuoteAsInPandas) {
  const struct {
    const char* bytes;
    const char* first;
    const char* second;
    int64_t num_warnings;
  } cases[] = {
      {"a,b\n\"Great\" film they say,1\n", "Great film they say", "1", 1},
      {"a,b\n\"x\" ,1\n", "x ", "1", 0},
      {"a,b\n\"x\"\t,1\n", "x\t", "1", 0},
      {"a,b\n\"x\"\"y\"z\"w\",1\n", "x\"yz\"w\"", "1", 1},
      {"a,b\n\"x\"\" y,1\n\",2\n", "x\" y,1\n", "2", 1},
      {"a,b\n \"\"x,1\n", " \"\"x", "1", 0},
      {"a,b\n\"\"x,1\n", "x", "1", 1},
      {"a,b\n1,\"x\"y", "1", "xy", 1},
      {"a,b\n1,\"x\" \n", "1", "x ", 0},
      {"a,b\n\"\"\" q\"\"\",1\n", "\" q\"", "1", 0},
      {"a,b\n\"x, y\" and z,1\n", "x, y and z", "1", 1},
      {"a,b\r\n\"x\"y,1\r\n", "xy", "1", 1},
      {"\"a\" ,b\n1,2\n", "1", "2", 0},
  };
  for (const auto& c : cases) {
    const Table table = parse(c.bytes);
    EXPECT_EQ(rows_of(table)[0], (std::vector<std::string>{c.first, c.second})) << c.bytes;
    EXPECT_EQ(std::ssize(table.warnings()), c.num_warnings) << c.bytes;
  }
  EXPECT_EQ(parse("a,b\nx,1\n\"Great\" film,1\n\"So\" so,2\n").warnings().at(0),
            "f.csv:3: a cell begins with a quoted part and is read without these quotes: Great film (and 1 "
            "more); if quotes are ordinary characters in this file, use --quoting none");
}

TEST(CsvReader, WarnsOfRowsInAQuotedCell) {
  const struct {
    const char* name;
    std::string bytes;
    bool tab;
    const char* warning;  // start of the expected warning; empty if none is expected
  } cases[] = {
      {"lone quotes in TSV", "a\tb\ngreat\t1\n\" awful\t0\nfine\t1\n\"\t0\nx\t0\n", true,
       "f.csv:3: the quote that opens a cell here is closed in line 5, and the cell looks like 3 rows; if"},
      {"lone quotes in CSV", "a,b\n\" awful,0\nfine,1\n\",0\nx,0\n", false,
       "f.csv:2: the quote that opens a cell here is closed in line 4, and the cell looks like 3 rows; if"},
      {"closed inside a text", "a,b\n\"awful,0\nthis is 5\" long,1\n", false,
       "f.csv:2: the quote that opens a cell here is closed in line 3, and the cell looks like 2 rows"},
      {"in a later column", "a,b,c\n1,\"x,5\n2,y,6\n3,\"z,7\n", false,
       "f.csv:2: the quote that opens a cell here is closed in line 4, and the cell looks like 3 rows"},
      {"CRLF", "a,b\r\n\"awful,0\r\nfine,1\r\n\",0\r\n", false, "f.csv:2: the quote that opens a cell"},
      {"two of them", "a\tb\n\"x\t0\n\"\t1\n\"y\t0\n\"\t1\n", true,
       "f.csv:2: the quote that opens a cell here is closed in line 3, and the cell looks like 2 rows (and 1 "
       "more)"},
      {"a text with lines and commas", "a,b\n\"Dear all,\nwe met, and left.\n\nBye\",1\n", false, ""},
      {"an address", "a,b\n\"12 High St, London\nUK\",1\n", false, ""},
      {"a text with lines in TSV", "a\tb\n\"x\ny, z\"\t1\n", true, ""},
      {"a list of lists", "a,b\n\"1,2,3\n4,5,6\",1\n", false, ""},
      {"one column", "a\n\"x\ny\"\n", false, ""},
      {"a vector of NumPy", "a,b\nx,\"[1 0\n 1]\"\n", false, ""},
      {"an array of arrays", "a,b\nx,\"array([[1, 0],\n [0, 1]])\"\n", false, ""},
      {"a printed tensor in TSV", "a\tb\nx\t\"tensor([1,\t0,\n1])\"\n", true, ""},
  };
  for (const auto& c : cases) {
    const Table table = parse(c.bytes, c.tab ? tabs() : CsvOptions{});
    if (*c.warning == '\0') {
      EXPECT_TRUE(table.warnings().empty()) << c.name << ": " << table.warnings()[0];
      continue;
    }
    ASSERT_FALSE(table.warnings().empty()) << c.name;
    EXPECT_TRUE(table.warnings()[0].starts_with(c.warning)) << c.name << ": " << table.warnings()[0];
    CsvOptions raw = c.tab ? tabs() : CsvOptions{};
    raw.quotes = QuoteRule::kNone;
    EXPECT_TRUE(parse(c.bytes, raw).warnings().empty()) << c.name;
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
      {"blank before a quote",
       "a,b\n \"1,2\",3\n",
       {"4: f.csv:2: this row has 3 fields",
        "remove the blank before the quote: a quoted field begins directly after "
        "the comma"}},
      {"quotes after backslashes",
       "a,b\n\"he said \\\"no\\\", ok\",1\n",
       {"4: f.csv:2: this row has 3 fields", "twice (\"\") instead of after a backslash"}},
      {"single quotes", "a,b\n'1,2',3\n", {"in double quotes (\") instead of '"}},
      {"curly quotes", "a,b\n\u201c1,2\u201d,3\n", {"in double quotes (\") instead of \u201c"}},
      {"comma at the end",
       "a,b\n1,2,\n",
       {"remove the comma at the end of the row, or end the header with one too"}},
      {"comment first",
       "# made by me\na,b\n1,2\n",
       {"4: f.csv:2: this row has 2 fields",
        "the first line is read as the header: remove the comment '# made by me'"}},
      {"JSON Lines",
       "{\"a\": \"x\", \"b\": 1}\n",
       {"4: f.csv:1: the file contains JSON", "rename it to .jsonl"}},
      {"dictionaries of Python",
       "{'a': 'x', 'b': 1}\n",
       {"4: f.csv:1: the file contains dictionaries as Python prints them"}},
      {"JSON", "[{\"a\": \"x\"}, {\"a\": 1}]", {"4: f.csv:1: the file contains JSON", "rename it to .json"}},
      {"open quote",
       "a,b\n1,2\n3,\"the quick\nbrown\n",
       {"4: f.csv:3: quote opened at column 3 is never closed", "the quick\\nbrown"}},
      {"open quote at the end", "a,b\n1,\"", {"4: f.csv:2: quote opened at column 3 is never closed"}},
      {"open quote in the header", "a,\"b\n1,2\n", {"4: f.csv:1: quote opened at column 3 is never closed"}},
      {"open quote, tabs in the header",
       "a\tb\tc\td\n\"1\n",
       {"it has 3 tabs in its header: rename it to .tsv"}},
      {"semicolons and a comma in a row",
       "text;label\ngood, film;1\n",
       {"4: f.csv:2: this row has 2 fields, but the header has 1",
        "the fields of the header 'text;label' are separated by semicolons, but those of a .csv file by "
        "commas: write it with commas, or with tabs as .tsv"}},
      {"vertical bars and a comma in a row",
       "text|label\ngood, film|1\n",
       {"4: f.csv:2: this row has 2 fields", "'text|label' are separated by vertical bars"}},
      {"tabs and a comma in a row",
       "text\tlabel\ngood, film\t1\n",
       {"4: f.csv:2: this row has 2 fields", "are separated by tabs: rename the file to .tsv"}},
      {"open quote with advice", "a,b\n1,\"x\n", {"if quotes are ordinary characters", "--quoting none"}},
      {"header only", "a,b\n", {"4: f.csv: the file has a header ('a', 'b') but no rows; check"}},
      {"empty lines only", "\n\r\n\n", {"4: f.csv: the file has only empty lines"}},
      {"two columns of one name",
       "a,b,a\n1,2,3\n",
       {"4: f.csv:1: two columns of the header have the name 'a'"}},
      {"no header, two equal values",
       "0,0,\"A film\"\n1,1,bad\n",
       {"4: f.csv:1: the first row looks like data ('0'), but it must name the 3 columns"}},
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
  const std::string error = error_of([&] { read_table(folder.write("a.xlsx", "x")); });
  EXPECT_TRUE(error.starts_with("2: ")) << error;
  EXPECT_NE(error.find("data files must be .csv, .tsv, .tab, .json, .jsonl, .ndjson, .conll, .conllu, .txt, "
                       "also compressed (.gz, .zst)"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("this file is '.xlsx'; save the sheet as .csv"), std::string::npos) << error;
}

}  // namespace
}  // namespace plimsoll
