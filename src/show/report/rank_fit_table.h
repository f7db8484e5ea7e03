// Formats the results of `plimsoll fit --gpus` for people and for programs. Pure; thread-safe.
#pragma once

#include <string>

#include "plimsoll/fit_ranks.h"

namespace plimsoll {

struct RankFitContext {
  // Heading: "bert-large-uncased, 128 tokens, 512 sequences per step, on 64 x h100: 8 machines of 8".
  std::string subject;
  std::string to_fill_in;  // arguments that the user must supply: "FILE: the training data"; may be empty
};

// Formats the table with at most 80 columns, except for the commands to type, and a newline at the end.
std::string rank_fit_table(const RankFitReport& report, const RankFitContext& context);
std::string rank_fit_json(const RankFitReport& report, const RankFitContext& context);

}  // namespace plimsoll
