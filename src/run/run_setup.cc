#include "run/run_setup.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "arguments/argument_table.h"
#include "base/units.h"
#include "device/cpu/parallel.h"
#include "io/data/table_reader.h"
#include "io/hub/hub_cache.h"
#include "metrics/metrics.h"
#include "plan/request/request_of.h"
#include "run/caches.h"
#include "run/corpus.h"
#include "run/device_choice.h"
#include "run/label_choice.h"
#include "run/rank_environment.h"
#include "run/run_length.h"
#include "run/run_request.h"
#include "run/stored_weights.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

HubEnvironment hub_of(const Arguments& arguments, const Environment& environment) {
  HubEnvironment hub = hub_environment(environment);
  if (!arguments.cache_dir.empty()) hub.hf_hub_cache = arguments.cache_dir;
  return hub;
}

// Checks the folders of a run before its data is read, which may take long. The default output folder is not checked, because a run may
// never write into it.
void check_folders(const Arguments& arguments, RunPurpose purpose, FileSystem& files) {
  if (ends_with_plan(purpose, arguments)) return;
  if (arguments.output_dir != Arguments().output_dir) check_output_dir(arguments.output_dir);
  if (purpose == RunPurpose::kTrain) check_resume(files, arguments);
}

// Reports arguments without effect. The number of threads is not checked for a plan, which may be for another machine. Errors: kUsage for
// more threads than OpenMP can start.
void check_arguments(const Arguments& arguments, RunPurpose purpose, Diagnostics& diagnostics) {
  if (purpose == RunPurpose::kTrain || is_generation(purpose)) {
    const RunCommand command = purpose == RunPurpose::kTrain ? RunCommand::kTrain : RunCommand::kGenerate;
    for (std::string& text : idle_notes(arguments, command)) diagnostics.note(std::move(text));
  }
  if (!is_plan(purpose) && arguments.num_threads > thread_limit()) {
    throw_error(ErrorCode::kUsage,
                "--num_threads {}: the variable OMP_THREAD_LIMIT allows only {} in this process; give "
                "--num_threads {}, or unset the variable",
                arguments.num_threads, thread_limit(), thread_limit());
  }
  if (!is_plan(purpose) && arguments.num_threads > available_threads()) {
    diagnostics.warn(
        fmt::format("--num_threads {} is more than the {} that this process may use: threads wait for each "
                    "other, and a run is slower than with {}",
                    arguments.num_threads, counted(available_threads(), "processor"), available_threads()));
  }
}

void warn_of_label_smoothing(const Arguments& arguments, const LabelScheme& labels,
                             Diagnostics& diagnostics) {
  if (arguments.label_smoothing_factor > 0 && !task_of(labels.kind).has_label_smoothing) {
    diagnostics.warn(
        "--label_smoothing_factor has no effect here: label smoothing needs one class per row or token, and "
        "the problem type of this run is " +
        std::string(problem_type_name(task_of(labels.kind).problem_type)));
  }
}

// Completes the model's configuration with labels and with the names of the columns of its data files, which are known after the data has
// been read.
void complete_config(RunSetup& setup) {
  ModelConfig& config = setup.model.config;
  if (!setup.reads_data()) setup.data.labels = planned_labels(setup.arguments, config);
  config = with_labels(std::move(config), setup.arguments, setup.data.labels, setup.data_use);
  if (setup.model.adapter)
    check_adapter_head(setup.model.adapter_head, setup.model.adapter->path(),
                       task_of(setup.data.labels.kind).problem_type);
  if (!setup.reads_data()) return;
  if (setup.data.predict && !task_of(setup.data.labels.kind).has_logits) {
    throw_error(ErrorCode::kUsage,
                "a language model predicts no labels, so --test_file and --do_predict have no result; leave "
                "them out, or compute its perplexity with `plimsoll eval --validation_file FILE`");
  }
  warn_of_label_smoothing(setup.arguments, setup.data.labels, setup.diagnostics);
  if (is_training(setup.purpose)) {
    config.source.json = with_trained_columns(config.source.json, setup.data.columns);
  }
  if (setup.data.train && !setup.data.label_column.empty()) {
    warn_of_odd_labels(setup.data.labels, setup.data.label_column, *setup.data.train, setup.diagnostics);
  }
}

// Returns the names of the metrics that an evaluation of this data reports, without the prefix "eval_" and without the metrics that the
// calling program defines.
std::vector<std::string> evaluation_metrics(const Arguments& arguments, const DataSets& data) {
  std::vector<std::string> names{"loss"};
  if (!arguments.prediction_loss_only) {
    const auto by_default = task_of(data.labels.kind).default_metrics;
    if (data.metric_names.empty()) {
      names.insert(names.end(), by_default.begin(), by_default.end());
    } else {
      names.insert(names.end(), data.metric_names.begin(), data.metric_names.end());
    }
    if (data.metric_names.size() > 1) names.emplace_back("combined_score");
  }
  for (const char* speed : {"runtime", "samples_per_second", "steps_per_second"}) names.emplace_back(speed);
  return names;
}

