// Formats the results of `plimsoll fit` for people and for programs. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/fit.h"

namespace plimsoll {

struct FitTableContext {
  std::string subject;  // heading: "bert-large-uncased, 512 tokens, 64 sequences per step, on l4 ..."
  // arguments of the run that was searched for, with which it is trained or, if is_plan_only, planned: "--train_file
  // ... --bf16 True"
  std::string command;
  // arguments that the user must supply: "FILE: the training data"; may be empty
  std::string to_fill_in = {};
  bool compares_cards = false;
  // true if released programs do not support the card of these rows, so that runs on it can only be planned
  bool is_plan_only = false;
  int64_t epoch_samples = 0;
};

// Formats the table with at most 80 columns, except for the command to type, and a newline at the end.
std::string fit_table(const FitReport& report, const FitTableContext& context);
std::string fit_json(const FitReport& report, const FitTableContext& context);

}  // namespace plimsoll
