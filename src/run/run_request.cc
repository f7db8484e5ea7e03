#include "run/run_request.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>

#include "device/cuda/cuda_device.h"
#include "device/monitor/host.h"
#include "device/monitor/nvml.h"
#include "plan/request/request_of.h"
#include "plan/search/budget.h"
#include "run/caches.h"
#include "run/captured_buckets.h"
#include "run/data_sets.h"
#include "run/states_folder.h"
#include "run/stored_weights.h"
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
  for (const std::optional<Dataset>* data : {&setup.data.evaluate, &setup.data.evaluate_mismatched,
                                             &setup.data.predict, &setup.data.predict_mismatched}) {
    if (!*data) continue;
    const Sampler sampler(
        {.strategy = SamplingStrategy::kSequential, .batch_size = setup.arguments.per_device_eval_batch_size},
        (*data)->row_lengths(), (*data)->row_sequences());
    const BatchSize size = count_batches(sampler, 1).largest;
    largest.tokens = std::max(largest.tokens, size.tokens);
    largest.sequences = std::max(largest.sequences, size.sequences);
    largest.longest = std::max(largest.longest, (*data)->tokens.longest());
    any = true;
  }
  if (!any)
    largest = largest_batch_without_data(setup.arguments.per_device_eval_batch_size,
                                         max_seq_length(setup.arguments, setup.model.config));
  return bucket_of(largest);
}

// Makes passes write their graphs into numbered files. All copies of the options have one counter, so that a file's number shows when its
// pass ran, counted over the passes of all programs.
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
  throw_error(ErrorCode::kUsage, "--{} {}: no pass has this name; the passes are {}", argument, name,
              fmt::join(names, ", "));
}

// Uses the GPU constant (the memory that a process needs in addition to its arena) that `plimsoll bench --calibrate` measured on this
// card.
void take_measured_constant(RunSetup& setup, const Environment& environment, FileSystem& files) {
  GpuTarget& gpu = setup.device.options.gpu;
  if (setup.device.options.kind != KernelDevice::kCuda || gpu.uuid.empty()) return;
  const std::vector<CudaDeviceInfo> devices = visible_cuda_devices();
  take_gpu_constant(devices.at(static_cast<size_t>(setup.device.gpu_ordinal)).name,
                    Nvml::installed().driver_version(), program_build(), environment, files, gpu,
                    setup.diagnostics.warnings);
}

// Returns the measured times of exchanges between the ranks of the run. Returns none if the run is only planned for a GPU model that this
// machine need not have.
LinkCalibration link_calibration_of(RunSetup& setup, const Environment& environment, FileSystem& files) {
  const Arguments& arguments = setup.arguments;
  const DeviceOptions& device = setup.device.options;
  if (num_ranks(arguments) == 1 || (device.is_gpu() && device.gpu.uuid.empty())) return {};
  LinkCalibration key{.host = host_name(),
                      .num_ranks = static_cast<int>(num_ranks(arguments)),
                      .num_hosts = static_cast<int>(arguments.nnodes)};
  key.device = device.is_gpu() ? visible_cuda_devices().at(static_cast<size_t>(setup.device.gpu_ordinal)).name
                               : calibrated_cpu();
  return read_link_calibration(arguments.link_calibration, key, environment, files,
                               setup.diagnostics.warnings);
}

