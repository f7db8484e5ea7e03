// Code that `fit` and `fit --gpus` share: they search for settings of a run without tokenizing its data, and print the
// command that trains it. The only file of data that they may read is the one from which the task follows. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "hardware/rank_links.h"
#include "plimsoll/arguments.h"
#include "plimsoll/training.h"

namespace plimsoll {

inline constexpr int64_t kMostEffective = 65536;  // largest permitted number of sequences per optimizer step

// Returns the number of tokens per sequence for which plans are made: the maximum length (such as --max_seq_length), so
// that the data need not be read. Requires: the arguments are resolved.
int64_t planned_length(const Arguments& arguments);
// Returns true if the run contains evaluations or predictions.
bool evaluates(const Arguments& arguments);
// Returns the arguments without data files, but with the task that the data determines. Errors: as prepare_run() for
// the model.
Arguments without_data(Arguments arguments, const Environment& environment);
// Returns the arguments without the setting that selects what is recomputed, because each plan chooses it for its own
// batch size.
Arguments without_recompute_choice(Arguments arguments);

// The command that trains the run that a search has found, as `fit` prints it.
struct SearchedCommand {
  // The arguments of the run, without those that the search chooses, and without a --device that names a card of the
  // table of devices, because the user's machine has no device of this name.
  std::string words = {};
  // A sentence about the arguments that the user has to add; empty if the command is complete.
  std::string to_fill_in = {};
};

struct CommandKind {
  // True if the command is `plan` for the card in the arguments instead of `train`. It needs neither data nor a
  // tokenizer.
  bool is_plan = false;
  bool is_for_one_gpu = false;  // true if the command must limit the run to one GPU
};
// Returns the command that trains, or for CommandKind::is_plan plans, a run with these arguments. `label` is the name of the model in the
// sentence `to_fill_in`.
SearchedCommand command_of_search(const Arguments& arguments, const std::string& label,
                                  const CommandKind& kind);

// Returns a note if --links names a network between machines although all ranks are in one machine, where it has no
// effect; otherwise "".
std::string idle_network_note(const RankLinks& links, int64_t num_ranks, int64_t num_machines);

// Quotes a word for the shell if necessary.
std::string shell_word(const std::string& word);

}  // namespace plimsoll
