// Turns the arguments of a run and the facts about it into the request for its plan. This is the only place where
// arguments get a meaning for a plan: a rule that depends on the device or on the run, and its refusal, is here and
// nowhere else. Rules between arguments alone are in arguments/argument_rules.cc.
//
// Pure: asks the machine nothing and reads no files; src/run gathers the facts. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/compile/plan_labels.h"
#include "plan/compile/plan_request.h"
#include "plimsoll/arguments.h"

namespace plimsoll {

// Values that a plan depends on and that arguments alone do not determine.
struct RunFacts {
  bool train = true;     // the run trains
  bool evaluate = true;  // the run evaluates or predicts
  ModelConfig model = {};
  ProblemType problem_type = ProblemType::kSingleLabel;
  std::optional<LoraConfig> lora = {};
  PassOptions passes = {};
  DeviceOptions device = {};
  Bucket train_bucket = {};
  Bucket evaluate_bucket = {};
  CapturedBuckets captured_buckets = {};
  HostMemory host = {};
  CpuCalibration cpu_calibration = {};
};

// Remarks for the user about arguments that have no effect, or an effect that is likely not intended.
struct RequestRemarks {
  std::vector<std::string> notes = {};
  std::vector<std::string> warnings = {};
};

// Returns the request, and adds to the remarks. Recomputation that --recompute selective and --recompute_budget
// choose by planning is not in it: see plan/search/budget.h. Errors: kUsage for arguments that contradict each other
// or the device.
PlanRequest request_of(const Arguments& arguments, const RunFacts& facts, RequestRemarks& remarks);

// Throws what request_of() would throw for this device, before data is read. `trains` as in RunFacts::train. Does not
// check runs with 16-bit evaluation, for which `trains` may still change. Errors: kUsage.
void check_device_arguments(const Arguments& arguments, const DeviceOptions& device, bool trains);

// Returns the labels that follow from the arguments and the device: those of the memory limit and of the length of
// sequences.
PlanLabels labels_of(const Arguments& arguments, const DeviceOptions& device);

// Returns true if the arguments ask for 16-bit evaluation and not for training.
bool plans_full_evaluation(const Arguments& arguments);

}  // namespace plimsoll
