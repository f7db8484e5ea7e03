#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "base/check.h"
#include "metrics/metrics.h"
#include "tasks/task.h"
#include "train/device_work.h"
#include "train/session.h"
#include "train/speed.h"

namespace plimsoll {

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
  // Each rank measures its own speed. All ranks take the values of the first rank, so that decisions that depend on metrics are the
  // same on all of them.
  take_values_of_first_rank(metrics);
  return metrics;
}

namespace {

// States what an evaluation does if a logit is NaN or infinite. A run that trains logs a loss of NaN and continues, as Trainer does.
enum class NotFinite : uint8_t { kIsLogged, kIsAnError };

// The sums of losses and metrics over all batches of an evaluation. Batches are added in their order, so that rounding is repeatable.
struct EvaluationSums {
  // `own_metrics` are metrics that the calling program defines.
  EvaluationSums(const TaskRecord& task, const ModelConfig& model, const Dataset& evaluated,
                 std::span<const std::shared_ptr<Metric>> own_metrics, NotFinite on_not_finite)
      : data(evaluated),
        not_finite(on_not_finite),
        num_labels(model.num_labels),
        task_record(task),
        metrics(task.new_metric_sums(model.num_labels, model.id2label)),
        own(own_metrics) {
    for (const std::shared_ptr<Metric>& metric : own) metric->reset();
  }

  // Adds the outputs of a batch to the sums. `logits` contains the logits of the batch; it is empty if the program returns none.
  void add(const MicroBatch& batch, double loss, int64_t num_correct, std::span<const float> logits,
           std::vector<std::vector<float>>* all_logits) {
    const double weight = weight_of(task_record, batch);
    if (not_finite == NotFinite::kIsAnError) check_finite(batch, loss, logits);
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
      evaluated.num_correct = num_correct;
      metrics->add(evaluated);
      return;
    }
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

  // Checks the logits of a batch, or its loss if the program returns no logits. Errors: kNotFinite, naming the row.
  void check_finite(const MicroBatch& batch, double loss, std::span<const float> logits) const {
    const auto is_finite = [](float value) { return std::isfinite(value); };
    size_t sequence = 0;
    if (task_record.has_logits) {
      const auto bad = std::ranges::find_if_not(logits, is_finite);
      if (bad == logits.end()) return;
      const int64_t prediction = (bad - logits.begin()) / num_labels;
      const std::span<const int32_t> ends = batch.tensors.ints("cu_seqlens").subspan(1);
      sequence = is_per_token(task_record.labels)
                     ? static_cast<size_t>(std::ranges::upper_bound(ends, prediction) - ends.begin())
                     : static_cast<size_t>(prediction);
    } else if (batch.info.num_labels == 0 || std::isfinite(loss)) {
      return;
    }
    const size_t in_batch = std::min(sequence, batch.rows.size() - 1);
    throw_error(
        ErrorCode::kNotFinite,
        "the {} of row {} of {} are not finite: the weights, or the activations, contain NaN or infinite "
        "numbers. Check that training ended well; if it did, evaluate without --fp16_full_eval and "
        "--bf16_full_eval",
        task_record.has_logits ? "logits" : "losses", batch.rows[in_batch] + 1, data.num_rows());
  }

  // Returns the number of logits of a batch.
  int64_t num_logits(const MicroBatch& batch) const {
    if (!task_record.has_logits) return 0;
    const bool per_token = is_per_token(task_record.labels);
    return (per_token ? batch.size().tokens : batch.size().sequences) * num_labels;
  }

  // Returns the weight of a batch's mean loss in the mean loss of the evaluation: the number of its rows, as in Trainer. For language
  // models, whose programs return no logits, it is the number of labels (possibly zero), so that perplexity does not depend on how a
  // text is divided into rows.
  static double weight_of(const TaskRecord& task, const MicroBatch& batch) {
    return static_cast<double>(task.has_logits ? std::ssize(batch.rows) : batch.info.num_labels);
  }

