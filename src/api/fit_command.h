// The command that trains what `fit` was asked about. Pure; thread-safe.
#pragma once

#include <string>

#include "plimsoll/arguments.h"

namespace plimsoll {

struct FitCommand {
  // The words of the run, without those that the search chooses and without a card's name, which is not that
  // of a device of the machine that will run it.
  std::string words = {};
  // What a user has to fill in, where something of the run was not said: a sentence; or empty.
  std::string to_fill_in = {};
};
// `label`: what the model is called.
FitCommand fit_command(const Arguments& arguments, const std::string& label);

// A word as a shell takes it for what it is.
std::string shell_word(const std::string& word);

}  // namespace plimsoll