// Sets the algorithms of matrix products on a GPU. A run that resumes uses those of its checkpoint, so that it computes the same bits.
// Other runs use the table that an earlier run with the same matrix products stored, or measure the algorithms.
void set_tuning(RunSetup& setup, const Environment& environment, FileSystem& files) {
  const Arguments& arguments = setup.arguments;
  const bool only_plans = ends_with_plan(setup.purpose, arguments);
  PlanRequest& request = setup.request;
  if (const std::string folder = only_plans ? "" : resumable_checkpoint(files, arguments); !folder.empty()) {
    const std::string path = join_path(folder, kTuningFile);
    if (files.status(path)) {
      request.products.tuning = read_tuning_table(files, path, setup.diagnostics.warnings);
      // A tuning table that was measured on another GPU model is not used.
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
  request.products.tuning = read_tuning_table(files, setup.tuning_file, setup.diagnostics.warnings);
  setup.measures_products = !only_plans;
}

// Chooses what the backward pass recomputes, if the arguments require a search for this choice.
void choose_recomputation(RunSetup& setup) {
  const RunSpec run = setup.spec();
  if (!setup.request.train || recompute_chosen(run) == RecomputeChosen::kByPolicy) return;
  const std::string asked = recompute_argument(run.arguments);
  if (!setup.passes.is_on("recompute")) {
    setup.diagnostics.note(fmt::format("{} has no effect: --stop_after_pass {} leaves out the pass recompute",
                                       asked, setup.passes.stop_after));
    return;
  }
  BudgetChoice found = choose_recompute_of(run, setup.request, setup.plan_labels);
  setup.facts.recompute = setup.request.recompute = found.best.choice;
  setup.diagnostics.note(describe_budget_choice(found, asked));
}

// Returns the pipeline stage of this rank. Numbers of ranks that cannot be divided into stages are refused later.
int64_t stage_of(const RankPlace& place, const Arguments& arguments) {
  const int64_t per_stage = num_ranks(arguments) / arguments.pp_size;
  return per_stage > 0 ? std::min<int64_t>(place.rank / per_stage, arguments.pp_size - 1) : 0;
}

RunFacts facts_of(RunSetup& setup, const Environment& environment, FileSystem& files) {
  const Arguments& arguments = setup.arguments;
  const DeviceOptions& device = setup.device.options;
  RunFacts facts{.model = setup.model.config,
                 .problem_type = task_of(setup.data.labels.kind).problem_type,
                 .adapter = setup.model.adapter_facts,
                 .passes = setup.passes,
                 .device = device};
  const bool trains_on_data = is_training(setup.purpose) && setup.reads_data();
  facts.train = trains_on_data || (!setup.reads_data() && !plans_full_evaluation(arguments));
  // Without training data the calling program passes single batches, to train or to evaluate, so the plan needs both
  // programs.
  facts.evaluate = !trains_on_data || setup.data.evaluate || setup.data.predict || !setup.data.train;
  facts.train_bucket = bucket_of(
      setup.data.train ? setup.steps.census.largest
                       : largest_batch_without_data(arguments.per_device_train_batch_size,
                                                    max_seq_length(setup.arguments, setup.model.config)));
  // A prediction returns the logits of each batch to the caller.
  facts.predicts = setup.purpose == RunPurpose::kPredict;
  facts.evaluate_bucket = evaluate_bucket(setup);
  if (is_generation(setup.purpose)) {
    facts.train = facts.evaluate = false;
    facts.generation = setup.generation;
  }
  if (setup.data.train) facts.lengths = SequenceLengths::kAsInBatch;
  facts.ranks.stage = stage_of(setup.place, arguments);
  facts.host = host_facts(setup, facts.train_bucket);
  facts.calibrations.disk = read_disk_rates(arguments, environment, files, setup.diagnostics.warnings);
  facts.calibrations.links = link_calibration_of(setup, environment, files);
  if (device.kind == KernelDevice::kCuda) {
    facts.captured.buckets = captured_buckets(counted_run(setup), facts.train_bucket, facts.evaluate_bucket);
  } else {
    facts.calibrations.cpu = read_calibration(arguments.calibration, device.num_threads, environment, files,
                                              setup.diagnostics.warnings);
  }
  return facts;
}

}  // namespace

void set_passes(const Arguments& arguments, PassOptions& passes) {
  passes.verification = Verification::kOnce;
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
  take_measured_constant(setup, environment, files);
  if (!arguments.dump_passes.empty()) dump_passes_into(files, arguments.dump_passes, setup.passes);
  RequestRemarks remarks;
  setup.facts = facts_of(setup, environment, files);
  setup.request = request_of(arguments, setup.facts, remarks);
  setup.plan_labels = labels_of(arguments, setup.device.options, setup.facts.problem_type);
  setup.plan_labels.model = setup.model.label;
  setup.plan_labels.device = setup.device.label;
  std::ranges::move(remarks.notes, std::back_inserter(setup.diagnostics.notes));
  std::ranges::move(remarks.warnings, std::back_inserter(setup.diagnostics.warnings));
  choose_recomputation(setup);
  if (setup.request.device.kind == KernelDevice::kCuda) set_tuning(setup, environment, files);
  setup.facts.tuning = setup.request.products.tuning;
}

}  // namespace plimsoll