  const Dataset& data;
  NotFinite not_finite;
  int64_t num_labels;
  const TaskRecord& task_record;
  std::unique_ptr<MetricSums> metrics;
  std::span<const std::shared_ptr<Metric>> own;
  double loss_sum = 0;  // sum of (mean loss of a batch) x (its weight, see weight_of()) over all batches
  double weight_sum = 0;
  int64_t num_rows_done = 0;
};

// The outputs of the batch that was copied to the host last. The logits are valid until the outputs of another batch are copied.
struct EvaluatedOutputs {
  EvaluatedOutputs(const EvaluationSums& sums, Executor& executor, const MicroBatch& batch)
      : loss(executor.fetched("loss").load(0)) {
    if (sums.task_record.has_logits) {
      logits = {executor.fetched("logits").as<float>(), static_cast<size_t>(sums.num_logits(batch))};
    } else {
      num_correct = static_cast<int64_t>(executor.fetched(std::string(kNumCorrect)).load(0));
    }
  }

  double loss = 0;
  int64_t num_correct = 0;
  std::span<const float> logits = {};
};

// Gathers the outputs of one batch per rank on all ranks.
class OutputExchange {
 public:
  // `most_logits` is the largest number of logits that a batch may have.
  OutputExchange(Communicator& communicator, int64_t most_logits)
      : communicator_(communicator),
        record_bytes_(kHeadBytes + static_cast<size_t>(most_logits) * sizeof(float)),
        own_(record_bytes_),
        all_(record_bytes_ * static_cast<size_t>(communicator.size())) {}

  void gather(const EvaluatedOutputs& outputs) {
    const double head[2] = {outputs.loss, static_cast<double>(outputs.num_correct)};
    std::memcpy(own_.data(), head, kHeadBytes);
    std::memcpy(own_.data() + kHeadBytes, outputs.logits.data(), outputs.logits.size_bytes());
    communicator_.all_gather(own_, all_);
  }
  // Sends the gathered outputs from the last pipeline stage to the other stages, which do not compute outputs.
  void share(Communicator& stages) { stages.broadcast(all_, stages.size() - 1); }
  double loss(size_t rank) const { return head(rank)[0]; }
  int64_t num_correct(size_t rank) const { return static_cast<int64_t>(head(rank)[1]); }
  std::span<const float> logits(size_t rank, int64_t count) const {
    const auto* first = reinterpret_cast<const float*>(all_.data() + rank * record_bytes_ + kHeadBytes);
    return {first, static_cast<size_t>(count)};
  }

 private:
  static constexpr size_t kHeadBytes = 2 * sizeof(double);
  std::array<double, 2> head(size_t rank) const {
    std::array<double, 2> head{};
    std::memcpy(head.data(), all_.data() + rank * record_bytes_, kHeadBytes);
    return head;
  }

  Communicator& communicator_;
  size_t record_bytes_;
  std::vector<std::byte> own_;
  std::vector<std::byte> all_;
};

// Returns the number by which the program divides the summed loss of a batch. The number is chosen so that the program returns the mean
// loss over the labels, multiplied by the weight of the batch (weight_of()).
double evaluation_denominator(const TaskRecord& task, const MicroBatch& batch) {
  return static_cast<double>(std::max<int64_t>(1, batch.info.num_labels)) /
         std::max(EvaluationSums::weight_of(task, batch), 1.0);
}

// Evaluates the batches of a loader one after the other and adds up their outputs.
class Evaluation {
 public:
  using Progress = std::function<void(int64_t, int64_t)>;
  using Start = std::function<void(const MicroBatch&)>;

  // `start` enqueues a batch on the device. Requires: all arguments outlive the object.
  Evaluation(const Plan& plan, Executor& executor, Loader& loader, EvaluationSums& sums, const Start& start,
             const Progress& progress, std::vector<std::vector<float>>* all_logits)
      : plan_(plan),
        executor_(executor),
        loader_(loader),
        sums_(sums),
        start_(start),
        progress_(progress),
        all_logits_(all_logits),
        layout_(layout_of(plan.programs.at(kEvaluateProgram))) {}

