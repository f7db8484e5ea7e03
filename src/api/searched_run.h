// The parts that `fit` and `fit --gpus` share: the run that is searched, without its data, and the command that trains it.
// Pure, except that the task may be read from a data file. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "hardware/rank_links.h"
#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll {

inline constexpr int64_t kMostEffective = 65536;  // largest number of sequences per optimizer step

// Returns the number of tokens per sequence for which plans are made: that of the longest sequences, so that the data need not be
// read. Requires: the arguments are resolved.
int64_t planned_length(const Arguments& arguments);
// Returns true if the run evaluates or predicts.
bool evaluates(const Arguments& arguments);
// Returns the run without its data. The task stays that of the run with the data. Errors: as prepare_run() for the model.
Arguments without_data(Arguments arguments, const Environment& environment);
// Returns the arguments without a choice of recomputation, which each plan makes for its own batch.
Arguments without_recompute_choice(Arguments arguments);

// The command that trains the run that was searched for.
struct SearchedCommand {
  // The arguments of the run, without those that the search chooses, and without a --device that names a card of the
  // table, on which the user's machine cannot run.
  std::string words = {};
  // A sentence that names the arguments that the user has to add; empty if the command is complete.
  std::string to_fill_in = {};
};

struct CommandKind {
  // The command is `plan` for the card of the arguments, which needs neither data nor a tokenizer.
  bool is_plan = false;
  bool is_for_one_gpu = false;  // a run without --nproc_per_node would use all GPUs that are visible
};
// Returns the command. `label`: the name of the model.
SearchedCommand command_of_search(const Arguments& arguments, const std::string& label,
                                  const CommandKind& kind);

// Returns the note that a network which --links names has no effect, because all ranks are in one machine; otherwise "".
std::string idle_network_note(const RankLinks& links, int64_t num_ranks, int64_t num_machines);

// Returns the word quoted for a shell.
std::string shell_word(const std::string& word);

}  // namespace plimsoll
