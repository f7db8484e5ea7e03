// A tiny model with data made by counter, for tests of the whole spine: plan, executor, one step.
#pragma once

#include <string>
#include <vector>

#include "exec/executor.h"
#include "plan/compile/plan.h"

namespace plimsoll::testing {

struct TinyCase {
  std::string model_type = "bert";
  ProblemType problem_type = ProblemType::kSingleLabel;
  DType dtype = DType::kF32;
  double dropout = 0.1;
  int64_t accumulation = 1;
  OptimizerConfig optimizer = {};
  bool reference_kernels = false;
  std::set<std::string, std::less<>> disabled_passes = {};
  std::string stop_after_pass = {};
  double label_smoothing = 0.0;
  int64_t hidden = 16;
  int64_t heads = 2;
  int64_t layers = 2;
  std::optional<DType> activations = {};
  bool separate_buffers = false;
  RecomputeChoice recompute = {};
  bool optimizer_in_backward = false;
  std::vector<std::string> freeze = {};
  std::optional<LoraConfig> lora = {};
  ChunkedLoss chunked_loss = ChunkedLoss::kNever;
};

// Whether the tests of this process run on a GPU: where PLIMSOLL_TEST_DEVICE is set, see CMakeLists.txt. A
// case by the references runs on a CPU there, too; so does fp64. What is in fp16 has kernels on a GPU, and on
// a CPU the references alone.
bool tests_run_on_gpu();

ModelConfig tiny_model(const TinyCase& test);
PlanRequest tiny_request(const TinyCase& test, const Bucket& bucket);

// Sequences of these lengths with ids and labels by counter.
struct TinyBatch {
  std::vector<int32_t> ids, token_types, positions, cu_seqlens, class_labels;
  std::vector<float> real_labels;
  HostBatch view() const;
};
TinyBatch tiny_batch(const TinyCase& test, const std::vector<int>& lengths, uint32_t seed);

// Weights by counter: normal-like with the given deviation, norms near 1.
void fill_weights(Executor& executor, double deviation = 0.1);

// Forward and backward of one micro-batch; returns the loss.
double forward_backward(Executor& executor, const TinyBatch& batch, int64_t micro_batch, double denominator);

// Bytes of a persistent buffer.
std::vector<std::byte> bytes_of(const Executor& executor, const std::string& name);
// Its elements, and one of them changed, on any device.
std::vector<double> values_of(const Executor& executor, const std::string& name);
void set_value(Executor& executor, const std::string& name, int64_t i, double value);

}  // namespace plimsoll::testing
