#include "show/report/experiment_report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/compile/op_times.h"

namespace plimsoll {
namespace {

void add(double off, PredictionErrors& errors) {
  ++errors.rows;
  errors.near += std::fabs(off) <= kEstimateError ? 1 : 0;
  if (std::fabs(off) > std::fabs(errors.worst)) errors.worst = off;
}

// Returns the spread (relative variation between repeated runs) of the ratio of two speeds, or nothing if one of the two runs was not
// repeated often enough for speed_spread().
std::optional<double> spread_of_both(const ExperimentFigures& a, const ExperimentFigures& b) {
  const std::optional<double> first = speed_spread(a);
  const std::optional<double> second = speed_spread(b);
  if (!first || !second) return std::nullopt;
  return *first + *second;
}

// Returns true if the row is faster than every other row by more than the spread of both measured speeds.
bool is_clearly_fastest(const ExperimentRow& row, const std::vector<ExperimentRow>& rows) {
  return std::ranges::all_of(rows, [&](const ExperimentRow& other) {
    if (&other == &row || !other.figures) return true;
    const std::optional<double> spread = spread_of_both(*row.figures, *other.figures);
    return spread && ratio(row.figures->samples_per_s, other.figures->samples_per_s) > 1 + *spread;
  });
}

// Returns true if the row needs clearly less memory than every other one. Differences below kLeastBytes or below the share kLeastShare may
// be caused by the granularity in which memory is measured.
bool is_clearly_smallest(const ExperimentRow& row, const std::vector<ExperimentRow>& rows) {
  constexpr int64_t kLeastBytes = int64_t{2} << 20;
  constexpr double kLeastShare = 0.02;
  return std::ranges::all_of(rows, [&](const ExperimentRow& other) {
    if (&other == &row || !other.figures) return true;
    const int64_t saved = other.figures->measured_bytes - row.figures->measured_bytes;
    return saved > kLeastBytes &&
           static_cast<double>(saved) > kLeastShare * static_cast<double>(other.figures->measured_bytes);
  });
}

void add_predictions(const std::vector<ExperimentRow>& rows, const ExperimentRow& first,
                     ExperimentSummary& summary) {
  summary.scale = ratio(first.figures->samples_per_s, first.figures->predicted_samples_per_s);
  for (const ExperimentRow& row : rows) {
    if (!row.figures || row.figures->predicted_samples_per_s <= 0 || row.figures->samples_per_s <= 0)
      continue;
    const ExperimentFigures& f = *row.figures;
    add(f.predicted_samples_per_s / f.samples_per_s - 1, summary.predictions);
    if (&row != &first && summary.scale > 0)
      add(summary.scale * f.predicted_samples_per_s / f.samples_per_s - 1, summary.scaled);
    if (f.measured_bytes <= 0) continue;
    const double off = static_cast<double>(f.predicted_bytes) / static_cast<double>(f.measured_bytes) - 1;
    if (std::fabs(off) > std::fabs(summary.predictions.worst_memory)) summary.predictions.worst_memory = off;
  }
}

}  // namespace

void add_run(ExperimentFigures& figures, const ExperimentFigures& run) {
  std::vector<double> speeds = std::move(figures.speeds);
  const int64_t bytes = std::max(figures.measured_bytes, run.measured_bytes);
  speeds.push_back(run.samples_per_s);
  figures = run;
  figures.measured_bytes = bytes;
  figures.speeds = speeds;
  std::ranges::sort(speeds);
  const size_t middle = speeds.size() / 2;
  figures.samples_per_s = speeds.size() % 2 == 1 ? speeds[middle] : (speeds[middle - 1] + speeds[middle]) / 2;
}

std::optional<double> speed_spread(const ExperimentFigures& figures) {
  if (figures.speeds.size() < 3 || figures.samples_per_s <= 0) return std::nullopt;
  std::vector<double> speeds = figures.speeds;
  std::ranges::sort(speeds);
  const size_t left_out = speeds.size() >= 5 ? 1 : 0;
  return (speeds[speeds.size() - 1 - left_out] - speeds[left_out]) / (2 * figures.samples_per_s);
}

double ratio(double value, double reference) {
  return reference > 0 ? value / reference : 0;
}

const ExperimentRow* reference_row(const std::vector<ExperimentRow>& rows) {
  const auto it = std::find_if(rows.begin(), rows.end(),
                               [](const ExperimentRow& row) { return row.figures.has_value(); });
  return it == rows.end() ? nullptr : &*it;
}

ExperimentSummary summarize(const std::vector<ExperimentRow>& rows) {
  ExperimentSummary summary;
  const ExperimentRow* first = reference_row(rows);
  if (first == nullptr) return summary;
  summary.reference = first->experiment.name;
  summary.is_calibrated = first->figures->is_calibrated;
  const ExperimentRow* fastest = first;
  const ExperimentRow* smallest = first;
  for (const ExperimentRow& row : rows) {
    if (!row.figures) continue;
    if (row.figures->samples_per_s > fastest->figures->samples_per_s) fastest = &row;
    if (row.figures->measured_bytes < smallest->figures->measured_bytes) smallest = &row;
    if (&row == first || row.experiment.methods.size() != 1) continue;
    summary.alone.push_back({.method = row.experiment.methods[0],
                             .speed = ratio(row.figures->samples_per_s, first->figures->samples_per_s),
                             .memory = ratio(static_cast<double>(row.figures->measured_bytes),
                                             static_cast<double>(first->figures->measured_bytes)),
                             .spread = spread_of_both(*row.figures, *first->figures)});
  }
  summary.fastest = fastest->experiment.name;
  summary.fastest_samples_per_s = fastest->figures->samples_per_s;
  summary.has_spread = std::ranges::all_of(
      rows, [](const ExperimentRow& row) { return !row.figures || speed_spread(*row.figures).has_value(); });
  summary.is_fastest_clear = summary.has_spread && is_clearly_fastest(*fastest, rows);
  summary.smallest = smallest->experiment.name;
  summary.is_smallest_clear = is_clearly_smallest(*smallest, rows);
  summary.smallest_bytes = smallest->figures->measured_bytes;
  add_predictions(rows, *first, summary);
  return summary;
}

}  // namespace plimsoll
