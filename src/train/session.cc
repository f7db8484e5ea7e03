#include "train/session.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
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
#include "run/states_folder.h"
#include "run/tokenizer_source.h"
#include "tasks/task.h"
#include "train/device_work.h"
#include "train/rank_agreement.h"
#include "train/speed.h"
#include "train/weight_loading.h"

namespace plimsoll {

Session::Session(RunSetup setup, FileSystem& files, const ExecutorOptions& options)
    : setup_(std::move(setup)), files_(files), options_(options), plan_(build_plan(setup_.request)) {
  options_.gpu_ordinal = setup_.device.gpu_ordinal;
}

Session::~Session() = default;

std::string Session::allocate() {
  require_fit(plan_, setup_.spec(), setup_.plan_labels);
  require_free_memory(plan_, setup_.device.label);
  const RankPlace& place = setup_.place;
  require_states_folder(plan_, setup_.arguments, posix_file_system(), place.rank - place.local_rank,
                        place.local_size);
  if (plan_.disk_bytes > 0 && options_.disk.files == nullptr)
    options_.disk = {.files = &posix_file_system(), .path = states_file(setup_.arguments, place.rank)};
  gpu_used_before_ = gpu_used_bytes(plan_.request);
  connect();
  // The executor is stored in the session only after all the following steps have succeeded. If one of these steps throws, the memory of
  // the executor is freed.
  std::unique_ptr<Executor> executor;
  const std::string tuned = on_device(plan_, [&] {
    executor = std::make_unique<Executor>(plan_, options_);
    return measure_products(*executor);
  });
  if (setup_.arguments.profile) ceilings_ = executor->measure_ceilings();
  const std::string loaded = fill_weights(*executor);
  if (communicator_ != nullptr) {
    const RankFact weights = fact_of_weights(*executor, "give every process the same model files");
    require_equal_facts(*communicator_, {&weights, 1}, mesh());
  }
  executor->zero_states();
  if (plan_.host.checkpoint_bytes > 0 && checkpoint_buffer_.bytes().empty()) {
    checkpoint_buffer_ = CheckpointBuffer(plan_);
    // If the buffer for background saves could not be allocated on some rank, no rank saves in the background.
    if (is_true_on_any_rank(checkpoint_buffer_.bytes().empty())) checkpoint_buffer_ = {};
  }
  executor_ = std::move(executor);
  is_new_ = true;
  micro_batches_ = 0;
  std::string lines;
  for (const std::string& line : {tuned, loaded, describe_states_file()}) {
    if (!line.empty()) lines += (lines.empty() ? "" : "\n") + line;
  }
  return lines;
}

std::string Session::describe_states_file() const {
  const ScratchFile* file = executor_->disk_file();
  if (file == nullptr || file->is_direct()) return {};
  return fmt::format(
      "the file system of '{}' refuses direct transfers (O_DIRECT), so that optimizer states pass through "
      "the page cache of Linux, which takes memory and time; a folder on ext4 or XFS avoids that",
      file->path());
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

void Session::connect() {
  if (setup_.place.is_alone() || communicator_ != nullptr) return;
  const std::chrono::seconds timeout(setup_.arguments.ddp_timeout);
  CommunicatorOptions options{.operation_timeout = timeout, .program = hash_of_program(files_)};
  // --ddp_timeout, if the user sets it, also limits the time for connecting the ranks. Otherwise this limit is the default of
  // connect_timeout, which is shorter than that for operations between ranks.
  if (has_own_ddp_timeout(setup_.arguments)) options.connect_timeout = timeout;
  communicator_ = connect_ranks(setup_.place, options);
  options_.connections.ranks = communicator_.get();
  require_equal_settings(*communicator_, setup_.arguments);
  require_equal_facts(*communicator_, facts_of_run(setup_, plan_), mesh());
  connect_axes();
  RankConnections& connections = options_.connections;
  if (!plan_.is_on_gpu()) return;
  connect_gpus_along(connections.data, plan_.request.ranks.maps_peers);
  connect_gpus_along(connections.tensor, plan_.request.ranks.tensor_maps_peers);
  connect_gpus_along(connections.pipeline, plan_.request.ranks.pipeline_maps_peers);
  connect_gpus_along(connections.ends, plan_.request.ranks.pipeline_maps_peers);
  connect_messages_of_stages();
}

void Session::connect_gpus_along(AxisConnections& axis, bool maps_peers) {
  if (axis.ranks == nullptr || axis.ranks->size() == 1) return;
  on_device(plan_, [&] {
    const int ordinal = setup_.device.gpu_ordinal;
    const std::string& uuid = plan_.request.device.gpu.uuid;
    if (maps_peers) {
      axis.peers = peers_.emplace_back(connect_peers(*axis.ranks, ordinal, uuid)).get();
    } else {
      axis.gpus = gpu_communicators_.emplace_back(connect_gpus(*axis.ranks, ordinal, uuid)).get();
    }
  });
}

void Session::connect_messages_of_stages() {
  if (plan_.request.ranks.pipeline_size == 1 || plan_.request.ranks.pipeline_maps_peers) return;
  message_ranks_ = communicator_->group(mesh().group_of(setup_.place.rank, MeshAxis::kPipeline));
  on_device(plan_, [&] { messages_ = connect_messages(*message_ranks_, setup_.device.gpu_ordinal); });
  options_.connections.pipeline.messages = messages_.get();
}

void Session::connect_axes() {
  const RankMesh ranks = mesh();
  RankConnections& connections = options_.connections;
  connections.data.ranks = communicator_.get();
  if (ranks.tensor_size == 1 && ranks.pipeline_size == 1) return;
  const int rank = setup_.place.rank;
  const auto group_along = [&](MeshAxis axis) { return communicator_->group(ranks.group_of(rank, axis)); };
  data_ranks_ = group_along(MeshAxis::kData);
  connections.data.ranks = data_ranks_.get();
  if (ranks.tensor_size > 1) {
    tensor_ranks_ = group_along(MeshAxis::kTensor);
    connections.tensor.ranks = tensor_ranks_.get();
  }
  if (ranks.pipeline_size == 1) return;
  stages_ = group_along(MeshAxis::kPipeline);
  connections.pipeline.ranks = stages_.get();
  if (ranks.stage(rank) > 0 && ranks.stage(rank) + 1 < ranks.pipeline_size) return;
  end_stages_ = group_along(MeshAxis::kEnds);
  connections.ends.ranks = end_stages_.get();
}

void Session::sum_over_ranks(std::span<double> numbers) {
  if (communicator_ != nullptr) communicator_->all_reduce({numbers.data(), DType::kF64}, std::ssize(numbers));
}

void Session::sum_over_data_ranks(std::span<double> numbers) {
  if (communicator_ == nullptr) return;
  options_.connections.of(MeshAxis::kData)
      .ranks->all_reduce({numbers.data(), DType::kF64}, std::ssize(numbers));
}

bool Session::is_true_on_any_rank(bool flag) {
  double count = flag ? 1 : 0;
  sum_over_ranks({&count, 1});
  return count > 0;
}

void Session::take_values_of_first_rank(MetricMap& metrics) {
  if (communicator_ == nullptr) return;
  std::vector<double> values;
  for (const auto& [key, value] : metrics) values.push_back(value);
  communicator_->broadcast(std::as_writable_bytes(std::span(values)), 0);
  size_t i = 0;
  for (auto& [key, value] : metrics) value = values[i++];
}

void Session::require_equal_on_ranks(std::span<const RankFact> facts) {
  if (communicator_ != nullptr) require_equal_facts(*communicator_, facts, mesh());
}

std::vector<std::string> Session::gather_texts(const std::string& own) {
  if (communicator_ == nullptr) return {own};
  return plimsoll::gather_texts(*communicator_, own);
}

void Session::wait_for_ranks() {
  if (communicator_ != nullptr) communicator_->barrier();
}

void Session::begin_phase(RankPhase phase, int64_t step,
                          std::optional<std::chrono::milliseconds> longest_wait) {
  if (communicator_ != nullptr) communicator_->progress().begin(phase, step, longest_wait);
}

void Session::begin_anew() {
  if (is_new_) return;
  executor_->zero_states();
  micro_batches_ = 0;
  is_new_ = true;
}

std::string Session::measure_products(Executor& executor) {
  if (communicator_ == nullptr) return measure_products_here(executor);
  std::string text;
  // The matrix products differ between pipeline stages. The first rank of each stage measures them for all ranks of the stage.
  for (int64_t stage = 0; stage < plan_.request.ranks.pipeline_size; ++stage) {
    const int root = mesh().rank_at(static_cast<int>(stage), 0, 0);
    const bool is_root = setup_.place.rank == root;
    if (is_root) text = measure_products_here(executor);
    if (!plan_.is_on_gpu()) continue;
    std::string table = tuning_table_json(plan_.request.products.tuning);
    uint64_t size = table.size();
    communicator_->broadcast(std::as_writable_bytes(std::span(&size, 1)), root);
    table.resize(size);
    communicator_->broadcast(std::as_writable_bytes(std::span(table)), root);
    if (!is_root)
      plan_.request.products.tuning =
          parse_tuning_table(table, fmt::format("the tuning table of rank {}", root));
  }
  return text;
}

std::string Session::measure_products_here(Executor& executor) {
  if (!setup_.measures_products) return {};
  const size_t known = plan_.request.products.tuning.products.size();
  const auto start = std::chrono::steady_clock::now();
  TuningTable table = executor.measure_products();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const bool changed = !(table == plan_.request.products.tuning);
  plan_.request.products.tuning = std::move(table);
  const std::string hash = to_hex(tuning_table_hash(plan_.request.products.tuning));
  const std::string& file = setup_.tuning_file;
  if (!changed)
    return fmt::format(
        "matrix products: the algorithms of all {} shapes were measured before, read from {} (hash {})",
        known, file, hash);
  const std::string fault = keep_tuning_table(files_, file, plan_.request.products.tuning);
  return fmt::format(
      "matrix products: the algorithms of {} shapes were measured in {:.1f} s and are kept in {} (hash {}){}",
      plan_.request.products.tuning.products.size(), seconds, file, hash,
      fault.empty() ? "" : "\nwarning: " + fault);
}

MicroBatch Session::make_batch() const {
  PLIMSOLL_CHECK(setup_.data.train, "batches of training data need a training set, but this run has none");
  return make_micro_batch(layout_of(plan_.programs.at(kTrainProgram)));
}

void Session::start_batches(DataPosition position, int64_t num_epochs) {
  PLIMSOLL_CHECK(setup_.data.train, "batches of training data need a training set, but this run has none");
  loader_ = std::make_unique<Loader>(
      *setup_.data.train,
      Sampler(setup_.sampler, setup_.data.train->row_lengths(), setup_.data.train->row_sequences()),
      layout_of(plan_.programs.at(kTrainProgram)),
      LoaderOptions{
          .num_workers = static_cast<int>(setup_.arguments.dataloader_num_workers),
          .prefetch_factor = static_cast<int>(setup_.arguments.dataloader_prefetch_factor.value_or(2)),
          .start = position,
          .num_epochs = num_epochs,
          .rank = mesh().data_rank(setup_.place.rank),
          .num_ranks = mesh().data_size()});
}

bool Session::next_batch(MicroBatch& batch) {
  PLIMSOLL_CHECK(loader_ != nullptr, "start_batches() must be called before next_batch()");
  return loader_->next(batch);
}

void Session::run_entries(const std::vector<ScheduleEntry>& schedule, Repeat repeat) {
  for (const ScheduleEntry& entry : schedule) {
    if (entry.repeat != repeat) continue;
    PLIMSOLL_CHECK(entry.delay == 0,
                   "the pipeline schedule delays this segment of the step, so it cannot run alone; call "
                   "run_micro_batch()");
    executor_->run(entry.program, entry.segment);
  }
}

void Session::run_micro_batch(const ScheduledRun& run, const MicroBatch& batch, double denominator,
                              int64_t number) {
  is_new_ = false;
  const int64_t slot = plan_.programs.at(run.program).slot_of(run.micro_batch, run.chunk);
  stage(batch, denominator, number, {.slot = slot, .chunk = run.chunk});
  executor_->set_accumulate(run.micro_batch > 0);
  executor_->run(run.program, run.segment);
}

void Session::start_forward_backward(const MicroBatch& batch, double denominator, bool first_of_step) {
  is_new_ = false;
  stage(batch, denominator, micro_batches_);
  micro_batches_ += batch.info.batches_of_ranks;
  executor_->set_accumulate(!first_of_step);
  run_entries(plan_.step_schedule, Repeat::kPerMicroBatch);
}

// Ranks with different batches must draw different random numbers, namely those that a single rank would draw for these batches. If
// this rank has no batch left and repeats another rank's batch, the loss is divided by infinity, so that loss and gradients are zero.
void Session::stage(const MicroBatch& batch, double denominator, int64_t number, PassOfMicroBatch pass) {
  const int64_t own = batch.info.contributes ? number + mesh().data_rank(setup_.place.rank) : number;
  executor_->stage(kTrainProgram, batch.tensors,
                   batch.info.contributes ? denominator : std::numeric_limits<double>::infinity(), pass);
  executor_->set_random(static_cast<uint64_t>(setup_.arguments.seed), own);
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
  // Finding the first value that is not finite needs another forward pass. With ZeRO stage 3 this pass would have to gather weights
  // from the other ranks, which are already executing the next part of the step.
  if (plan_.request.ranks.zero_stage == ZeroStage::kWeights)
    return "unknown, because the processes divide the weights (--zero_stage 3)";
  if (plan_.is_pipelined()) return "unknown, because other processes computed the layers before (--pp_size)";
  stage(batch, denominator, number);
  return executor_->first_bad_value();
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
      // The calling program has already masked the token ids; its labels are the tokens to predict.
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
  // The random masks of a batch depend on the epoch. A counter of batches is used as the epoch here, so that each batch
  // gets different masks.
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
    run_entries(evaluation_schedule(), Repeat::kPerMicroBatch);
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
