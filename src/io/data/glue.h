// The tasks of the GLUE benchmark: columns, classes, metrics, and their files in GLUE's own layout.
// Thread-safe.
//
// GLUE's own archives contain one folder per task: CoLA, MNLI, MRPC, QNLI, QQP, RTE, SST-2, STS-B and WNLI,
// each with train.tsv, dev.tsv and test.tsv (for MNLI dev_matched, dev_mismatched, ...). Quotes are ordinary
// characters in all of them. The differences:
//  - CoLA's train and dev files have no header (source, label, mark, sentence).
//  - MRPC's columns are "#1 String", "#2 String" and "Quality"; the file may begin with a byte-order mark.
//  - MNLI's label is "gold_label", QQP's is "is_duplicate", and STS-B's is the float "score".
//  - Rows that lack a column (some in QQP and MNLI) are skipped, as Hugging Face does.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/data/labels.h"
#include "io/data/text_split.h"

namespace plimsoll {

struct GlueTask {
  std::string_view name;           // name of the task, such as "mrpc"
  std::string_view folder;         // name of the task's folder, such as "MRPC"
  std::string_view first_column;   // name of the first text column in GLUE's files
  std::string_view second_column;  // name of the second text column; empty for tasks with one text
  std::string_view label_column;   // name of the label column in GLUE's files
  std::vector<std::string_view>
      classes;  // names of the classes in Hugging Face's order; empty for regression
  // The names of the task's metrics, from "accuracy", "f1", "matthews_correlation", "pearson" and "spearmanr".
  std::vector<std::string_view> metrics;
  std::string_view hub_first_column;  // first text column in the task's data set on Hugging Face's hub
  // The second text column in the data set on the hub, in which the label column is always called "label".
  std::string_view hub_second_column;
  bool is_regression() const { return classes.empty(); }
};

std::span<const GlueTask> glue_tasks();

// Returns the task with this name; case is ignored. Errors: kUsage for an unknown name; the message lists the
// tasks.
const GlueTask& find_glue_task(std::string_view name);

enum class GlueSplit { kTrain, kValidation, kTest, kValidationMismatched, kTestMismatched };

// Returns the file of a split. `folder` is either the folder of the task or its parent. Errors: kBadData if
// the file does not exist; the message lists the paths that were tried.
std::filesystem::path glue_file(const GlueTask& task, const std::filesystem::path& folder, GlueSplit split);

// Reads a split. The test splits have no labels. Columns that `named` specifies override those of the task.
TextSplit read_glue(const GlueTask& task, const std::filesystem::path& folder, GlueSplit split,
                    const ColumnOptions& named = {});

// Returns the columns of a task in a table: those with the names in GLUE's files, or otherwise those with the names in the data sets on
// Hugging Face's hub. has_label is true if the label column exists.
ColumnChoice glue_columns(const GlueTask& task, const Table& table);

// Returns true if the extension of a file implies GLUE's layout: tab-separated, with quotes as ordinary
// characters. A .csv or .json file of a task is read like any other.
bool is_glue_layout(const std::filesystem::path& file);

// Reads one file of a task that has GLUE's layout. The file may be in any folder.
TextSplit read_glue_file(const GlueTask& task, const std::filesystem::path& file, GlueSplit split,
                         const ColumnOptions& named = {});

LabelScheme glue_labels(const GlueTask& task);

}  // namespace plimsoll
