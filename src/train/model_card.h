// The README.md of a run: a model card with the front matter, headings and table of Hugging Face's Trainer, and the settings
// and results of this run. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/training.h"
#include "run/run_setup.h"

namespace plimsoll {

// Returns the text, with a newline at its end.
std::string model_card(const RunSetup& setup, const TrainOutput& output);

// Returns true if model_card() wrote `text`, so that it may be overwritten. A README from another source must not be.
bool is_model_card(std::string_view text);

}  // namespace plimsoll
