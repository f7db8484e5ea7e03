#include "io/data/glue.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "io/data/table_reader.h"
#include "io/data/text_file.h"

namespace plimsoll {
namespace {

const std::array<GlueTask, 9>& task_table() {
  static const std::array<GlueTask, 9> tasks = {{
      {"cola",
       "CoLA",
       "sentence",
       "",
       "is_acceptable",
       {"unacceptable", "acceptable"},
       {"matthews_correlation"},
       "sentence",
       ""},
      {"mnli",
       "MNLI",
       "sentence1",
       "sentence2",
       "gold_label",
       {"entailment", "neutral", "contradiction"},
       {"accuracy"},
       "premise",
       "hypothesis"},
      {"mrpc",
       "MRPC",
       "#1 String",
       "#2 String",
       "Quality",
       {"not_equivalent", "equivalent"},
       {"accuracy", "f1"},
       "sentence1",
       "sentence2"},
      {"qnli",
       "QNLI",
       "question",
       "sentence",
       "label",
       {"entailment", "not_entailment"},
       {"accuracy"},
       "question",
       "sentence"},
      {"qqp",
       "QQP",
       "question1",
       "question2",
       "is_duplicate",
       {"not_duplicate", "duplicate"},
       {"accuracy", "f1"},
       "question1",
       "question2"},
      {"rte",
       "RTE",
       "sentence1",
       "sentence2",
       "label",
       {"entailment", "not_entailment"},
       {"accuracy"},
       "sentence1",
       "sentence2"},
      {"sst2", "SST-2", "sentence", "", "label", {"negative", "positive"}, {"accuracy"}, "sentence", ""},
      {"stsb",
       "STS-B",
       "sentence1",
       "sentence2",
       "score",
       {},
       {"pearson", "spearmanr"},
       "sentence1",
       "sentence2"},
      {"wnli",
       "WNLI",
       "sentence1",
       "sentence2",
       "label",
       {"not_entailment", "entailment"},
       {"accuracy"},
       "sentence1",
       "sentence2"},
  }};
  return tasks;
}

bool is_test(GlueSplit split) {
  return split == GlueSplit::kTest || split == GlueSplit::kTestMismatched;
}

std::string split_file(const GlueTask& task, GlueSplit split) {
  const bool mnli = task.name == "mnli";
  switch (split) {
    case GlueSplit::kTrain:
      return "train.tsv";
    case GlueSplit::kValidation:
      return mnli ? "dev_matched.tsv" : "dev.tsv";
    case GlueSplit::kTest:
      return mnli ? "test_matched.tsv" : "test.tsv";
    case GlueSplit::kValidationMismatched:
      return "dev_mismatched.tsv";
    case GlueSplit::kTestMismatched:
      return "test_mismatched.tsv";
  }
  return "";
}

// Returns the name of the file that contains the rows of a split of the GLUE task MRPC in the form in which the authors of MRPC publish it.
// Training and validation rows are in the same file; a second file lists the pairs of ids of the validation rows.
std::string mrpc_source_file(const GlueTask& task, GlueSplit split) {
  if (task.name != "mrpc") {
    return "";
  }
  return split == GlueSplit::kTest ? "msr_paraphrase_test.txt" : "msr_paraphrase_train.txt";
}

// Returns true if the text has a header. The original files of CoLA for training and validation have no header, but files derived from
// them may have a header.
bool begins_with_header(std::string_view text) {
  const std::string_view line = text.substr(0, text.find_first_of("\r\n"));
  bool has_sentence = false;
  bool has_label = false;
  for (size_t at = 0; at <= line.size();) {
    const size_t end = std::min(line.find('\t', at), line.size());
    const std::string_view field = line.substr(at, end - at);
    has_sentence = has_sentence || field == "sentence";
    has_label = has_label || field == "label" || field == "is_acceptable";
    at = end + 1;
  }
  return has_sentence && has_label;
}

Table read_glue_table(const GlueTask& task, const std::filesystem::path& path, GlueSplit split) {
  TextFile file = read_data_file(path);
  CsvOptions options;
  options.delimiter = '\t';
  options.quotes = QuoteRule::kNone;
  options.ragged = RaggedRule::kFill;
  if (task.name == "cola" && !is_test(split) && !begins_with_header(file.bytes)) {
    options.header = HeaderRule::kGiven;
    options.given_columns = {"source", "is_acceptable", "mark", "sentence"};
  }
  return read_csv(std::move(file), options);
}

std::string pair_key(std::string_view first, std::string_view second) {
  return fmt::format("{}\t{}", first, second);
}

// MRPC has a single file for training and validation: keeps the rows of one of the two splits, according to a file with the ids of the
// validation rows.
void split_mrpc(TextSplit& rows, const std::filesystem::path& ids_file, GlueSplit split) {
  CsvOptions options;
  options.delimiter = '\t';
  options.quotes = QuoteRule::kNone;
  options.header = HeaderRule::kGiven;
  options.given_columns = {"first", "second"};
  const Table ids = read_csv(read_data_file(ids_file), options);
  std::unordered_set<std::string> validation;
  for (int64_t row = 0; row < ids.num_rows(); ++row) {
    validation.insert(pair_key(ids.cell(row, 0), ids.cell(row, 1)));
  }
  const int64_t first = rows.table().find_column("#1 ID");
  const int64_t second = rows.table().find_column("#2 ID");
  if (first < 0 || second < 0) {
    throw_error(ErrorCode::kBadData, "{}: expected columns '#1 ID' and '#2 ID', found {}",
                rows.table().file_name(), rows.table().column_list());
  }
  rows.keep_if([&](int64_t row) {
    const int64_t at = rows.table_row(row);
    const bool held_out =
        validation.contains(pair_key(rows.table().cell(at, first), rows.table().cell(at, second)));
    return held_out == (split == GlueSplit::kValidation);
  });
}

}  // namespace

std::span<const GlueTask> glue_tasks() {
  return task_table();
}

const GlueTask& find_glue_task(std::string_view name) {
  std::string wanted(name);
  for (char& letter : wanted) {
    letter = letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  std::string known;
  for (const GlueTask& task : task_table()) {
    if (task.name == wanted) {
      return task;
    }
    known += fmt::format("{}{}", known.empty() ? "" : ", ", task.name);
  }
  throw_error(ErrorCode::kUsage, "'{}' is not a GLUE task; choose from {}", name, known);
}

std::filesystem::path glue_file(const GlueTask& task, const std::filesystem::path& folder, GlueSplit split) {
  std::string tried;
  for (const std::filesystem::path& where : {folder, folder / task.folder, folder / task.name}) {
    for (const std::string& name : {split_file(task, split), mrpc_source_file(task, split)}) {
      if (name.empty()) {
        continue;
      }
      std::error_code error;
      if (std::filesystem::is_regular_file(where / name, error)) {
        return where / name;
      }
      tried += fmt::format("\n    {}", (where / name).string());
    }
  }
  throw_error(ErrorCode::kBadData, "no file of GLUE's {} in {}; searched:{}\n  unpack GLUE's {} there",
              task.folder, folder.string(), tried, task.folder);
}

ColumnChoice glue_columns(const GlueTask& task, const Table& table) {
  const auto has = [&](std::string_view name) {
    return name.empty() || table.find_column(std::string(name)) >= 0;
  };
  // The column names of GLUE's own files are tried first, then those of the copies on Hugging Face's hub. If the table has neither, the
  // error message asks for the names of GLUE.
  const bool is_hub = !(has(task.first_column) && has(task.second_column)) && has(task.hub_first_column) &&
                      has(task.hub_second_column);
  ColumnChoice columns;
  columns.first = is_hub ? task.hub_first_column : task.first_column;
  const std::string_view second = is_hub ? task.hub_second_column : task.second_column;
  if (!second.empty()) {
    columns.second = second;
  }
  columns.label = !has(task.label_column) && has("label") ? "label" : task.label_column;
  columns.has_label = has(columns.label);
  return columns;
}

bool is_glue_layout(const std::filesystem::path& file) {
  const std::string extension = file.extension().string();
  return extension == ".tsv" || extension == ".txt" || extension == ".tab" || extension.empty();
}

TextSplit read_glue(const GlueTask& task, const std::filesystem::path& folder, GlueSplit split,
                    const ColumnOptions& named) {
  return read_glue_file(task, glue_file(task, folder, split), split, named);
}

TextSplit read_glue_file(const GlueTask& task, const std::filesystem::path& file, GlueSplit split,
                         const ColumnOptions& named) {
  Table table = read_glue_table(task, file, split);
  ColumnChoice columns = named.text.empty() ? glue_columns(task, table) : choose_columns(table, named);
  if (named.label != ColumnOptions().label) {
    columns.label = named.label;
  } else if (!named.text.empty()) {
    columns.label = glue_columns(task, table).label;
  }
  columns.has_label = !is_test(split);
  TextSplit rows = TextSplit::skipping_incomplete_rows(std::move(table), columns);
  if (file.filename() == "msr_paraphrase_train.txt") {
    std::filesystem::path ids = file.parent_path() / "mrpc_dev_ids.tsv";
    if (!std::filesystem::exists(ids)) {
      ids = file.parent_path() / "dev_ids.tsv";
    }
    split_mrpc(rows, ids, split);
    if (rows.num_rows() == 0) {
      throw_error(ErrorCode::kBadData,
                  "{}: no row is left after splitting by {}; check that both files belong together",
                  file.string(), ids.string());
    }
  }
  return rows;
}

LabelScheme glue_labels(const GlueTask& task) {
  if (task.is_regression()) {
    LabelScheme scheme;
    scheme.origin = LabelOrigin::kTask;
    scheme.kind = LabelKind::kNumbers;
    scheme.num_labels = 1;
    return scheme;
  }
  return given_labels({task.classes.begin(), task.classes.end()}, LabelOrigin::kTask);
}

}  // namespace plimsoll
