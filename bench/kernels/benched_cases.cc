#include "bench/kernels/benched_cases.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/philox.h"
#include "graph/passes/pass.h"
#include "hardware/gpu_target.h"
#include "lowering/lowering.h"
#include "plan/compile/kernel_choice.h"
#include "tests/spine/step_cases.h"

namespace plimsoll {
namespace {

using testing::TinyBatch;
using testing::TinyCase;

constexpr int64_t kVocabulary = 8192;
constexpr int64_t kLongest = 128;
// The lengths of eight sequences, which have 783 tokens in total.
const std::vector<int> kLengths{128, 128, 97, 60, 128, 33, 81, 128};

// Returns the lengths of the sequences of a batch. A GPU gets 32 times as many sequences, so that its kernels
// have enough rows to fill it.
std::vector<int> lengths_on(const DeviceOptions& device) {
  std::vector<int> lengths;
  for (int i = 0; i < (device.is_gpu() ? 32 : 1); ++i)
    lengths.insert(lengths.end(), kLengths.begin(), kLengths.end());
  return lengths;
}

Bucket bucket_of_batch(const DeviceOptions& device) {
  const std::vector<int> lengths = lengths_on(device);
  int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  tokens = (tokens + 15) / 16 * 16;
  return {.tokens = tokens, .sequences = std::ssize(lengths), .longest = kLongest, .labels = tokens};
}

// Gives a test model two layers with the width and the heads of MiniLM on a CPU, and with those of BERT-base on a GPU.
TinyCase enlarged(TinyCase test, const DeviceOptions& device) {
  test.hidden = device.is_gpu() ? 768 : 384;
  test.heads = 12;
  test.layers = 2;
  return test;
}

std::string describe(const TinyCase& test) {
  std::string text = test.model_type + ", " + std::string(problem_type_name(test.problem_type)) + ", " +
                     std::string(optimizer_row(test.optimizer.kind).name);
  if (test.activations) text += ", " + std::string(dtype_name(*test.activations));
  if (test.dtype != DType::kF32) text += ", weights in " + std::string(dtype_name(test.dtype));
  if (test.fp8) text += ", fp8";
  if (test.lora) text += ", lora";
  if (test.chunked_loss == ChunkedLoss::kAlways) text += ", chunked loss";
  if (test.accumulation > 1) text += ", accumulation";
  return text;
}

// A test case, an addition to its name, and an optional function that changes the request from which it is planned.
struct Variant {
  explicit Variant(const TinyCase& tiny, std::string_view addition = {},
                   void (*change)(PlanRequest&) = nullptr)
      : test(tiny), more(addition), adjust(change) {}
  TinyCase test;
  std::string more;
  void (*adjust)(PlanRequest&);
};

// Returns further cases for any device, with methods of training that the cases of step_cases() (tests/spine/step_cases.h) do not use.
std::vector<Variant> further_variants() {
  std::vector<Variant> variants;
  TinyCase llama{.model_type = "llama", .hidden_act = "silu", .problem_type = ProblemType::kCausalLm};
  for (const int64_t accumulation : {1, 2}) {
    llama.accumulation = accumulation;
    variants.emplace_back(llama);
    llama.activations = DType::kBF16;
    variants.emplace_back(llama);
  }
  // Weights that exist only in bf16, without fp32 master copies. Their updates use kernels with stochastic rounding.
  variants.emplace_back(TinyCase{.dtype = DType::kBF16});
  // Cases with activation functions other than GELU, because each function has its own kernels.
  for (const char* activation : {"relu", "gelu_new", "silu"})
    variants.emplace_back(TinyCase{.hidden_act = activation});
  // Fused ops usually replace the basic ops. These cases disable all optional passes, so that the plans contain the
  // basic ops.
  for (const std::optional<DType> activations : {std::optional<DType>(), std::optional(DType::kBF16)}) {
    TinyCase unfused{.label_smoothing = 0.1, .activations = activations};
    for (const PassInfo& pass : all_passes()) {
      if (pass.needed_for.empty()) unfused.disabled_passes.emplace(pass.name);
    }
    variants.emplace_back(unfused, "without optional passes");
  }
  return variants;
}

std::vector<Variant> variants_of_gpus() {
  std::vector<Variant> variants;
  for (const char* model : {"bert", "gpt2", "modernbert"}) {
    TinyCase half{.model_type = model, .activations = DType::kF16};
    if (half.model_type == "gpt2") half.problem_type = ProblemType::kCausalLm;
    variants.emplace_back(half);
  }
  for (const bool at_use : {false, true})
    variants.emplace_back(TinyCase{.activations = DType::kBF16, .fp8 = true, .fp8_codes_at_use = at_use});
  variants.emplace_back(TinyCase{}, "tf32",
                        [](PlanRequest& request) { request.precision.fp32_products = Fp32Products::kTf32; });
  variants.emplace_back(TinyCase{}, "tf32x3", [](PlanRequest& request) {
    request.precision.fp32_products = Fp32Products::kTf32x3;
  });
  variants.emplace_back(TinyCase{}, "states in host memory",
                        [](PlanRequest& request) { request.update.offload_states = true; });
  return variants;
}

// Returns true if the device has fast kernels for the data types of the case. bf16 needs AVX-512 on a CPU.
bool runs_types(const TinyCase& test, const DeviceOptions& device) {
  if (test.fp8) return device.is_gpu() && device.has_fp8();
  const bool has_bf16 = test.activations == DType::kBF16 || test.dtype == DType::kBF16;
  return !has_bf16 || (device.is_gpu() ? device.has_bf16() : device.isa >= CpuIsa::kAvx512);
}

PlanRequest request_of(const TinyCase& test, const DeviceOptions& device) {
  PlanRequest request = testing::tiny_request(test, bucket_of_batch(device));
  ModelConfig& config = request.model.config;
  config.vocab_size = kVocabulary;
  config.max_position_embeddings = 512;
  const bool reference = request.device.reference_kernels;
  request.device = device;
  request.device.reference_kernels = reference && !device.is_gpu();
  return request;
}

std::vector<BenchedCase> generation_cases(const DeviceOptions& device) {
  std::vector<BenchedCase> cases;
  for (const char* model : {"gpt2", "llama"}) {
    for (const std::optional<DType> activations : {std::optional<DType>(), std::optional(DType::kBF16)}) {
      const TinyCase test = enlarged({.model_type = model,
                                      .hidden_act = std::string(model) == "llama" ? "silu" : "gelu_new",
                                      .problem_type = ProblemType::kCausalLm,
                                      .activations = activations},
                                     device);
      if (!runs_types(test, device)) continue;
      PlanRequest request = request_of(test, device);
      request.train = false;
      request.evaluate = false;
      request.batches.generate = request.batches.evaluate;
      const int64_t pages = kLongest / kKvPageSize + 1;
      request.generation = {.num_pages = pages * request.batches.generate.sequences,
                            .pages_per_sequence = pages};
      request.generation.sizes.candidates = 50;
      cases.push_back({describe(test) + ", generation", test, request});
    }
  }
  return cases;
}

}  // namespace

std::vector<BenchedCase> benched_cases(const DeviceOptions& device) {
  std::vector<Variant> variants;
  for (const TinyCase& test : testing::step_cases()) variants.emplace_back(test);
  std::ranges::move(further_variants(), std::back_inserter(variants));
  if (device.is_gpu()) std::ranges::move(variants_of_gpus(), std::back_inserter(variants));
  std::vector<BenchedCase> cases;
  for (const Variant& variant : variants) {
    const TinyCase test = enlarged(variant.test, device);
    if (!runs_types(test, device)) continue;
    const std::string more = variant.more.empty() ? "" : ", " + variant.more;
    cases.push_back({describe(test) + more, test, request_of(test, device)});
    if (variant.adjust != nullptr) variant.adjust(cases.back().request);
  }
  std::ranges::move(generation_cases(device), std::back_inserter(cases));
  return cases;
}

TinyBatch benched_batch(const BenchedCase& benched) {
  TinyBatch batch = testing::tiny_batch(benched.test, lengths_on(benched.request.device), 1);
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    batch.ids[i] =
        static_cast<int32_t>(philox_element({.seed = 3, .step = 0, .site = 1}, i) % uint64_t{kVocabulary});
  }
  return batch;
}

