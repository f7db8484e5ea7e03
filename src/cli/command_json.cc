#include "cli/command_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.h"

namespace plimsoll::cli {
namespace {

using Json = nlohmann::ordered_json;

struct RunResults {
  std::string path;  // the file name that --json gives; "-" for standard output
  std::string plan;
  Json results = Json::object();
};

std::optional<RunResults> run_results;

}  // namespace

void begin_results(const std::string& plan_json, const Arguments& arguments) {
  if (arguments.json.empty()) return;
  run_results.emplace(RunResults{.path = arguments.json, .plan = plan_json});
  if (arguments.json == "-") {
    keep_output_for_json();
  } else {
    write_text(plan_json, "--json", arguments.json);
  }
}

void add_results(std::string_view split, const MetricMap& metrics) {
  if (!run_results) return;
  Json numbers = Json::object();
  // JSON cannot represent numbers that are not finite, so they are written as null.
  for (const auto& [name, value] : metrics) numbers[name] = std::isfinite(value) ? Json(value) : Json();
  run_results->results[std::string(split)] = std::move(numbers);
}

void add_prediction(const Prediction& prediction) {
  if (!run_results) return;
  run_results->results["predictions"].push_back({{"prediction", prediction.label},
                                                 {"texts", prediction.texts},
                                                 {"probabilities", prediction.probabilities},
                                                 {"logits", prediction.logits}});
}

void finish_results() {
  if (!run_results) return;
  // The plan is the text of a JSON object. Inserts "results" before its closing brace, as its last key.
  std::string text = run_results->plan;
  text.resize(text.find_last_not_of(" \n", text.rfind('}') - 1) + 1);
  text += ",\n  \"results\": " + run_results->results.dump(2, ' ', false, Json::error_handler_t::replace) +
          "\n}\n";
  if (run_results->path == "-") {
    print_json(text);
  } else {
    replace_text(text, "--json", run_results->path);
  }
  run_results.reset();
}

}  // namespace plimsoll::cli
