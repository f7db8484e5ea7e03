
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "base/units.h"
#include "show/report/experiment_report.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

constexpr size_t kNameWidth = 36;
// Width of the table of predictions, in characters.
constexpr size_t kPlannedWidth = 80;

std::string mib(int64_t bytes) {
  return bytes > 0 ? fmt::format("{}", (bytes + kMiB / 2) / kMiB) : "-";
}

// Formats the variation of the speed between repeated runs as a percentage, rounded up, such as "4%"; "-" if it is not known.
std::string spread_text(std::optional<double> spread) {
  return spread ? fmt::format("{:.0f}%", std::ceil(100 * *spread)) : "-";
}

std::string rate(double value) {
  return value > 0 ? short_number(value) : "-";
}

// Returns the name of a row as the first cell of its line in the table, `width` characters wide. A longer name
// continues on further lines. It is not shortened, because rows may differ in any part of their names.
std::string name_column(std::string_view name, size_t width = kNameWidth) {
  std::string text = wrapped(name, width, 2);
  text.pop_back();
  const size_t last = text.rfind('\n') + 1;
  if (display_width(std::string_view(text).substr(last)) > width) {
    text += "\n" + std::string(width, ' ');
  } else {
    text = text.substr(0, last) + left_aligned(std::string_view(text).substr(last), width);
  }
  std::string shifted = "  ";
  for (const char c : text) {
    shifted += c;
    if (c == '\n') shifted += "  ";
  }
  return shifted;
}

std::string format_row(const ExperimentRow& row, const ExperimentFigures& reference) {
  const ExperimentFigures& f = *row.figures;
  return fmt::format(
      "{} {:>6.1f} {:>8} {:>4} {:>7} {:>8} {:>7} {:>5.2f} x {:>4.0f} %\n", name_column(row.experiment.name),
      f.seconds, rate(f.samples_per_s), spread_text(speed_spread(f)), rate(f.predicted_samples_per_s),
      mib(f.measured_bytes), mib(f.predicted_bytes), ratio(f.samples_per_s, reference.samples_per_s),
      100 * ratio(static_cast<double>(f.measured_bytes), static_cast<double>(reference.measured_bytes)));
}

bool has_evaluation(const std::vector<ExperimentRow>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const ExperimentRow& row) {
    return row.figures && !row.figures->evaluation.empty();
  });
}

// Returns the names of all evaluation metrics of the rows, except those about speed.
std::set<std::string> metric_names(const std::vector<ExperimentRow>& rows) {
  std::set<std::string> names;
  for (const ExperimentRow& row : rows) {
    if (!row.figures) continue;
    for (const auto& [name, value] : row.figures->evaluation) {
      // Metrics of MNLI's second (mismatched) set have the suffix "_mm".
      const std::string_view stem(name.data(), name.size() - (name.ends_with("_mm") ? 3 : 0));
      const bool is_speed =
          stem.ends_with("_runtime") || stem.ends_with("_per_second") || stem.ends_with("_samples");
      if (name.starts_with("eval_") && !is_speed) names.insert(name);
    }
  }
  return names;
}

std::string evaluation_table(const std::vector<ExperimentRow>& rows) {
  const std::set<std::string> names = metric_names(rows);
  std::string text = fmt::format("\n{:<{}}", "evaluation", kNameWidth + 2);
  for (const std::string& name : names) text += fmt::format(" {:>12}", shortened(name.substr(5), 12));
  text += "\n";
  for (const ExperimentRow& row : rows) {
    if (!row.figures) continue;
    text += name_column(row.experiment.name);
    for (const std::string& name : names) {
      const auto it = row.figures->evaluation.find(name);
      text += it == row.figures->evaluation.end() ? fmt::format(" {:>12}", "-")
                                                  : fmt::format(" {:>12.4f}", it->second);
    }
    text += "\n";
  }
  return text;
}

