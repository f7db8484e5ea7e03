#include "io/data/word_labels.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/data/table_reader.h"
#include "io/data/testing/letter_encoder.h"

namespace plimsoll {
namespace {

using Names = std::vector<std::string>;

Table jsonl(const std::string& bytes) {
  return read_jsonl(text_file_from_memory("f.jsonl", bytes));
}

TextSplit split_of(Table table, const ColumnOptions& options = {}) {
  const ColumnChoice columns = choose_columns(table, options);
  return TextSplit(std::move(table), columns);
}

TextSplit split_of(const std::string& rows, const ColumnOptions& options = {}) {
  return split_of(jsonl(rows), options);
}

TEST(WordColumns, ArePickedAsRunNerDoes) {
  const struct {
    const char* row;
    ColumnOptions options;
    const char* words;  // the expected column of words; empty if the rows must be read as texts
    const char* tags;   // the expected column of tags; empty if none is expected
  } cases[] = {
      {R"({"tokens": ["a"], "ner_tags": ["O"]})", {}, "tokens", "ner_tags"},
      {R"({"id": "7", "tokens": ["a"], "pos_tags": [1], "chunk_tags": [2], "ner_tags": [3]})",
       {},
       "tokens",
       "ner_tags"},
      {R"({"id": "7", "tokens": ["a"], "pos_tags": [1], "chunk_tags": [2], "ner_tags": [3]})",
       {.tagging = "pos"},
       "tokens",
       "pos_tags"},
      {R"({"tokens": ["a"], "pos_tags": [1], "chunk_tags": [2]})",
       {.tagging = "chunk"},
       "tokens",
       "chunk_tags"},
      {R"({"words": ["a"], "labels": ["O"]})", {}, "words", "labels"},
      {R"({"words": ["a"], "tags": ["O"]})", {}, "words", "tags"},
      {R"({"tags": ["O"], "words": ["a"]})", {}, "words", "tags"},
      {R"({"words": ["a"], "label": ["O"]})", {}, "words", "label"},
      {R"({"form": ["a"], "entity": ["O"]})", {}, "form", "entity"},
      {R"({"form": ["a"], "entity": ["O"], "tokens": ["b"]})", {}, "tokens", "form"},
      {R"({"form": ["a"], "entity": ["O"]})", {.text = {"entity"}, .label = "form"}, "entity", "form"},
      {R"({"tokens": ["a"]})", {}, "tokens", ""},
      {R"({"id": "1", "tokens": ["a"]})", {}, "tokens", ""},
      {R"({"text": "a", "tokens": ["a"], "ner_tags": ["O"]})", {}, "tokens", "ner_tags"},
      {R"({"text": "a", "label": 1, "tokens": ["a"], "ner_tags": ["O"]})", {}, "", ""},
      {R"({"text": "a", "tokens": ["a"]})", {}, "", ""},
      {R"({"text": "a", "label": ["x", "y"]})", {}, "", ""},
      {R"({"text": "a", "keywords": ["x"], "topics": ["y"]})", {.text = {"text"}, .label = "topics"}, "", ""},
      {R"({"text": "a", "keywords": ["x"], "topics": ["y"]})", {.label = "topics"}, "", ""},
  };
  for (const auto& c : cases) {
    const ColumnChoice choice = choose_columns(jsonl(c.row), c.options);
    EXPECT_EQ(choice.has_words, *c.words != '\0') << c.row;
    if (!choice.has_words) continue;
    EXPECT_EQ(choice.first, c.words) << c.row;
    EXPECT_EQ(choice.has_label ? choice.label : "", c.tags) << c.row;
  }
}

TEST(WordColumns, OfConllAreTheFirstAndTheLast) {
  const struct {
    const char* line;
    ColumnOptions options;
    const char* tags;
  } cases[] = {
      {"EU B-ORG\n", {}, "tags"},
      {"EU NNP B-NP B-ORG\n", {}, "ner_tags"},
      {"EU NNP B-NP B-ORG\n", {.tagging = "chunk"}, "chunk_tags"},
      {"EU NNP B-NP\n", {}, "chunk_tags"},
      {"EU NNP B-NP\n", {.tagging = "pos"}, "pos_tags"},
      {"EU EU NNP B-NP B-ORG\n", {}, "tags"},
      {"EU EU NNP B-NP B-ORG\n", {.label = "column_3"}, "column_3"},
  };
  for (const auto& c : cases) {
    const Table table = read_conll(text_file_from_memory("f.conll", c.line));
    const ColumnChoice choice = choose_columns(table, c.options);
    EXPECT_TRUE(choice.has_words && choice.has_label) << c.line;
    EXPECT_EQ(choice.label, c.tags) << c.line;
  }
}

TEST(WordColumns, SayWhatToDoWithoutLists) {
  const auto csv = [](const std::string& bytes) { return read_csv(text_file_from_memory("f.csv", bytes)); };
  const char* message =
      "4: f.csv: rows of words with tags are needed, and a CSV or TSV file cannot contain lists, found ";
  EXPECT_TRUE(error_of([&] {
                choose_columns(csv("Sentence #,Word,Tag\n1,EU,B-ORG\n"), {.tagging = "ner"});
              }).starts_with(message));
  const std::string error =
      error_of([&] { choose_columns(csv("tokens,ner_tags\n\"['EU', 'x']\",\"['B-ORG', 'O']\"\n")); });
  EXPECT_TRUE(error.starts_with(message)) << error;
  EXPECT_NE(error.find("write JSON Lines with one sentence per row"), std::string::npos) << error;
  EXPECT_TRUE(
      error_of([&] { choose_columns(jsonl(R"({"text": "a", "label": 1})"), {.tagging = "ner"}); })
          .starts_with("4: f.jsonl: expected a column of lists of words and one of lists of tags, found "
                       "'text', 'label'"));
}

TEST(WordSplit, GivesWordsTagsAndLines) {
  TextSplit split = split_of(
      "{\"tokens\": [\"EU\", \"rejects\"], \"ner_tags\": [\"B-ORG\", \"O\"]}\n\n{\"tokens\": [\"Peter\"], "
      "\"ner_tags\": [\"B-PER\"]}\n");
  ASSERT_TRUE(split.has_words() && split.has_label());
  EXPECT_EQ(split.num_rows(), 2);
  EXPECT_EQ(split.num_words(0), 2);
  EXPECT_EQ(split.word(0, 1), "rejects");
  EXPECT_EQ(split.tag(0, 0), "B-ORG");
  EXPECT_EQ(split.word(1, 0), "Peter");
  EXPECT_EQ(split.line(1), 3);
  split.keep_if([](int64_t row) { return row == 1; });
  EXPECT_EQ(split.num_words(0), 1);
  EXPECT_EQ(split.tag(0, 0), "B-PER");
  EXPECT_FALSE(split_of(R"({"text": "a", "label": 1})").has_words());
}

TEST(WordSplit, RefusesWhatIsNotWordsWithTags) {
  const std::string first = R"({"tokens": ["a", "b"], "ner_tags": ["O", "B-X"]})"
                            "\n";
  const struct {
    std::string rows;
    const char* message;
  } cases[] = {
      {first + R"({"tokens": ["a", "b"], "ner_tags": ["O"]})",
       "4: f.jsonl:2: the row has 2 words in 'tokens', but 1 tag in 'ner_tags'; every word needs one tag"},
      {first + R"({"tokens": ["a"], "ner_tags": []})",
       "4: f.jsonl:2: the row has 1 word in 'tokens', but 0 tags in 'ner_tags'"},
      {first + R"({"tokens": [], "ner_tags": []})",
       "4: f.jsonl:2: the list of words in column 'tokens' is empty; remove the row"},
      {first + R"({"tokens": "a b", "ner_tags": ["O", "O"]})",
       "4: f.jsonl:2: expected a list of words in column 'tokens', found text: a b"},
      {first + R"({"tokens": ["a", 3], "ner_tags": ["O", "O"]})",
       "4: f.jsonl:2: expected text as word 2 of column 'tokens', found an integer: 3"},
      {first + R"({"tokens": ["a", null], "ner_tags": ["O", "O"]})",
       "4: f.jsonl:2: expected text as word 2 of column 'tokens', found null"},
      {first + R"({"ner_tags": ["O", "O"]})",
       "4: f.jsonl:2: expected a list of words in column 'tokens', found null\n"},
      {first + R"({"tokens": ["a"], "ner_tags": "O"})",
       "4: f.jsonl:2: expected a list of tags in column 'ner_tags', found text: O"},
      {first + R"({"tokens": ["a"], "ner_tags": [1.5]})",
       "4: f.jsonl:2: expected a name or an integer as tag 1 of column 'ner_tags', found a float: 1.5"},
      {first + R"({"tokens": ["a"], "ner_tags": [["O"]]})",
       "4: f.jsonl:2: expected a name or an integer as tag 1 of column 'ner_tags', found a list"},
      {first + R"({"tokens": ["a"], "ner_tags": [3]})",
       "4: f.jsonl:2: tag 1 of column 'ner_tags' is an integer (3), but the first tag, in line 1, is text "
       "(O)"},
      {first + R"({"tokens": ["a", "b"], "ner_tags": ["O", 0]})",
       "4: f.jsonl:2: tag 2 of column 'ner_tags' is an integer (0), but"},
      {first + R"({"tokens": ["a"], "ner_tags": [""]})",
       "4: f.jsonl:2: tag 1 of column 'ner_tags' is an empty"},
      {R"({"tokens": ["a"], "ner_tags": [18446744073709551615]})",
       "4: f.jsonl:1: tag 1 of column 'ner_tags' is 18446744073709551615, which is too large for a class"},
  };
  for (const auto& c : cases) {
    const std::string error = error_of([&] { split_of(c.rows); });
    EXPECT_TRUE(error.starts_with(c.message)) << error << "\n  expected " << c.message;
  }
}

TEST(WordLabels, AreSortedNamesAsInRunNer) {
  const TextSplit split = split_of(
      "{\"tokens\": [\"a\", \"b\", \"c\"], \"ner_tags\": [\"O\", \"B-PER\", \"I-PER\"]}\n"
      "{\"tokens\": [\"d\"], \"ner_tags\": [\"B-LOC\"]}\n");
  const LabelScheme scheme = infer_word_labels(split);
  EXPECT_EQ(scheme.kind, LabelKind::kClassPerToken);
  EXPECT_EQ(scheme.names, (Names{"B-LOC", "B-PER", "I-PER", "O"}));
  EXPECT_EQ(scheme.num_labels, 4);
  const WordClasses classes = encode_word_labels(split, scheme);
  EXPECT_EQ(classes.classes, (std::vector<int32_t>{3, 1, 2, 0}));
  EXPECT_EQ(classes.offsets, (std::vector<int64_t>{0, 3, 4}));
  EXPECT_EQ(classes.num_rows(), 2);
  EXPECT_EQ(classes.row(1)[0], 0);
}

TEST(WordLabels, OfIntegersAreSortedByValue) {
  const TextSplit split = split_of(
      "{\"tokens\": [\"a\", \"b\", \"c\"], \"ner_tags\": [10, 9, -100]}\n{\"tokens\": [\"d\"], \"ner_tags\": "
      "[0]}\n");
  const LabelScheme scheme = infer_word_labels(split);
  EXPECT_EQ(scheme.names, (Names{"0", "9", "10"}));
  EXPECT_TRUE(scheme.integer_names);
  EXPECT_EQ(encode_word_labels(split, scheme).classes, (std::vector<int32_t>{2, 1, kNoLabel, 0}));
}

TEST(WordLabels, OfAModelWithNamesMayBeItsIds) {
  const LabelScheme scheme = given_labels({"O", "B-PER"});
  const TextSplit ids = split_of(R"({"tokens": ["a", "b"], "ner_tags": [1, 0]})");
  EXPECT_EQ(encode_word_labels(ids, scheme).classes, (std::vector<int32_t>{1, 0}));
}

TEST(WordLabels, AreNotReadPartlyAsNamesAndPartlyAsIds) {
  const LabelScheme scheme = given_labels({"1", "2"});
  const TextSplit names = split_of(R"({"tokens": ["a", "b"], "ner_tags": [1, 2]})");
  EXPECT_EQ(encode_word_labels(names, scheme).classes, (std::vector<int32_t>{0, 1}));
  const TextSplit both = split_of(R"({"tokens": ["a", "b"], "ner_tags": [1, 0]})");
  EXPECT_TRUE(error_of([&] {
                encode_word_labels(both, scheme);
              }).starts_with("4: f.jsonl:1: the label '0' is the id of a class, not a name"));
}

TEST(WordLabels, MayBeAbsentWhenPredicting) {
  const LabelScheme scheme = given_labels({"O", "B-PER"}, LabelOrigin::kTrainingData);
  const TextSplit some = split_of(
      "{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [\"O\", \"B-PER\"]}\n{\"tokens\": [\"c\", \"d\"], "
      "\"ner_tags\": null}\n");
  EXPECT_EQ(encode_word_labels(some, scheme, LabelUse::kOptional).classes,
            (std::vector<int32_t>{0, 1, kNoLabel, kNoLabel}));
  EXPECT_TRUE(
      error_of([&] { encode_word_labels(some, scheme); }).starts_with("4: f.jsonl:2: this row has no tags"));
  const TextSplit none = split_of(R"({"tokens": ["a", "b"]})");
  EXPECT_EQ(encode_word_labels(none, scheme, LabelUse::kOptional).num_rows(), 0);
  EXPECT_TRUE(error_of([&] {
                encode_word_labels(none, scheme);
              }).starts_with("4: f.jsonl: the file has words but no tags, found 'tokens'"));
  EXPECT_TRUE(error_of([&] { infer_word_labels(none); }).starts_with("4: f.jsonl: the file has words"));
}

TEST(WordLabels, NameTheUnknownTag) {
  const LabelScheme scheme = given_labels({"O", "B-PER"}, LabelOrigin::kTrainingData);
  const TextSplit split = split_of("\n{\"tokens\": [\"a\"], \"ner_tags\": [\"B-LOC\"]}\n");
  EXPECT_TRUE(error_of([&] { encode_word_labels(split, scheme); })
                  .starts_with("4: f.jsonl:2: the label 'B-LOC' is not in the training data, which has 'O', "
                               "'B-PER'"));
}

}  // namespace
}  // namespace plimsoll
