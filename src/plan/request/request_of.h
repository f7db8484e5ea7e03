// Turns the arguments of a run and the facts about it into the request for its plan. This folder alone translates arguments into properties
// of a plan: every rule that depends on the device or on the run is here, together with its error message. Rules between arguments alone
// are in arguments/argument_rules.cc.
//
// Pure: asks the machine nothing and reads no files; src/run gathers the facts. Thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/compile/plan_labels.h"
#include "plan/compile/plan_request.h"
#include "plan/request/rules.h"
#include "plimsoll/arguments.h"

namespace plimsoll {

// The lengths that sequences are assumed to have if the batch size changes. kAllLongest: all are as long as the
// longest one. kAsInBatch: a batch has at most as many tokens as the run's largest batch, which was found in the data.
enum class SequenceLengths : uint8_t { kAllLongest, kAsInBatch };

// Sizes that no argument sets. Tests with small models lower them.
struct SizeThresholds {
  int64_t elements_at_once = UpdateOptions().elements_at_once;
  int64_t least_offloaded_bytes = OffloadOptions().least_bytes;
};

// Measured times of the device and of exchanges; empty without measurements.
struct Calibrations {
  CpuCalibration cpu = {};
  LinkCalibration links = {};  // for the number of ranks of the run; NCCL with or without P2P, not both
  DiskRates disk = {};         // rates of the disk of --offload_optimizer nvme:FOLDER
};

// The buckets that a GPU captures.
struct CapturedFacts {
  CapturedBuckets buckets = {};
  // Returns the captured buckets for other batch sizes. If this function is empty, `buckets` is used for all batch sizes. Pure.
  std::function<CapturedBuckets(const BatchOptions&)> count = {};
};

// The position of the plan's rank among all ranks, and the links between them.
struct RankFacts {
  RankLinks links = {};  // links that the user names (plan --links); they replace the calibration
  int64_t stage = 0;     // the stage of the pipeline that the plan is for
};

// Values that a plan depends on and that arguments alone do not determine.
struct RunFacts {
  bool train = true;      // the run trains
  bool evaluate = true;   // the run evaluates or predicts
  bool predicts = false;  // the caller reads the logits
  ModelConfig model = {};
  ProblemType problem_type = ProblemType::kSingleLabel;
  AdapterFacts adapter = {};
  PassOptions passes = {};
  DeviceOptions device = {};
  Bucket train_bucket = {};  // the largest batch with the run's own arguments
  Bucket evaluate_bucket = {};
  GenerationSizes generation = {};
  // Returns the generation sizes for another number of sequences per prompt. If this function is empty, with_sequences() is used. Pure.
  std::function<GenerationSizes(int64_t)> sizes_with_sequences = {};
  SequenceLengths lengths = SequenceLengths::kAllLongest;
  CapturedFacts captured = {};
  HostFacts host = {};
  Calibrations calibrations = {};
  TuningTable tuning = {};
  // The result of the search that --recompute selective or --recompute_budget requires; empty before the search.
  std::optional<RecomputeChoice> recompute = {};
  SizeThresholds thresholds = {};
  RankFacts ranks = {};
};

// A run as its user describes it, and the facts about it.
struct RunSpec {
  Arguments arguments = {};  // resolved by resolve_arguments()
  RunFacts facts = {};
};

// Returns the request, and adds to the remarks. Settings that have no effect on the run do not change it. --recompute
// selective and --recompute_budget choose by planning; their choice is part of the request only if
// RunFacts::recompute contains it (plan/search/budget.h). Errors: kUsage for arguments that contradict each other,
// the device or the adapter.
PlanRequest request_of(const Arguments& arguments, const RunFacts& facts, RequestRemarks& remarks);
// Returns the same request without remarks.
PlanRequest request_of(const RunSpec& run);

// States how the recomputed values are chosen: by the policy of the request, or by a search for every plan (plan/search/budget.h).
enum class RecomputeChosen : uint8_t { kByPolicy, kSelective, kByBudget };
RecomputeChosen recompute_chosen(const RunSpec& run);

// Returns the bytes that a plan may need: --memory_limit or the memory of the GPU, whichever is less.
std::optional<int64_t> memory_limit_of(const Arguments& arguments, const DeviceOptions& device);

// Return the run with batches of another size; arguments and facts change together. Cost: a copy of the run.
RunSpec with_train_batch(RunSpec run, int64_t sequences, int64_t accumulation_steps);
RunSpec with_evaluate_batch(RunSpec run, int64_t sequences);
RunSpec with_longest(RunSpec run, int64_t longest);
// Returns the sizes of a run that generates texts with another number of beams, or of texts per prompt.
GenerationSizes generation_with_sequences(const RunFacts& facts, int64_t sequences_per_prompt);
// Returns the run with other sizes of text generation, such as the number of texts that are generated together.
RunSpec with_generation(RunSpec run, const GenerationSizes& sizes);
// Returns the run with another policy of recomputation, which replaces any other choice.
RunSpec with_recompute(RunSpec run, RecomputePolicy policy);

// Throws what request_of() would throw for this device, before data is read, and checks --train_batch_size, for which the number
// of ranks must be known. `trains` as in RunFacts::train. Does not check runs with 16-bit evaluation, for which `trains` may
// still change. Errors: kUsage.
void check_device_arguments(const Arguments& arguments, const DeviceOptions& device, bool trains);

// Returns the names that tables and messages use for the memory limit and for the length of sequences, which depend on the arguments, the
// device and the task.
PlanLabels labels_of(const Arguments& arguments, const DeviceOptions& device, ProblemType problem_type);

// Returns true if the arguments ask for 16-bit evaluation and not for training.
bool plans_full_evaluation(const Arguments& arguments);

}  // namespace plimsoll
