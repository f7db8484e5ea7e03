#include "plimsoll/trainer.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "api/plan_report.h"
#include "api/trainer_state.h"
#include "base/units.h"
#include "device/monitor/host.h"
#include "metrics/metrics.h"
#include "plan/search/suggest.h"
#include "run/device_choice.h"
#include "run/states_folder.h"
#include "tasks/task.h"
#include "train/run_reports.h"
#include "train/speed.h"
#include "train/tensorboard_log.h"

namespace plimsoll {
namespace {

RunPurpose purpose_of(Task task) {
  switch (task) {
    case Task::kTrain:
      return RunPurpose::kTrain;
    case Task::kEvaluate:
      return RunPurpose::kEvaluate;
    case Task::kPredict:
      return RunPurpose::kPredict;
  }
  return RunPurpose::kTrain;
}

std::string data_line(const char* name, const std::optional<Dataset>& data) {
  if (!data) return {};
  const int64_t mapped = data->tokens.mapped_bytes();
  return fmt::format(
      "{} {}, {} (mean {:.1f}, longest {}), held in {:.1f} MiB{}", name, counted(data->num_rows(), "row"),
      counted(data->num_tokens(), "token"),
      static_cast<double>(data->num_tokens()) / static_cast<double>(std::max<int64_t>(1, data->num_rows())),
      data->tokens.longest(), static_cast<double>(data->held_bytes()) / 1048576.0,
      mapped == 0
          ? ""
          : fmt::format(", {:.1f} MiB mapped from the token cache", static_cast<double>(mapped) / 1048576.0));
}

std::string predicted_label(const RunSetup& setup, const std::vector<float>& row) {
  return task_of(setup.request.model.problem_type)
      .format_prediction(row, setup.model.config.id2label, setup.model.config.num_outputs());
}

// Returns the prediction that follows from the logits of a row, without the texts of the row.
Prediction prediction_of(const RunSetup& setup, std::vector<float> logits) {
  const TaskRecord& task = task_of(setup.request.model.problem_type);
  Prediction prediction{
      .logits = {}, .probabilities = {}, .label = predicted_label(setup, logits), .texts = {}};
  if (task.probabilities != nullptr)
    prediction.probabilities = task.probabilities(logits, setup.model.config.num_outputs());
  prediction.logits = std::move(logits);
  return prediction;
}

}  // namespace

// Exists during a call of train(). When the call returns or throws, the destructor discards a request to stop, and sets
// the number of updates from which a custom loop continues.
class Trainer::Impl::TrainCall {
 public:
  explicit TrainCall(Impl& impl) : impl_(impl) {}
  ~TrainCall() {
    impl_.stop.store(false);
    if (has_begun_) impl_.steps = impl_.loop->num_enqueued_steps();
  }
  TrainCall(const TrainCall&) = delete;
  TrainCall& operator=(const TrainCall&) = delete;

  // Called when a run of train() has started. From then on, weights, optimizer states, batches and reported measurements are
  // those of this run.
  void begin(std::unique_ptr<TrainLoop> begun) {
    impl_.loop = std::move(begun);
    impl_.batches_started = false;
    impl_.own_run = {};
    has_begun_ = true;
  }

