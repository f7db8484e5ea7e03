// Tests what `predict` writes for each task: scores, texts, standard input, and texts on the command line.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "tests/screens/terminal_run.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll::testing {
namespace {

using Row = std::vector<std::string>;

// Splits a text into rows at line breaks and into cells at tabs. Requires: no cell is quoted.
std::vector<Row> table_of(const std::string& text) {
  std::vector<Row> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    Row& row = rows.emplace_back();
    for (size_t at = 0; at <= line.size();) {
      const size_t end = std::min(line.find('\t', at), line.size());
      row.push_back(line.substr(at, end - at));
      at = end + 1;
    }
  }
  return rows;
}

std::vector<double> numbers_of(const std::string& text) {
  std::istringstream words(text);
  std::vector<double> numbers;
  for (double number = 0; words >> number;) numbers.push_back(number);
  return numbers;
}

// Expects that two rows have equal texts and that their numbers are equal up to rounding. The two rows were computed in batches
// of different sizes, for which a library of matrix products may add terms in another order. Logits below 1 then differ by some
// hundred times 2^-24, and the rows contain six digits.
void expect_row(const Row& row, const Row& expected) {
  ASSERT_EQ(row.size(), expected.size());
  for (size_t i = 0; i < row.size(); ++i) {
    const std::vector<double> numbers = numbers_of(row[i]), wanted = numbers_of(expected[i]);
    if (wanted.empty()) {
      EXPECT_EQ(row[i], expected[i]);
    }
    ASSERT_EQ(numbers.size(), wanted.size()) << row[i];
    for (size_t k = 0; k < numbers.size(); ++k) EXPECT_NEAR(numbers[k], wanted[k], 1e-5) << row[i];
  }
}

struct TaskCase {
  std::string name;
  std::string model;
  std::string data;
  std::string lines;  // the texts of the first two rows, which are given to predict on standard input
  size_t num_texts;
};

// Returns the cases, with the texts of the first two rows of a data file of tests/parity/data; these texts have
// no quotes.
const std::vector<TaskCase>& cases() {
  static const std::vector<TaskCase> all{
      {"single", "bert", "sentence\tlabel\nread the file\tgood\nwrite to disk\tbad\nparse it\todd\n",
       "read the file\nwrite to disk\n", 1},
      {"pair", "bert",
       "sentence1\tsentence2\tlabel\nread the file\tfrom mail\tgood\nwrite\tto disk\tbad\nparse\tit\todd\n",
       "read the file\tfrom mail\nwrite\tto disk\n", 2},
      {"multi", "bert",
       "{\"sentence\": \"read the file\", \"label\": [\"good\", \"odd\"]}\n{\"sentence\": \"write to disk\", "
       "\"label\": [\"bad\"]}\n",
       "read the file\nwrite to disk\n", 1},
      {"regression", "bert_regression", "sentence\tlabel\nread the file\t1.5\nwrite to disk\t0.25\n",
       "read the file\nwrite to disk\n", 1},
      {"tokens", "bert_tokens",
       "{\"tokens\": [\"read\", \"the\", \"file\"], \"tags\": [\"O\", \"O\", \"B-TOOL\"]}\n{\"tokens\": "
       "[\"write\", \"to\"], \"tags\": [\"B-NAME\", \"O\"]}\n",
       "read the file\nwrite to\n", 1}};
  return all;
}

class Predictions : public ::testing::TestWithParam<TaskCase> {
 protected:
  void SetUp() override {
    const TaskCase& task = GetParam();
    data_ = folder_.write(task.data.starts_with('{') ? "data.jsonl" : "data.tsv", task.data);
    const TerminalRun train =
        run({"train", "--model_name_or_path", source_file("tests/parity/models/" + task.model),
             "--train_file", data_, "--max_steps", "2", "--learning_rate", "1e-3", "--output_dir", "tuned",
             "--ignore_mismatched_sizes"});
    ASSERT_EQ(train.exit_code, 0) << train.bytes;
  }

  TerminalRun run(std::vector<std::string> words, const std::string& input = "") const {
    words.insert(words.end(), {"--use_cpu", "--log_level", "error", "--max_seq_length", "32"});
    return run_program(words, {.folder = folder_.path(), .environment = {"LC_ALL=C.UTF-8"}, .input = input});
  }
  TerminalRun predict(const std::vector<std::string>& more, const std::string& input = "") const {
    std::vector<std::string> words{"predict", "--model_name_or_path", "tuned"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, input);
  }
  // Returns the rows of predict_results.txt.
  std::vector<Row> file_rows(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"--test_file", data_, "--output_dir", "out"};
    words.insert(words.end(), more.begin(), more.end());
    const TerminalRun result = predict(words);
    EXPECT_EQ(result.exit_code, 0) << result.bytes;
    return table_of(file_text(folder_.path() + "/out/predict_results.txt"));
  }

  test::ScratchFolder folder_;
  std::string data_;
};

