// The tasks of the GLUE benchmark: columns, classes, metrics, and their files in GLUE's own layout.
// Thread-safe.
//
// A folder as GLUE's own archives unpack it: CoLA, MNLI, MRPC, QNLI, QQP, RTE, SST-2, STS-B, WNLI, each with
// train.tsv, dev.tsv and test.tsv (MNLI: dev_matched, dev_mismatched, ...). Quotes are ordinary characters in
// all of them. What differs:
//  - CoLA's train and dev have no header (source, label, mark, sentence).
//  - MRPC calls its columns "#1 String", "#2 String" and "Quality" and may begin with a byte order mark.
//  - MNLI's label is "gold_label", QQP's "is_duplicate", and STS-B's is the float "score".
//  - Rows that lack a column (QQP and MNLI have some) are left out, as Hugging Face does.
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
  std::string_view name;                  // "mrpc"
  std::string_view folder;                // "MRPC"
  std::string_view first_column;          // in the file
  std::string_view second_column;         // empty for single sentences
  std::string_view label_column;          // in the file
  std::vector<std::string_view> classes;  // in Hugging Face's order; empty for regression
  std::vector<std::string_view> metrics;  // "accuracy", "f1", "matthews_correlation", "pearson", "spearmanr"
  std::string_view hub_first_column;      // as the task's copy on Hugging Face's hub calls it
  std::string_view hub_second_column;     // its label is "label"
  bool is_regression() const { return classes.empty(); }
};

std::span<const GlueTask> glue_tasks();

// Case is ignored. Errors: kUsage for another name; the tasks are listed.
const GlueTask& find_glue_task(std::string_view name);

enum class GlueSplit { kTrain, kValidation, kTest, kValidationMismatched, kTestMismatched };

// The file of a split. `folder` is the task's folder or the one that holds it.
// Errors: kBadData if there is none: the files that were looked for are listed.
std::filesystem::path glue_file(const GlueTask& task, const std::filesystem::path& folder, GlueSplit split);

// Reads a split. The test splits have no labels. Columns that `named` has names for are those, else the
// task's.
TextSplit read_glue(const GlueTask& task, const std::filesystem::path& folder, GlueSplit split,
                    const ColumnOptions& named = {});

// The columns of a task in a table: those of GLUE's own files, or else those of the copies on Hugging Face's
// hub. has_label: whether the label's is there.
ColumnChoice glue_columns(const GlueTask& task, const Table& table);

// Whether a file is in GLUE's layout, by its extension: tab-separated with quotes as ordinary characters. A
// .csv or .json file of a task is read as any other.
bool is_glue_layout(const std::filesystem::path& file);

// Reads one file of a task in GLUE's layout, which need not be in GLUE's folders.
TextSplit read_glue_file(const GlueTask& task, const std::filesystem::path& file, GlueSplit split,
                         const ColumnOptions& named = {});

LabelScheme glue_labels(const GlueTask& task);

}  // namespace plimsoll
