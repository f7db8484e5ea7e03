// Plans the rows of the table of experiments, and compares them with the figures that Hugging Face's page states.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "plimsoll/experiments.h"
#include "plimsoll/plan.h"
#include "run/device_choice.h"
#include "show/report/experiment_report.h"

namespace plimsoll {
namespace {

// The speeds (samples per second) and memory (MiB) that Hugging Face's page on training on one GPU states, "How to fit
// a bigger model and train it faster". It measured Trainer with BERT-large and 512 random sequences of 512 tokens on a
// Tesla V100-SXM2-16GB in January 2022. They are in the order of the page, which is also the order of
// document_experiments().
constexpr std::array<DocumentFigures, 9> kDocumentFigures{{{8.86, 14949},
                                                           {7.75, 8681},
                                                           {5.99, 6775},
                                                           {18.64, 13939},
                                                           {10.09, 7275},
                                                           {7.96, 12295},
                                                           {9.06, 4847},
                                                           {9.15, 13085},
                                                           {10.35, 5363}}};
constexpr const char* kDocumentModel = "bert-large-uncased";
constexpr int64_t kDocumentTokens = 512;

bool sets_loader(const Experiment& experiment) {
  return std::ranges::any_of(experiment.methods,
                             [](const std::string& method) { return method.starts_with("DataLoader"); });
}

// Returns true if the run trains the model of Hugging Face's page on sequences of the same length.
bool trains_as_the_page(const Experiment& vanilla) {
  const Arguments arguments = parse_arguments(vanilla.words).arguments;
  return arguments.config_name == kDocumentModel && arguments.model_name_or_path.empty() &&
         arguments.config_overrides.empty() && arguments.dataset_name == "dummy" &&
         arguments.dummy_seq_length == kDocumentTokens && arguments.max_seq_length == kDocumentTokens;
}

}  // namespace

ExperimentPlan plan_experiments(const std::vector<std::string>& more, PlannedRows rows,
                                const Environment& environment) {
  ExperimentPlan plan;
  // An error in these arguments concerns all rows. It is therefore thrown and not stored in every row.
  ParseResult own = parse_arguments(more);
  plan.warnings = std::move(own.warnings);
  plan.notes = std::move(own.notes);
  const bool on_gpu =
      choose_device(own.arguments, RunPurpose::kPlan, {}, 1, plan.notes).options.kind == KernelDevice::kCuda;
  const std::vector<Experiment> experiments =
      document_experiments(on_gpu ? ExperimentDevice::kGpu : ExperimentDevice::kCpu, more);
  const bool has_page = on_gpu && trains_as_the_page(experiments.front());
  for (size_t i = 0; i < experiments.size(); ++i) {
    const Experiment& experiment = experiments[i];
    const bool is_of_page = i < kDocumentFigures.size();
    if (rows == PlannedRows::kDocuments && !is_of_page && !sets_loader(experiment)) continue;
    PlannedExperiment& row =
        plan.rows.emplace_back(PlannedExperiment{.experiment = experiment, .refused = {}});
    if (has_page && is_of_page) row.document = kDocumentFigures[i];
    try {
      const PlanReport report = plan_run(parse_arguments(experiment.words).arguments, environment);
      row.total_bytes = report.total_bytes;
      row.samples_per_s = report.speed.samples_per_s;
      row.fits = report.fits;
      if (!plan.model.empty()) continue;
      plan.model = report.run.model;
      plan.device = report.run.device;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUsage && error.code() != ErrorCode::kWillNotFit) throw;
      row.refused = error.what();
    }
  }
  if (plan.model.empty())
    throw_error(ErrorCode::kUsage, "none of the experiments can be planned: {}", plan.rows[0].refused);
  plan.table = planned_experiment_table(plan);
  plan.json = planned_experiment_json(plan);
  return plan;
}

}  // namespace plimsoll
