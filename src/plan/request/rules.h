// The parts of request_of.h: each rule turns arguments and facts into one part of the request for a plan, or refuses
// them. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/compile/plan_request.h"
#include "plimsoll/arguments.h"

namespace plimsoll {

// Remarks for the user about arguments that have no effect, or an effect that is likely not intended.
struct RequestRemarks {
  std::vector<std::string> notes = {};
  std::vector<std::string> warnings = {};
};

// Returns the data types that the arguments ask for on this device. Errors: kUsage for types that the device does
// not have, and for arguments that contradict each other.
PrecisionOptions precision_of(const Arguments& arguments, const DeviceOptions& device, bool trains,
                              RequestRemarks& remarks);

// Checks tensor parallelism. Errors: kUsage if the layers of the model cannot be divided among the ranks of a tensor-parallel group, or if
// the results would differ from the results of one rank. The settings that exclude each other in any case are in exclusions.cc.
void check_tensor_parallelism(const PlanRequest& request);
// Checks that ranks can divide the rows of the activations of this run. Errors: kUsage.
void check_context_parallelism(const PlanRequest& request);

// Checks the pipeline of a request. Errors: kUsage if the model cannot be divided into its stages.
void check_pipeline_parallelism(const Arguments& arguments, const PlanRequest& request);

struct AdapterFacts {
  std::optional<LoraConfig> stored = {};      // the settings of the adapter that the run begins with
  std::vector<std::string> new_modules = {};  // modules of the model that no file provides
};

// Returns the settings of the run's adapter, existing or new, with the precision of its base; none for a run without
// an adapter. A new adapter also saves the modules that no file provides. Errors: kUsage if the arguments contradict
// the existing adapter, name modules that the model lacks, or store a base in few bits without an adapter.
std::optional<LoraConfig> lora_of(const Arguments& arguments, const ModelConfig& config,
                                  const AdapterFacts& adapter);

// Memory of the process on the host outside of the arena, as far as arguments do not determine it.
struct HostFacts {
  int64_t process_bytes = 0;
  int64_t data_bytes = 0;     // without the batches that the loader makes in advance
  int64_t io_bytes = 0;       // without the matrix that is being quantized
  int64_t reading_bytes = 0;  // the same as HostMemory::reading_bytes
  int64_t bound_buckets = 0;  // buckets whose ops are bound to their kernels
  int64_t library_bytes_per_bucket = 0;
  int64_t batch_bytes_per_token = 0;  // bytes per token of all batches that the loader holds at a time
};

// Returns the memory for a run whose largest training batch is `train`. The constants in the source state how each was
// measured.
HostMemory host_memory_of(const HostFacts& facts, const ModelConfig& config,
                          const std::optional<LoraConfig>& lora, const Bucket& train);

}  // namespace plimsoll
