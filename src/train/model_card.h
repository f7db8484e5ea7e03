// README.md of a run: a model card with the front matter, the headings and the table that Hugging Face's
// Trainer writes, filled with this run's settings and results. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "plimsoll/training.h"
#include "run/run_setup.h"

namespace plimsoll {

// The text, with its newline at the end.
std::string model_card(const RunSetup& setup, const TrainOutput& output);

// Whether `text` is a card that model_card wrote, and so may be written over; a README of somebody else may
// not.
bool is_model_card(std::string_view text);

}  // namespace plimsoll
