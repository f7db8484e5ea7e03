#include "run/run_request.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <span>

#include "device/cuda/cuda_device.h"
#include "device/monitor/nvml.h"
#include "plan/search/budget.h"
#include "run/calibration_cache.h"
#include "run/captured_buckets.h"
#include "run/checkpoint_choice.h"
#include "run/data_sets.h"
#include "run/device_choice.h"
#include "run/gpu_constant_cache.h"
#include "run/host_memory.h"
#include "run/threads.h"
#include "run/tuning_cache.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

Bucket bucket_of(const BatchSize& size) {
  return {.tokens = std::max<int64_t>(size.tokens, 1),
          .sequences = std::max<int64_t>(size.sequences, 1),
          .longest = std::max<int64_t>(size.longest, 1)};
}

Bucket evaluate_bucket(const RunSetup& setup) {
  BatchSize largest;
  bool any = false;
  for (const std::optional<Dataset>* data :
       {&setup.evaluate, &setup.evaluate_mismatched, &setup.predict, &setup.predict_mismatched}) {
    if (!*data) continue;
    const Sampler sampler(
        {.strategy = SamplingStrategy::kSequential, .batch_size = setup.arguments.per_device_eval_batch_size},
        (*data)->tokens.lengths());
    const BatchSize size = count_batches(sampler, 1).largest;
    largest.tokens = std::max(largest.tokens, size.tokens);
    largest.sequences = std::max(largest.sequences, size.sequences);
    largest.longest = std::max(largest.longest, size.longest);
    any = true;
  }
  if (!any)
    largest = largest_batch_without_data(setup.arguments.per_device_eval_batch_size, max_seq_length(setup));
  return bucket_of(largest);
}

// A name that is another setting already.
void refuse_other_precisions(const Arguments& arguments, const PlanRequest& request) {
  const std::string mixed = request.precision.activation_dtype == DType::kF16    ? "fp16"
                            : request.precision.activation_dtype == DType::kBF16 ? "bf16"
                                                                                 : "";
  const std::string products =
      !mixed.empty() ? mixed : std::string(fp32_products_name(request.precision.fp32_products));
  if (arguments.matmul_precision == "auto" || arguments.matmul_precision == products) return;
  const bool is_half = arguments.matmul_precision == "bf16" || arguments.matmul_precision == "fp16";
  throw_error(ErrorCode::kUsage,
              "--matmul_precision {}: {} matrix products read their inputs in {}; leave it out, or {}",
              arguments.matmul_precision, mixed.empty() ? "without --bf16 and --fp16" : "with --" + mixed,
              products,
              is_half ? "give --" + arguments.matmul_precision
                      : fmt::format("leave --{} out", mixed.empty() ? "tf32" : mixed));
}

// The documents' story of T5: activations that bf16 holds do not fit into fp16.
void warn_of_bf16_checkpoint(RunSetup& setup) {
  const Arguments& arguments = setup.arguments;
  if (!arguments.fp16 && !arguments.fp16_full_eval) return;
  if (setup.model.source.dtype != "bfloat16") return;
  setup.warnings.push_back(
      fmt::format("--{}: the model's config.json says that it was trained in bfloat16, whose range is that "
                  "of fp32; fp16 ends at "
                  "65504, so that activations may overflow and the loss become nan. Prefer --bf16{}",
                  arguments.fp16 ? "fp16" : "fp16_full_eval", arguments.fp16 ? "" : "_full_eval"));
}

// Numbers in file names give the order in which passes ran, over all programs: copies of the options share
// it.
void dump_passes_into(FileSystem& files, const std::string& folder, PassOptions& passes) {
  make_folders(files, folder);
  passes.dump = [&files, folder, count = std::make_shared<int>(0)](std::string_view pass,
                                                                   const std::string& text) {
    const auto file = files.create(fmt::format("{}/{:02}-{}.txt", folder, (*count)++, pass));
    file->write(std::as_bytes(std::span(text)));
    file->close();
  };
}

void check_pass(const char* argument, const std::string& name, const std::vector<std::string>& more) {
  std::vector<std::string> names = more;
  for (const PassInfo& info : all_passes()) names.emplace_back(info.name);
  if (std::ranges::find(names, name) != names.end()) return;
  throw_error(ErrorCode::kUsage, "--{} {}: there is no such pass; there are {}", argument, name,
              fmt::join(names, ", "));
}

// A plan that says nothing of training and asks for 16-bit evaluation is one of evaluation.
bool plans_full_evaluation(const Arguments& arguments) {
  return (arguments.bf16_full_eval || arguments.fp16_full_eval) && !arguments.do_train;
}

// Of the card at hand what `plimsoll bench --calibrate` measured on it.
void take_measured_constant(RunSetup& setup, const Environment& environment, FileSystem& files) {
  PlanRequest& request = setup.request;
  if (request.device.kind != KernelDevice::kCuda || request.device.gpu.uuid.empty()) return;
  const std::vector<CudaDeviceInfo> devices = visible_cuda_devices();
  take_gpu_constant(devices.at(static_cast<size_t>(request.executor.gpu_ordinal)).name,
                    Nvml::installed().driver_version(), program_build(), environment, files,
                    request.device.gpu, setup.warnings);
}