// Checks the names of the metrics that the calling program defines.
void check_own_metrics(const std::vector<std::shared_ptr<Metric>>& metrics, std::vector<std::string> taken) {
  for (const std::shared_ptr<Metric>& metric : metrics) {
    if (!metric)
      throw_error(ErrorCode::kUsage,
                  "TrainerParts::metrics contains a null pointer; pass a Metric in every element");
    std::string name = metric->name();
    const bool is_word = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
    if (!is_word) {
      throw_error(
          ErrorCode::kUsage,
          "a metric has the name '{}': a name consists of letters, digits and '_', as in top2_accuracy",
          name);
    }
    if (std::ranges::find(taken, name) != taken.end()) {
      throw_error(ErrorCode::kUsage, "two metrics of this run have the name '{}': rename one of them", name);
    }
    taken.push_back(std::move(name));
  }
}

// Checks --metric_for_best_model now, so that a wrong name is not noticed only at the first evaluation.
void check_best_metric(const Arguments& arguments, const DataSets& data, std::vector<std::string> names,
                       const std::vector<std::shared_ptr<Metric>>& own) {
  if (!data.train || !data.evaluate || arguments.metric_for_best_model.empty()) return;
  const bool has_other_names =
      std::ranges::any_of(own, [](const auto& metric) { return !metric->has_fixed_names(); });
  if (has_other_names && !arguments.prediction_loss_only) return;
  for (size_t i = 0; i < own.size() && !arguments.prediction_loss_only; ++i) names.push_back(own[i]->name());
  const size_t num_names = names.size();
  for (size_t i = 0; data.evaluate_mismatched && i < num_names; ++i)
    names.push_back(std::string(names[i]).append(kMismatchedSuffix));
  std::string wanted = arguments.metric_for_best_model;
  if (wanted.starts_with("eval_")) wanted.erase(0, 5);
  if (std::find(names.begin(), names.end(), wanted) != names.end()) return;
  throw_error(ErrorCode::kUsage,
              "--metric_for_best_model {}: the evaluation has no such metric; it has eval_{}",
              arguments.metric_for_best_model, fmt::join(names, ", eval_"));
}

// Returns the rank of this process, and sets the arguments that state the number of ranks. Errors: as rank_place(); kUsage if the arguments
// ask for other numbers of ranks than were started, or if the number of ranks per machine cannot be the same on all machines.
RankPlace place_of_run(Arguments& arguments, const Environment& environment) {
  RankPlace place = rank_place(environment);
  require_equal_machines(place);
  if (num_ranks(arguments) > 1 && num_ranks(arguments) != place.size) {
    throw_error(
        ErrorCode::kUsage,
        "--nproc_per_node {} --nnodes {} asks for {}, but the environment describes {}: start one "
        "process per rank with torchrun, srun or mpirun, or on one machine with --nproc_per_node alone",
        arguments.nproc_per_node, arguments.nnodes, counted(num_ranks(arguments), "rank"), place.size);
  }
  arguments.nproc_per_node = place.local_size;
  arguments.nnodes = place.size / arguments.nproc_per_node;
  return place;
}

// Users set NCCL_P2P_DISABLE=1 where direct access between GPUs is slow or faulty. Mapped memory uses the same access, so the ranks then
// exchange data through NCCL, which copies it through host memory.
void obey_nccl_p2p_disable(const Environment& environment, int64_t num_ranks, DeviceOptions& device,
                           Diagnostics& diagnostics) {
  if (!device.is_gpu() || !device.gpu.maps_peers || !disables_nccl_p2p(environment)) return;
  device.gpu.maps_peers = false;
  if (num_ranks > 1) {
    diagnostics.note(
        "NCCL_P2P_DISABLE is set, so the GPUs do not access each other's memory: they exchange data through "
        "NCCL and host memory");
  }
}

}  // namespace

