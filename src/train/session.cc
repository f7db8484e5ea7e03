#include "train/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "base/units.h"
#include "device/cuda/cuda_device.h"
#include "device/monitor/host.h"
#include "models/architecture.h"
#include "models/lora.h"
#include "optim/dynamic_loss_scale.h"
#include "plan/search/suggest.h"
#include "run/caches.h"
#include "run/corpus.h"
#include "run/device_choice.h"
#include "run/tokenizer_source.h"
#include "tasks/task.h"
#include "train/speed.h"
#include "train/weight_loading.h"

namespace plimsoll {
namespace {

// Returns the tensors that batches of a program have, and the size of the largest one.
BatchLayout layout_of(const ProgramPlan& program) {
  return {.tensors = batch_tensors(program.graph), .capacity = program.bucket};
}

// Runs `work`. If the GPU fails, adds the memory of the plan and of the card to the error.
template <typename Work>
auto on_device(const Plan& plan, const Work& work) {
  try {
    return work();
  } catch (const GpuError& error) {
    throw Error(error.code(), error.what() + describe_gpu_memory(plan));
  }
}

}  // namespace

Session::Session(RunSetup setup, FileSystem& files, const ExecutorOptions& options)
    : setup_(std::move(setup)), files_(files), options_(options), plan_(build_plan(setup_.request)) {
  options_.gpu_ordinal = setup_.device.gpu_ordinal;
}

Session::~Session() = default;

std::string Session::allocate() {
  require_fit(plan_, setup_.spec(), setup_.plan_labels);
  require_free_memory(plan_, setup_.device.label);
  gpu_used_before_ = gpu_used_bytes(plan_.request);
  // The session takes over the executor only when it is complete.
  std::unique_ptr<Executor> executor;
  const std::string tuned = on_device(plan_, [&] {
    executor = std::make_unique<Executor>(plan_, options_);
    return measure_products(*executor);
  });
  if (setup_.arguments.profile) ceilings_ = executor->measure_ceilings();
  const std::string loaded = fill_weights(*executor);
  executor->zero_states();
  executor_ = std::move(executor);
  is_new_ = true;
  micro_batches_ = 0;
  return tuned.empty() || loaded.empty() ? tuned + loaded : tuned + "\n" + loaded;
}

std::string Session::fill_weights(Executor& executor) const {
  const bool has_weights = setup_.model.weights && setup_.model.weights->has_weights();
  const WeightsFrom from = setup_.model.adapter ? WeightsFrom::kModelUnderAdapter : WeightsFrom::kModelAlone;
  initialise_weights(executor, static_cast<uint64_t>(setup_.arguments.seed),
                     setup_.model.config.initializer_range, has_weights ? &*setup_.model.weights : nullptr,
                     from);
  if (!has_weights) return {};
  const LoadReport report = load_weights(
      executor, *setup_.model.weights,
      setup_.arguments.ignore_mismatched_sizes ? OnShapeMismatch::kTreatAsMissing : OnShapeMismatch::kFail,
      from);
  if (setup_.model.adapter) load_adapter(executor, *setup_.model.adapter);
  return describe_load(report, hugging_face_class(setup_.model.config), setup_.model.weights->path());
}

void Session::begin_anew() {
  if (is_new_) return;
  executor_->zero_states();
  micro_batches_ = 0;
  is_new_ = true;
}

std::string Session::measure_products(Executor& executor) {
  if (!setup_.measures_products) return {};
  const size_t known = plan_.request.products.tuning.products.size();
  const auto start = std::chrono::steady_clock::now();
  TuningTable table = executor.measure_products();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool changed = !(table == plan_.request.products.tuning);
  plan_.request.products.tuning = std::move(table);
  const std::string hash = to_hex(tuning_table_hash(plan_.request.products.tuning));
  const std::string& file = setup_.tuning_file;
  if (!changed) return fmt::format("matrix products: {} tuned before, {} ({})", known, file, hash);
  const std::string fault = keep_tuning_table(files_, file, plan_.request.products.tuning);
  return fmt::format("matrix products: {} shapes measured in {:.1f} s, kept in {} ({}){}",
                     plan_.request.products.tuning.products.size(), seconds, file, hash,
                     fault.empty() ? "" : "\nwarning: " + fault);
}

MicroBatch Session::make_batch() const {
  PLIMSOLL_CHECK(setup_.data.train, "batches without training data");
  return make_micro_batch(layout_of(plan_.programs.at(kTrainProgram)));
}

void Session::start_batches(DataPosition position, int64_t num_epochs) {
  PLIMSOLL_CHECK(setup_.data.train, "batches without training data");
  loader_ = std::make_unique<Loader>(
      *setup_.data.train,
      Sampler(setup_.sampler, setup_.data.train->row_lengths(), setup_.data.train->row_sequences()),
      layout_of(plan_.programs.at(kTrainProgram)),
      LoaderOptions{
          .num_workers = static_cast<int>(setup_.arguments.dataloader_num_workers),
          .prefetch_factor = static_cast<int>(setup_.arguments.dataloader_prefetch_factor.value_or(2)),
          .start = position,
          .num_epochs = num_epochs});
}

bool Session::next_batch(MicroBatch& batch) {
  PLIMSOLL_CHECK(loader_ != nullptr, "next_batch before start_batches");
  return loader_->next(batch);
}

void Session::run_entries(const std::vector<ScheduleEntry>& schedule, Repeat repeat) {
  for (const ScheduleEntry& entry : schedule) {
    PLIMSOLL_CHECK(entry.delay == 0, "one device runs every micro-batch as a whole");
    if (entry.repeat == repeat) executor_->run(entry.program, entry.segment);
  }
}

void Session::start_forward_backward(const MicroBatch& batch, double denominator, bool first_of_step) {
  is_new_ = false;
  executor_->stage(kTrainProgram, batch.tensors, denominator);
  executor_->set_random(static_cast<uint64_t>(setup_.arguments.seed), micro_batches_++);
  executor_->set_accumulate(!first_of_step);
  run_entries(plan_.step_schedule, Repeat::kPerMicroBatch);
}

double Session::forward_backward(const MicroBatch& batch, double denominator, bool first_of_step) {
  start_forward_backward(batch, denominator, first_of_step);
  return executor_->loss();
}

void Session::start_update(double learning_rate, int64_t step, int64_t skipped) {
  executor_->set_update(learning_rate, step, skipped);
  run_entries(plan_.step_schedule, Repeat::kOnce);
}

UpdateOutcome Session::update(double learning_rate, int64_t step) {
  start_update(learning_rate, step, executor_->skipped_steps());
  executor_->fetch();
  return outcome_of(executor_->fetched_step(), step);
}

UpdateOutcome Session::outcome_of(const StepOutputs& outputs, int64_t step) const {
  if (outputs.is_finite) return UpdateOutcome::kUpdated;
  if (plan_.scales_loss() && outputs.loss_scale > kSmallestLossScale) return UpdateOutcome::kSkipped;
  if (plan_.scales_loss()) {
    throw_error(ErrorCode::kNotFinite,
                "step {}: the gradient overflows fp16 at the smallest loss scale, {}, first in '{}'; the "
                "weights were "
                "not changed. Use --bf16, whose range is that of fp32, or try a lower --learning_rate",
                step, kSmallestLossScale, outputs.first_bad);
  }
  if (outputs.first_bad.empty()) {
    throw_error(ErrorCode::kNotFinite,
                "step {}: the loss is not finite, but all gradients are; the weights were not changed. Try a "
                "lower --learning_rate, or look at the samples of this step",
                step);
  }
  const std::string weights = setup_.request.update.in_backward
                                  ? "the weights of modules whose gradients are finite were changed already"
                                  : "the weights were not changed";
  throw_error(ErrorCode::kNotFinite,
              "step {}: the gradient is not finite, first in '{}'; {}. Try a lower --learning_rate, "
              "--max_grad_norm, or look at the samples of this step",
              step, outputs.first_bad, weights);
}

std::string Session::first_bad_value(const MicroBatch& batch, double denominator, int64_t number) {
  executor_->stage(kTrainProgram, batch.tensors, denominator);
  executor_->set_random(static_cast<uint64_t>(setup_.arguments.seed), number);
  return executor_->first_bad_value();
}

MetricMap Session::evaluate(const Dataset& data, const std::string& split,
                            std::vector<std::vector<float>>* logits,
                            const std::function<void(int64_t, int64_t)>& progress) {
  const auto start = std::chrono::steady_clock::now();
  MetricMap metrics;
  for (const auto& [key, value] : loss_and_metrics(data, logits, progress))
    metrics[fmt::format("{}_{}", split, key)] = value;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  const int64_t rows = data.num_rows();
  const int64_t batch = setup_.arguments.per_device_eval_batch_size;
  metrics.merge(
      speed_metrics(split, {.seconds = taken.count(), .samples = rows, .steps = (rows + batch - 1) / batch}));
  return metrics;
}

namespace {

// The sums of an evaluation over its batches, in order.
struct EvaluationSums {
  // `own_metrics`: those that the program defines.
  EvaluationSums(const TaskRecord& task, const ModelConfig& model, const Dataset& evaluated,
                 std::span<const std::shared_ptr<Metric>> own_metrics)
      : data(evaluated),
        num_labels(model.num_labels),
        task_record(task),
        metrics(task.new_metric_sums(model.num_labels, model.id2label)),
        own(own_metrics) {
    for (const std::shared_ptr<Metric>& metric : own) metric->reset();
  }

