// The data of a language model: the documents of files or of a program, in blocks; and the decision whether a run trains
// one. Functions that read files; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"
#include "run/data_sets.h"
#include "run/run_request.h"

namespace plimsoll {

// Returns true for a file that the arguments name as training data and that has labels: the label column, or words with
// tags. Only the first MiB is examined, and files that cannot be read have none.
bool has_labelled_rows(const Arguments& arguments);

// The problem type of a run before its data is read, and a note about how it was inferred.
struct TaskChoice {
  std::optional<ProblemType> problem_type = {};
  std::string note = {};
};

// Returns language modelling if --problem_type asks for it. Otherwise the class of the checkpoint decides, unless the task, or the labels
// of the training file, make it the base of a classifier; and a training file of plain text decides for a model that has a head for
// causal language modelling and states no task. A checkpoint of a masked language model remains one if the data is plain text, or if the
// run trains nothing and has no adapter. For any other run, returns the problem type of the configuration.
TaskChoice choose_problem_type(const Arguments& arguments, RunPurpose purpose, const ModelConfig& config,
                               const AdapterSource& adapter);

// Returns true if each document of a run is a row of its own.
bool separates_documents(const Arguments& arguments, const ModelConfig& config);

// Returns how a masked language model hides tokens. Errors: kUsage for a tokenizer without a mask token, and the reason why
// there is no tokenizer. Requires: the tokenizer's ids are in the model's table, which reading the tokenizer checks.
TokenMasking masking_of(const Arguments& arguments, const ModelConfig& config,
                        const TokenizerSource& tokenizer, MaskSchedule schedule);

// Reads the documents and cuts them into blocks. Errors: kUsage for data that is missing or contradictory; kBadData for
// the content of files.
void read_corpus(const DataSource& source, FileSystem& files, Diagnostics& diagnostics,
                 ReadingMemory& reading, DataSets& data);

// Notes arguments without effect: those for the data of language models in a run of another task, and those for other tasks in a run of a
// language model.
void note_arguments_of_other_tasks(const Arguments& arguments, const ModelConfig& config,
                                   Diagnostics& diagnostics);

}  // namespace plimsoll