 private:
  Impl& impl_;
  bool has_begun_ = false;
};

void Trainer::Impl::start() {
  if (session.is_allocated()) return;
  loaded = session.allocate();
  steps = 0;
  own_run = {};
  batches_started = false;
  own_parameters.clear();
  if (arguments().skip_memory_metrics) return;
  init_metrics = init_memory.end("init");
  init_metrics["before_init_mem_cpu"] = static_cast<double>(init_memory.resident_bytes_at_begin());
}

Trainer::Trainer(Arguments arguments, Task task, const Environment& environment)
    : Trainer(std::move(arguments), TrainerParts{}, task, environment) {}

Trainer::Trainer(Arguments arguments, const TrainerParts& parts, Task task, const Environment& environment) {
  std::vector<std::string> notes = resolve_arguments(arguments);
  impl_ = std::make_unique<Impl>(
      prepare_run(arguments, purpose_of(task), environment, posix_file_system(), parts));
  impl_->plan = make_plan_report(
      impl_->session.plan(), impl_->session.setup().spec(), impl_->session.setup().plan_labels,
      arguments.dry_run ? Savings::kPlan : Savings::kLeaveOut, table_style(environment));
  if (arguments.dry_run) add_plan_files(impl_->session.plan(), impl_->session.setup(), impl_->plan);
  impl_->plan.warnings = impl_->session.setup().diagnostics.warnings;
  const std::vector<std::string>& setup_notes = impl_->session.setup().diagnostics.notes;
  impl_->plan.notes.insert(impl_->plan.notes.begin(), setup_notes.begin(), setup_notes.end());
  const Plan& plan = impl_->session.plan();
  // start() checks that the folder for the optimizer states can be used. A dry run does not call start(), so the folder is
  // checked here.
  if (arguments.dry_run)
    require_states_folder(plan, impl_->session.setup().arguments, posix_file_system(), 0,
                          arguments.nproc_per_node);
  std::optional<int64_t> free_bytes;
  if (!plan.is_on_gpu()) {
    const MachineMemory memory = machine_memory();
    if (memory.takeable_bytes() > 0) free_bytes = memory.takeable_bytes();
    if (std::string text = shortage_text(plan.total_bytes(), memory); !text.empty())
      impl_->plan.warnings.push_back(std::move(text));
  }
  if (std::string text = redundant_accumulation(plan, impl_->session.setup().spec(), free_bytes);
      !text.empty())
    impl_->plan.warnings.push_back(std::move(text));
}

Trainer::~Trainer() = default;
Trainer::Trainer(Trainer&& other) noexcept = default;
Trainer& Trainer::operator=(Trainer&& other) noexcept = default;

Trainer::Impl& Trainer::impl() const {
  if (impl_) return *impl_;
  throw_error(ErrorCode::kUsage, "this Trainer was moved from: use the Trainer that it was moved to");
}

const PlanReport& Trainer::plan() const {
  return impl().plan;
}

std::string Trainer::device_line() const {
  const RunSetup& setup = impl().session.setup();
  std::string line = plimsoll::device_line(setup.device);
  if (!setup.place.is_alone()) line += fmt::format("; rank {} of {}", setup.place.rank, setup.place.size);
  return line;
}

std::vector<std::string> Trainer::description() const {
  const RunSetup& setup = impl().session.setup();
  std::vector<std::string> lines{fmt::format(
      "model {}: {}, {}, width {}, {:.1f}M parameters, {}", setup.model.label, setup.model.config.model_type,
      counted(setup.model.config.num_hidden_layers, "layer"), setup.model.config.hidden_size,
      static_cast<double>(num_parameters()) / 1e6, describe_outputs(setup.model.config))};
  for (const auto& [name, data] :
       {std::pair<const char*, const std::optional<Dataset>*>{"train", &setup.data.train},
        {"validation", &setup.data.evaluate},
        {"validation (mismatched)", &setup.data.evaluate_mismatched},
        {"test", &setup.data.predict},
        {"test (mismatched)", &setup.data.predict_mismatched}}) {
    if (*data) lines.push_back(data_line(name, *data));
  }
  if (!setup.data.token_cache.empty()) lines.push_back(setup.data.token_cache);
  if (setup.data.train) {
    const BatchCensus& census = setup.steps.census;
    int64_t padded = setup.request.batches.train.longest * census.total_sequences;
    lines.push_back(fmt::format(
        "{} of {}; {}, 0 padded (padding to the longest would make {})",
        counted(setup.steps.length.max_steps, "step"),
        counted(setup.arguments.per_device_train_batch_size * batches_per_step(setup.arguments), "sequence"),
        counted(census.total_tokens, "real token"), padded));
  }
  return lines;
}

int64_t Trainer::max_steps() const {
  return impl().session.setup().steps.length.max_steps;
}
int64_t Trainer::num_parameters() const {
  return impl().session.plan().num_parameters();
}

void Trainer::add_callback(std::shared_ptr<Callback> callback) {
  impl().callbacks.push_back(std::move(callback));
}

std::string Trainer::start() {
  impl().start();
  return impl().loaded;
}

TrainOutput Trainer::train(const Announce& announce) {
  Impl::TrainCall call(impl());
  impl().require_training_data("train()");
  impl().require_no_gradients("train()");
  impl().start();
  impl().session.executor().set_profiling(impl().arguments().profile);
  const auto announce_all = [&](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      if (announce) announce(line);
    }
  };
  FileSystem& files = impl().files;
  const std::string& folder = impl().arguments().output_dir;
  auto next = std::make_unique<TrainLoop>(impl().session, impl().callbacks, &impl().stop);
  TrainLoop& loop = *next;
  TrainOutput output;
  try {
    output = loop.run([&](const std::vector<std::string>& lines) {
      call.begin(std::move(next));
      announce_all(lines);
      // The plan is written before training, so that a report can be made of a run that does not reach its end.
      if (!loop.is_complete()) write_planned_reports(files, folder, impl().session, impl().plan);
    });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kNotFinite) write_memory(files, folder, impl().session);
    throw;
  }
  announce_all(loop.closing_lines());
  if (!output.was_complete) impl().add_init_metrics(output.metrics);
  return output;
}