  // Evaluates all batches. On a GPU, the next batch is loaded and enqueued while the device computes the previous one. The outputs of the
  // previous batch are read afterwards.
  void run() {
    const size_t num_batches = executor_.runs_ahead() ? 2 : 1;
    std::vector<MicroBatch> batches = make_batches(num_batches);
    const MicroBatch* given = nullptr;
    for (size_t next = 0;; next = (next + 1) % batches.size()) {
      MicroBatch& batch = batches[next];
      if (!loader_.next(batch)) break;
      start_(batch);
      if (given != nullptr) read(*given);
      executor_.fetch();
      given = &batch;
      if (!executor_.runs_ahead()) read(*std::exchange(given, nullptr));
    }
    if (given != nullptr) read(*given);
  }

  // Runs the batches of this rank on a pipeline stage that is not the last one and therefore computes no outputs.
  void run_stage(const Communicator& data_ranks) {
    std::vector<MicroBatch> round = make_batches(static_cast<size_t>(data_ranks.size()));
    while (true) {
      size_t count = 0;
      while (count < round.size() && loader_.next(round[count])) ++count;
      if (count == 0) return;
      start_(round[std::min(static_cast<size_t>(data_ranks.rank()), count - 1)]);
      for (size_t i = 0; i < count; ++i) sums_.num_rows_done += std::ssize(round[i].rows);
      report();
    }
  }

  // Evaluates all batches with several ranks. With n ranks, each rank evaluates every n-th batch, and all ranks add up the outputs of all
  // batches in order, so that the result has the same bits as that of one rank. `stages` are the stages of a pipeline, to which the last
  // stage sends the outputs of each batch; null if no other stage reads them.
  void run(Communicator& communicator, Communicator* stages) {
    std::vector<MicroBatch> round = make_batches(static_cast<size_t>(communicator.size()));
    const bool per_token = is_per_token(sums_.task_record.labels);
    const int64_t most_rows = per_token ? layout_.capacity.tokens : layout_.capacity.sequences;
    OutputExchange exchange(communicator, sums_.task_record.has_logits ? most_rows * sums_.num_labels : 0);
    const bool has_outputs = stages == nullptr || stages->rank() + 1 == stages->size();
    while (true) {
      size_t count = 0;
      while (count < round.size() && loader_.next(round[count])) ++count;
      if (count == 0) break;
      // In the last round there may be fewer batches than ranks. A rank without a batch repeats the last batch of the round, which belongs
      // to another rank, and the outputs that it computes are ignored.
      const MicroBatch& own = round[std::min(static_cast<size_t>(communicator.rank()), count - 1)];
      start_(own);
      if (has_outputs) {
        executor_.fetch();
        on_device(plan_, [&] { exchange.gather(EvaluatedOutputs(sums_, executor_, own)); });
      }
      if (stages != nullptr) exchange.share(*stages);
      for (size_t i = 0; i < count; ++i) {
        sums_.add(round[i], exchange.loss(i), exchange.num_correct(i),
                  exchange.logits(i, sums_.num_logits(round[i])), all_logits_);
      }
      report();
    }
  }

 private:
  std::vector<MicroBatch> make_batches(size_t count) const {
    std::vector<MicroBatch> batches;
    batches.reserve(count);
    for (size_t i = 0; i < count; ++i) batches.push_back(make_micro_batch(layout_));
    return batches;
  }

  void read(const MicroBatch& batch) {
    on_device(plan_, [&] {
      const EvaluatedOutputs outputs(sums_, executor_, batch);
      sums_.add(batch, outputs.loss, outputs.num_correct, outputs.logits, all_logits_);
    });
    report();
  }

  void report() const {
    if (progress_) progress_(sums_.num_rows_done, sums_.data.num_rows());
  }

  const Plan& plan_;
  Executor& executor_;
  Loader& loader_;
  EvaluationSums& sums_;
  const Start& start_;
  const Progress& progress_;
  std::vector<std::vector<float>>* all_logits_;
  BatchLayout layout_;
};

}  // namespace

