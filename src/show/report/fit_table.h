// Formats the results of `plimsoll fit` for people and for programs. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/fit.h"

namespace plimsoll {

struct FitTableContext {
  std::string subject;  // heading: "bert-large-uncased, 512 tokens, 64 sequences per step, on l4 ..."
  // The arguments that the printed commands for `train` (or `plan` if is_plan_only) share, without those of the
  // methods: "--train_file ... --bf16 True".
  std::string command;
  // explanation of the placeholders in the commands, which the user must replace: "FILE: the training data"; may be empty
  std::string to_fill_in = {};
  bool compares_cards = false;
  // true if released programs do not support this graphics card, so that a run on it can be planned but not made
  bool is_plan_only = false;
  int64_t epoch_samples = 0;
};

// Formats the table with at most 80 columns and a newline at the end. Only the printed command lines may be longer.
std::string fit_table(const FitReport& report, const FitTableContext& context);
std::string fit_json(const FitReport& report, const FitTableContext& context);

}  // namespace plimsoll
