// The steps of request_of(): each rule turns arguments and facts into one part of the plan request, or refuses them. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/compile/plan_request.h"
#include "plimsoll/arguments.h"

namespace plimsoll {

// Collects notes for the user about arguments that have no effect, or an effect that is likely not intended.
struct RequestRemarks {
  std::vector<std::string> notes = {};
  std::vector<std::string> warnings = {};
};

// Returns the data types that the arguments ask for on this device. Errors: kUsage for types that the device cannot compute, and for
// arguments that contradict each other.
PrecisionOptions precision_of(const Arguments& arguments, const DeviceOptions& device, bool trains,
                              RequestRemarks& remarks);

// Checks tensor parallelism. Errors: kUsage if the layers of the model cannot be divided among the ranks of a tensor-parallel group, or
// if the results would differ from those of one rank. Settings that exclude each other for every model are checked in exclusions.cc.
void check_tensor_parallelism(const PlanRequest& request);
// Checks that ranks can divide the rows of the activations of this run. Errors: kUsage.
void check_context_parallelism(const PlanRequest& request);

// Checks pipeline parallelism. Errors: kUsage if the model cannot be divided into the requested number of stages.
void check_pipeline_parallelism(const Arguments& arguments, const PlanRequest& request);

struct AdapterFacts {
  std::optional<LoraConfig> stored = {};  // settings of the existing adapter that the run begins with
  // modules of the model that no file has weights for, such as a new head
  std::vector<std::string> new_modules = {};
};

// Returns the settings of the run's adapter, including the data type in which its base is stored. Returns nothing for a run without an
// adapter. Modules that no file has weights for are saved with a new adapter. Errors: kUsage if the arguments contradict the existing
// adapter, name modules that the model does not have, or store a base in 4 or 8 bits without an adapter.
std::optional<LoraConfig> lora_of(const Arguments& arguments, const ModelConfig& config,
                                  const AdapterFacts& adapter);

// The parts of the host memory outside the arena that do not follow from the arguments alone.
struct HostFacts {
  int64_t process_bytes = 0;
  int64_t data_bytes = 0;     // data in memory, without the batches that the loader prepares in advance
  int64_t io_bytes = 0;       // buffers for checkpoints, without those for the matrix that is being quantized
  int64_t reading_bytes = 0;  // peak while data files are read, as in HostMemory::reading_bytes
  int64_t bound_buckets = 0;  // number of batch sizes for which the executor prepares the calls of ops
  int64_t library_bytes_per_bucket = 0;
  // bytes per token, summed over all batches that the loader holds at a time
  int64_t batch_bytes_per_token = 0;
};

// Returns the host memory of a run whose largest training batch is `train`. The source file states how its constants were measured.
HostMemory host_memory_of(const HostFacts& facts, const ModelConfig& config,
                          const std::optional<LoraConfig>& lora, const Bucket& train);

}  // namespace plimsoll
