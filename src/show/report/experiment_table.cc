#include "show/report/experiment_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/python_json.h"
#include "base/units.h"
#include "show/report/experiment_json.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

constexpr size_t kNameWidth = 36;

std::string mib(int64_t bytes) {
  return bytes > 0 ? fmt::format("{}", (bytes + kMiB / 2) / kMiB) : "-";
}

std::string rate(double value) {
  return value > 0 ? short_number(value) : "-";
}

double ratio(double value, double reference) {
  return reference > 0 ? value / reference : 0;
}

std::string row_text(const ExperimentRow& row, const ExperimentFigures& reference) {
  const ExperimentFigures& f = *row.figures;
  return fmt::format(
      "  {} {:>7.1f} {:>8} {:>9} {:>8} {:>9} {:>5.2f} x {:>4.0f} %\n",
      left_aligned(shortened(row.experiment.name, kNameWidth), kNameWidth), f.seconds, rate(f.samples_per_s),
      rate(f.predicted_samples_per_s), mib(f.measured_bytes), mib(f.predicted_bytes),
      ratio(f.samples_per_s, reference.samples_per_s),
      100 * ratio(static_cast<double>(f.measured_bytes), static_cast<double>(reference.measured_bytes)));
}

bool has_evaluation(const std::vector<ExperimentRow>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const ExperimentRow& row) {
    return row.figures && !row.figures->evaluation.empty();
  });
}

// Names of metrics that rows have, without those of speed.
std::set<std::string> metric_names(const std::vector<ExperimentRow>& rows) {
  std::set<std::string> names;
  for (const ExperimentRow& row : rows) {
    if (!row.figures) continue;
    for (const auto& [name, value] : row.figures->evaluation) {
      // MNLI's second set has names of its own.
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
  std::string text = "\nevaluation                            ";
  for (const std::string& name : names) text += fmt::format(" {:>12}", shortened(name.substr(5), 12));
  text += "\n";
  for (const ExperimentRow& row : rows) {
    if (!row.figures) continue;
    text += "  " + left_aligned(shortened(row.experiment.name, kNameWidth), kNameWidth);
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
      text = fmt::format("\n{:<38} {:>24} {:>28}\n  {} {:>8} {:>8} {:>7} {:>9} {:>9} {:>8}\n",
                         "beside Hugging Face's Trainer", "samples/s", "memory, MiB",
                         std::string(kNameWidth, ' '), "here", "Trainer", "", "here", "Trainer", "");
    }
    const std::string name = left_aligned(shortened(row.experiment.name, kNameWidth), kNameWidth);
    if (!row.peer->refused.empty()) {
      text += fmt::format("  {} {}\n", name, shortened(row.peer->refused, 60));
    } else if (row.figures) {
      const ExperimentFigures& f = *row.figures;
      text += fmt::format(
          "  {} {:>8} {:>8} {:>5.2f} x {:>9} {:>9} {:>6.0f} %\n", name, rate(f.samples_per_s),
          rate(row.peer->samples_per_s), ratio(f.samples_per_s, row.peer->samples_per_s),
          mib(f.measured_bytes), mib(row.peer->measured_bytes),
          100 * ratio(static_cast<double>(f.measured_bytes), static_cast<double>(row.peer->measured_bytes)));
    }
  }
  return text;
}

// How far predictions of speed are off, in words: the worst and how many are within 15 %.
std::string prediction_words(const std::vector<ExperimentRow>& rows) {
  int count = 0;
  int near = 0;
  double worst = 0;
  double worst_bytes = 0;
  for (const ExperimentRow& row : rows) {
    if (!row.figures || row.figures->predicted_samples_per_s <= 0 || row.figures->samples_per_s <= 0)
      continue;
    const double off = row.figures->predicted_samples_per_s / row.figures->samples_per_s - 1;
    ++count;
    near += std::fabs(off) <= 0.15 ? 1 : 0;
    if (std::fabs(off) > std::fabs(worst)) worst = off;
    if (row.figures->measured_bytes > 0) {
      const double bytes = static_cast<double>(row.figures->predicted_bytes) /
                               static_cast<double>(row.figures->measured_bytes) -
                           1;
      if (std::fabs(bytes) > std::fabs(worst_bytes)) worst_bytes = bytes;
    }
  }
  if (count == 0) return {};
  return fmt::format(
      "predicted speed is within 15 % of measured in {} of {} rows, at worst {:+.0f} %; memory at worst "
      "{:+.1f} %\n",
      near, count, 100 * worst, 100 * worst_bytes);
}

// The same once more, with the first row taken as a measurement of what this device reaches of the table's
// rates.
std::string calibrated_words(const std::vector<ExperimentRow>& rows) {
  const ExperimentRow* first = reference_row(rows);
  if (first == nullptr || first->figures->predicted_samples_per_s <= 0) return {};
  const double scale = first->figures->samples_per_s / first->figures->predicted_samples_per_s;
  int count = 0;
  int near = 0;
  double worst = 0;
  for (const ExperimentRow& row : rows) {
    if (!row.figures || &row == first || row.figures->samples_per_s <= 0) continue;
    const double off = scale * row.figures->predicted_samples_per_s / row.figures->samples_per_s - 1;
    ++count;
    near += std::fabs(off) <= 0.15 ? 1 : 0;
    if (std::fabs(off) > std::fabs(worst)) worst = off;
  }
  if (count == 0) return {};
  return fmt::format("with the first row as calibration (x {:.2f}): {} of {} others, at worst {:+.0f} %\n",
                     scale, near, count, 100 * worst);
}

std::string yes_or_no(double gain) {
  if (gain >= 1.02) return "yes";
  return gain <= 0.98 ? "costs" : "no";
}

}  // namespace

