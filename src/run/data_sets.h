// The data sets of a run: tokens and labels from files, or random ones. Functions that read files; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "io/data/dataset.h"
#include "io/data/labels.h"
#include "io/data/memory_rows.h"
#include "io/data/token_cache.h"
#include "io/text/tokenizer.h"
#include "kernels/catalog/catalog.h"
#include "plimsoll/training.h"
#include "run/model_source.h"
#include "run/run_purpose.h"
#include "run/tokenizer_source.h"

namespace plimsoll {

struct DataSets {
  LabelScheme labels = {};
  std::string label_column = {};  // name of the label column in the files
  // Names of the columns to be stored with a trained model; empty unless the columns were found by name.
  TrainedColumns columns = {};
  std::optional<Dataset> train = {};
  std::optional<Dataset> evaluate = {};
  std::optional<Dataset> evaluate_mismatched = {};  // second validation set of MNLI (mismatched)
  std::optional<Dataset> predict = {};
  std::optional<Dataset> predict_mismatched = {};  // second test set of MNLI (mismatched)
  // Peak of the process's memory while data files were read; 0 if none were read.
  int64_t reading_bytes = 0;
  uint64_t train_hash = 0;  // Hash of the training rows that are used; 0 if the data is random ids.
  std::vector<std::string> metric_names = {};  // Metrics to compute; if empty, those of the problem type.
  // A line for the user that states which tokens were read from the token cache or saved there.
  std::string token_cache = {};
};

// The input of read_data(). It must outlive the call.
struct DataSource {
  const Arguments& arguments;
  RunPurpose purpose;
  DataUse data_use;  // states how data is used; with kReadsRows, texts are counted but not tokenized
  const ModelSource& model;
  const TokenizerSource& tokenizer;
  KernelDevice device;
  const TrainerParts& parts;  // data and texts that the calling program passes instead of files
};

// Returns the rules for reading rows that the calling program passes. `name` is the name of these rows in messages. Requires: the
// arguments, configuration and tokenizer outlive the result.
RowRules row_rules(const Arguments& arguments, const ModelConfig& config, const TokenizerSource& tokenizer,
                   const LabelScheme& labels, const std::string& name);

// Reads and tokenizes the data sets of the run. Errors: kUsage for data that is missing or contradictory; kBadData for
// the content of files; kWillNotFit on a CPU for a file that alone exceeds --memory_limit.
DataSets read_data(const DataSource& source, FileSystem& files, Diagnostics& diagnostics);

// Refuses a file that alone exceeds --memory_limit on a CPU: reading it would exceed the limit before a plan could be
// made. Errors: kWillNotFit.
void require_file_fits(const DataSource& source, const std::string& path);
// Refuses a file of documents, which is read in parts, as soon as its tokens in memory exceed --memory_limit on a CPU. Errors:
// kWillNotFit.
void require_documents_fit(const DataSource& source, const std::string& path, int64_t held_bytes);

// Appends to `line`, which the run prints, whether the tokens of a file came from the token cache or were saved there.
void describe_cache(const Arguments& arguments, const std::string& file, CacheOutcome outcome,
                    const std::string& detail, std::string& line);

// Checks that every data set has rows, and that the model has an embedding for every token. Errors: kBadData.
void check_data_against_model(const DataSets& data, const ModelConfig& config);

// Returns the options of the random data that --dataset_name dummy requests.
DummyOptions dummy_options(const Arguments& arguments, const ModelConfig& config);

}  // namespace plimsoll