  // Adds a batch, with the outputs that were fetched last.
  void add(Executor& executor, const MicroBatch& batch, std::vector<std::vector<float>>* all_logits) {
    const double loss = executor.fetched("loss").load(0);
    const double weight = weight_of(task_record, batch);
    loss_sum += loss;
    weight_sum += weight;
    num_rows_done += std::ssize(batch.rows);
    EvaluatedBatch evaluated{.logits = {},
                             .classes = {},
                             .values = {},
                             .cu_seqlens = batch.tensors.ints("cu_seqlens"),
                             .loss = loss / std::max(weight, 1.0),
                             .num_labels = batch.info.num_labels};
    if (!task_record.has_logits) {
      evaluated.num_correct = static_cast<int64_t>(executor.fetched(std::string(kNumCorrect)).load(0));
      metrics->add(evaluated);
      return;
    }
    const bool per_token = is_per_token(task_record.labels);
    const int64_t num_rows = per_token ? batch.size().tokens : batch.size().sequences;
    const std::span<const float> logits(executor.fetched("logits").as<float>(),
                                        static_cast<size_t>(num_rows * num_labels));
    evaluated.logits = logits;
    if (batch.tensors.has_ints("labels")) evaluated.classes = batch.tensors.ints("labels");
    if (batch.tensors.has_floats("labels")) evaluated.values = batch.tensors.floats("labels");
    metrics->add(evaluated);
    for (const std::shared_ptr<Metric>& metric : own) {
      metric->add({.num_labels = num_labels,
                   .logits = logits,
                   .classes = evaluated.classes,
                   .values = evaluated.values,
                   .sequence_starts = evaluated.cu_seqlens});
    }
    if (all_logits == nullptr) return;
    for (size_t i = 0; i < batch.rows.size(); ++i)
      all_logits->push_back(logits_of_sequence(data, batch, i, logits, task_record.labels, num_labels));
  }