TEST_P(Predictions, AFileHasTheColumnsOfRunGlueUnlessScoresAreRequested) {
  for (const Row& row : file_rows({})) EXPECT_EQ(row.size(), 2u);
  EXPECT_EQ(file_rows({})[0], (Row{"index", "prediction"}));
}

TEST_P(Predictions, ScoresAreLogitsOrProbabilities) {
  const TaskCase& task = GetParam();
  const std::vector<Row> logits = file_rows({"--scores", "logits"});
  const std::vector<Row> probabilities = file_rows({"--scores"});
  const size_t first = 2 + task.num_texts;
  ASSERT_GT(logits[0].size(), first);
  EXPECT_EQ(logits[0][2], task.num_texts == 1 ? "text" : "text1");
  for (size_t c = first; c < logits[0].size(); ++c)
    EXPECT_TRUE(logits[0][c].starts_with("logit:")) << logits[0][c];
  if (task.name == "regression") {
    EXPECT_EQ(probabilities[0].size(), first) << "a regression has no probabilities";
    for (size_t r = 1; r < logits.size(); ++r)
      EXPECT_NEAR(numbers_of(logits[r][first])[0], numbers_of(logits[r][1])[0], 6e-4)
          << "the prediction is rounded to three digits";
    return;
  }
  ASSERT_EQ(probabilities[0].size(), logits[0].size());
  const size_t num_labels = logits[0].size() - first;
  for (size_t r = 1; r < logits.size(); ++r) {
    EXPECT_EQ(Row(logits[r].begin(), logits[r].begin() + static_cast<std::ptrdiff_t>(first)),
              Row(probabilities[r].begin(), probabilities[r].begin() + static_cast<std::ptrdiff_t>(first)));
    const size_t num_words = numbers_of(logits[r][first]).size();
    EXPECT_EQ(num_words,
              task.name == "tokens" ? static_cast<size_t>(std::ranges::count(logits[r][1], ' ')) + 1 : 1u);
    for (size_t w = 0; w < num_words; ++w) {
      double sum = 0;
      for (size_t k = 0; k < num_labels; ++k) sum += std::exp(numbers_of(logits[r][first + k])[w]);
      for (size_t k = 0; k < num_labels; ++k) {
        const double logit = numbers_of(logits[r][first + k])[w];
        const double expected = task.name == "multi" ? 1 / (1 + std::exp(-logit)) : std::exp(logit) / sum;
        EXPECT_NEAR(numbers_of(probabilities[r][first + k])[w], expected, 1e-5);
      }
    }
  }
}

// Rows from standard input must give the same predictions as rows from a file. Their output has no index column, and no
// result files are written.
TEST_P(Predictions, StandardInputGivesTheRowsOfAFile) {
  const std::vector<Row> of_file = file_rows({"--scores", "logits"});
  const TerminalRun lines = predict({"--test_file", "-", "--scores", "logits"}, GetParam().lines);
  EXPECT_EQ(lines.exit_code, 0) << lines.bytes;
  const std::vector<Row> rows = table_of(lines.bytes);
  ASSERT_EQ(rows.size(), 3u) << lines.bytes;
  for (size_t r = 0; r < 3; ++r) expect_row(rows[r], of_file[r]);
  EXPECT_EQ(table_of(predict({"--test_file", "-"}, GetParam().lines).bytes)[1].size(),
            2 + GetParam().num_texts);
  EXPECT_EQ(file_text(folder_.path() + "/trainer_output/predict_results.json"), "")
      << "nothing is written without --output_dir";
  // Passes the same rows as JSON, with the columns of the file and without a newline at the end.
  if (GetParam().data.starts_with('{')) {
    const std::vector<Row> json = table_of(predict({"--test_file", "-", "--scores", "logits"},
                                                   GetParam().data.substr(0, GetParam().data.size() - 1))
                                               .bytes);
    EXPECT_EQ(json, of_file);
  }
  const TerminalRun saved =
      predict({"--test_file", "-", "--scores", "logits", "--output_dir", "saved"}, GetParam().lines);
  EXPECT_EQ(table_of(file_text(folder_.path() + "/saved/predict_results.txt")), rows) << saved.bytes;
}