const ExperimentRow* reference_row(const std::vector<ExperimentRow>& rows) {
  const auto it = std::find_if(rows.begin(), rows.end(),
                               [](const ExperimentRow& row) { return row.figures.has_value(); });
  return it == rows.end() ? nullptr : &*it;
}

std::string experiment_table(const std::vector<ExperimentRow>& rows) {
  std::string text;
  if (const ExperimentRow* first = reference_row(rows)) {
    const ExperimentFigures& reference = *first->figures;
    text =
        fmt::format("{}, {} tokens, on {}\n", reference.model, reference.sequence_length, reference.device);
    text += fmt::format("{:<38} {:>7} {:>18} {:>18} {:>14}\n  {} {:>7} {:>8} {:>9} {:>8} {:>9} {:>7} {:>6}\n",
                        "method", "time, s", "samples/s", "memory, MiB", "vs. the first",
                        std::string(kNameWidth, ' '), "", "measured", "predicted", "measured", "predicted",
                        "speed", "memory");
    for (const ExperimentRow& row : rows) {
      if (row.figures) text += row_text(row, reference);
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
  return text + peer_table(rows) + prediction_words(rows) + calibrated_words(rows);
}

std::string experiment_summary(const std::vector<ExperimentRow>& rows) {
  const ExperimentRow* first = reference_row(rows);
  if (first == nullptr) return {};
  std::string text;
  for (const ExperimentRow& row : rows) {
    if (!row.figures || &row == first || row.experiment.methods.size() != 1) continue;
    const double speed = ratio(row.figures->samples_per_s, first->figures->samples_per_s);
    const double memory = ratio(static_cast<double>(first->figures->measured_bytes),
                                static_cast<double>(row.figures->measured_bytes));
    if (text.empty()) {
      text = fmt::format("\nwhat each does alone, against '{}' on this device\n  {:<38} {:>20} {:>24}\n",
                         first->experiment.name, "method", "helps speed", "helps memory");
    }
    text += fmt::format("  {:<38} {:>9} {:>8.2f} x {:>12} {:>+9.0f} %\n",
                        shortened(row.experiment.methods[0], 38), yes_or_no(speed), speed, yes_or_no(memory),
                        100 * (1 / std::max(memory, 1e-9) - 1));
  }
  const auto best = [&](auto better) {
    const ExperimentRow* found = first;
    for (const ExperimentRow& row : rows) {
      if (row.figures && better(*row.figures, *found->figures)) found = &row;
    }
    return found;
  };
  const ExperimentRow* fastest =
      best([](const auto& a, const auto& b) { return a.samples_per_s > b.samples_per_s; });
  const ExperimentRow* smallest =
      best([](const auto& a, const auto& b) { return a.measured_bytes < b.measured_bytes; });
  return text + fmt::format("fastest: {}, {} samples/s; smallest: {}, {} MiB\n", fastest->experiment.name,
                            rate(fastest->figures->samples_per_s), smallest->experiment.name,
                            mib(smallest->figures->measured_bytes));
}

std::string experiment_json(const std::vector<ExperimentRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const ExperimentRow& row : rows) list.push_back(experiment_row_object(row));
  return python_json({{"schema_version", kExperimentJsonVersion}, {"rows", std::move(list)}}, 2) + "\n";
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
      "method,seconds,samples_per_s,predicted_samples_per_s,measured_bytes,predicted_bytes,loss,peer_samples_"
      "per_s,"
      "peer_bytes,refused";
  for (const std::string& name : metrics) text += "," + name;
  text += "\n";
  for (const ExperimentRow& row : rows) {
    const ExperimentFigures f = row.figures.value_or(ExperimentFigures{});
    const PeerFigures peer = row.peer.value_or(PeerFigures{});
    text += fmt::format("{},{},{},{},{},{},{},{},{},{}", quoted(row.experiment.name), f.seconds,
                        f.samples_per_s, f.predicted_samples_per_s, f.measured_bytes, f.predicted_bytes,
                        f.loss, peer.samples_per_s, peer.measured_bytes, quoted(row.refused));
    for (const std::string& name : metrics) {
      const auto it = f.evaluation.find(name);
      text += it == f.evaluation.end() ? std::string(",") : fmt::format(",{}", it->second);
    }
    text += "\n";
  }
  return text;
}

}  // namespace plimsoll
