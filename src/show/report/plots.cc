#include "show/report/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "base/units.h"
#include "optim/optimizers.h"
#include "plan/anatomy/memory.h"
#include "plan/anatomy/operations.h"
#include "show/report/plan_table.h"
#include "show/report/svg.h"

namespace plimsoll {
namespace {

// Okabe and Ito's colours, in the order of the enumeration Purpose.
constexpr std::array<std::string_view, kNumPurposes> kPurposeColours{
    "#0072B2", "#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#F0E442", "#999999"};

std::vector<PlotPoint> points_of(const LogHistory& history, const std::string& key) {
  std::vector<PlotPoint> points;
  for (const LogRecord& record : history) {
    const auto it = record.values.find(key);
    if (it != record.values.end()) points.emplace_back(static_cast<double>(record.step), it->second);
  }
  return points;
}

// Returns a range for an axis that contains every finite value with a margin. It starts at 0 unless all
// values are far above 0.
std::pair<double, double> range_of(const std::vector<PlotPoint>& points) {
  double low = 0;
  double high = 0;
  bool any = false;
  for (const auto& [x, y] : points) {
    if (!std::isfinite(y)) continue;
    low = any ? std::min(low, y) : y;
    high = any ? std::max(high, y) : y;
    any = true;
  }
  if (!any) return {0, 1};
  if (low >= 0 && low < 0.7 * high) low = 0;
  const double margin = high > low ? 0.05 * (high - low) : std::max(0.5, 0.1 * std::fabs(high));
  return {low == 0 ? 0 : low - margin, high + margin};
}

// The plot of memory over time is divided into columns of equal width. If several ops run within one column, the column
// shows the memory of the op that needs the most.
struct Columns {
  std::vector<double> x;  // The start of each column and the end of the last one, in milliseconds.
  std::vector<PurposeBytes> bytes;
  std::array<double, kNumSegments> segment_start{};
  double total_ms = 0;
};

int64_t sum_of(const PurposeBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

Columns columns_of(const Plan& plan, const ProgramPlan& program) {
  const std::vector<OpEstimate> ops = estimate_ops(plan, program);
  const MemoryTimeline timeline = memory_timeline(plan, program);
  Columns columns{.x = {}, .bytes = std::vector<PurposeBytes>(SvgPlot::kColumns)};
  columns.segment_start.fill(-1);
  for (const OpEstimate& op : ops) columns.total_ms += op.ms;
  if (!(columns.total_ms > 0)) columns.total_ms = 1;
  double start = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    double& segment = columns.segment_start[index_of(ops[i].segment)];
    if (segment < 0) segment = start;
    const auto column = [&](double at) {
      return std::min<size_t>(SvgPlot::kColumns - 1,
                              static_cast<size_t>(at / columns.total_ms * SvgPlot::kColumns));
    };
    for (size_t c = column(start); c <= column(start + ops[i].ms); ++c) {
      if (sum_of(timeline.by_op[i]) > sum_of(columns.bytes[c])) columns.bytes[c] = timeline.by_op[i];
    }
    start += ops[i].ms;
  }
  for (int c = 0; c <= SvgPlot::kColumns; ++c) columns.x.push_back(columns.total_ms * c / SvgPlot::kColumns);
  return columns;
}

// Returns the upper edge of the area of the lowest `num_purposes` purposes in the stacked plot. The edge is a step
// function with a point at the start and at the end of each column.
std::vector<PlotPoint> edge(const Columns& columns, size_t num_purposes) {
  std::vector<PlotPoint> points;
  for (size_t c = 0; c < columns.bytes.size(); ++c) {
    double sum = 0;
    for (size_t p = 0; p < num_purposes; ++p) sum += static_cast<double>(columns.bytes[c][p]) / kMiB;
    if (points.size() >= 2 && points.back().second == sum) {
      points.back().first = columns.x[c + 1];
      continue;
    }
    points.emplace_back(columns.x[c], sum);
    points.emplace_back(columns.x[c + 1], sum);
  }
  return points;
}

void stack(SvgPlot& plot, const Columns& columns, const PhaseMemory& phase) {
  std::array<bool, kNumPurposes> shown{};
  for (size_t p = 0; p < kNumPurposes; ++p) {
    int64_t most = 0;
    for (const PurposeBytes& bytes : columns.bytes) most = std::max(most, bytes[p]);
    shown[p] = most > 0;
    if (!shown[p]) continue;
    plot.area(edge(columns, p), edge(columns, p + 1), kPurposeColours[p]);
  }
  // The legend lists the areas from top to bottom, as they are stacked.
  for (size_t p = kNumPurposes; p-- > 0;) {
    if (!shown[p]) continue;
    plot.legend_entry(kPurposeColours[p], "area", purpose_name(static_cast<Purpose>(p)));
    plot.legend_entry("none", "area", fmt::format("at the peak {} MiB", format_mib(phase.by_purpose[p])));
  }
}

std::string caption_of(const Plan& plan, const PlanLabels& labels, const Bucket& bucket) {
  const std::string model = labels.model_of(plan.request);
  std::string text = fmt::format("{}, {}, batch {} x {} ({} tokens)", model, describe_precision(plan.request),
                                 bucket.sequences, bucket.longest, bucket.tokens);
  if (plan.trains()) text += ", " + describe_optimizer(plan.request.update.optimizer);
  if (plan.trains() && plan.request.batches.accumulation_steps > 1) {
    text += fmt::format(", one of {} micro-batches", plan.request.batches.accumulation_steps);
  }
  return text + ", on " + labels.device + "; predicted";
}

}  // namespace

std::string_view purpose_colour(Purpose purpose) {
  return kPurposeColours[static_cast<size_t>(purpose)];
}

std::string_view line_colour(size_t i) {
  // Okabe and Ito's colours for lines. Yellow is omitted, because a yellow line is hard to see.
  constexpr std::array<std::string_view, 6> kLineColours{"#0072B2", "#D55E00", "#009E73",
                                                         "#CC79A7", "#E69F00", "#56B4E9"};
  return kLineColours[i % kLineColours.size()];
}

std::string loss_plot(const LogHistory& history, const std::string& title, const std::string& caption) {
  const std::vector<PlotPoint> train = points_of(history, "loss");
  const std::vector<PlotPoint> evaluation = points_of(history, "eval_loss");
  std::vector<PlotPoint> all = train;
  all.insert(all.end(), evaluation.begin(), evaluation.end());
  double last_step = 1;
  for (const auto& [x, y] : all) last_step = std::max(last_step, x);
  if (all.empty()) return {};
  const auto [low, high] = range_of(all);
  SvgPlot plot({.title = title, .x_label = "optimizer step", .y_label = "loss", .caption = caption}, 0,
               last_step, low, high);
  plot.line(train, kPurposeColours[0], "");
  // With one or two points a line would be hard to see, so dots are drawn too.
  if (train.size() < 3) plot.dots(train, kPurposeColours[0]);
  plot.line(evaluation, kPurposeColours[5], "6 3");
  plot.dots(evaluation, kPurposeColours[5]);
  if (!train.empty()) plot.legend_entry(kPurposeColours[0], "", "training loss");
  if (!evaluation.empty()) plot.legend_entry(kPurposeColours[5], "6 3", "evaluation loss");
  return plot.finish();
}

bool is_quality_metric(std::string_view key) {
  const auto has = [key](std::string_view part) { return key.find(part) != std::string_view::npos; };
  const bool is_cost =
      has("_loss") || has("_per_second") || has("_runtime") || has("_samples") || has("_mem_");
  return key.starts_with("eval_") && !is_cost;
}

namespace {

// Returns the names of all evaluation metrics in the log.
std::set<std::string> metric_keys(const LogHistory& history) {
  std::set<std::string> keys;
  for (const LogRecord& record : history) {
    for (const auto& [key, value] : record.values) {
      if (is_quality_metric(key)) keys.insert(key);
    }
  }
  return keys;
}

}  // namespace

std::string metrics_plot(const LogHistory& history, const std::string& title, const std::string& caption) {
  constexpr std::array<std::string_view, 4> kDashes{"", "6 3", "2 3", "9 3 2 3"};
  std::vector<PlotPoint> all;
  for (const std::string& key : metric_keys(history)) {
    for (const PlotPoint& point : points_of(history, key)) all.push_back(point);
  }
  if (all.empty()) return {};
  double last_step = 1;
  for (const auto& [x, y] : all) last_step = std::max(last_step, x);
  const auto [low, high] = range_of(all);
  SvgPlot plot({.title = title,
                .x_label = "optimizer step",
                .y_label = "metric of the evaluation",
                .caption = caption},
               0, last_step, low, high);
  size_t i = 0;
  for (const std::string& key : metric_keys(history)) {
    const std::string_view colour = kPurposeColours[i % kPurposeColours.size()];
    const std::string_view dashes = kDashes[i % kDashes.size()];
    plot.line(points_of(history, key), colour, dashes);
    plot.dots(points_of(history, key), colour);
    plot.legend_entry(colour, dashes, key.substr(5));
    ++i;
  }
  return plot.finish();
}

std::string memory_plot(const Plan& plan, const PlanLabels& labels) {
  PLIMSOLL_CHECK(!plan.programs.empty(), "a plot of memory needs a plan with at least one program");
  const ProgramPlan& program = plan.programs.first();
  const MemoryAnatomy anatomy = memory_anatomy(plan);
  const PhaseMemory* phase = anatomy.find(plan.trains() ? Phase::kTrain : Phase::kEvaluate);
  const Columns columns = columns_of(plan, program);
  const double arena = static_cast<double>(plan.arena_bytes) / kMiB;
  SvgPlot plot({.title = plan.trains() ? "memory over a training step" : "memory over a batch of evaluation",
                .x_label = "estimated time, ms",
                .y_label = "live bytes in the arena, MiB",
                .caption = caption_of(plan, labels, program.bucket)},
               0, columns.total_ms, 0, 1.08 * arena);
  plot.horizontal_mark(arena, fmt::format("arena {} MiB", format_mib(plan.arena_bytes)));
  stack(plot, columns, *phase);
  for (Segment segment : {Segment::kForward, Segment::kBackward, Segment::kOptimizer}) {
    const double start = columns.segment_start[index_of(segment)];
    if (start >= 0) plot.vertical_mark(start, segment_name(segment));
  }
  return plot.finish();
}

}  // namespace plimsoll
