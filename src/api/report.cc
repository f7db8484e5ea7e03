#include "plimsoll/report.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "show/html/report_page.h"
#include "show/report/plan_table.h"
#include "show/report/quantities.h"
#include "show/report/result_files.h"

namespace plimsoll {
namespace {

std::optional<double> utilization_of(const StepInfo& info) {
  if (info.peak_flops_per_s <= 0 || info.step_ms <= 0) return std::nullopt;
  return info.model_flops / (info.peak_flops_per_s * 1e-3 * info.step_ms);
}

ProgressFigures figures_of(const StepInfo& info, const ProgressContext& context) {
  return {.step = info.step,
          .max_steps = info.max_steps,
          .loss = info.loss,
          .grad_norm = info.grad_norm,
          .learning_rate = info.learning_rate,
          .tokens_per_s = context.tokens_per_second,
          .model_flops_utilization = utilization_of(info),
          .memory_bytes = context.memory_bytes,
          .elapsed_s = context.elapsed_s,
          .remaining_s = context.remaining_s};
}

}  // namespace

std::string format_progress_bar(const StepInfo& info, const ProgressContext& context, int columns) {
  return progress_bar(figures_of(info, context), static_cast<size_t>(std::max(columns, 20)),
                      context.ascii ? Characters::kAscii : Characters::kUnicode);
}

std::string format_progress_line(const StepInfo& info, const ProgressContext& context, int columns) {
  return progress_line(figures_of(info, context),
                       columns > 0 ? static_cast<size_t>(columns) : std::string::npos);
}

std::string format_metrics(std::string_view split, const MetricMap& metrics) {
  return metrics_block(split, metrics);
}

std::string format_memory(const MemoryFigures& figures) {
  return memory_outcome_table(figures);
}

std::string report_html(const std::vector<std::string>& folders) {
  if (folders.empty())
    throw_error(ErrorCode::kUsage, "report: give at least one run, the --output_dir of its training");
  std::vector<ReportSource> sources;
  sources.reserve(folders.size());
  for (const std::string& folder : folders) sources.push_back(read_run(folder));
  name_sources(sources);
  return report_page(sources);
}

}  // namespace plimsoll