RunSetup prepare_run(const Arguments& given, RunPurpose purpose, const Environment& environment,
                     FileSystem& files, const TrainerParts& parts) {
  RunSetup setup{.arguments = given, .purpose = purpose, .metrics = parts.metrics};
  if (purpose == RunPurpose::kTrain && !ends_with_plan(purpose, given))
    setup.place = place_of_run(setup.arguments, environment);
  const Arguments& arguments = setup.arguments;
  Diagnostics& diagnostics = setup.diagnostics;
  check_folders(arguments, purpose, files);
  check_arguments(arguments, purpose, diagnostics);
  set_passes(arguments, setup.passes);
  // The device is chosen first, so that arguments that it does not support are reported before data is read, which may take long.
  setup.device =
      choose_device(arguments, purpose, setup.place, num_run_threads(arguments), diagnostics.notes);
  obey_nccl_p2p_disable(environment, num_ranks(arguments), setup.device.options, diagnostics);
  check_device_arguments(arguments, setup.device.options, is_training(purpose));
  const HubEnvironment hub = hub_of(arguments, environment);
  setup.model = find_model(arguments, purpose, hub, files);
  if (!setup.model.task_note.empty()) diagnostics.note(setup.model.task_note);
  const std::string tokenizer = find_tokenizer_folder(arguments, purpose, setup.model, hub, files);
  setup.data_use = choose_data_use(arguments, purpose, setup.model.config, tokenizer, files, diagnostics);
  const bool reads_text = setup.data_use == DataUse::kReads && arguments.dataset_name != "dummy";
  if (reads_text) {
    try {
      setup.tokenizer = load_tokenizer(tokenizer, arguments, setup.model.config);
    } catch (const Error& error) {
      if (!parts.data && find_token_id_rows(arguments) == TokenIdRows::kNone) throw;
      setup.tokenizer.missing = error;
    }
  }
  warn_of_cut_length(arguments, setup.model.config, diagnostics);
  note_arguments_of_other_tasks(arguments, setup.model.config, diagnostics);
  if (setup.reads_data()) {
    setup.data = read_data({.arguments = arguments,
                            .purpose = purpose,
                            .data_use = setup.data_use,
                            .model = setup.model,
                            .tokenizer = setup.tokenizer,
                            .device = setup.device.options.kind,
                            .parts = parts},
                           files, diagnostics);
  }
  complete_config(setup);
  check_data_against_model(setup.data, setup.model.config);
  setup.sampler = sampler_options(arguments);
  if (setup.data.train) setup.steps = count_steps(arguments, purpose, *setup.data.train, files, diagnostics);
  const std::vector<std::string> metric_names = evaluation_metrics(arguments, setup.data);
  check_own_metrics(setup.metrics, metric_names);
  if (!setup.metrics.empty() && setup.data.evaluate && !task_of(setup.data.labels.kind).has_logits) {
    throw_error(ErrorCode::kUsage,
                "the evaluation of a language model computes no logits, which metrics of the program and "
                "--save_logits need; omit them: loss, perplexity and accuracy are reported without them");
  }
  check_best_metric(arguments, setup.data, metric_names, setup.metrics);
  if (is_training(purpose)) {
    if (std::string text = describe_accumulated_batch(arguments, setup.steps.length.max_steps); !text.empty())
      diagnostics.note(std::move(text));
  }
  fill_request(setup, environment, files);
  return setup;
}

TaskChoice task_of_file(const Arguments& arguments, const Environment& environment, FileSystem& files) {
  if (arguments.train_file.empty() || !arguments.problem_type.empty()) return {};
  const ModelSource model = find_model(arguments, RunPurpose::kPlan, hub_of(arguments, environment), files);
  if (model.config.problem_type && record_of(*model.config.problem_type).head->predicts_tokens)
    return {.problem_type = model.config.problem_type, .note = model.task_note};
  // find_model() returns a note about the task but no problem type if the training file has labels, so that the language model of the
  // checkpoint becomes the base of a classifier.
  if (!model.task_note.empty() && !model.config.problem_type)
    return {.problem_type = ProblemType::kSingleLabel, .note = model.task_note};
  const std::string extension = data_extension(arguments.train_file);
  if (extension == ".conll" || extension == ".conllu")
    return {.problem_type = ProblemType::kTokenClassification, .note = {}};
  return {};
}

RunSetup prepare_generation(const Arguments& arguments, RunPurpose purpose, const Environment& environment,
                            FileSystem& files, const std::function<GenerationSizes(const RunSetup&)>& size) {
  RunSetup setup{.arguments = arguments, .purpose = purpose};
  Diagnostics& diagnostics = setup.diagnostics;
  check_arguments(arguments, setup.purpose, diagnostics);
  set_passes(arguments, setup.passes);
  setup.device = choose_device(arguments, setup.purpose, {}, num_run_threads(arguments), diagnostics.notes);
  check_device_arguments(arguments, setup.device.options, is_training(setup.purpose));
  const HubEnvironment hub = hub_of(arguments, environment);
  setup.model = find_model(arguments, setup.purpose, hub, files);
  ModelConfig& config = setup.model.config;
  if (config.problem_type && !config.predicts_tokens()) {
    throw_error(
        ErrorCode::kUsage,
        "{} is a model for {}, which generates no text; give a model whose class ends with ForCausalLM "
        "or LMHeadModel",
        setup.model.label, record_of(*config.problem_type).head->description);
  }
  setup.data_use = DataUse::kNone;
  setup.data.labels = planned_labels(arguments, config);
  config = with_labels(std::move(config), arguments, setup.data.labels, setup.data_use);
  const bool draws_prompts = arguments.dataset_name == "dummy";
  if (!draws_prompts && !arguments.dataset_name.empty()) {
    throw_error(
        ErrorCode::kUsage,
        "--dataset_name {}: generate takes its prompts from the command line or from --prompt_file, and "
        "only the random prompts of --dataset_name dummy from a data set; omit it",
        arguments.dataset_name);
  }
  if (!draws_prompts && !is_plan(purpose)) {
    setup.tokenizer = load_tokenizer(find_tokenizer_folder(arguments, setup.purpose, setup.model, hub, files),
                                     arguments, config);
  }
  setup.generation = size(setup);
  fill_request(setup, environment, files);
  return setup;
}

}  // namespace plimsoll
