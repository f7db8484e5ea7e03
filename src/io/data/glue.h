// The tasks of the GLUE benchmark: columns, classes, metrics, and their files in GLUE's own layout.
// Thread-safe.
//
// A folder as GLUE's own archives unpack it: CoLA, MNLI, MRPC, QNLI, QQP, RTE, SST-2, STS-B, WNLI, each with
// train.tsv, dev.tsv and test.tsv (MNLI: dev_matched, dev_mismatched, ...). Quotes are ordinary characters in
// all of them. What differs: CoLA's train and dev have no header (source, label, mark, sentence); MRPC calls
// its columns "#1 String",
// "#2 String" and "Quality" and may begin with a byte order mark; MNLI's label is "gold_label"; QQP's
// "is_duplicate"; STS-B's is the float "score"; rows that lack a column (QQP and MNLI have some) are left
// out, as Hugging Face does.
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
  bool is_regression() const { return classes.empty(); }
};

std::span<const GlueTask> glue_tasks();

// Case is ignored. Errors: kUsage for another name; the tasks are listed.
const GlueTask& find_glue_task(std::string_view name);

enum class GlueSplit { kTrain, kValidation, kTest, kValidationMismatched, kTestMismatched };

// The file of a split. `folder` is the task's folder or the one that holds it.
// Errors: kBadData if there is none: the files that were looked for are listed.
std::filesystem::path glue_file(const GlueTask& task, const std::filesystem::path& folder, GlueSplit split);

// Reads a split. The test splits have no labels.
TextSplit read_glue(const GlueTask& task, const std::filesystem::path& folder, GlueSplit split);

// Reads one file of a task, which need not be in GLUE's folders.
TextSplit read_glue_file(const GlueTask& task, const std::filesystem::path& file, GlueSplit split);

LabelScheme glue_labels(const GlueTask& task);

}  // namespace plimsoll
