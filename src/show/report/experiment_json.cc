
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/json.h"
#include "show/report/experiment_report.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Writes null for infinity and NaN, which JSON cannot represent.
Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

double number_of(const Json& value) {
  return value.is_null() ? std::nan("") : value.get<double>();
}

Json optional_number(std::optional<double> value) {
  return value ? number(*value) : Json(nullptr);
}

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

Json figures_object(const ExperimentFigures& f) {
  Json evaluation = Json::object();
  for (const auto& [name, value] : f.evaluation) evaluation[name] = number(value);
  return {{"seconds", number(f.seconds)},
          {"samples_per_s", number(f.samples_per_s)},
          {"predicted_samples_per_s", number(f.predicted_samples_per_s)},
          {"measured_bytes", f.measured_bytes},
          {"predicted_bytes", f.predicted_bytes},
          {"arena_bytes", f.arena_bytes},
          {"high_water_bytes", f.high_water_bytes},
          {"loss", number(f.loss)},
          {"model", f.model},
          {"device", f.device},
          {"sequence_length", f.sequence_length},
          {"is_calibrated", f.is_calibrated},
          {"date", f.date},
          {"evaluation", std::move(evaluation)},
          {"speeds", numbers(f.speeds)},
          {"spread", optional_number(speed_spread(f))}};
}

ExperimentFigures figures_of(const Json& object) {
  ExperimentFigures f{.seconds = number_of(object.at("seconds")),
                      .samples_per_s = number_of(object.at("samples_per_s")),
                      .predicted_samples_per_s = number_of(object.at("predicted_samples_per_s")),
                      .measured_bytes = object.at("measured_bytes"),
                      .predicted_bytes = object.at("predicted_bytes"),
                      .arena_bytes = object.at("arena_bytes"),
                      .high_water_bytes = object.at("high_water_bytes"),
                      .loss = number_of(object.at("loss")),
                      .model = object.at("model"),
                      .device = object.at("device"),
                      .sequence_length = object.at("sequence_length"),
                      .is_calibrated = object.value("is_calibrated", false),
                      .date = object.value("date", ""),
                      .evaluation = {}};
  for (const auto& [name, value] : object.at("evaluation").items()) f.evaluation[name] = number_of(value);
  // Files of earlier versions have no list "speeds": each experiment was run once and has a single speed.
  for (const Json& speed : object.value("speeds", Json::array({object.at("samples_per_s")})))
    f.speeds.push_back(number_of(speed));
  return f;
}

PeerFigures peer_of(const Json& object) {
  return {.samples_per_s = number_of(object.at("samples_per_s")),
          .measured_bytes = object.at("measured_bytes"),
          .refused = object.at("refused"),
          .device = object.value("device", "")};
}

Json errors_object(const PredictionErrors& errors) {
  return {{"rows", errors.rows}, {"within_15_percent", errors.near}, {"worst", number(errors.worst)}};
}

Json summary_object(const std::vector<ExperimentRow>& rows) {
  const ExperimentSummary summary = summarize(rows);
  if (summary.reference.empty()) return nullptr;
  Json alone = Json::array();
  for (const MethodGain& gain : summary.alone) {
    alone.push_back({{"method", gain.method},
                     {"speed", number(gain.speed)},
                     {"spread", optional_number(gain.spread)},
                     {"memory", number(gain.memory)}});
  }
  Json predictions = errors_object(summary.predictions);
  predictions["worst_memory"] = number(summary.predictions.worst_memory);
  predictions["is_calibrated"] = summary.is_calibrated;
  predictions["first_row_over_predicted"] = number(summary.scale);
  predictions["others_scaled_by_it"] = errors_object(summary.scaled);
  return {{"reference", summary.reference},
          {"alone", std::move(alone)},
          {"fastest",
           {{"name", summary.is_fastest_clear ? Json(summary.fastest) : Json()},
            {"samples_per_s", number(summary.fastest_samples_per_s)}}},
          {"smallest",
           {{"name", summary.is_smallest_clear ? Json(summary.smallest) : Json()},
            {"measured_bytes", summary.smallest_bytes}}},
          {"predictions", std::move(predictions)}};
}

}  // namespace

