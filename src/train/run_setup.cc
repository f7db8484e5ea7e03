#include "train/run_setup.h"

#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/counted.h"
#include "device/cpu/cpu_features.h"
#include "io/ckpt/checkpoint.h"
#include "io/data/loader.h"
#include "io/hub/hub_cache.h"
#include "models/lora_config.h"
#include "plan/search/budget.h"
#include "train/device_choice.h"
#include "train/host_memory.h"
#include "train/metrics.h"
#include "train/run_data.h"
#include "train/run_places.h"
#include "train/run_state.h"
#include "train/speed.h"
#include "train/tuning_cache.h"

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
    set_passes();
    find_adapter();
    find_model();
    set_adapter();
    set_base_weights();
    check_adapter_folder();
    find_tokenizer();
    check_length();
    if (!is_plan()) read_run_data(setup_, files_);
    set_labels();
    check_data_against_model();
    count_steps();
    check_best_metric();
    fill_request();
    return std::move(setup_);
  }

 private:
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
      throw Error(error.code(), fmt::format("{}\nPresets that need nothing of this: {}", error.what(),
                                            fmt::join(preset_names(), ", ")));
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

  // The folder of an adapter may stand in the place of the model's: it names its base.
  void find_adapter() {
    setup_.base_model = arguments_.model_name_or_path;
    const std::string& given = arguments_.adapter_name_or_path.empty() ? arguments_.model_name_or_path
                                                                       : arguments_.adapter_name_or_path;
    std::error_code ignored;
    if (given.empty() || (is_plan() && find_preset(given) && !fs::exists(given, ignored))) return;
    const bool is_named = !arguments_.adapter_name_or_path.empty();
    const std::string path = resolve(given, is_named ? kAdapterArgument : kModelArgument);
    if (!is_named && !files_.status(join_path(path, kAdapterConfigFile))) return;
    ModelFolder folder = ModelFolder::open(files_, path, WeightsNeeded::kNo);
    if (!folder.is_adapter()) {
      if (!is_named) return;
      throw_error(ErrorCode::kBadData,
                  "--adapter_name_or_path {}: it has no {}; a whole model is given as "
                  "--model_name_or_path",
                  given, kAdapterConfigFile);
    }
    const AdapterConfig config =
        parse_adapter_config(folder.adapter_config_text(), join_path(path, kAdapterConfigFile));
    if (!is_named || setup_.base_model.empty()) setup_.base_model = config.base_model;
    if (setup_.base_model.empty()) {
      throw_error(ErrorCode::kUsage,
                  "{}: the adapter does not say what its base model is: give --model_name_or_path BASE "
                  "--adapter_name_or_path {}",
                  given, given);
    }
    check_against_adapter(config.lora);
    setup_.request.lora = config.lora;
    setup_.adapter = std::move(folder);
  }

  // Settings beside an adapter say the same as it does.
  void check_against_adapter(const LoraConfig& lora) const {
    const auto differ = [&](const char* name, const auto& given, const auto& has) {
      throw_error(ErrorCode::kUsage,
                  "--{} {}: the adapter has {}; leave the setting out, or begin a new adapter", name, given,
                  has);
    };
    if (arguments_.lora_r && *arguments_.lora_r != lora.r) differ("lora_r", *arguments_.lora_r, lora.r);
    if (arguments_.lora_alpha && *arguments_.lora_alpha != lora.alpha)
      differ("lora_alpha", *arguments_.lora_alpha, lora.alpha);
    if (!arguments_.lora_target_modules.empty()) {
      StringList given = arguments_.lora_target_modules;
      std::sort(given.begin(), given.end());
      if (given != lora.target_modules)
        differ("lora_target_modules", fmt::format("{}", fmt::join(given, ",")),
               fmt::format("{}", fmt::join(lora.target_modules, ",")));
    }
  }

  // What of the adapter the model must know, and a new adapter's settings.
  void set_adapter() {
    if (setup_.adapter) {
      const auto head = setup_.adapter->find(std::string(kAdapterPrefix) + "classifier.weight");
      if (setup_.adapter->config_text().empty() && head.tensor != nullptr && head.tensor->shape.size() == 2 &&
          head.tensor->shape[0] != setup_.model.num_labels) {
        setup_.model.num_labels = head.tensor->shape[0];
        setup_.model.id2label.clear();
      }
      if (arguments_.lora_dropout > 0) setup_.request.lora->dropout = arguments_.lora_dropout;
      return;
    }
    if (!arguments_.lora_r) return;
    if (setup_.purpose == RunPurpose::kEvaluate || setup_.purpose == RunPurpose::kPredict) {
      throw_error(ErrorCode::kUsage,
                  "--lora_r {}: there is no adapter to evaluate; give --adapter_name_or_path FOLDER",
                  *arguments_.lora_r);
    }
    setup_.request.lora = LoraConfig{.r = *arguments_.lora_r,
                                     .alpha = arguments_.lora_alpha.value_or(8.0),
                                     .dropout = arguments_.lora_dropout,
                                     .target_modules = arguments_.lora_target_modules,
                                     .modules_to_save = arguments_.modules_to_save,
                                     .use_rslora = arguments_.use_rslora};
  }

  // How the base of adapters is held.
  void set_base_weights() {
    const bool is_asked = arguments_.load_in_4bit || arguments_.load_in_8bit;
    if (!is_asked) return;
    if (!setup_.request.lora) {
      throw_error(ErrorCode::kUsage,
                  "--load_in_{}bit: weights in {} bits are not trained; give --lora_r to train adapters "
                  "beside them, or "
                  "--adapter_name_or_path",
                  arguments_.load_in_4bit ? 4 : 8, arguments_.load_in_4bit ? 4 : 8);
    }
    LoraConfig& lora = *setup_.request.lora;
    lora.base_weights = arguments_.load_in_8bit                   ? BaseWeights::kInt8
                        : arguments_.bnb_4bit_quant_type == "fp4" ? BaseWeights::kFp4
                                                                  : BaseWeights::kNf4;
    lora.double_quant = arguments_.load_in_4bit && arguments_.bnb_4bit_use_double_quant;
  }

  // What is saved as an adapter takes the place of weights in its folder, and those of the base are needed.
  void check_adapter_folder() const {
    std::error_code ignored;
    if (setup_.purpose != RunPurpose::kTrain || !setup_.request.lora || !setup_.weights ||
        !fs::equivalent(setup_.weights->path(), arguments_.output_dir, ignored)) {
      return;
    }
    throw_error(
        ErrorCode::kUsage,
        "--output_dir {}: it is the folder of the base model, whose weights an adapter needs and would "
        "replace there; give the adapter a folder of its own",
        arguments_.output_dir);
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
    if (arguments_.label_smoothing_factor > 0 && setup_.labels.problem != ProblemType::kSingleLabel) {
      warn("--label_smoothing_factor has no effect here: it is for one label a row, and this is a " +
           std::string(problem_type_name(setup_.labels.problem)));
    }
    if (is_plan()) {
      setup_.labels.problem = !arguments_.problem_type.empty()
                                  ? *find_problem_type(arguments_.problem_type)
                                  : setup_.model.problem_type.value_or(ProblemType::kSingleLabel);
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
    setup_.model.problem_type = setup_.labels.problem;
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

  void count_steps() {
    setup_.sampler = {.strategy = parse_sampling_strategy(arguments_.train_sampling_strategy),
                      .seed = static_cast<uint64_t>(arguments_.data_seed.value_or(arguments_.seed)),
                      .batch_size = arguments_.per_device_train_batch_size,
                      .accumulation_steps = arguments_.gradient_accumulation_steps,
                      .last_batch = arguments_.dataloader_drop_last ? LastBatch::kDrop : LastBatch::kKeep};
    if (!setup_.train) return;
    const Sampler sampler(setup_.sampler, setup_.train->tokens.lengths());
    const int64_t accumulation = arguments_.gradient_accumulation_steps;
    setup_.rows_per_epoch = sampler.rows_per_epoch();
    setup_.batches_per_epoch = sampler.batches_per_epoch();
    setup_.steps_per_epoch =
        std::max<int64_t>(1, (setup_.batches_per_epoch + accumulation - 1) / accumulation);
    if (arguments_.max_steps > 0) {
      setup_.max_steps = arguments_.max_steps;
      setup_.num_epochs =
          static_cast<double>(arguments_.max_steps) / static_cast<double>(setup_.steps_per_epoch);
    } else {
      setup_.max_steps = static_cast<int64_t>(
          std::ceil(arguments_.num_train_epochs * static_cast<double>(setup_.steps_per_epoch)));
      setup_.num_epochs = arguments_.num_train_epochs;
    }
    const int64_t warmup = num_warmup_steps(arguments_, setup_.max_steps);
    if (warmup > 0 && setup_.max_steps <= warmup) {
      warn(fmt::format("{} {} not above the {}: the learning rate never reaches {}",
                       counted(setup_.max_steps, "optimizer step"), setup_.max_steps == 1 ? "is" : "are",
                       counted(warmup, "warm-up step"), arguments_.learning_rate));
    }
    const int64_t epochs = (setup_.max_steps + setup_.steps_per_epoch - 1) / setup_.steps_per_epoch;
    setup_.train_census = count_batches(sampler, epochs);
    // A row that one epoch's last batch drops comes in another's.
    setup_.train_census.largest.longest = setup_.train->tokens.longest();
    if (!setup_.train_census.is_exact) {
      note(fmt::format(
          "too many epochs to look at each batch: the plan has room for the largest that the data "
          "can make, {} tokens",
          setup_.train_census.largest.tokens));
    }
    if (goes_on_elsewhere()) plan_for_any_batch();
  }

  // The checkpoint that the run goes on from, if nothing is wrong with it; "" for none.
  std::string resumed_folder() const {
    try {
      return choose_checkpoint(files_, arguments_, VerifyDepth::kSizes).path;
    } catch (const Error&) {
      return {};  // a plan is made without it; a run was refused before
    }
  }

  // Whether a run goes on at a place whose batches are not those that a run from the start makes: with
  // another batch size, other data, or an epoch begun anew. What is wrong with the checkpoint is said when it
  // is read.
  bool goes_on_elsewhere() const {
    const std::string path = resumed_folder();
    if (path.empty()) return false;
    try {
      const RunState state = parse_run_state(open_checkpoint(files_, path).run_state_json, path);
      const Arguments& before = state.arguments;
      return arguments_.ignore_data_skip || state.data_rows != setup_.rows_per_epoch ||
             before.per_device_train_batch_size != arguments_.per_device_train_batch_size ||
             before.gradient_accumulation_steps != arguments_.gradient_accumulation_steps;
    } catch (const Error&) {
      return false;
    }
  }

  // Room for any batch at all: the longest rows in one.
  void plan_for_any_batch() {
    BatchSize& largest = setup_.train_census.largest;
    largest.tokens =
        largest_batch_tokens(setup_.train->tokens.lengths(), arguments_.per_device_train_batch_size);
    largest.sequences = std::min<int64_t>(setup_.train->num_rows(), arguments_.per_device_train_batch_size);
    note(
        fmt::format("the run goes on with other batches than those of its start: the plan has room for the "
                    "largest that the data can make, {} tokens",
                    largest.tokens));
  }

  // Refused before a step is done, not at the first evaluation.
  void check_best_metric() const {
    if (!setup_.train || !setup_.evaluate || arguments_.metric_for_best_model.empty()) return;
    std::vector<std::string> names{"loss"};
    if (!arguments_.prediction_loss_only) {
      const std::vector<std::string> metrics =
          setup_.metric_names.empty() ? default_metric_names(setup_.labels.problem) : setup_.metric_names;
      names.insert(names.end(), metrics.begin(), metrics.end());
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

  Bucket bucket_of(const BatchSize& size) const {
    return {.tokens = std::max<int64_t>(size.tokens, 1),
            .sequences = std::max<int64_t>(size.sequences, 1),
            .longest = std::max<int64_t>(size.longest, 1)};
  }

  Bucket evaluate_bucket() const {
    BatchSize largest;
    bool any = false;
    for (const std::optional<Dataset>* data :
         {&setup_.evaluate, &setup_.evaluate_mismatched, &setup_.predict, &setup_.predict_mismatched}) {
      if (!*data) continue;
      const Sampler sampler(
          {.strategy = SamplingStrategy::kSequential, .batch_size = arguments_.per_device_eval_batch_size},
          (*data)->tokens.lengths());
      const BatchSize size = count_batches(sampler, 1).largest;
      largest.tokens = std::max(largest.tokens, size.tokens);
      largest.sequences = std::max(largest.sequences, size.sequences);
      largest.longest = std::max(largest.longest, size.longest);
      any = true;
    }
    if (!any)
      largest = largest_batch_without_data(arguments_.per_device_eval_batch_size, max_seq_length(setup_));
    return bucket_of(largest);
  }

  // A name that is another setting already.
  void refuse_other_precisions(const PlanRequest& request) const {
    const std::string mixed = request.activation_dtype == DType::kF16    ? "fp16"
                              : request.activation_dtype == DType::kBF16 ? "bf16"
                                                                         : "";
    const std::string products =
        !mixed.empty() ? mixed : std::string(fp32_products_name(request.fp32_products));
    if (arguments_.matmul_precision == "auto" || arguments_.matmul_precision == products) return;
    const bool is_half = arguments_.matmul_precision == "bf16" || arguments_.matmul_precision == "fp16";
    throw_error(ErrorCode::kUsage,
                "--matmul_precision {}: {} matrix products read their inputs in {}; leave it out, or {}",
                arguments_.matmul_precision, mixed.empty() ? "without --bf16 and --fp16" : "with --" + mixed,
                products,
                is_half ? "give --" + arguments_.matmul_precision
                        : fmt::format("leave --{} out", mixed.empty() ? "tf32" : mixed));
  }

  // The documents' story of T5: activations that bf16 holds do not fit into fp16.
  void warn_of_bf16_checkpoint() {
    if (!arguments_.fp16 && !arguments_.fp16_full_eval) return;
    if (setup_.model.source_dtype != "bfloat16") return;
    warn(
        fmt::format("--{}: the model's config.json says that it was trained in bfloat16, whose range is that "
                    "of fp32; fp16 ends at "
                    "65504, so that activations may overflow and the loss become nan. Prefer --bf16{}",
                    arguments_.fp16 ? "fp16" : "fp16_full_eval", arguments_.fp16 ? "" : "_full_eval"));
  }

  // Numbers in file names give the order in which passes ran, over all programs: copies of the options share
  // it.
  void dump_passes_into(const std::string& folder, PassOptions& passes) {
    make_folders(files_, folder);
    passes.dump = [&files = files_, folder, count = std::make_shared<int>(0)](std::string_view pass,
                                                                              const std::string& text) {
      const auto file = files.create(fmt::format("{}/{:02}-{}.txt", folder, (*count)++, pass));
      file->write(std::as_bytes(std::span(text)));
      file->close();
    };
  }

  // Before the data is read, which may take long. A default that no run may ever write to is not looked at.
  void check_places() const {
    if (ends_with_plan()) return;
    if (arguments_.output_dir != Arguments().output_dir) check_output_dir(arguments_.output_dir);
    if (setup_.purpose == RunPurpose::kTrain) check_resume(files_, arguments_);
  }

  static void check_pass(const char* argument, const std::string& name,
                         const std::vector<std::string>& more) {
    std::vector<std::string> names = more;
    for (const PassInfo& info : all_passes()) names.emplace_back(info.name);
    if (std::ranges::find(names, name) != names.end()) return;
    throw_error(ErrorCode::kUsage, "--{} {}: there is no such pass; there are {}", argument, name,
                fmt::join(names, ", "));
  }

  void set_passes() {
    PassOptions& passes = setup_.request.passes;
    for (const std::string& pass : arguments_.disable_pass) {
      check_pass("disable_pass", pass, {});
      passes.disabled.insert(pass);
    }
    if (arguments_.stop_after_pass.empty()) return;
    check_pass("stop_after_pass", arguments_.stop_after_pass, {std::string(kStopAfterNone)});
    passes.stop_after = arguments_.stop_after_pass;
  }

  // A plan that says nothing of training and asks for 16-bit evaluation is one of evaluation.
  bool plans_full_evaluation() const {
    return (arguments_.bf16_full_eval || arguments_.fp16_full_eval) && !arguments_.do_train;
  }

  void fill_request() {
    PlanRequest& request = setup_.request;
    request.model = setup_.model;
    request.model_label = setup_.model_label;
    request.problem_type = setup_.labels.problem;
    request.label_smoothing = arguments_.label_smoothing_factor;
    request.train = setup_.purpose == RunPurpose::kTrain || (is_plan() && !plans_full_evaluation());
    request.evaluate = setup_.purpose != RunPurpose::kTrain || setup_.evaluate || setup_.predict;
    request.freeze = arguments_.freeze;
    request.optimizer = parse_optimizer(arguments_.optim, arguments_.optim_args);
    request.optimizer.beta1 = arguments_.adam_beta1;
    request.optimizer.beta2 = arguments_.adam_beta2;
    request.optimizer.epsilon = arguments_.adam_epsilon;
    request.optimizer.weight_decay = arguments_.weight_decay;
    request.optimizer.max_grad_norm = arguments_.max_grad_norm;
    request.optimizer.noise_seed = static_cast<uint64_t>(arguments_.seed);
    request.gradient_accumulation_steps = arguments_.gradient_accumulation_steps;
    request.train_bucket =
        bucket_of(setup_.train ? setup_.train_census.largest
                               : largest_batch_without_data(arguments_.per_device_train_batch_size,
                                                            max_seq_length(setup_)));
    request.evaluate_bucket = evaluate_bucket();
    choose_device(arguments_, setup_.asked, num_run_threads(arguments_), request, setup_.notes);
    refuse_other_precisions(request);
    warn_of_bf16_checkpoint();
    if (!arguments_.dump_passes.empty()) dump_passes_into(arguments_.dump_passes, request.passes);
    request.train_buckets = narrow<int>(train_buckets_used(setup_));
    request.host = estimate_host_memory(setup_);
    request.optimizer_in_backward = arguments_.optimizer_in_backward;
    request.recompute.policy =
        find_recompute_policy(arguments_.recompute).value_or(RecomputePolicy::kCheap);  // auto
    if (arguments_.recompute_budget && request.train && !request.passes.is_on("recompute")) {
      note(fmt::format("--recompute_budget chooses nothing: --stop_after_pass {} leaves recompute out",
                       request.passes.stop_after));
    } else if (arguments_.recompute_budget && request.train) {
      BudgetChoice found = choose_recompute(request, *arguments_.recompute_budget);
      request.recompute = std::move(found.best.choice);
      note(budget_words(found));
    }
    if (request.device == KernelDevice::kCuda) set_tuning();
  }

  // The algorithms of products: a run that goes on keeps those of its checkpoint, for the same bits; others
  // take what an earlier run of their kind measured, or measure.
  void set_tuning() {
    PlanRequest& request = setup_.request;
    if (const std::string folder = ends_with_plan() ? "" : resumed_folder(); !folder.empty()) {
      const std::string path = join_path(folder, kTuningFile);
      if (files_.status(path)) {
        request.tuning = read_tuning_table(files_, path, setup_.warnings);
        // On another kind of card its choices are worth nothing.
        const bool is_ours =
            request.tuning.empty() || request.tuning.card.find(request.gpu.product) != std::string::npos;
        if (is_ours) return;
        request.tuning = {};
      }
    }
    if (arguments_.full_determinism) return;
    const std::string folder = tuning_cache_folder(arguments_.tuning_cache, environment_);
    if (folder.empty()) return;
    setup_.tuning_file = join_path(folder, tuning_file_name(request));
    request.tuning = read_tuning_table(files_, setup_.tuning_file, setup_.warnings);
    request.measures_products = !ends_with_plan();
  }

  const Arguments& arguments_;
  const Environment& environment_;
  HubEnvironment hub_;
  FileSystem& files_;
  RunSetup setup_;
};

}  // namespace

int available_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

int num_run_threads(const Arguments& arguments) {
  return arguments.num_threads > 0 ? static_cast<int>(arguments.num_threads) : available_threads();
}

RunSetup prepare_run(const Arguments& arguments, RunPurpose purpose, const Environment& environment,
                     FileSystem& files) {
  return Setup(arguments, purpose, environment, files).build();
}

}  // namespace plimsoll
