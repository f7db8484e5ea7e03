// Formats the progress of a run: a line for a terminal that is overwritten, and a plain line for a log. Pure;
// thread-safe. The caller adds carriage returns and newlines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "show/report/quantities.h"

namespace plimsoll {

struct ProgressFigures {
  int64_t step = 0;
  int64_t max_steps = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  double tokens_per_s = 0;                             // real tokens
  std::optional<double> model_flops_utilization = {};  // 0 to 1; shown if known
  int64_t memory_bytes = 0;                            // planned
  double elapsed_s = 0;
  double remaining_s = -1;  // negative if unknown
};

// Formats "step  418/1195  35 % ━━━━╺─────  loss 1.042  |g| 3.1  lr 3.2e-05  9,412 tok/s  611 MiB  1:12 <
// 2:14", never wider than `columns`. The bar uses the space that the figures leave. If the figures do not
// fit, the last ones are omitted first, but the elapsed and the remaining time are omitted last.
std::string progress_bar(const ProgressFigures& figures, size_t columns = 100,
                         Characters characters = Characters::kUnicode);
// Formats the same figures without a bar, for a log. The figures that do not fit are omitted in the same order.
std::string progress_line(const ProgressFigures& figures, size_t columns = std::string::npos);

}  // namespace plimsoll
