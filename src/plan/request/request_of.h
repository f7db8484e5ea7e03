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

// The assumption about the lengths of sequences if the batch size changes. kAllLongest: all are as long as the longest one. kAsInBatch: a
// batch has at most as many tokens as the largest batch that was found in the data.
enum class SequenceLengths : uint8_t { kAllLongest, kAsInBatch };

// Sizes that no argument sets: the number of elements that one update op processes, and the bytes from which on a value is offloaded. Tests
// with small models use smaller ones.
struct SizeThresholds {
  int64_t elements_at_once = UpdateOptions().elements_at_once;
  int64_t least_offloaded_bytes = OffloadOptions().least_bytes;
};

// Measured rates of the device, of links and of disks; empty without measurements.
struct Calibrations {
  CpuCalibration cpu = {};
  // Measured times of exchanges between ranks. They are used only for a run with the same number of ranks. Measurements with NCCL are
  // either with or without P2P (direct access between GPUs).
  LinkCalibration links = {};
  DiskRates disk = {};  // rates of the disk that --offload_optimizer nvme:FOLDER names
};

// The number of buckets (batch sizes) for which a GPU captures CUDA graphs during the run.
struct CapturedFacts {
  CapturedBuckets buckets = {};
  // Computes the number of captured buckets for other batch sizes. If this function is empty, `buckets` is used for all batch sizes.
  // Pure.
  std::function<CapturedBuckets(const BatchOptions&)> count = {};
};

// The position of the planned rank among all ranks, and the links between ranks.
struct RankFacts {
  RankLinks links = {};  // links that the user names (plan --links); they replace measurements
  int64_t stage = 0;     // the pipeline stage that the plan is for
};

// Values that a plan depends on and that do not follow from the arguments alone.
struct RunFacts {
  bool train = true;      // true if the run trains
  bool evaluate = true;   // true if the run evaluates or predicts
  bool predicts = false;  // true if the caller reads the logits
  ModelConfig model = {};
  ProblemType problem_type = ProblemType::kSingleLabel;
  AdapterFacts adapter = {};
  PassOptions passes = {};
  DeviceOptions device = {};
  Bucket train_bucket = {};  // size of the largest training batch with the arguments as given
  Bucket evaluate_bucket = {};
  GenerationSizes generation = {};
  // Computes the generation sizes for another number of sequences per prompt. If this function is empty, with_sequences() is used. Pure.
  std::function<GenerationSizes(int64_t)> sizes_with_sequences = {};
  SequenceLengths lengths = SequenceLengths::kAllLongest;
  CapturedFacts captured = {};
  HostFacts host = {};
  Calibrations calibrations = {};
  TuningTable tuning = {};
  // With --recompute selective or --recompute_budget, a search chooses the recomputed values. This is its result; empty before the search.
  std::optional<RecomputeChoice> recompute = {};
  SizeThresholds thresholds = {};
  RankFacts ranks = {};
};

// A run: the arguments of its user and the facts about it.
struct RunSpec {
  Arguments arguments = {};  // arguments after resolve_arguments()
  RunFacts facts = {};
};

// Returns the plan request of a run, and appends notes for the user to `remarks`. Settings that have no effect on the run do not change
// the request. --recompute selective and --recompute_budget need a search, which makes many plans; its result is part of the request only
// if RunFacts::recompute contains it (plan/search/budget.h). Errors: kUsage for arguments that contradict each other, the device or the
// adapter.
PlanRequest request_of(const Arguments& arguments, const RunFacts& facts, RequestRemarks& remarks);
// Returns the plan request of a run, without notes for the user.
PlanRequest request_of(const RunSpec& run);

// States how the recomputed values are chosen: by the policy of the request, or by a separate search for every plan
// (plan/search/budget.h).
enum class RecomputeChosen : uint8_t { kByPolicy, kSelective, kByBudget };
RecomputeChosen recompute_chosen(const RunSpec& run);

// Returns the memory limit of a plan: --memory_limit or the memory of the GPU, whichever is less.
std::optional<int64_t> memory_limit_of(const Arguments& arguments, const DeviceOptions& device);

// Return the run with other batch sizes, in its arguments and its facts. Cost: a copy of the run.
RunSpec with_train_batch(RunSpec run, int64_t sequences, int64_t accumulation_steps);
RunSpec with_evaluate_batch(RunSpec run, int64_t sequences);
RunSpec with_longest(RunSpec run, int64_t longest);
// Returns the sizes of text generation for another number of sequences (beams or sampled texts) per prompt. Requires: the facts are those
// of a run that generates texts.
GenerationSizes generation_with_sequences(const RunFacts& facts, int64_t sequences_per_prompt);
// Returns the run with other sizes of text generation, such as the number of texts that are generated together.
RunSpec with_generation(RunSpec run, const GenerationSizes& sizes);
// Returns the run with another recomputation policy, which replaces whatever its arguments choose.
RunSpec with_recompute(RunSpec run, RecomputePolicy policy);

// Throws the errors of request_of() that depend on the device, before data is read, and checks --train_batch_size, for which the number of
// ranks must be known. `trains` has the same meaning as RunFacts::train. Does not check runs with 16-bit evaluation, for which `trains` may
// still change. Errors: kUsage.
void check_device_arguments(const Arguments& arguments, const DeviceOptions& device, bool trains);

// Returns the names that tables and messages use for the memory limit and for the length of sequences, which depend on the arguments, the
// device and the task.
PlanLabels labels_of(const Arguments& arguments, const DeviceOptions& device, ProblemType problem_type);

// Returns true if evaluation, but not training, is to run in 16 bits.
bool plans_full_evaluation(const Arguments& arguments);

}  // namespace plimsoll
