// The command that trains what `fit` was asked about. Pure; thread-safe.
#pragma once

#include <string>

#include "plimsoll/arguments.h"

namespace plimsoll {

struct FitCommand {
  // The arguments of the run, without those that the search chooses and without the name of a card, which is no device of
  // the machine that runs it.
  std::string words = {};
  // A sentence that names the arguments that the user has to add; empty if the command is complete.
  std::string to_fill_in = {};
};
// Returns the command. `label`: the name of the model. `is_plan`: the command is `plan` for the card of the arguments,
// which needs neither data nor a tokenizer.
FitCommand fit_command(const Arguments& arguments, const std::string& label, bool is_plan);

// Returns the word quoted for a shell.
std::string shell_word(const std::string& word);

}  // namespace plimsoll
