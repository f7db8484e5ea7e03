#include "io/data/data_columns.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/data/csv_reader.h"
#include "io/data/json_reader.h"
#include "io/data/testing/letter_encoder.h"
#include "io/data/text_split.h"

namespace plimsoll {
namespace {

Table csv(const std::string& bytes) {
  return read_csv(text_file_from_memory("f.csv", bytes));
}
Table jsonl(const std::string& bytes) {
  return read_jsonl(text_file_from_memory("f.jsonl", bytes));
}

TEST(Columns, ArePickedAsRunGlueDoes) {
  const struct {
    const char* header;
    const char* first;
    const char* second;  // empty for a single text
  } cases[] = {
      {"sentence1,sentence2,label", "sentence1", "sentence2"},
      {"idx,label,sentence2,x,sentence1", "sentence1", "sentence2"},
      {"label,text", "text", ""},
      {"text,label", "text", ""},
      {"text", "text", ""},
      {"premise,label,hypothesis,note", "premise", "hypothesis"},
      {"sentence1,label,other", "sentence1", "other"},
      {"id,text,label", "id", "text"},
      {",text,label", "text", ""},  // the index column of pandas
  };
  for (const auto& c : cases) {
    const std::string header = c.header;
    std::string row = "x";
    for (const char letter : header) {
      row += letter == ',' ? ",x" : "";
    }
    const ColumnChoice choice = choose_columns(csv(fmt::format("{}\n{}\n", header, row)));
    EXPECT_EQ(choice.first, c.first) << header;
    EXPECT_EQ(choice.second.value_or(""), c.second) << header;
    EXPECT_EQ(choice.has_label, header.find("label") != std::string::npos) << header;
    EXPECT_EQ(choice.warning.empty(), !header.starts_with("id,") && !header.starts_with(",")) << header;
  }
}

TEST(Columns, CanBeNamed) {
  const Table table = csv("id,title,body,topic\n1,a,b,c\n");
  const ColumnChoice pair = choose_columns(table, {{"body", "title"}, "topic"});
  EXPECT_EQ(pair.first, "body");
  EXPECT_EQ(pair.second, "title");
  EXPECT_EQ(pair.label, "topic");
  EXPECT_TRUE(pair.has_label);
  EXPECT_FALSE(choose_columns(table, {{"body"}, "topic"}).second.has_value());
}

TEST(Columns, SayWhatIsExpectedAndFound) {
  const auto error = [](const std::string& bytes, const ColumnOptions& options) {
    return error_of([&] { choose_columns(csv(bytes), options); });
  };
  EXPECT_NE(error("a,b\n1,2\n", {{"c"}, "label"}).find("4: f.csv: expected a column 'c', found 'a', 'b'"),
            std::string::npos);
  EXPECT_NE(error("label\n1\n", {})
                .find("4: f.csv: expected a text column in addition to the label 'label', found 'label'"),
            std::string::npos);
  EXPECT_NE(
      error("a\tlabel\n1\t2\n", {{"a"}, "label"}).find("the header contains tabs: rename the file to .tsv"),
      std::string::npos);
  EXPECT_NE(error("a;label\n1;2\n", {{"a"}, "label"}).find("semicolons"), std::string::npos);
  // The message first names the option to use and then the possible cause.
  EXPECT_EQ(error_of([&] { require_label_column(csv("a;label\n1;2\n"), "label"); }),
            "4: f.csv: no column 'label' for the labels among 'a;label'; rename it, or select it with "
            "--label_column_name\n  the header contains semicolons: fields must be separated by commas "
            "(.csv) or tabs (.tsv)");
  EXPECT_TRUE(error("a,b\n1,2\n", {{"a", "b", "a"}, "label"}).starts_with("2: 3 text columns are given"));
  EXPECT_TRUE(error("a,b\n1,2\n", {{"a"}, "a"}).starts_with("2: the column 'a' is given both"));
}

TEST(Columns, OfJsonAreThoseOfItsFirstRow) {
  const Table table = jsonl("\n{\"label\": 1}\n{\"text\": \"a\", \"label\": 0}\n");
  const std::string hint = "the keys of the first row are the columns";
  for (const ColumnOptions& options : {ColumnOptions{}, ColumnOptions{{"text"}, "label"}}) {
    const std::string error = error_of([&] { choose_columns(table, options); });
    EXPECT_TRUE(error.starts_with("4: f.jsonl:2: expected a ")) << error;
    EXPECT_NE(error.find(hint), std::string::npos) << error;
  }
  const std::string error = error_of([&] { require_label_column(table, "kind"); });
  EXPECT_TRUE(error.starts_with("4: f.jsonl:2: no column 'kind'")) << error;
  EXPECT_NE(error.find(hint), std::string::npos) << error;
}

TEST(TextSplit, GivesTextsLabelsAndLines) {
  Table table = csv("a,b,label\nx,y,1\n\nz,,0\n");
  const ColumnChoice columns = choose_columns(table);
  TextSplit split(std::move(table), columns);
  ASSERT_EQ(split.num_rows(), 2);
  EXPECT_TRUE(split.is_pair());
  EXPECT_EQ(split.first_text(1), "z");
  EXPECT_EQ(split.second_text(0), "y");
  EXPECT_EQ(split.label(1), "0");
  EXPECT_EQ(split.line(1), 4);
  EXPECT_EQ(split.num_empty_texts(), 1);
  const uint64_t all = split.text_hash();
  split.keep_first(1);
  EXPECT_EQ(split.num_rows(), 1);
  EXPECT_NE(split.text_hash(), all);
  split.keep_first(5);
  EXPECT_EQ(split.num_rows(), 1);
}

TEST(TextSplit, RefusesWhatIsNotText) {
  const struct {
    const char* rows;
    const char* message;
  } cases[] = {
      {R"({"text": "a", "label": 1}
{"text": 3, "label": 1})",
       "4: f.jsonl:2: expected text in column 'text', found an integer: 3"},
      {R"({"text": 2.5, "label": 1})", "4: f.jsonl:1: expected text in column 'text', found a float: 2.5"},
      {R"({"text": ["a"], "label": 1})",
       "4: f.jsonl:1: expected text in column 'text', found a list: [\"a\"]"},
      {R"({"text": {"b": 1}, "label": 1})", "4: f.jsonl:1: expected text in column 'text', found an object"},
      {R"({"text": true, "label": 1})", "4: f.jsonl:1: expected text in column 'text', found true or false"},
      {R"({"text": "a", "label": 1}
{"label": 1})",
       "4: f.jsonl:2: the text column 'text' is null or missing in this row"},
  };
  for (const auto& c : cases) {
    const std::string error = error_of([&] {
      Table table = jsonl(c.rows);
      const ColumnChoice columns = choose_columns(table);
      TextSplit(std::move(table), columns);
    });
    EXPECT_TRUE(error.starts_with(c.message)) << error << "\n  expected " << c.message;
  }
}

TEST(TextSplit, ASecondFileMustHaveTheFirstOnesColumns) {
  const ColumnChoice columns = choose_columns(csv("premise,hypothesis,label\nx,y,1\n"));
  const std::string error = error_of([&] { TextSplit(csv("premise,label\nx,1\n"), columns); });
  EXPECT_EQ(error,
            "4: f.csv: column 'hypothesis' is missing: expected 'premise', 'hypothesis', 'label', found "
            "'premise', 'label'");
}

}  // namespace
}  // namespace plimsoll
