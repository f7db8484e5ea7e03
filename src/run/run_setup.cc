#include "run/run_setup.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "arguments/idle.h"
#include "base/counted.h"
#include "io/hub/hub_cache.h"
#include "metrics/metrics.h"
#include "plan/request/request_of.h"
#include "run/adapter_choice.h"
#include "run/checkpoint_choice.h"
#include "run/data_sets.h"
#include "run/device_choice.h"
#include "run/run_length.h"
#include "run/run_request.h"
#include "run/threads.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

class Setup {
 public:
  Setup(const Arguments& arguments, RunPurpose purpose, const Environment& environment, FileSystem& files)
      : arguments_(arguments), environment_(environment), hub_(hub_environment(environment)), files_(files) {
    if (!arguments.cache_dir.empty()) hub_.hf_hub_cache = arguments.cache_dir;
    setup_.arguments = arguments;
    setup_.purpose = purpose;
    setup_.asked = arguments.dry_run ? RunPurpose::kPlan : purpose;
  }

  RunSetup build() && {
    check_places();
    remark_arguments();
    set_passes(arguments_, setup_.passes);
    choose_run_device();
    find_adapter(setup_, hub_, files_);
    find_model();
    set_adapter(setup_);
    set_base_weights(setup_);
    check_adapter_folder(setup_);
    find_tokenizer();
    check_length();
    if (!is_plan()) read_run_data(setup_, files_);
    set_labels();
    check_data_against_model();
    count_steps(setup_, files_);
    check_best_metric();
    fill_request(setup_, environment_, files_);
    return std::move(setup_);
  }

 private:
  // The device is chosen first, so that arguments that it refuses are reported before data is read.
  void choose_run_device() {
    setup_.device = choose_device(arguments_, setup_.asked, num_run_threads(arguments_), setup_.notes);
    const bool trains = setup_.purpose == RunPurpose::kTrain || setup_.purpose == RunPurpose::kPlan;
    check_device_arguments(arguments_, setup_.device.options, trains);
  }

  bool is_plan() const { return setup_.purpose == RunPurpose::kPlan; }
  // Also of a plan that reads data, and of --dry_run.
  bool ends_with_plan() const { return setup_.asked == RunPurpose::kPlan; }
  void warn(std::string text) { setup_.warnings.push_back(std::move(text)); }

  std::string resolve(const std::string& name, const FolderArgument& argument) const {
    return resolve_model_folder(files_, hub_, name, arguments_.model_revision, argument);
  }

  // A config.json stands for its folder.
  std::string config_name() const {
    const fs::path given(arguments_.config_name);
    std::error_code ignored;
    if (given.filename() != "config.json" || !fs::is_regular_file(given, ignored)) return given.string();
    return given.has_parent_path() ? given.parent_path().string() : ".";
  }

  std::string resolve_config() const {
    try {
      return resolve(config_name(), kConfigArgument);
    } catch (const Error& error) {
      const std::vector<std::string> presets = preset_names();
      throw Error(error.code(), fmt::format("{}\nPresets that need nothing of this: {}{}", error.what(),
                                            fmt::join(presets, ", "),
                                            did_you_mean(config_name(), {presets.begin(), presets.end()})));
    }
  }

  void find_model() {
    const std::string& name = setup_.base_model;
    if (name.empty() && arguments_.config_name.empty()) {
      throw_error(ErrorCode::kUsage,
                  "no model: give --model_name_or_path FOLDER (weights, config.json, tokenizer) or "
                  "--config_name NAME (a "
                  "preset such as bert-base-uncased, or a folder with config.json) to start from scratch");
    }
    if (!name.empty()) {
      std::error_code ignored;
      const auto preset = find_preset(name);
      if (is_plan() && preset && !fs::exists(name, ignored)) {
        setup_.model = *preset;
      } else {
        setup_.weights = ModelFolder::open(files_, resolve(name, kModelArgument),
                                           is_plan() ? WeightsNeeded::kNo : WeightsNeeded::kYes);
        const ModelFolder& source =
            setup_.adapter && !setup_.adapter->config_text().empty() ? *setup_.adapter : *setup_.weights;
        setup_.model = parse_model_config(source.config_text(), source.path() + "/config.json");
      }
      setup_.model_label = name;
    }
    if (!arguments_.config_name.empty()) {
      const auto preset = find_preset(arguments_.config_name);
      std::error_code ignored;
      if (preset && !fs::exists(arguments_.config_name, ignored)) {
        setup_.model = *preset;
      } else {
        const ModelFolder folder = ModelFolder::open(files_, resolve_config(), WeightsNeeded::kNo);
        setup_.model = parse_model_config(folder.config_text(), folder.path() + "/config.json");
      }
      if (setup_.model_label.empty()) setup_.model_label = config_name();
    }
    std::string overrides;
    for (const auto& [key, value] : arguments_.config_overrides)
      overrides += fmt::format("{}{}={}", overrides.empty() ? "" : ",", key, value);
    apply_config_overrides(setup_.model, overrides);
    // Completion in a shell leaves a slash behind.
    while (setup_.model_label.size() > 1 && setup_.model_label.ends_with('/')) setup_.model_label.pop_back();
    setup_.model_label = fs::path(setup_.model_label).filename().string();
  }