std::string peer_table(const std::vector<ExperimentRow>& rows) {
  std::string text;
  for (const ExperimentRow& row : rows) {
    if (!row.peer) continue;
    if (text.empty()) {
      text = fmt::format("\n{:<{}} {:>24} {:>28}\n  {} {:>8} {:>8} {:>7} {:>9} {:>9} {:>8}\n",
                         "compared with Hugging Face's Trainer", kNameWidth + 2, "samples/s", "memory, MiB",
                         std::string(kNameWidth, ' '), "here", "Trainer", "", "here", "Trainer", "");
    }
    const std::string name = name_column(row.experiment.name);
    if (!row.peer->refused.empty()) {
      std::string lines = wrapped(row.peer->refused, 100 - kNameWidth - 3, 0);
      for (size_t at = lines.find('\n'); at + 1 < lines.size(); at = lines.find('\n', at + 1))
        lines.insert(at + 1, kNameWidth + 3, ' ');
      text += name;
      text += ' ';
      text += lines;
    } else if (row.figures) {
      const ExperimentFigures& f = *row.figures;
      text += fmt::format(
          "{} {:>8} {:>8} {:>5.2f} x {:>9} {:>9} {:>6.0f} %\n", name, rate(f.samples_per_s),
          rate(row.peer->samples_per_s), ratio(f.samples_per_s, row.peer->samples_per_s),
          mib(f.measured_bytes), mib(row.peer->measured_bytes),
          100 * ratio(static_cast<double>(f.measured_bytes), static_cast<double>(row.peer->measured_bytes)));
    }
  }
  return text;
}

// Describes the errors of the predictions, first unchanged, then after all predictions were multiplied by the ratio of
// measured to predicted speed of the first row. The scaled errors show how well the ratios between rows are predicted,
// independently of the speed of the device.
std::string describe_prediction(const std::vector<ExperimentRow>& rows) {
  const ExperimentSummary summary = summarize(rows);
  const PredictionErrors& all = summary.predictions;
  if (all.rows == 0) return {};
  std::string text = wrapped(fmt::format(
      "the predicted speed is within 15 % of the measured one in {} of {} rows; the largest error is "
      "{:+.0f} %, and that of memory {:+.1f} %",
      all.near, all.rows, 100 * all.worst, 100 * all.worst_memory));
  const PredictionErrors& scaled = summary.scaled;
  if (scaled.rows == 0) return text;
  const std::string others = fmt::format("{} of {} other rows within 15 %, largest error {:+.0f} %",
                                         scaled.near, scaled.rows, 100 * scaled.worst);
  if (!summary.is_calibrated)
    return text + fmt::format("with the first row as calibration (x {:.2f}): {}\n", summary.scale, others);
  return text +
         wrapped(fmt::format("predictions use a calibration of this device; the first row ran at {:.2f} "
                             "x its prediction; with all predictions scaled by that: {}",
                             summary.scale, others));
}

std::string yes_or_no(double gain) {
  if (gain >= 1.02) return "yes";
  return gain <= 0.98 ? "costs" : "no";
}

// States whether a method alone improves the speed: "yes", "no", "costs" if it is slower, "unclear" if the
// difference is not larger than the variation between repeated runs, or "run once" if this variation is not known.
std::string speed_verdict(const MethodGain& gain) {
  const std::string verdict = yes_or_no(gain.speed);
  if (!gain.spread) return "run once";
  return verdict != "no" && std::fabs(gain.speed - 1) <= *gain.spread ? "unclear" : verdict;
}

// Returns a sentence with the names of the rows whose runs differ too much in speed.
std::string describe_unsteady_rows(const std::vector<ExperimentRow>& rows) {
  std::string names;
  for (const ExperimentRow& row : rows) {
    const std::optional<double> spread = row.figures ? speed_spread(*row.figures) : std::nullopt;
    if (spread && *spread > kSteadySpread) names += (names.empty() ? "" : ";") + row.experiment.name;
  }
  if (names.empty()) return "";
  return wrapped(
      fmt::format("runs of these rows differ by more than {:.0f} %; measure them again with --rerun '{}'",
                  100 * kSteadySpread, names));
}

// Formats the predicted speed and memory of a row, each followed by its ratio to that of the first row.
std::string planned_columns(double samples_per_s, double first_samples_per_s, int64_t size_mib,
                            int64_t first_mib) {
  if (size_mib == 0) return fmt::format(" {:>6} {:>5} {:>6} {:>4}", "-", "", "-", "");
  return fmt::format(" {:>6} {:>4.2f}x {:>6} {:>3.0f}%", rate(samples_per_s),
                     ratio(samples_per_s, first_samples_per_s), size_mib,
                     100 * ratio(static_cast<double>(size_mib), static_cast<double>(first_mib)));
}