std::vector<BenchedRound> benched_rounds(const Plan& plan) {
  const KernelTarget target = kernel_target(plan.request);
  std::vector<BenchedRound> rounds(1);
  // `accepted` contains, for each implementation, the number of ops of the plan that it supports, and `num_ops`, for each kernel, the
  // number of ops that need it.
  std::map<const KernelRow*, int64_t> accepted;
  std::map<std::string_view, int64_t> num_ops;
  for (const ProgramPlan& program : plan.programs) {
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const KernelRow* chosen = program.ops[i].kernel;
      if (chosen->backend != Backend::kRef &&
          std::ranges::find(rounds[0].rows, chosen) == rounds[0].rows.end())
        rounds[0].rows.push_back(chosen);
      const Problem problem = lower_op(OpView{program.graph, program.graph.ops()[i]}, program.bucket, target);
      ++num_ops[problem.kernel];
      for (const KernelRow* row : kernel_rows_of(problem.kernel)) {
        if (row->backend != Backend::kRef && kernel_support(*row, problem).ok) ++accepted[row];
      }
    }
  }
  // For each kernel, the number of runs so far, after the first one, that force one of its implementations.
  std::map<std::string_view, size_t> next_round;
  for (const KernelRow& row : kernel_rows()) {
    const auto found = accepted.find(&row);
    if (found == accepted.end() || found->second < num_ops[row.kernel]) continue;
    if (std::ranges::find(rounds[0].rows, &row) != rounds[0].rows.end()) continue;
    const size_t round = ++next_round[row.kernel];
    if (rounds.size() <= round) rounds.resize(round + 1);
    rounds[round].forced.emplace_back(row.implementation);
    rounds[round].rows.push_back(&row);
  }
  return rounds;
}

std::string_view reason_not_benched(const KernelRow& row) {
  if (row.backend == Backend::kRef) return "a reference implementation is not meant to be fast";
  for (const char* kernel :
       {"all_reduce", "reduce_scatter", "all_gather", "head_exchange", "send", "receive"}) {
    if (row.kernel == kernel) return "runs between several ranks; plimsoll bench --links measures it";
  }
  if (row.kernel.starts_with("class_sums")) return "runs only if several ranks divide the vocabulary";
  if (row.implementation == "copy_cpu") return "copies to and from a disk; plimsoll bench --disk measures it";
  if (row.implementation == "adjust_loss_scale_cpu") return "a CPU computes fp16 with the references only";
  return {};
}

}  // namespace plimsoll