TEST_P(Predictions, TextsOfTheCommandLine) {
  std::vector<std::string> texts;
  std::string part;
  for (const char c : GetParam().lines) {
    if (c == '\t' || c == '\n') {
      texts.push_back(part);
      part.clear();
    } else {
      part += c;
    }
  }
  const TerminalRun shown = predict(texts);
  EXPECT_EQ(shown.exit_code, 0) << shown.bytes;
  const std::vector<Row> rows = table_of(shown.bytes);
  const std::vector<Row> of_file = file_rows({"--scores"});
  ASSERT_EQ(rows.size(), 3u) << shown.bytes;
  for (size_t r = 0; r < 3; ++r) expect_row(rows[r], of_file[r]);
}

INSTANTIATE_TEST_SUITE_P(Tasks, Predictions, ::testing::ValuesIn(cases()),
                         [](const auto& one) { return one.param.name; });

// Fields of the output table must be quoted as Python's csv module does, so that reading the table returns the
// original texts.
TEST(PredictionFields, AreQuotedWhereATableNeedsIt) {
  const test::ScratchFolder folder;
  const auto run = [&](const std::vector<std::string>& words, const std::string& input) {
    return run_program(words, {.folder = folder.path(), .environment = {"LC_ALL=C.UTF-8"}, .input = input});
  };
  const std::string data = folder.write(
      "data.jsonl", "{\"sentence\": \"a\", \"label\": \"x\"}\n{\"sentence\": \"b\", \"label\": \"y\"}\n");
  ASSERT_EQ(run({"train", "--model_name_or_path", source_file("tests/parity/models/bert"), "--train_file",
                 data, "--max_steps", "1", "--output_dir", "tuned", "--use_cpu", "--ignore_mismatched_sizes"},
                "")
                .exit_code,
            0);
  const TerminalRun shown = run(
      {"predict", "--model_name_or_path", "tuned", "--test_file", "-", "--use_cpu", "--log_level", "error"},
      "{\"sentence\": \"tab\\there\"}\n{\"sentence\": \"say \\\"x\\\"\"}\n{\"sentence\": \"two\\nlines\"}\n");
  EXPECT_NE(shown.bytes.find("\t\"tab\there\"\n"), std::string::npos) << shown.bytes;
  EXPECT_NE(shown.bytes.find("\t\"say \"\"x\"\"\"\n"), std::string::npos) << shown.bytes;
  EXPECT_NE(shown.bytes.find("\t\"two\nlines\"\n"), std::string::npos) << shown.bytes;
  const TerminalRun tab = run({"predict", "--model_name_or_path", "tuned", "--test_file", "-", "--use_cpu"},
                              "good\nfine\tfilm\n");
  EXPECT_EQ(tab.exit_code, 0);
  EXPECT_NE(tab.bytes.find("standard input:2: the line contains a tab"), std::string::npos) << tab.bytes;
  const auto refused = [&](const std::string& input) {
    return run(
        {"predict", "--model_name_or_path", "tuned", "--test_file", "-", "--use_cpu", "--log_level", "error"},
        input);
  };
  for (const auto& [input, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "standard input: it contains no text"},
           {"\n\n", "standard input: it contains no text"},
           {"good\ncaf\xe9\n", "standard input:2:4: byte 0xE9 is not valid UTF-8"},
           {"good\ncaf\xe9\n", "if the file is Latin-1: pipe it through iconv -f LATIN1 -t UTF-8"},
           {"label\tsentence\n1\tgood\n",
            "standard input:1: the line names the columns of a table ('label\\tsentence'), but one text per "
            "line is "
            "expected"},
           {std::string("a\0b\n", 4), "standard input:1:2: NUL byte"},
           {"{\"sentence\": \"a\"}\n{\"sentence\": 1}\n",
            "standard input:2: expected text in column 'sentence'"},
           {"{\"sentence\": \"a\"\n", "standard input:1"}}) {
    const TerminalRun result = refused(input);
    EXPECT_EQ(result.exit_code, 4) << result.bytes;
    EXPECT_NE(result.bytes.find(message), std::string::npos) << result.bytes;
  }
  const TerminalRun empty_line = refused("good\n\nbad\n");
  EXPECT_EQ(empty_line.exit_code, 0);
  EXPECT_EQ(std::ranges::count(empty_line.bytes, '\n'), 4)
      << "an empty line is an empty text, so that rows keep their number";
}

}  // namespace
}  // namespace plimsoll::testing