// Returns the explanations of marks and columns that are printed below the table of predictions.
std::string describe_planned_rows(const ExperimentPlan& plan) {
  std::string text;
  if (std::ranges::any_of(plan.rows, [](const PlannedExperiment& row) { return !row.fits; }))
    text += "! does not fit into the memory of the device or --memory_limit\n";
  for (const PlannedExperiment& row : plan.rows) {
    if (!row.refused.empty())
      text += wrapped(row.experiment.name + ": not possible: " + row.refused, kPlannedWidth, 4);
    if (row.refused.empty() && !row.experiment.note.empty())
      text += wrapped(row.experiment.name + ": " + row.experiment.note, kPlannedWidth, 4);
    if (row.experiment.name.starts_with("DataLoader")) {
      text +=
          wrapped(row.experiment.name +
                      ": a plan does not estimate how long a step waits for its batch. The page states no "
                      "figure for this row. Workers and pinned memory make steps faster only if the GPU "
                      "waits for data, and they do not change its memory",
                  kPlannedWidth, 4);
    }
  }
  text += wrapped(
      "predicted: speeds are estimates (docs/MEMORY.md), bytes are exact; the ratios are those to the first "
      "row",
      kPlannedWidth, 4);
  if (std::ranges::any_of(plan.rows, [](const PlannedExperiment& row) { return row.document.has_value(); })) {
    text += wrapped(
        "page: Hugging Face's page on training on one GPU, measured with Trainer on a Tesla V100-SXM2-16GB "
        "in "
        "January 2022; memory of the whole card. A later copy of the page has 12.50 samples/s and 12852 MiB "
        "for the first row, on a card that it does not name",
        kPlannedWidth, 4);
  }
  return text;
}

}  // namespace

std::string experiment_table(const std::vector<ExperimentRow>& rows) {
  std::string text;
  if (const ExperimentRow* first = reference_row(rows)) {
    const ExperimentFigures& reference = *first->figures;
    text = wrapped(
        fmt::format("{}, {} tokens, on {}", reference.model, reference.sequence_length, reference.device));
    text += fmt::format(
        "{:<{}} {:>7} {:>21} {:>16} {:>14}\n  {} {:>6} {:>8} {:>4} {:>7} {:>8} {:>7} {:>7} {:>6}\n", "method",
        kNameWidth + 1, "time, s", "samples/s", "memory, MiB", "vs. the first", std::string(kNameWidth, ' '),
        "", "measured", "+-", "planned", "measured", "planned", "speed", "memory");
    for (const ExperimentRow& row : rows) {
      if (row.figures) text += format_row(row, reference);
    }
  }
  for (const ExperimentRow& row : rows) {
    if (!row.experiment.note.empty() && row.figures)
      text += "  " + wrapped(row.experiment.name + ": " + row.experiment.note, 98, 4);
  }
  bool any_refused = false;
  for (const ExperimentRow& row : rows) {
    if (row.figures || row.refused.empty()) continue;
    if (!any_refused) text += "not run, because the program refuses them:\n";
    any_refused = true;
    text += "  " + wrapped(row.experiment.name + ": " + row.refused, 98, 4);
  }
  if (has_evaluation(rows)) text += evaluation_table(rows);
  return text + peer_table(rows) + describe_prediction(rows);
}