  // The weight of a batch's mean loss in the loss of the evaluation: its number of rows, as in Trainer, or, without logits,
  // its number of labels, so that perplexity does not depend on how a text is divided into rows. A batch may have none.
  static double weight_of(const TaskRecord& task, const MicroBatch& batch) {
    return static_cast<double>(task.has_logits ? std::ssize(batch.rows) : batch.info.num_labels);
  }

  const Dataset& data;
  int64_t num_labels;
  const TaskRecord& task_record;
  std::unique_ptr<MetricSums> metrics;
  std::span<const std::shared_ptr<Metric>> own;
  double loss_sum = 0;  // sum of the mean loss of each batch times its weight
  double weight_sum = 0;
  int64_t num_rows_done = 0;
};

// Returns the denominator by which the loss of a batch becomes the mean over its labels times the batch's weight.
double evaluation_denominator(const TaskRecord& task, const MicroBatch& batch) {
  return static_cast<double>(std::max<int64_t>(1, batch.info.num_labels)) /
         std::max(EvaluationSums::weight_of(task, batch), 1.0);
}

}  // namespace

MetricMap Session::loss_and_metrics(const Dataset& data, std::vector<std::vector<float>>* all_logits,
                                    const std::function<void(int64_t, int64_t)>& progress) {
  const TaskRecord& task = task_of(setup_.request.model.problem_type);
  Sampler sampler(
      {.strategy = SamplingStrategy::kSequential, .batch_size = setup_.arguments.per_device_eval_batch_size},
      data.row_lengths(), data.row_sequences());
  const BatchLayout layout = layout_of(plan_.programs.at(kEvaluateProgram));
  Loader loader(data, std::move(sampler), layout, {.start = {}, .num_epochs = 1});
  // While one batch runs, the next one is loaded and enqueued; then the outputs of the first are read.
  const size_t num_batches = executor_->runs_ahead() ? 2 : 1;
  std::vector<MicroBatch> batches;
  batches.reserve(num_batches);
  for (size_t i = 0; i < num_batches; ++i) {
    batches.push_back(make_micro_batch(layout));
  }
  std::span<const std::shared_ptr<Metric>> own_metrics;
  if (!data.labels.empty() && !setup_.arguments.prediction_loss_only) own_metrics = setup_.metrics;
  EvaluationSums sums(task, setup_.model.config, data, own_metrics);
  const auto read = [&](const MicroBatch& batch) {
    on_device(plan_, [&] { sums.add(*executor_, batch, all_logits); });
    if (progress) progress(sums.num_rows_done, data.num_rows());
  };
  const MicroBatch* given = nullptr;
  for (size_t next = 0;; next = (next + 1) % batches.size()) {
    MicroBatch& batch = batches[next];
    if (!loader.next(batch)) break;
    on_device(plan_, [&] {
      executor_->stage(kEvaluateProgram, batch.tensors, evaluation_denominator(task, batch));
      run_entries(plan_.evaluation_schedule, Repeat::kPerMicroBatch);
    });
    if (given != nullptr) read(*given);
    executor_->fetch();
    given = &batch;
    if (!executor_->runs_ahead()) read(*std::exchange(given, nullptr));
  }
  if (given != nullptr) read(*given);
  MetricMap metrics;
  if (data.labels.empty()) return metrics;
  metrics["loss"] = sums.loss_sum / std::max(sums.weight_sum, 1.0);
  if (setup_.arguments.prediction_loss_only) return metrics;
  std::vector<std::string_view> names(setup_.data.metric_names.begin(), setup_.data.metric_names.end());
  if (names.empty()) names.assign(task.default_metrics.begin(), task.default_metrics.end());
  MetricList list = sums.metrics->metrics(names);
  if (setup_.data.metric_names.size() > 1) add_combined_score(list);
  for (const auto& [name, value] : list) metrics[name] = value;
  for (const std::shared_ptr<Metric>& metric : own_metrics) metrics[metric->name()] = metric->value();
  return metrics;
}

std::vector<float> logits_of_sequence(const Dataset& data, const MicroBatch& batch, size_t i,
                                      std::span<const float> logits, LabelKind labels, int64_t width) {
  const auto columns = static_cast<size_t>(width);
  const std::span<const int32_t> cu_seqlens = batch.tensors.ints("cu_seqlens");
  if (!is_per_token(labels)) {
    const auto part = logits.subspan(i * columns, columns);
    return {part.begin(), part.end()};
  }
  const auto first = static_cast<size_t>(cu_seqlens[i]);
  const auto length = static_cast<size_t>(cu_seqlens[i + 1]) - first;
  std::span<const int32_t> starts;
  if (!data.word_starts.empty()) starts = data.of_row(data.word_starts, batch.rows[i]);
  std::vector<float> result;
  for (size_t token = 0; token < length; ++token) {
    if (!starts.empty() && starts[token] < 0) continue;
    const auto part = logits.subspan((first + token) * columns, columns);
    result.insert(result.end(), part.begin(), part.end());
  }
  return result;
}

Dataset Session::read_rows(const std::vector<DataRow>& rows, LongIds long_ids) const {
  if (rows.empty()) throw_error(ErrorCode::kBadData, "a batch needs at least one row; pass rows");
  RowRules rules =
      row_rules(setup_.arguments, setup_.model.config, setup_.tokenizer, setup_.data.labels, "batch");
  rules.num_threads = 1;
  rules.long_ids = long_ids;
  rules.label_use = LabelUse::kOptional;
  if (rules.label_kind == LabelKind::kMaskedToken) {
    if (std::ranges::any_of(rows, [](const DataRow& row) { return !row.classes.empty(); })) {
      // The program masked the ids itself, and its classes are the tokens to predict.
      rules.label_kind = LabelKind::kClassPerToken;
      rules.num_labels = setup_.model.config.vocab_size;
    } else {
      rules.masking =
          masking_of(setup_.arguments, setup_.model.config, setup_.tokenizer, MaskSchedule::kEachEpoch);
    }
  }
  return make_dataset(rows, rules);
}

MicroBatch Session::batch_of(const Dataset& data, std::span<const int32_t> rows) const {
  const ProgramPlan& program = plan_.programs.at(plan_.trains() ? kTrainProgram : kEvaluateProgram);
  MicroBatch batch =
      make_micro_batch({.tensors = batch_tensors(program.graph), .capacity = size_of_batch(data, rows)});
  // Each batch gets masks of its own, as an epoch does.
  batch.info.position.epoch = num_batches_of_rows_++;
  assemble_batch(data, rows, batch);
  batch.info.position = {};
  batch.info.labels_in_step = batch.info.num_labels;
  return batch;
}

void Session::require_room(std::string_view program, const MicroBatch& batch, std::string_view action) const {
  if (!plan_.programs.contains(program)) {
    throw_error(ErrorCode::kUsage,
                "{}: the plan has no pass without gradients; give the Trainer validation or test rows, with "
                "--do_eval or "
                "--do_predict, or no training rows",
                action);
  }
  const Bucket& room = plan_.programs.at(program).bucket;
  const BatchSize& size = batch.size();
  if (size.tokens <= room.tokens && size.sequences <= room.sequences && size.longest <= room.longest) return;
  const bool is_train = program == kTrainProgram;
  throw_error(
      ErrorCode::kUsage,
      "{}: the batch has {} in {}, the longest of {}, but the plan has room for {} in {}, the longest of {}: "
      "make "
      "smaller batches, or construct the Trainer {}with larger --{} or --max_seq_length",
      action, counted(size.tokens, "token"), counted(size.sequences, "row"), size.longest, room.tokens,
      room.sequences, room.longest,
      setup_.data.train || setup_.data.evaluate || setup_.data.predict ? "without data sets and " : "",
      is_train ? "per_device_train_batch_size" : "per_device_eval_batch_size");
}

BatchOutputs Session::forward(const MicroBatch& batch) {
  const bool per_token = is_per_token(task_of(setup_.request.model.problem_type).labels);
  const int64_t num_rows = per_token ? batch.size().tokens : batch.size().sequences;
  BatchOutputs outputs;
  on_device(plan_, [&] {
    executor_->stage(kEvaluateProgram, batch.tensors,
                     static_cast<double>(std::max<int64_t>(1, batch.info.num_labels)));
    run_entries(plan_.evaluation_schedule, Repeat::kPerMicroBatch);
    executor_->fetch();
    outputs.loss = executor_->fetched("loss").load(0);
    if (!plan_.request.model.outputs_logits) return;
    const auto* logits = executor_->fetched("logits").as<float>();
    outputs.logits.assign(logits, logits + num_rows * setup_.model.config.num_outputs());
  });
  return outputs;
}

ModelContents Session::model_contents() const {
  ModelContents contents;
  contents.config_text = model_config_json(setup_.model.config);
  if (setup_.request.model.lora) {
    contents.adapter_config_text =
        adapter_config_json({.lora = *setup_.request.model.lora, .base_model = setup_.model.base_model},
                            setup_.model.config.model_type, *head_of(setup_.model.config).kind);
  }
  contents.tensors = weight_tensors(*executor_);
  contents.copied_files = tokenizer_files();
  return contents;
}

std::vector<CopiedFile> Session::tokenizer_files() const {
  if (setup_.tokenizer.folder.empty()) return {};
  const bool has_conversations = setup_.data.labels.kind == LabelKind::kNextToken;
  return copied_tokenizer_files(files_, setup_.tokenizer,
                                has_conversations ? setup_.arguments.chat_template : std::string());
}

MemoryFigures Session::memory() const {
  return {.predicted_total_bytes = plan_.total_bytes(),
          .arena_bytes = plan_.arena_bytes,
          .arena_high_water_bytes = executor_ ? executor_->high_water_bytes() : 0,
          .arena_written_bytes = executor_ ? executor_->written_bytes() : 0,
          .lower_bound_bytes = plan_.lower_bound_bytes,
          .constant_bytes = plan_.constant_bytes(),
          .measured_peak_bytes = plan_.is_on_gpu() ? gpu_used_bytes(plan_.request) - gpu_used_before_
                                                   : process_memory().peak_bytes};
}

}  // namespace plimsoll