  // An adapter that carries a tokenizer was trained with it.
  std::string tokenizer_folder_of_model() const {
    const bool has_own = setup_.adapter && !setup_.adapter->tokenizer_files().empty();
    return has_own ? setup_.adapter->path() : setup_.weights->path();
  }

  void note(std::string text) { setup_.notes.push_back(std::move(text)); }

  bool names_training_data() const {
    return !arguments_.train_file.empty() ||
           (!arguments_.dataset_name.empty() && !arguments_.task_name.empty());
  }

  // With data and a tokenizer a plan is that of the run; otherwise it says what it takes for granted.
  void read_data_for_plan(const std::string& tokenizer_folder) {
    const std::string given = !arguments_.train_file.empty()        ? "--train_file"
                              : !arguments_.validation_file.empty() ? "--validation_file"
                              : !arguments_.test_file.empty()       ? "--test_file"
                              : names_training_data()               ? "--dataset_name"
                                                                    : "";
    if (given.empty()) return;
    const std::string instead = fmt::format("the plan is for batches of {} of {}",
                                            counted(arguments_.per_device_train_batch_size, "text"),
                                            counted(max_seq_length(setup_), "token"));
    if (!names_training_data()) {
      note(fmt::format("{} is not read, a plan without --train_file reads no data: {}", given, instead));
    } else if (tokenizer_folder.empty() || find_tokenizer_files(files_, tokenizer_folder).empty()) {
      note(fmt::format("{} is not read for want of a tokenizer (--tokenizer_name FOLDER): {}", given,
                       instead));
    } else {
      setup_.purpose = RunPurpose::kTrain;
    }
  }

  void find_tokenizer() {
    if (arguments_.dataset_name == "dummy") {
      // Random ids are made at once, so a plan of them is that of the run.
      if (is_plan()) setup_.purpose = RunPurpose::kTrain;
      return;
    }
    std::string folder = !arguments_.tokenizer_name.empty() && !(is_plan() && !names_training_data())
                             ? resolve(arguments_.tokenizer_name, kTokenizerArgument)
                         : setup_.weights && !setup_.base_model.empty() ? tokenizer_folder_of_model()
                                                                        : std::string();
    if (is_plan()) read_data_for_plan(folder);
    if (is_plan()) return;
    if (folder.empty()) {
      throw_error(ErrorCode::kUsage,
                  "no tokenizer: with --config_name alone give --tokenizer_name FOLDER too");
    }
    setup_.tokenizer = Tokenizer::load(folder);
    setup_.tokenizer_folder = folder;
    if (setup_.tokenizer->max_id() >= setup_.model.vocab_size) {
      throw_error(
          ErrorCode::kBadData,
          "{}: the tokenizer has the id {}, but the model's vocab_size is {}: they do not belong together. "
          "Take the "
          "tokenizer that came with the model, or train from scratch with --config_overrides vocab_size=N",
          folder, setup_.tokenizer->max_id(), setup_.model.vocab_size);
    }
  }

  void check_length() {
    const bool is_dummy = arguments_.dataset_name == "dummy";
    const int64_t given = is_dummy ? arguments_.dummy_seq_length : arguments_.max_seq_length;
    const int64_t by_default = is_dummy ? Arguments{}.dummy_seq_length : Arguments{}.max_seq_length;
    if (given <= setup_.model.max_position_embeddings) return;
    warn(fmt::format("--{} {}{} is more than the model has positions for; texts are cut to {}",
                     is_dummy ? "dummy_seq_length" : "max_seq_length", given,
                     given == by_default ? ", the default," : "",
                     counted(setup_.model.max_position_embeddings, "token")));
  }