std::string planned_experiment_table(const ExperimentPlan& plan) {
  constexpr size_t kPlannedNameWidth = 28;
  std::string text = wrapped(fmt::format("{}, on {}", plan.model, plan.device), kPlannedWidth);
  text += fmt::format("\n{:<{}} {:>24} {:>24}\n{:<{}}", "", kPlannedNameWidth + 2, "predicted", "page", "row",
                      kPlannedNameWidth + 2);
  for (int i = 0; i < 2; ++i) text += fmt::format(" {:>6} {:>5} {:>6} {:>4}", "per s", "", "MiB", "");
  text.erase(text.find_last_not_of(' ') + 1);
  text += "\n";
  const auto first = std::ranges::find(plan.rows, std::string(), &PlannedExperiment::refused);
  const auto size_mib = [](const PlannedExperiment& row) { return (row.total_bytes + kMiB - 1) / kMiB; };
  const std::optional<DocumentFigures> page = plan.rows.front().document;
  for (const PlannedExperiment& row : plan.rows) {
    const bool is_planned = row.refused.empty();
    std::string line = name_column(row.experiment.name, kPlannedNameWidth) +
                       planned_columns(row.samples_per_s, is_planned ? first->samples_per_s : 0,
                                       is_planned ? size_mib(row) : 0, is_planned ? size_mib(*first) : 0);
    line += row.document ? planned_columns(row.document->samples_per_s, page->samples_per_s,
                                           row.document->mib, page->mib)
                         : planned_columns(0, 0, 0, 0);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + (row.fits ? "\n" : " !\n");
  }
  return text + describe_planned_rows(plan);
}

std::string experiment_summary(const std::vector<ExperimentRow>& rows) {
  constexpr size_t kMethodWidth = 38;
  const ExperimentSummary summary = summarize(rows);
  if (summary.reference.empty()) return {};
  std::string text;
  if (!summary.alone.empty()) {
    text = fmt::format("\neach method alone, compared with '{}' on this device\n  {:<38} {:>25} {:>24}\n",
                       summary.reference, "method", "helps speed", "helps memory");
  }
  for (const MethodGain& gain : summary.alone) {
    text +=
        fmt::format("{} {:>9} {:>8.2f} x {:>4} {:>12} {:>+9.0f} %\n", name_column(gain.method, kMethodWidth),
                    speed_verdict(gain), gain.speed, spread_text(gain.spread),
                    yes_or_no(1 / std::max(gain.memory, 1e-9)), 100 * (gain.memory - 1));
  }
  if (std::ranges::any_of(summary.alone, [](const MethodGain& gain) { return gain.spread.has_value(); })) {
    text += "  percent: the spread of the runs; 'unclear': the difference is within it\n";
  } else if (!summary.alone.empty()) {
    text += "  'run once': --repeats 3 measures the spread, without which there is no verdict on speed\n";
  }
  text += describe_unsteady_rows(rows);
  const std::string fastest =
      summary.is_fastest_clear
          ? fmt::format("{}, {} samples/s", summary.fastest, rate(summary.fastest_samples_per_s))
      : summary.has_spread ? "unclear, the best rows differ by less than their spread"
                           : "unclear, rows that ran fewer than 3 times have no spread (--repeats 3)";
  const std::string smallest =
      summary.is_smallest_clear
          ? fmt::format("{}, {} MiB", summary.smallest, mib(summary.smallest_bytes))
          : fmt::format("unclear, several rows need about {} MiB", mib(summary.smallest_bytes));
  return text + wrapped(fmt::format("fastest: {}; smallest: {}", fastest, smallest));
}

std::string experiment_csv(const std::vector<ExperimentRow>& rows) {
  const std::set<std::string> metrics = metric_names(rows);
  const auto quoted = [](const std::string& text) {
    std::string out = "\"";
    for (const char c : text) {
      if (c == '"') out += '"';
      out += c;
    }
    return out + "\"";
  };
  std::string text =
      "method,seconds,samples_per_s,spread,predicted_samples_per_s,measured_bytes,predicted_bytes,loss,peer_"
      "samples_"
      "per_s,"
      "peer_bytes,refused";
  for (const std::string& name : metrics) text += "," + name;
  text += "\n";
  for (const ExperimentRow& row : rows) {
    const ExperimentFigures f = row.figures.value_or(ExperimentFigures{});
    const PeerFigures peer = row.peer.value_or(PeerFigures{});
    const std::optional<double> spread = speed_spread(f);
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{}", quoted(row.experiment.name), f.seconds,
                        f.samples_per_s, spread ? fmt::format("{}", *spread) : "", f.predicted_samples_per_s,
                        f.measured_bytes, f.predicted_bytes, f.loss, peer.samples_per_s, peer.measured_bytes,
                        quoted(row.refused));
    for (const std::string& name : metrics) {
      const auto it = f.evaluation.find(name);
      text += it == f.evaluation.end() ? std::string(",") : fmt::format(",{}", it->second);
    }
    text += "\n";
  }
  return text;
}

}  // namespace plimsoll
