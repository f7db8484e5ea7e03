// Formats the log of a run without values that depend on the clock.
#pragma once

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "plimsoll/training.h"

namespace plimsoll::testing {

inline std::vector<std::string> stable_log(const LogHistory& history) {
  static const std::set<std::string> kStable{"loss",      "grad_norm",     "learning_rate",
                                             "eval_loss", "eval_accuracy", "train_loss"};
  std::vector<std::string> lines;
  for (const LogRecord& record : history) {
    std::ostringstream line;
    line.precision(17);
    line << record.step << " " << record.epoch;
    for (const auto& [key, value] : record.values) {
      if (kStable.contains(key)) line << " " << key << "=" << value;
    }
    lines.push_back(line.str());
  }
  return lines;
}

}  // namespace plimsoll::testing