Json experiment_row_object(const ExperimentRow& row) {
  Json object{{"name", row.experiment.name},
              {"key", row.experiment.key},
              {"methods", row.experiment.methods},
              {"words", row.experiment.words},
              {"note", row.experiment.note},
              {"refused", row.refused},
              {"figures", nullptr},
              {"peer", nullptr}};
  if (!row.experiment.environment.empty()) object["environment"] = row.experiment.environment;
  if (row.figures) object["figures"] = figures_object(*row.figures);
  if (row.peer) {
    object["peer"] = {{"samples_per_s", number(row.peer->samples_per_s)},
                      {"measured_bytes", row.peer->measured_bytes},
                      {"refused", row.peer->refused},
                      {"device", row.peer->device}};
  }
  return object;
}

ExperimentRow experiment_row_of(const Json& object) {
  ExperimentRow row{.experiment = {.name = object.at("name"),
                                   .key = object.at("key"),
                                   .methods = object.at("methods"),
                                   .words = object.at("words"),
                                   .note = object.at("note")},
                    .figures = {},
                    .refused = object.at("refused"),
                    .peer = {}};
  if (object.contains("environment")) row.experiment.environment = object.at("environment");
  if (!object.at("figures").is_null()) row.figures = figures_of(object.at("figures"));
  if (const Json& peer = object.at("peer"); !peer.is_null()) {
    row.peer = peer_of(peer);
  }
  return row;
}

PeerFigures parse_peer_figures(std::string_view text, std::string_view source) {
  try {
    return peer_of(parse_json(text, source));
  } catch (const Json::exception& error) {
    throw_error(ErrorCode::kBadData,
                "{}: the output of the --peer script does not have the expected JSON fields: {}", source,
                error.what());
  }
}

std::string planned_experiment_json(const ExperimentPlan& plan) {
  Json rows = Json::array();
  for (const PlannedExperiment& row : plan.rows) {
    Json document = nullptr;
    if (row.document) document = {{"samples_per_s", row.document->samples_per_s}, {"mib", row.document->mib}};
    const bool is_planned = row.refused.empty();
    rows.push_back({{"name", row.experiment.name},
                    {"key", row.experiment.key},
                    {"methods", row.experiment.methods},
                    {"words", row.experiment.words},
                    {"note", row.experiment.note},
                    {"refused", row.refused},
                    {"fits", is_planned ? Json(row.fits) : Json(nullptr)},
                    {"predicted_samples_per_s", is_planned ? number(row.samples_per_s) : Json(nullptr)},
                    {"predicted_bytes", is_planned ? Json(row.total_bytes) : Json(nullptr)},
                    {"document", std::move(document)}});
  }
  const Json object{
      {"schema_version", 1}, {"model", plan.model}, {"device", plan.device}, {"rows", std::move(rows)}};
  return python_json(object, 2) + "\n";
}

std::string experiment_json(const std::vector<ExperimentRow>& rows, const ExperimentOrigin& origin) {
  Json list = Json::array();
  for (const ExperimentRow& row : rows) list.push_back(experiment_row_object(row));
  Json driver = origin.driver.empty() ? Json(nullptr) : Json(origin.driver);
  return python_json({{"schema_version", kExperimentJsonVersion},
                      {"date", origin.date},
                      {"program", {{"version", origin.version}, {"build", origin.build}}},
                      {"machine", {{"cpu", origin.cpu}, {"gpu_driver", std::move(driver)}}},
                      {"summary", summary_object(rows)},
                      {"rows", std::move(list)}},
                     2) +
         "\n";
}

std::string experiment_row_json(const ExperimentRow& row) {
  return python_json(experiment_row_object(row), 2) + "\n";
}

ExperimentRow parse_experiment_row(std::string_view text, std::string_view source) {
  try {
    return experiment_row_of(parse_json(text, source));
  } catch (const Json::exception& error) {
    throw_error(ErrorCode::kBadData,
                "{}: not the result of an experiment: {}. Remove the file, then the experiment runs again",
                source, error.what());
  }
}

}  // namespace plimsoll
