// The answers of `plimsoll fit` as people and programs read them. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "plimsoll/fit.h"

namespace plimsoll {

struct FitTableContext {
  std::string subject;          // "bert-large-uncased, 512 tokens, 64 sequences a step, in 16384 MiB on l4"
  std::string command;          // the words of the run that was asked about: "--train_file ... --bf16 True"
  std::string to_fill_in = {};  // what of them a user has to write: "FILE: the training data"; may be empty
  bool compares_cards = false;
  int64_t epoch_samples = 0;
};

// At most 100 columns but for the command to type; newline at the end.
std::string fit_table(const FitReport& report, const FitTableContext& context);
std::string fit_json(const FitReport& report, const FitTableContext& context);

}  // namespace plimsoll
