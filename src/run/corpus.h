// Reads the data of a language model (documents from files or from the calling program, divided into blocks), and decides whether a run
// trains a language model. Functions that read files; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"
#include "run/data_sets.h"
#include "run/run_request.h"

namespace plimsoll {

// Returns true for a training file that has labels: a label column, or words with tags. Only the first MiB is examined. A file that
// cannot be read counts as a file without labels.
bool has_labelled_rows(const Arguments& arguments);

// The problem type of a run before its data is read, and a note about how it was inferred.
struct TaskChoice {
  std::optional<ProblemType> problem_type = {};
  std::string note = {};
};

// Returns the problem type of language modelling if --problem_type asks for it. Otherwise the head for which an existing adapter was trained
// decides, and if there is no adapter or it does not state its head, the class of the checkpoint: a causal
// language model remains one, unless the task or the labels of the training file make it the base of a classifier. A model with a head for
// causal language modelling that states no task is trained as a language model if the training file is plain text. A checkpoint of a masked
// language model remains one if the data is plain text, or if the run trains nothing. For any other run, returns the problem type of the
// configuration. Requires: with_adapter_head() was applied to the configuration if there is an adapter. Errors: kUsage if --problem_type
// or --task_name needs another head than that of the adapter.
TaskChoice choose_problem_type(const Arguments& arguments, RunPurpose purpose, const ModelConfig& config,
                               const AdapterSource& adapter);

// Returns true if each document of a run is a separate row, instead of being joined with others and divided into blocks.
bool separates_documents(const Arguments& arguments, const ModelConfig& config);

// Returns how a masked language model hides tokens. Errors: kUsage for a tokenizer without a mask token, and if there is no tokenizer.
// Requires: the model has an embedding for every id of the tokenizer, which is checked when the tokenizer is read.
TokenMasking masking_of(const Arguments& arguments, const ModelConfig& config,
                        const TokenizerSource& tokenizer, MaskSchedule schedule);

// Reads the documents and cuts them into blocks. Errors: kUsage for data that is missing or contradictory; kBadData for
// the content of files.
void read_corpus(const DataSource& source, FileSystem& files, Diagnostics& diagnostics,
                 ReadingMemory& reading, DataSets& data);

// Adds notes about arguments without effect: those about the data of language models in a run of another task, and those about other
// tasks in a run of a language model.
void note_arguments_of_other_tasks(const Arguments& arguments, const ModelConfig& config,
                                   Diagnostics& diagnostics);

}  // namespace plimsoll
