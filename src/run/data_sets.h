// The data of a run: tokens and labels of its files, or random data. Reads files; not thread-safe.
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
  std::string label_column = {};  // the label column of the files
  TrainedColumns columns =
      {};  // the columns that a trained model remembers; empty unless it found them by name
  std::optional<Dataset> train = {};
  std::optional<Dataset> evaluate = {};
  std::optional<Dataset> evaluate_mismatched = {};  // second validation set of MNLI
  std::optional<Dataset> predict = {};
  std::optional<Dataset> predict_mismatched = {};  // second test set of MNLI
  int64_t reading_bytes = 0;                       // peak while data files were read; 0 if none were
  uint64_t train_hash = 0;  // hash of the training rows that are used; 0 if it is random ids
  std::vector<std::string> metric_names = {};  // empty: those of the problem type
  std::string token_cache = {};  // a line for people: which tokens were read from the cache or saved there
};

// Everything that reading depends on. Outlives the call of read_data().
struct DataSource {
  const Arguments& arguments;
  RunPurpose purpose;
  DataUse data_use;  // with kReadsRows, texts are counted and not tokenized
  const ModelSource& model;
  const TokenizerSource& tokenizer;
  KernelDevice device;
  const TrainerParts& parts;  // data and texts that are read instead of files, if there are any
};

// Returns the rules by which rows from memory are read. `name` is the name of the rows in messages. The arguments, configuration and
// tokenizer outlive the result.
RowRules row_rules(const Arguments& arguments, const ModelConfig& config, const TokenizerSource& tokenizer,
                   const LabelScheme& labels, const std::string& name);

// Reads and tokenizes the data sets of the run. Errors: kUsage for data that is missing or contradictory; kBadData for
// the content of files; kWillNotFit on a CPU for a file that alone exceeds --memory_limit.
DataSets read_data(const DataSource& source, FileSystem& files, Diagnostics& diagnostics);

// Refuses a file that alone exceeds --memory_limit on a CPU: reading it would exceed the limit before a plan could be
// made. Errors: kWillNotFit.
void require_file_fits(const DataSource& source, const std::string& path);
// Refuses a file of documents, which is read in parts, as soon as the tokens that are held of it exceed --memory_limit on a CPU. Errors:
// kWillNotFit.
void require_documents_fit(const DataSource& source, const std::string& path, int64_t held_bytes);

// Appends to `line`, which the run prints, that the tokens of a file came from the token cache or were saved there.
void describe_cache(const Arguments& arguments, const std::string& file, CacheOutcome outcome,
                    const std::string& detail, std::string& line);

// Checks that every data set has rows, and that the model has an embedding for every token. Errors: kBadData.
void check_data_against_model(const DataSets& data, const ModelConfig& config);

// The options of the random data of --dataset_name dummy.
DummyOptions dummy_options(const Arguments& arguments, const ModelConfig& config);

}  // namespace plimsoll