// The algorithms of products: a run that goes on keeps those of its checkpoint, for the same bits; others
// take what an earlier run of their kind measured, or measure.
void set_tuning(RunSetup& setup, const Environment& environment, FileSystem& files) {
  const Arguments& arguments = setup.arguments;
  const bool ends_with_plan = setup.asked == RunPurpose::kPlan;
  PlanRequest& request = setup.request;
  if (const std::string folder = ends_with_plan ? "" : resumable_checkpoint(files, arguments);
      !folder.empty()) {
    const std::string path = join_path(folder, kTuningFile);
    if (files.status(path)) {
      request.products.tuning = read_tuning_table(files, path, setup.warnings);
      // On another kind of card its choices are worth nothing.
      const bool is_ours = request.products.tuning.empty() ||
                           request.products.tuning.card.find(request.device.gpu.product) != std::string::npos;
      if (is_ours) return;
      request.products.tuning = {};
    }
  }
  if (arguments.full_determinism) return;
  const std::string folder = tuning_cache_folder(arguments.tuning_cache, environment);
  if (folder.empty()) return;
  setup.tuning_file = join_path(folder, tuning_file_name(request));
  request.products.tuning = read_tuning_table(files, setup.tuning_file, setup.warnings);
  request.executor.measures_products = !ends_with_plan;
}

// What of the forward pass the backward pass computes again.
void choose_what_runs_again(RunSetup& setup) {
  const Arguments& arguments = setup.arguments;
  PlanRequest& request = setup.request;
  const bool is_selective = arguments.recompute == "selective";
  request.recompute.policy =
      find_recompute_policy(arguments.recompute).value_or(RecomputePolicy::kCheap);  // auto, selective
  if (!request.train || (!is_selective && !arguments.recompute_budget)) return;
  const std::string asked = is_selective
                                ? "--recompute selective"
                                : fmt::format("--recompute_budget {:.1f} MiB",
                                              static_cast<double>(*arguments.recompute_budget) / (1 << 20));
  if (!request.passes.is_on("recompute")) {
    setup.notes.push_back(fmt::format("{} chooses nothing: --stop_after_pass {} leaves recompute out", asked,
                                      request.passes.stop_after));
    return;
  }
  BudgetChoice found =
      is_selective ? choose_selective(request) : choose_recompute(request, *arguments.recompute_budget);
  request.recompute = std::move(found.best.choice);
  setup.notes.push_back(describe_budget_choice(found, asked));
}

}  // namespace

void set_passes(const Arguments& arguments, PassOptions& passes) {
  for (const std::string& pass : arguments.disable_pass) {
    check_pass("disable_pass", pass, {});
    passes.disabled.insert(pass);
  }
  if (arguments.stop_after_pass.empty()) return;
  check_pass("stop_after_pass", arguments.stop_after_pass, {std::string(kStopAfterNone)});
  passes.stop_after = arguments.stop_after_pass;
}

void fill_request(RunSetup& setup, const Environment& environment, FileSystem& files) {
  const Arguments& arguments = setup.arguments;
  PlanRequest& request = setup.request;
  request.model.config = setup.model;
  request.labels.model = setup.model_label;
  request.model.problem_type = task_of(setup.labels.kind).problem_type;
  request.model.label_smoothing = arguments.label_smoothing_factor;
  request.chunked_loss = arguments.chunked_loss == "always" ? ChunkedLoss::kAlways
                         : arguments.chunked_loss == "auto" ? ChunkedLoss::kAuto
                                                            : ChunkedLoss::kNever;
  request.train = setup.purpose == RunPurpose::kTrain ||
                  (setup.purpose == RunPurpose::kPlan && !plans_full_evaluation(arguments));
  request.evaluate = setup.purpose != RunPurpose::kTrain || setup.evaluate || setup.predict;
  if (request.chunked_loss != ChunkedLoss::kNever && request.train &&
      !task_of(request.model.problem_type).has_chunked_loss) {
    setup.warnings.push_back("--chunked_loss has no effect here: it is for one label a row, and this is a " +
                             std::string(problem_type_name(request.model.problem_type)));
  }
  request.model.freeze = arguments.freeze;
  request.update.optimizer = parse_optimizer(arguments.optim, arguments.optim_args);
  request.update.optimizer.beta1 = arguments.adam_beta1;
  request.update.optimizer.beta2 = arguments.adam_beta2;
  request.update.optimizer.epsilon = arguments.adam_epsilon;
  request.update.optimizer.weight_decay = arguments.weight_decay;
  request.update.optimizer.max_grad_norm = arguments.max_grad_norm;
  request.update.optimizer.noise_seed = static_cast<uint64_t>(arguments.seed);
  request.batches.accumulation_steps = arguments.gradient_accumulation_steps;
  request.batches.train = bucket_of(
      setup.train ? setup.train_census.largest
                  : largest_batch_without_data(arguments.per_device_train_batch_size, max_seq_length(setup)));
  request.batches.evaluate = evaluate_bucket(setup);
  choose_device(arguments, setup.asked, num_run_threads(arguments), request, setup.notes);
  take_measured_constant(setup, environment, files);
  refuse_other_precisions(arguments, request);
  warn_of_bf16_checkpoint(setup);
  if (!arguments.dump_passes.empty()) dump_passes_into(files, arguments.dump_passes, request.passes);
  if (request.device.kind == KernelDevice::kCuda) {
    request.captured_buckets =
        captured_buckets(counted_run(setup), request.batches.train, request.batches.evaluate);
  }
  request.host = estimate_host_memory(setup);
  if (arguments.dataset_name == "dummy") {
    request.labels.length_argument = "--dummy_seq_length";
    request.labels.shorter_effect = "shorter sequences";
  }
  request.update.in_backward = arguments.optimizer_in_backward;
  if (request.device.kind == KernelDevice::kCpu) {
    request.cpu_calibration = read_calibration(arguments.calibration, request.device.num_threads, environment,
                                               files, setup.warnings);
  }
  choose_what_runs_again(setup);
  if (request.device.kind == KernelDevice::kCuda) set_tuning(setup, environment, files);
}

}  // namespace plimsoll