MetricMap Trainer::evaluate() {
  impl().require_no_gradients("evaluate()");
  const RunSetup& setup = impl().session.setup();
  if (!setup.data.evaluate) {
    throw_error(ErrorCode::kUsage,
                "nothing to evaluate: give --validation_file FILE, and --do_eval if the run also trains");
  }
  impl().start();
  const auto progress = [&](int64_t done, int64_t all) {
    for (const auto& callback : impl().callbacks) callback->on_evaluate_progress(done, all);
  };
  // Evaluates one validation set (MNLI has two). Each set gets its own metrics for time, number of rows and memory.
  const auto evaluate_set = [&](const Dataset& data) {
    const MemoryPhase memory;
    MetricMap metrics = impl().session.evaluate(data, "eval", nullptr, progress);
    metrics["eval_samples"] = static_cast<double>(data.num_rows());
    if (!setup.arguments.skip_memory_metrics) metrics.merge(memory.end("eval"));
    return metrics;
  };
  MetricMap metrics = evaluate_set(*setup.data.evaluate);
  if (setup.data.evaluate_mismatched)
    metrics.merge(with_suffix(evaluate_set(*setup.data.evaluate_mismatched), kMismatchedSuffix));
  if (impl().loop && impl().arguments().include_num_input_tokens_seen != "no") {
    metrics["num_input_tokens_seen"] = static_cast<double>(impl().loop->tokens_seen());
  }
  if (!impl().arguments().skip_memory_metrics) impl().add_init_metrics(metrics);
  return metrics;
}

std::vector<Prediction> Trainer::predict(const std::vector<DataRow>& rows) {
  impl().require_no_gradients("predict()");
  if (rows.empty()) return {};
  std::vector<DataRow> inputs = rows;
  for (DataRow& row : inputs) {
    row.classes.clear();
    row.values.clear();
  }
  Session& session = impl().session;
  const RunSetup& setup = session.setup();
  const Dataset data = session.read_rows(inputs, LongIds::kRefuse);
  const ProgramPlan* program = session.plan().programs.find(kEvaluateProgram);
  const Bucket room = program != nullptr ? program->bucket : Bucket{};
  std::vector<Prediction> predictions;
  predictions.reserve(rows.size());
  std::vector<int32_t> part;
  const auto predict_part = [&] {
    const MicroBatch batch = session.batch_of(data, part);
    session.require_room(kEvaluateProgram, batch, "predict()");
    impl().start();
    const std::vector<float> logits = session.forward(batch).logits;
    for (size_t i = 0; i < part.size(); ++i) {
      predictions.push_back(
          prediction_of(setup, logits_of_sequence(data, batch, i, logits, setup.data.labels.kind,
                                                  setup.model.config.num_outputs())));
    }
    part.clear();
  };
  int64_t tokens = 0;
  for (int64_t row = 0; row < data.num_rows(); ++row) {
    const int64_t length = data.tokens.length(row);
    if (!part.empty() && (std::ssize(part) >= room.sequences || tokens + length > room.tokens)) {
      predict_part();
      tokens = 0;
    }
    part.push_back(static_cast<int32_t>(row));
    tokens += length;
  }
  predict_part();
  return predictions;
}

