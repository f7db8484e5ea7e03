// Trains a tiny model on generated data, for tests of everything from the plan to the executor.
#pragma once

#include <string>
#include <vector>

#include "exec/executor.h"
#include "plan/compile/plan.h"

namespace plimsoll::testing {

struct TinyCase {
  std::string model_type = "bert";
  std::string hidden_act = "gelu";
  ProblemType problem_type = ProblemType::kSingleLabel;
  DType dtype = DType::kF32;
  double dropout = 0.1;
  int64_t accumulation = 1;
  OptimizerConfig optimizer = {};
  bool reference_kernels = false;
  std::set<std::string, std::less<>> disabled_passes = {};
  std::string stop_after_pass = {};
  double label_smoothing = 0.0;
  double z_coefficient = 0.0;
  // planned fraction of tokens that have a label; below 1, the head computes only their rows
  double label_share = 1.0;
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
  DecoderSettings decoder = {};
  // if not null, changes those settings of the model that have no field in this struct
  void (*adjust)(ModelConfig& config) = nullptr;
  bool tied = true;  // for language models: the head shares the word embeddings
  // matrix products use fp8, and activations are bf16; on a CPU this needs the reference kernels
  bool fp8 = false;
  bool fp8_codes_at_use = false;  // the fp8 values of weights are computed again in each micro-batch
};

// Returns true if the tests of this process run on a GPU, that is, if PLIMSOLL_TEST_DEVICE is set (see
// CMakeLists.txt). Cases with the reference kernels and cases in fp64 run on a CPU even then. fp16 has
// kernels on a GPU, and on a CPU only the reference kernels.
bool tests_run_on_gpu();

ModelConfig tiny_model(const TinyCase& test);
PlanRequest tiny_request(const TinyCase& test, const Bucket& bucket);

// A batch of sequences with given lengths. Ids and labels are pseudo-random.
struct TinyBatch {
  std::vector<int32_t> ids, token_types, positions, cu_seqlens, class_labels;
  std::vector<float> real_labels;
  int64_t num_sequences() const { return std::ssize(cu_seqlens) - 1; }
  // Returns the batch as the input tensors that the program declares.
  TensorBatch tensors(const ProgramPlan& program) const;
};
TinyBatch tiny_batch(const TinyCase& test, const std::vector<int>& lengths, uint32_t seed);

// Fills the weights with pseudo-random numbers that are approximately normal with this standard deviation.
// The mean is 1 for the weights of norms and 0 for all others.
void fill_weights(Executor& executor, double deviation = 0.1);

// Copies a batch into the input tensors of a program.
void stage(Executor& executor, std::string_view program, const TinyBatch& batch, double denominator);

// Runs forward and backward of one micro-batch and returns the loss.
double forward_backward(Executor& executor, const TinyBatch& batch, int64_t micro_batch, double denominator);

// Returns the bytes of a persistent buffer.
std::vector<std::byte> bytes_of(Executor& executor, const std::string& name);
// Reads all elements of a persistent buffer, or changes one of them, on any device.
std::vector<double> values_of(Executor& executor, const std::string& name);
void set_value(Executor& executor, const std::string& name, int64_t i, double value);

}  // namespace plimsoll::testing
