#include "io/data/token_set.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/data/data_columns.h"
#include "io/data/labels.h"
#include "io/data/memory_rows.h"
#include "io/data/table_reader.h"
#include "io/data/testing/letter_encoder.h"
#include "io/data/text_split.h"

namespace plimsoll {
namespace {

TextSplit ids_of(const std::string& rows, const ColumnOptions& options = {}) {
  Table table = read_jsonl(text_file_from_memory("f.jsonl", rows));
  const ColumnChoice columns = choose_columns(table, options);
  return TextSplit(std::move(table), columns);
}

std::vector<int32_t> row_ids(const TokenSet& tokens, int64_t row) {
  std::vector<int32_t> ids(static_cast<size_t>(tokens.length(row)));
  tokens.copy_ids(row, ids.data());
  return ids;
}

std::vector<int32_t> row_types(const TokenSet& tokens, int64_t row) {
  std::vector<int32_t> types(static_cast<size_t>(tokens.length(row)));
  tokens.copy_types(row, types.data());
  return types;
}

TEST(TokenRows, AreTakenAsTheyAre) {
  const TextSplit split = ids_of(
      "{\"input_ids\": [101, 7, 102], \"label\": 1}\n{\"label\": 0, \"input_ids\": [101, 70000, 8, 102]}\n");
  ASSERT_TRUE(split.has_ids() && split.has_label() && !split.has_words());
  const TokenSet tokens = split.tokens(128);
  EXPECT_EQ(tokens.num_rows(), 2);
  EXPECT_EQ(row_ids(tokens, 0), (std::vector<int32_t>{101, 7, 102}));
  EXPECT_EQ(row_ids(tokens, 1), (std::vector<int32_t>{101, 70000, 8, 102}));
  EXPECT_FALSE(tokens.has_types());
  EXPECT_EQ(encode_labels(split, infer_labels(split)).classes, (std::vector<int32_t>{1, 0}));
}

TEST(TokenRows, HaveTypesAndNoPadding) {
  TextSplit split = ids_of(
      "{\"sentence\": \"a\", \"input_ids\": [101, 7, 102, 8, 102, 0], \"token_type_ids\": [0, 0, 0, 1, 1, "
      "0], "
      "\"attention_mask\": [1, 1, 1, 1, 1, 0], \"labels\": 3}\n{\"sentence\": \"b\", \"input_ids\": [0, 5], "
      "\"token_type_ids\": [0, 0], \"attention_mask\": [0, 1], \"labels\": 4}\n");
  const TokenSet tokens = split.tokens(128);
  EXPECT_EQ(row_ids(tokens, 0), (std::vector<int32_t>{101, 7, 102, 8, 102}));
  EXPECT_EQ(row_types(tokens, 0), (std::vector<int32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(row_ids(tokens, 1), (std::vector<int32_t>{5}));
  EXPECT_EQ(split.largest_type(), (std::pair<int32_t, int64_t>{1, 1}));
  EXPECT_EQ(split.label_column(), "labels");
  split.keep_if([](int64_t row) { return row == 1; });
  EXPECT_EQ(row_ids(split.tokens(128), 0), (std::vector<int32_t>{5}));
  EXPECT_EQ(split.largest_type().first, 0);
}

// Positions are accepted if they are those that Plimsoll counts. The positions of padding may be any number.
TEST(TokenRows, HavePositionsThatFollowOneByOne) {
  const TextSplit bert = ids_of(
      "{\"input_ids\": [0, 0, 101, 7, 102], \"position_ids\": [1, 1, 0, 1, 2], \"attention_mask\": [0, 0, 1, "
      "1, 1]}\n"
      "{\"input_ids\": [101, 102, 0], \"position_ids\": [0, 1, 9], \"attention_mask\": [1, 1, 0]}\n");
  EXPECT_EQ(bert.first_position(), 0);
  EXPECT_EQ(bert.first_left_padded_line(), 1);
  EXPECT_EQ(row_ids(bert.tokens(128), 0), (std::vector<int32_t>{101, 7, 102}));
  EXPECT_EQ(ids_of("{\"input_ids\": [0, 5, 2], \"position_ids\": [2, 3, 4]}\n").first_position(), 2);
  EXPECT_EQ(ids_of("{\"input_ids\": [0, 5, 2]}\n").first_position(), std::nullopt);
  EXPECT_EQ(ids_of("{\"input_ids\": [5, 2, 0], \"attention_mask\": [1, 1, 0]}\n").first_left_padded_line(),
            std::nullopt);
  EXPECT_EQ(ids_of("{\"input_ids\": [5, 2, 0], \"attention_mask\": [1, 1, 0]}\n"
                   "{\"input_ids\": [0, 5, 2], \"attention_mask\": [0, 1, 1]}\n")
                .first_left_padded_line(),
            2);
}

// Rows that a program passes in memory follow the same rule as files: types are an error if transformers computes something from them that
// Plimsoll does not.
TEST(TokenRows, InMemoryRefuseTypesThatAreNotComputed) {
  RowRules rules{.name = "train",
                 .max_seq_length = 8,
                 .vocab_size = 10,
                 .label_use = LabelUse::kOptional,
                 .encoder = {}};
  const std::vector<DataRow> rows = {{.ids = {5, 2}}, {.ids = {5, 2}, .token_types = {0, 0}}};
  EXPECT_EQ(make_dataset(rows, rules).num_rows(), 2);
  rules.refuses_types = true;
  const std::string error = error_of([&] { make_dataset(rows, rules); });
  EXPECT_NE(error.find("row 1 (from 0) of the train rows: it has token_types, whose word embeddings"),
            std::string::npos)
      << error;
  EXPECT_EQ(make_dataset({rows[0]}, rules).num_rows(), 1);
}

TEST(TokenRows, SayIfTheFileStatesTypes) {
  EXPECT_TRUE(ids_of("{\"input_ids\": [5, 2], \"token_type_ids\": [0, 0]}\n").states_types());
  EXPECT_FALSE(ids_of("{\"input_ids\": [5, 2]}\n").states_types());
}

// The first row determines the columns. A column that describes the ids and occurs only in a later row is an error, because it would not be
// read; other columns are not needed and may occur in any row. Empty values count as absent.
TEST(TokenRows, RefuseAColumnThatTheFirstRowLacks) {
  for (const std::string name : {"token_type_ids", "attention_mask", "position_ids"}) {
    const std::string first = "{\"input_ids\": [5, 2]}\n{\"input_ids\": [5, 3]}\n";
    const std::string error =
        error_of([&] { ids_of(first + "{\"input_ids\": [5, 4], \"" + name + "\": [0, 1]}\n"); });
    EXPECT_TRUE(
        error.starts_with("4: f.jsonl:3: the row has '" + name + "', but the first row does not have it"))
        << error;
    EXPECT_EQ(ids_of(first + "{\"input_ids\": [5, 4], \"" + name + "\": null}\n").num_rows(), 3);
    EXPECT_EQ(ids_of(first + "{\"input_ids\": [5, 4], \"" + name + "\": []}\n").num_rows(), 3);
  }
  EXPECT_EQ(ids_of("{\"input_ids\": [5]}\n{\"input_ids\": [5], \"source\": \"x\"}\n").num_rows(), 2);
}

TEST(TokenRows, KeepTheirLastIdWhenTheyAreCut) {
  const TokenSet tokens =
      ids_of("{\"input_ids\": [101, 7, 8, 9, 102]}\n{\"input_ids\": [101, 102]}\n").tokens(3);
  EXPECT_EQ(row_ids(tokens, 0), (std::vector<int32_t>{101, 7, 102}));
  EXPECT_EQ(row_ids(tokens, 1), (std::vector<int32_t>{101, 102}));
  EXPECT_EQ(tokens.truncation(), (TruncationCount{1, 2}));
}

TEST(TokenRows, AreNotReadIfTextsAreSelected) {
  const char* row = R"({"sentence": "a", "input_ids": [1, 2], "label": 1})";
  EXPECT_TRUE(ids_of(row).has_ids());
  EXPECT_TRUE(ids_of(row, {{"input_ids"}, "label"}).has_ids());
  EXPECT_FALSE(ids_of(row, {{"sentence"}, "label"}).has_ids());
}

TextSplit documents_of(const std::string& rows) {
  Table table = read_jsonl(text_file_from_memory("f.jsonl", rows));
  const ColumnChoice columns = choose_document_column(table, std::nullopt);
  return TextSplit(std::move(table), columns);
}

// In a row with labels, a label is the id of its token or -100. Padding tokens must be removed together with their labels, and the types
// must mark the tokens that have a label.
TEST(TokenRows, HaveLabelsOfALanguageModel) {
  const TokenSet tokens =
      documents_of(
          "{\"input_ids\": [5, 6, 7, 8, 0], \"labels\": [-100, -100, 7, 8, -100], \"attention_mask\": [1, 1, "
          "1, 1, 0]}\n"
          "{\"input_ids\": [9, 70000, 3], \"labels\": [-100, 70000, 3], \"attention_mask\": [1, 1, 1]}\n")
          .tokens(128);
  EXPECT_EQ(tokens.type_use(), TypeUse::kTrained);
  EXPECT_EQ(row_ids(tokens, 0), (std::vector<int32_t>{5, 6, 7, 8}));
  EXPECT_EQ(row_types(tokens, 0), (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(row_types(tokens, 1), (std::vector<int32_t>{0, 1, 1}));
  const TokenSet none = documents_of("{\"input_ids\": [5, 6], \"labels\": [-100, -100]}\n").tokens(128);
  EXPECT_EQ(none.type_use(), TypeUse::kTrained);
  EXPECT_EQ(documents_of("{\"input_ids\": [5, 6]}\n").tokens(128).type_use(), TypeUse::kSegments);
  EXPECT_EQ(documents_of("{\"input_ids\": [5, 6], \"labels\": 1}\n").tokens(128).type_use(),
            TypeUse::kSegments)
      << "one label of the row is that of a classifier";
}

TEST(TokenRows, RefuseLabelsOfALanguageModelThatTheFirstRowLacks) {
  const std::string error =
      error_of([] { documents_of("{\"input_ids\": [5]}\n{\"input_ids\": [5], \"labels\": [5]}\n"); });
  EXPECT_TRUE(error.starts_with("4: f.jsonl:2: the row has 'labels', but the first row does not have it"))
      << error;
}

TEST(TokenRows, SayWhichLabelIsWrong) {
  const std::string first = "{\"input_ids\": [1, 2], \"labels\": [1, 2], \"token_type_ids\": [0, 0]}\n";
  const struct {
    const char* row;
    const char* message;
  } cases[] = {
      {R"({"input_ids": [1, 2], "labels": [1], "token_type_ids": [0, 0]})",
       "4: f.jsonl:2: the row has 2 ids in 'input_ids', but 1 value in 'labels'"},
      {R"({"input_ids": [1, 2], "labels": [1, 2, 3], "token_type_ids": [0, 0]})",
       "4: f.jsonl:2: the row has 2 ids in 'input_ids', but 3 values in 'labels'"},
      {R"({"input_ids": [1, 2], "labels": [1, 3], "token_type_ids": [0, 0]})",
       "4: f.jsonl:2: entry 2 of column 'labels' is 3, but the id in 'input_ids' is 2: a label is the id of "
       "its token"},
      {R"({"input_ids": [1, 2], "labels": [1, -1], "token_type_ids": [0, 0]})",
       "4: f.jsonl:2: entry 2 of column 'labels' is -1, but an integer from 0 to 2147483647, or -100, is "
       "expected"},
      {R"({"input_ids": [1, 2], "labels": 1, "token_type_ids": [0, 0]})",
       "4: f.jsonl:2: expected a list of integers in column 'labels'"},
      {R"({"input_ids": [1, 2], "labels": null, "token_type_ids": [0, 0]})",
       "4: f.jsonl:2: expected a list of integers in column 'labels', found null"},
      {R"({"input_ids": [1, 2], "labels": [1, 2], "token_type_ids": [0, 1]})",
       "4: f.jsonl:2: entry 2 of column 'token_type_ids' is 1, but the tokens of a language model"},
      {R"({"input_ids": [1, -100], "labels": [1, -100], "token_type_ids": [0, 0]})",
       "4: f.jsonl:2: entry 2 of column 'input_ids' is -100, but an integer from 0 to 2147483647 is "
       "expected"},
  };
  for (const auto& c : cases) {
    const std::string error = error_of([&] { documents_of(first + c.row); });
    EXPECT_TRUE(error.starts_with(c.message)) << error << "\n  expected " << c.message;
  }
}

TEST(TokenRows, SayWhatIsWrongAndWhere) {
  const std::string first =
      "{\"input_ids\": [1, 2], \"token_type_ids\": [0, 0], \"attention_mask\": [1, 1]}\n";
  const struct {
    std::string rows;
    const char* message;
  } cases[] = {
      {first + R"({"input_ids": "1 2", "token_type_ids": [0], "attention_mask": [1]})",
       "4: f.jsonl:2: expected a list of integers in column 'input_ids', found text"},
      {first + R"({"input_ids": [1, -2], "token_type_ids": [0, 0], "attention_mask": [1, 1]})",
       "4: f.jsonl:2: entry 2 of column 'input_ids' is -2, but an integer from 0 to 2147483647 is expected"},
      {first + R"({"input_ids": [1, 2147483648], "token_type_ids": [0, 0], "attention_mask": [1, 1]})",
       "4: f.jsonl:2: entry 2 of column 'input_ids' is 2147483648"},
      {first + R"({"input_ids": [1, 2.5], "token_type_ids": [0, 0], "attention_mask": [1, 1]})",
       "4: f.jsonl:2: entry 2 of column 'input_ids' is 2.5"},
      {first + R"({"input_ids": [1, [2]], "token_type_ids": [0, 0], "attention_mask": [1, 1]})",
       "4: f.jsonl:2: entry 2 of column 'input_ids' is [2]"},
      {first + R"({"input_ids": [[2, 3], 4], "token_type_ids": [0, 0], "attention_mask": [1, 1]})",
       "4: f.jsonl:2: entry 1 of column 'input_ids' is [2,3], but an integer from 0 to 2147483647 is "
       "expected"},
      {first +
           R"({"input_ids": [1, {"a": [2, 3], "b": 4}], "token_type_ids": [0, 0], "attention_mask": [1, 1]})",
       "4: f.jsonl:2: entry 2 of column 'input_ids' is {\"a\":[2,3],\"b\":4}, but"},
      {first + R"({"input_ids": ["1,\"2", 3], "token_type_ids": [0, 0], "attention_mask": [1, 1]})",
       "4: f.jsonl:2: entry 1 of column 'input_ids' is \"1,\\\"2\", but an integer"},
      {first +
           R"({"input_ids": [1, 2, 3, 4], "token_type_ids": [0, 0, 0, 0], "attention_mask": [0, 1, 0, 1]})",
       "4: f.jsonl:2: entry 3 of column 'attention_mask' is 0 between tokens with 1, but Plimsoll leaves out "
       "padding only at the two ends of a row"},
      {R"({"input_ids": [1, 2, 3], "position_ids": [2, 1, 0]})",
       "4: f.jsonl:1: entry 2 of column 'position_ids' is 1, but 3 is expected: Plimsoll counts the tokens"},
      {R"({"input_ids": [1, 2, 3], "position_ids": [0, 1, 2], "attention_mask": [0, 1, 1]})"
       "\n"
       R"({"input_ids": [1, 2, 3], "position_ids": [0, 1, 2], "attention_mask": [0, 1, 1]})"
       "\n"
       R"({"input_ids": [1, 2, 3], "position_ids": [0, 0, 1], "attention_mask": [0, 1, 1]})",
       "4: f.jsonl:3: entry 2 of column 'position_ids' is 0, but 1 is expected, as in the first row: "
       "Plimsoll"},
      {R"({"input_ids": [1, 2], "position_ids": [0]})",
       "4: f.jsonl:1: the row has 2 ids in 'input_ids', but 1 value in 'position_ids'"},
      {first + R"({"input_ids": [1, null], "token_type_ids": [0, 0], "attention_mask": [1, 1]})",
       "4: f.jsonl:2: entry 2 of column 'input_ids' is null"},
      {first + R"({"input_ids": [1, 2], "token_type_ids": [0, 300], "attention_mask": [1, 1]})",
       "4: f.jsonl:2: entry 2 of column 'token_type_ids' is 300, but an integer from 0 to 255"},
      {first + R"({"input_ids": [1, 2], "token_type_ids": [0], "attention_mask": [1, 1]})",
       "4: f.jsonl:2: the row has 2 ids in 'input_ids', but 1 value in 'token_type_ids'"},
      {first + R"({"input_ids": [1, 2], "token_type_ids": [0, 0], "attention_mask": [1, 2]})",
       "4: f.jsonl:2: entry 2 of column 'attention_mask' is 2, but an integer from 0 to 1"},
      {first + R"({"input_ids": [1, 2], "token_type_ids": [0, 0], "attention_mask": [0, 0]})",
       "4: f.jsonl:2: the row has no tokens in 'input_ids'; remove it"},
      {first + R"({"input_ids": [], "token_type_ids": [], "attention_mask": []})",
       "4: f.jsonl:2: the row has no tokens"},
      {first + R"({"token_type_ids": [0], "attention_mask": [0]})",
       "4: f.jsonl:2: expected a list of integers in column 'input_ids', found null"},
      {R"({"input_ids": [1, 2, 3], "labels": [0, 1, -100]})",
       "4: f.jsonl:1: the column 'labels' has one label per token of 'input_ids', but only a "
       "language model reads such labels"},
  };
  for (const auto& c : cases) {
    const std::string error = error_of([&] { ids_of(c.rows); });
    EXPECT_TRUE(error.starts_with(c.message)) << error << "\n  expected " << c.message;
  }
}

}  // namespace
}  // namespace plimsoll