bool Trainer::has_test_set(TestSet set) const {
  const RunSetup& setup = impl().session.setup();
  return (set == TestSet::kTest ? setup.data.predict : setup.data.predict_mismatched).has_value();
}

MetricMap Trainer::predict(const std::function<void(Prediction prediction)>& take, TestSet set) {
  impl().require_no_gradients("predict()");
  const RunSetup& setup = impl().session.setup();
  if (setup.data.predict && !has_test_set(set)) {
    throw_error(ErrorCode::kUsage,
                "there is no mismatched test data: only MNLI's own folder has it; predict TestSet::kTest");
  }
  if (!setup.data.predict) {
    throw_error(
        ErrorCode::kUsage,
        "nothing to predict: give --test_file FILE, and --do_predict if the run also trains or evaluates");
  }
  impl().start();
  const Dataset& data = set == TestSet::kTest ? *setup.data.predict : *setup.data.predict_mismatched;
  std::vector<std::vector<float>> batch;
  size_t row_index = 0;
  const auto progress = [&](int64_t done, int64_t all) {
    for (std::vector<float>& row : batch) {
      Prediction prediction = prediction_of(setup, std::move(row));
      if (!data.texts.empty()) prediction.texts = data.texts[row_index++];
      take(std::move(prediction));
    }
    batch.clear();
    for (const auto& callback : impl().callbacks) callback->on_evaluate_progress(done, all);
  };
  MetricMap metrics = impl().session.evaluate(data, "predict", &batch, progress);
  metrics["predict_samples"] = static_cast<double>(data.num_rows());
  return metrics;
}

std::vector<Prediction> Trainer::predict(TestSet set) {
  std::vector<Prediction> predictions;
  predict([&](Prediction prediction) { predictions.push_back(std::move(prediction)); }, set);
  return predictions;
}

std::vector<std::string> Trainer::label_names() const {
  return impl().session.setup().model.config.id2label;
}

void Trainer::save_model(const std::string& folder) {
  impl().start();
  save_model_folder(impl().files, folder, impl().session.model_contents());
}

void Trainer::save_metrics(const std::string& split, const MetricMap& metrics) {
  write_metrics(impl().files, impl().arguments().output_dir, split, metrics);
}

std::vector<std::string> Trainer::save_reports(const TrainOutput& output) {
  const std::string memory_file = join_path(impl().arguments().output_dir, kMemoryFile);
  if (output.was_complete && impl().files.status(memory_file)) return {};
  std::vector<std::string> written{kPlanFile, kMemoryFile, kReportFile};
  const std::string& folder = impl().arguments().output_dir;
  if (impl().arguments().profile && write_profile(impl().files, folder, impl().session, impl().step_ms())) {
    written.emplace_back("profile.json");
  }
  if (!output.interrupted && write_model_card(impl().files, folder, impl().session.setup(), output)) {
    written.emplace_back("README.md");
  }
  // memory.json is written last, so that its existence shows that all files are complete.
  const std::vector<std::string> plots = write_run_reports(impl().files, folder, impl().session, impl().plan,
                                                           memory(), output, impl().arguments().run_name);
  written.insert(written.begin() + 3, plots.begin(), plots.end());
  if (reports_to_tensorboard(impl().arguments())) {
    const std::string& logging_dir = impl().arguments().logging_dir;
    written.push_back(logging_dir.empty() ? "runs/" : logging_dir);
  }
  return written;
}

void Trainer::request_stop() {
  static_assert(decltype(Impl::stop)::is_always_lock_free, "signal handlers call this, so it must not lock");
  if (impl_) impl_->stop.store(true);
}

MemoryFigures Trainer::memory() const {
  return impl().session.memory();
}

std::string Trainer::profile_trace() const {
  return make_profile_trace(impl().session);
}

std::string Trainer::profile_table() const {
  return make_profile_table(impl().session, impl().step_ms());
}

}  // namespace plimsoll
