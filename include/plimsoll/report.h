// Formats the measurements and metrics of a run for people, as the command line prints them. Thread-safe: pure functions,
// except for those that read files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/training.h"

namespace plimsoll {

// The values that a progress line shows in addition to those of the step (StepInfo).
struct ProgressContext {
  double tokens_per_second = 0;
  int64_t memory_bytes = 0;  // planned memory
  double elapsed_s = 0;
  double remaining_s = -1;  // estimated time until the end of the run; negative if unknown
  bool ascii = false;       // draw the bar without Unicode characters
};

// Formats a step as a progress bar of at most `columns` columns for a terminal, or as one plain line. Values that do not
// fit are omitted; elapsed and remaining time are omitted last. columns = 0 means no limit.
std::string format_progress_bar(const StepInfo& info, const ProgressContext& context, int columns = 100);
std::string format_progress_line(const StepInfo& info, const ProgressContext& context, int columns = 0);

// Formats "***** train metrics *****" and one line per metric, as Hugging Face prints them.
std::string format_metrics(std::string_view split, const MetricMap& metrics);

// Formats the predicted, allocated and measured memory, and states if the prediction was right.
std::string format_memory(const MemoryFigures& figures);

// Returns a report of finished runs as one HTML page that needs no other file and no network: plan, map of the arena,
// curves, planned and measured memory, operations, arguments and environment, and for several runs a comparison first.
// `folders`: the output_dir of each run. Errors: kUsage if a folder is not the output_dir of a run, and if `folders` is
// empty; kBadData for a damaged file.
std::string report_html(const std::vector<std::string>& folders);

}  // namespace plimsoll