  void set_labels() {
    if (arguments_.label_smoothing_factor > 0 && !task_of(setup_.labels.kind).has_label_smoothing) {
      warn("--label_smoothing_factor has no effect here: it is for one label a row, and this is a " +
           std::string(problem_type_name(task_of(setup_.labels.kind).problem_type)));
    }
    if (is_plan()) {
      const TaskRecord& task = !arguments_.problem_type.empty()
                                   ? parse_task(arguments_.problem_type)
                                   : task_of(setup_.model.problem_type.value_or(ProblemType::kSingleLabel));
      setup_.labels.kind = task.labels;
      setup_.model.num_labels = arguments_.num_labels.value_or(setup_.model.num_labels);
      return;
    }
    if (arguments_.num_labels.value_or(setup_.labels.num_labels) != setup_.labels.num_labels) {
      throw_error(ErrorCode::kUsage, "--num_labels {}: the data and the model have {}; leave it out",
                  *arguments_.num_labels, setup_.labels.num_labels);
    }
    const std::vector<std::string> names = setup_.labels.names_by_id();
    setup_.model.num_labels = setup_.labels.num_labels;
    setup_.model.id2label = names;
    setup_.model.problem_type = task_of(setup_.labels.kind).problem_type;
    if (setup_.train && setup_.train->num_rows() >= 20 && 2 * std::ssize(names) > setup_.train->num_rows()) {
      warn(fmt::format(
          "{} labels for {} rows: is '{}' the column of the labels? Name it with --label_column_name",
          names.size(), setup_.train->num_rows(), setup_.label_column));
    }
    if (setup_.train && !setup_.train->labels.classes.empty()) {
      const LabelBalance balance = label_balance(setup_.train->labels, setup_.labels.num_labels);
      if (balance.majority_share > 0.9) {
        warn(fmt::format(
            "{:.0f} % of the training rows have the label '{}': a model that always says so is right as "
            "often",
            100.0 * balance.majority_share,
            names.empty() ? std::to_string(balance.majority) : names[static_cast<size_t>(balance.majority)]));
      }
    }
  }

  void check_data_against_model() const {
    for (const std::optional<Dataset>* data : {&setup_.train, &setup_.evaluate, &setup_.evaluate_mismatched,
                                               &setup_.predict, &setup_.predict_mismatched}) {
      if (!*data) continue;
      if ((*data)->num_rows() == 0) throw_error(ErrorCode::kBadData, "a data file has a header but no rows");
      if ((*data)->tokens.max_id() >= setup_.model.vocab_size) {
        throw_error(ErrorCode::kBadData, "the data has the token id {}, the model's vocab_size is {}",
                    (*data)->tokens.max_id(), setup_.model.vocab_size);
      }
    }
  }

  // Refused before a step is done, not at the first evaluation.
  void check_best_metric() const {
    if (!setup_.train || !setup_.evaluate || arguments_.metric_for_best_model.empty()) return;
    std::vector<std::string> names{"loss"};
    if (!arguments_.prediction_loss_only) {
      const auto by_default = task_of(setup_.labels.kind).default_metrics;
      if (setup_.metric_names.empty()) {
        names.insert(names.end(), by_default.begin(), by_default.end());
      } else {
        names.insert(names.end(), setup_.metric_names.begin(), setup_.metric_names.end());
      }
      if (setup_.metric_names.size() > 1) names.emplace_back("combined_score");
    }
    for (const char* speed : {"runtime", "samples_per_second", "steps_per_second"}) names.emplace_back(speed);
    const size_t num_names = names.size();
    for (size_t i = 0; setup_.evaluate_mismatched && i < num_names; ++i)
      names.push_back(std::string(names[i]).append(kMismatchedSuffix));
    std::string wanted = arguments_.metric_for_best_model;
    if (wanted.starts_with("eval_")) wanted.erase(0, 5);
    if (std::find(names.begin(), names.end(), wanted) != names.end()) return;
    throw_error(ErrorCode::kUsage,
                "--metric_for_best_model {}: the evaluation has no such metric; it has eval_{}",
                arguments_.metric_for_best_model, fmt::join(names, ", eval_"));
  }

  // Before the data is read, which may take long. A default that no run may ever write to is not looked at.
  void check_places() const {
    if (ends_with_plan()) return;
    if (arguments_.output_dir != Arguments().output_dir) check_output_dir(arguments_.output_dir);
    if (setup_.purpose == RunPurpose::kTrain) check_resume(files_, arguments_);
  }

  // A plan alone may be for another machine.
  void remark_arguments() {
    if (setup_.purpose == RunPurpose::kTrain) {
      for (std::string& text : idle_notes(arguments_)) note(std::move(text));
    }
    if (!is_plan() && arguments_.num_threads > available_threads()) {
      warn(fmt::format(
          "--num_threads {} is more than the {} that this process may use: threads wait for each "
          "other, and a run is slower than with {}",
          arguments_.num_threads, counted(available_threads(), "processor"), available_threads()));
    }
  }

  const Arguments& arguments_;
  const Environment& environment_;
  HubEnvironment hub_;
  FileSystem& files_;
  RunSetup setup_;
};

}  // namespace

RunSetup prepare_run(const Arguments& arguments, RunPurpose purpose, const Environment& environment,
                     FileSystem& files) {
  return Setup(arguments, purpose, environment, files).build();
}

}  // namespace plimsoll