MetricMap Session::loss_and_metrics(const Dataset& data, std::vector<std::vector<float>>* all_logits,
                                    const std::function<void(int64_t, int64_t)>& progress) {
  const TaskRecord& task = task_of(setup_.request.model.problem_type);
  Sampler sampler(
      {.strategy = SamplingStrategy::kSequential, .batch_size = setup_.arguments.per_device_eval_batch_size},
      data.row_lengths(), data.row_sequences());
  Loader loader(data, std::move(sampler), layout_of(plan_.programs.at(kEvaluateProgram)),
                {.start = {}, .num_epochs = 1});
  std::span<const std::shared_ptr<Metric>> own_metrics;
  if (!data.labels.empty() && !setup_.arguments.prediction_loss_only) own_metrics = setup_.metrics;
  EvaluationSums sums(task, setup_.model.config, data, own_metrics,
                      plan_.request.train ? NotFinite::kIsLogged : NotFinite::kIsAnError);
  const Evaluation::Start start = [&](const MicroBatch& batch) {
    on_device(plan_, [&] {
      executor_->stage(kEvaluateProgram, batch.tensors, evaluation_denominator(task, batch));
      run_entries(evaluation_schedule(), Repeat::kPerMicroBatch);
    });
  };
  const auto metrics_of = [&](const Dataset& evaluated, EvaluationSums& done) {
    MetricMap metrics;
    if (evaluated.labels.empty()) return metrics;
    metrics["loss"] = done.loss_sum / std::max(done.weight_sum, 1.0);
    if (setup_.arguments.prediction_loss_only) return metrics;
    std::vector<std::string_view> names(setup_.data.metric_names.begin(), setup_.data.metric_names.end());
    if (names.empty()) names.assign(task.default_metrics.begin(), task.default_metrics.end());
    MetricList list = done.metrics->metrics(names);
    if (setup_.data.metric_names.size() > 1) add_combined_score(list);
    for (const auto& [name, value] : list) metrics[name] = value;
    for (const std::shared_ptr<Metric>& metric : own_metrics) {
      for (const auto& [name, value] : metric->values()) metrics[name] = value;
    }
    return metrics;
  };
  Evaluation evaluation(plan_, *executor_, loader, sums, start, progress, all_logits);
  if (communicator_ != nullptr) {
    Communicator& data_ranks = *options_.connections.of(MeshAxis::kData).ranks;
    // In a pipeline only the last stage computes outputs. Rank 0, which writes predictions, is in the first stage. Therefore, if the logits
    // are kept, the last stage sends the outputs of each batch to the other stages during the evaluation. The metrics are sent once, at the
    // end.
    const bool shares_outputs = plan_.is_pipelined() && all_logits != nullptr;
    if (shares_outputs || has_loss()) {
      evaluation.run(data_ranks, shares_outputs ? stages_.get() : nullptr);
    } else {
      evaluation.run_stage(data_ranks);
    }
  } else {
    evaluation.run();
  }
  MetricMap metrics;
  if (has_loss()) metrics = metrics_of(data, sums);
  if (plan_.is_pipelined()) take_metrics_of_last_stage(metrics);
  return metrics;
}

void Session::take_metrics_of_last_stage(MetricMap& metrics) {
  const RankMesh ranks = mesh();
  const int root = ranks.rank_at(ranks.pipeline_size - 1, 0, 0);
  const auto share = [&](auto& list) {
    uint64_t size = list.size();
    communicator_->broadcast(std::as_writable_bytes(std::span(&size, 1)), root);
    list.resize(size);
    communicator_->broadcast(std::as_writable_bytes(std::span(list)), root);
  };
  std::string names;
  std::vector<double> values;
  for (const auto& [name, value] : metrics) {
    names += name + "\n";
    values.push_back(value);
  }
  share(names);
  share(values);
  metrics.clear();
  size_t begin = 0;
  for (const double value : values) {
    const size_t end = names.find('\n', begin);
    metrics[names.substr(begin, end - begin)] = value;
    begin = end + 1;
  }
}

}  // namespace plimsoll
