// Tests that ranks which divide the layers of a model (tensor parallelism), alone and combined with data parallelism, make the
// same training steps as one rank. Each rank is a thread of this process.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "kernels/element_wise/rounding.h"
#include "tests/spine/mesh_run.h"
#include "tests/spine/plan_grid.h"
#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

using testing::run_on_mesh;
using testing::TinyCase;

const std::vector<int> kLengths{5, 9, 3};
constexpr Bucket kBucket{.tokens = 17, .sequences = 3, .longest = 9};
constexpr double kRate = 0.1;
constexpr int kSteps = 3;

struct NamedCase {
  std::string name;
  TinyCase test;
};

using Tensors = std::map<std::string, std::vector<double>>;

// The results of one rank after some steps.
struct Result {
  std::vector<double> losses;  // one loss per micro-batch of the rank's data-parallel group
  std::vector<double> norms;
  Tensors tensors;  // weights and optimizer states
  double evaluation_loss = 0;
  std::vector<double> logits;
};

Plan plan_of(TinyCase test, const RankMesh& mesh, int64_t batches) {
  test.accumulation = batches / mesh.data_size();
  PlanRequest request = testing::tiny_request(test, kBucket);
  request.device.num_threads = 1;
  // Only the reference kernels read 16-bit copies of weights: the fast kernels of a CPU round fp32 weights when
  // they read them.
  request.precision.weight_copies = test.activations.has_value() && test.reference_kernels;
  request.ranks = {.count = mesh.size, .tensor_size = mesh.tensor_size, .bucket_bytes = 2048};
  return build_plan(request);
}

Tensors tensors_of(Executor& executor) {
  Tensors tensors;
  for (const WeightSpec& spec : executor.plan().weights)
    tensors[spec.name] = testing::values_of(executor, spec.name);
  for (const PersistentBuffer& buffer : executor.plan().persistent) {
    if (buffer.storage == Storage::kOptimizerState)
      tensors[buffer.name] = testing::values_of(executor, buffer.name);
  }
  return tensors;
}

// Multiplies every weight by 1 + `relative` or 1 - `relative`, chosen at random.
void perturb(Executor& executor, double relative, uint32_t seed) {
  uint64_t element = 0;
  for (const WeightSpec& spec : executor.plan().weights) {
    std::vector<std::byte> bytes = testing::bytes_of(executor, spec.name);
    const View view{bytes.data(), executor.plan().type_of(spec.name).dtype};
    for (int64_t i = 0; i < spec.elements(); ++i) {
      const bool is_up = philox_element({.seed = seed, .step = 9, .site = 9}, element++) % 2 == 0;
      view.store(i, view.load(i) * (is_up ? 1.0 + relative : 1.0 - relative));
    }
    executor.write(spec.name, 0, bytes);
  }
}

struct Start {
  double perturbation = 0.0;
  uint32_t seed = 0;
  // weights and states of another run, which this run continues; null for a new run
  const Tensors* tensors = nullptr;
  int first_step = 1;
};

void write_tensors(Executor& executor, const Tensors& tensors) {
  for (const auto& [name, values] : tensors) {
    std::vector<std::byte> bytes = testing::bytes_of(executor, name);
    const View view{bytes.data(), executor.plan().type_of(name).dtype};
    for (size_t i = 0; i < values.size(); ++i) view.store(static_cast<int64_t>(i), values[i]);
    executor.write(name, 0, bytes);
  }
}

// Makes the steps after `start` on one rank. All ranks of the mesh together process `batches` micro-batches per step.
Result run_steps(const Plan& plan, const TinyCase& test, const RankMesh& mesh, int rank, int64_t batches,
                 const ExecutorOptions& options, const Start& start = {}, int last_step = kSteps) {
  Executor executor(plan, options);
  testing::fill_weights(executor);
  if (start.perturbation > 0) perturb(executor, start.perturbation, start.seed);
  executor.zero_states();
  if (start.tensors != nullptr) write_tensors(executor, *start.tensors);
  Result result;
  for (int step = start.first_step; step <= last_step; ++step) {
    for (int64_t i = 0; i < batches / mesh.data_size(); ++i) {
      const int64_t number = (step - 1) * batches + i * mesh.data_size() + mesh.data_rank(rank);
      executor.set_accumulate(i > 0);
      const auto denominator = static_cast<double>(std::ssize(kLengths) * batches);
      result.losses.push_back(testing::forward_backward(
          executor, testing::tiny_batch(test, kLengths, static_cast<uint32_t>(number)), number, denominator));
    }
    executor.set_update(kRate, step);
    executor.run(kTrainProgram, Segment::kOptimizer);
    EXPECT_TRUE(executor.finite());
    EXPECT_EQ(executor.first_bad_gradient(), "");
    result.norms.push_back(executor.grad_norm());
  }
  if (last_step >= start.first_step) {
    EXPECT_EQ(executor.high_water_bytes(), plan.arena_bytes);
  }
  result.tensors = tensors_of(executor);
  testing::stage(executor, kEvaluateProgram, testing::tiny_batch(test, kLengths, 77), 3.0);
  executor.run(kEvaluateProgram, Segment::kForward);
  result.evaluation_loss = executor.loss();
  if (plan.request.model.outputs_logits) {
    const View logits = executor.tensor("logits");
    for (int64_t i = 0; i < std::ssize(kLengths) * 3; ++i) result.logits.push_back(logits.load(i));
  }
  return result;
}

std::vector<Result> results_of_mesh(const Plan& plan, const TinyCase& test, const RankMesh& mesh,
                                    int64_t batches, const Start& start = {}, bool late = false) {
  std::vector<Result> results(static_cast<size_t>(mesh.size));
  run_on_mesh(mesh, [&](int rank, const RankConnections& connections) {
    // Fills the memory with NaN first, so that a result that depends on memory which was never written
    // becomes NaN.
    const ExecutorOptions options{.fill = 0xFF, .connections = connections, .late_copies = late};
    results[static_cast<size_t>(rank)] = run_steps(plan, test, mesh, rank, batches, options, start);
  });
  return results;
}

// Returns cases that run in fp64 with the reference kernels. Another order of summation then changes results
// only in their last digits, so that a wrong element is clearly visible.
std::vector<NamedCase> exact_cases() {
  OptimizerConfig momentum{.kind = OptimizerKind::kSgd, .weight_decay = 0.01, .momentum = 0.9};
  TinyCase base{.dtype = DType::kF64, .optimizer = momentum, .reference_kernels = true, .heads = 4};
  std::vector<NamedCase> cases{{"bert", base}};
  base.problem_type = ProblemType::kTokenClassification;
  cases.push_back({"bert, a label per token", base});
  base.model_type = "gpt2";
  base.problem_type = ProblemType::kCausalLm;
  cases.push_back({"gpt2", base});
  base.recompute.policy = RecomputePolicy::kFull;
  cases.push_back({"gpt2, full recomputation", base});
  base.recompute.policy = RecomputePolicy::kNone;
  base.label_smoothing = 0.1;
  cases.push_back({"gpt2, label smoothing", base});
  base.chunked_loss = ChunkedLoss::kAlways;
  cases.push_back({"gpt2, label smoothing, loss in chunks", base});
  base.freeze = {"*wte*"};
  cases.push_back({"gpt2, words that are not trained, loss in chunks", base});
  base.freeze = {};
  base.label_smoothing = 0.0;
  base.z_coefficient = 1e-2;
  cases.push_back({"gpt2, z-loss, loss in chunks", base});
  base.chunked_loss = ChunkedLoss::kNever;
  cases.push_back({"gpt2, z-loss", base});
  base.z_coefficient = 0.0;
  base.model_type = "bert";
  base.problem_type = ProblemType::kMaskedLm;
  for (const ChunkedLoss chunked : {ChunkedLoss::kNever, ChunkedLoss::kAlways}) {
    base.chunked_loss = chunked;
    for (const double share : {1.0, 0.4}) {
      base.label_share = share;
      cases.push_back({fmt::format("bert, masked words, logits of {} of the tokens{}", share,
                                   chunked == ChunkedLoss::kNever ? "" : " in chunks"),
                       base});
    }
  }
  base.chunked_loss = ChunkedLoss::kNever;
  base.label_share = 1.0;
  base.problem_type = ProblemType::kCausalLm;
  base.model_type = "llama";
  base.hidden_act = "silu";
  base.decoder.num_key_value_heads = 4;
  cases.push_back({"llama", base});
  base.tied = false;
  cases.push_back({"llama, a matrix of its own for the head", base});
  base.tied = true;
  base.decoder.qkv_bias = base.decoder.output_bias = base.decoder.mlp_bias = base.decoder.head_norms = true;
  cases.push_back({"llama, biases, norms of heads", base});
  base.model_type = "modernbert";
  base.hidden_act = "gelu";
  base.decoder = {};
  base.problem_type = ProblemType::kSingleLabel;
  cases.push_back({"modernbert, dropout in feed-forward layers", base});
  return cases;
}

// Returns a case with grouped-query attention: 4 query heads share 2 key-value heads, so that two ranks can
// divide both.
NamedCase grouped_case() {
  TinyCase test{.model_type = "llama",
                .hidden_act = "silu",
                .problem_type = ProblemType::kCausalLm,
                .dtype = DType::kF64,
                .optimizer = {.epsilon = 1e-3, .max_grad_norm = 0.5},
                .reference_kernels = true,
                .heads = 4};
  test.decoder.num_key_value_heads = 2;
  return {"llama, grouped queries, AdamW", test};
}

double largest(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// Returns everything of a result that is compared, by name: weights, states, norms, losses and logits.
Tensors figures_of(const Result& result) {
  Tensors figures = result.tensors;
  figures["the norms"] = result.norms;
  figures["the evaluation loss"] = {result.evaluation_loss};
  figures["the logits"] = result.logits;
  return figures;
}

// The results of one rank, and bounds for the differences that another order of summation may cause.
class Expected {
 public:
  // The bounds are derived as follows. Two orders of summation differ only by their roundings, which are
  // assumed to be independent with mean zero (Higham and Mary, "A new approach to probabilistic rounding error
  // analysis", SIAM J. Sci. Comput. 41, 2019). A computed sum of n products is then the exact sum of products
  // whose factors have relative changes with a standard deviation of at most sqrt(n) u. Here n <= 96: the
  // largest inner dimension of a product is 48, and the sums over groups of ranks and over micro-batches have
  // fewer terms than that.
  //
  // The effect of such changes on the results is measured by changing all weights by a relative 2^-30 with
  // random signs, for which the effect is linear. This is done 4 times. The largest of the 4 effects is at
  // least a third of their standard deviation, except with a probability of erf(1 / (3 sqrt(2)))^4 = 0.5 %. The
  // products with weights round separately in the forward and the backward pass of each step and in the
  // evaluation. The products of activations in attention round as often and with effects as large. These
  // effects, of both orders, are independent, so their variances are added. A sum of random signs exceeds 7
  // standard deviations with a probability of at most 2 exp(-7^2 / 2) = 5e-11 (Hoeffding).
  Expected(const TinyCase& test, int64_t batches) {
    constexpr RankMesh kAlone;
    constexpr double kChange = 0x1p-30;
    const Plan plan = plan_of(test, kAlone, batches);
    result = run_steps(plan, test, kAlone, 0, batches, {});
    const Tensors exact = figures_of(result);
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      const Result changed =
          run_steps(plan, test, kAlone, 0, batches, {}, {.perturbation = kChange, .seed = seed});
      for (const auto& [name, values] : figures_of(changed))
        bounds[name] = std::max(bounds[name], largest(values, exact.at(name)));
      for (size_t i = 0; i < changed.losses.size(); ++i)
        loss_bound = std::max(loss_bound, std::abs(changed.losses[i] - result.losses[i]));
    }
    constexpr double kMostTerms = 96, kDeviations = 7, kDeviationsOfLargest = 1.0 / 3;
    // The number of independent rounding effects: 2 orders of summation x 2 kinds of products (with weights, and in attention) x
    // the passes that round (forward and backward of each step, and the evaluation).
    constexpr double kEffects = 2 * 2 * (2 * kSteps + 1);
    const double scale = kDeviations / kDeviationsOfLargest * std::sqrt(kEffects * kMostTerms) *
                         unit_roundoff(DType::kF64) / kChange;
    for (auto& [name, bound] : bounds) bound *= scale;
    loss_bound *= scale;
  }

  // Checks a result against the bounds. Returns the largest quotient of a difference and its bound.
  double check(const Result& found) const {
    const Tensors exact = figures_of(result);
    double share = 0;
    for (const auto& [name, values] : figures_of(found)) {
      const double difference = largest(values, exact.at(name));
      EXPECT_LE(difference, bounds.at(name)) << name;
      // A single wrong element must exceed the bound by far, so the bound itself must be small.
      EXPECT_LT(bounds.at(name), 1e-6) << name;
      if (difference > 0) share = std::max(share, difference / bounds.at(name));
    }
    return share;
  }

  Result result;
  double loss_bound = 0;
  std::map<std::string, double> bounds;
};

void expect_same_bits(const Result& a, const Result& b) {
  EXPECT_EQ(a.norms, b.norms);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, values] : a.tensors) EXPECT_TRUE(values == b.tensors.at(name)) << name;
}

// Expects that training on each of these meshes gives the results of one rank. Returns the largest difference from
// these results, as a fraction of its bound.
double expect_steps_of_one_rank(const NamedCase& item, const std::vector<RankMesh>& meshes) {
  constexpr int64_t kBatches = 2;
  const Expected expected(item.test, kBatches);
  double share = 0;
  for (const RankMesh& mesh : meshes) {
    SCOPED_TRACE(fmt::format("{}, {} ranks in groups of {}", item.name, mesh.size, mesh.tensor_size));
    const Plan plan = plan_of(item.test, mesh, kBatches);
    const bool late = mesh.size == 2;
    const std::vector<Result> results = results_of_mesh(plan, item.test, mesh, kBatches, {}, late);
    for (int rank = 0; rank < mesh.size; ++rank) {
      const Result& found = results[static_cast<size_t>(rank)];
      expect_same_bits(found, results.front());
      for (size_t i = 0; i < found.losses.size(); ++i) {
        const size_t number =
            i * static_cast<size_t>(mesh.data_size()) + static_cast<size_t>(mesh.data_rank(rank));
        EXPECT_NEAR(found.losses[i], expected.result.losses[number], expected.loss_bound);
      }
    }
    share = std::max(share, expected.check(results.front()));
  }
  return share;
}

TEST(TensorParallelRanks, MakeTheStepsOfOneRank) {
  double share = expect_steps_of_one_rank(grouped_case(),
                                          {{.size = 2, .tensor_size = 2}, {.size = 4, .tensor_size = 2}});
  for (const NamedCase& item : exact_cases()) {
    share = std::max(share, expect_steps_of_one_rank(item, {{.size = 2, .tensor_size = 2},
                                                            {.size = 4, .tensor_size = 2},
                                                            {.size = 4, .tensor_size = 4}}));
  }
  RecordProperty("percent_of_bound", static_cast<int>(std::ceil(100 * share)));
}

// Weights and states can be read as whole tensors, so a run on any other arrangement of ranks (mesh) must be
// able to continue from them.
TEST(TensorParallelRanks, ContinueTheStepsOfAnyMesh) {
  constexpr int64_t kBatches = 2;
  for (const NamedCase& item : {exact_cases().front(), grouped_case()}) {
    SCOPED_TRACE(item.name);
    const Expected expected(item.test, kBatches);
    const std::vector<RankMesh> meshes{{}, {.size = 2, .tensor_size = 2}, {.size = 4, .tensor_size = 2}};
    for (const RankMesh& first : meshes) {
      Result saved;
      const Plan plan = plan_of(item.test, first, kBatches);
      run_on_mesh(first, [&](int rank, const RankConnections& connections) {
        Result result =
            run_steps(plan, item.test, first, rank, kBatches, {.connections = connections}, {}, 1);
        if (rank == first.size - 1) saved = std::move(result);
      });
      for (const RankMesh& second : meshes) {
        if (second == first) continue;
        const Plan next = plan_of(item.test, second, kBatches);
        Result found =
            results_of_mesh(next, item.test, second, kBatches, {.tensors = &saved.tensors, .first_step = 2})
                .back();
        found.norms.insert(found.norms.begin(), saved.norms.begin(), saved.norms.end());
        expected.check(found);
      }
    }
  }
}

// In mixed precision, weights are stored in two 16-bit halves (kAuto), or in fp32 with a 16-bit copy (kWhole). Ranks must divide both
// halves, or the weight and its copy, in the same way, and all ranks must have the same bits.
TEST(TensorParallelRanks, StoreDividedWeightsInHalves) {
  for (const MasterWeights master : {MasterWeights::kAuto, MasterWeights::kWhole}) {
    TinyCase test{.model_type = "gpt2",
                  .problem_type = ProblemType::kCausalLm,
                  .optimizer = {.master_weights = master},
                  .reference_kernels = true,
                  .activations = DType::kBF16};
    const RankMesh mesh{.size = 2, .tensor_size = 2};
    const Plan plan = plan_of(test, mesh, 2), alone = plan_of(test, {}, 2);
    EXPECT_EQ(plan.split_weights.empty(), master == MasterWeights::kWhole);
    // Writes weights and makes no step. Reading the whole weights must then return the values that were written.
    Result written, read;
    written = run_steps(alone, test, {}, 0, 2, {}, {.first_step = kSteps + 1});
    run_on_mesh(mesh, [&](int rank, const RankConnections& connections) {
      Result result =
          run_steps(plan, test, mesh, rank, 2, {.connections = connections}, {.first_step = kSteps + 1});
      if (rank == 1) read = std::move(result);
    });
    expect_same_bits(read, written);
    const std::vector<Result> results = results_of_mesh(plan, test, mesh, 2);
    expect_same_bits(results[0], results[1]);
    const Result one = run_steps(alone, test, {}, 0, 2, {});
    // Activations are rounded to bf16. If terms are added in another order, a value may be rounded to the
    // neighbouring bf16 number. The loss, a mean over tokens, changes by less than a few such roundings.
    for (size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(results[0].losses[i], one.losses[i],
                  4 * unit_roundoff(DType::kBF16) * std::abs(one.losses[i]));
  }
}

// With 16-bit activations, a loss that is computed in chunks must equal that of one rank, except for rounding
// of the activations.
TEST(TensorParallelRanks, ComputeTheLossOfBf16ActivationsInChunks) {
  for (const ChunkedLoss chunked : {ChunkedLoss::kNever, ChunkedLoss::kAlways}) {
    const TinyCase test{.model_type = "gpt2",
                        .problem_type = ProblemType::kCausalLm,
                        .label_smoothing = 0.1,
                        .heads = 4,
                        .activations = DType::kBF16,
                        .chunked_loss = chunked};
    const Plan alone = plan_of(test, {}, 2);
    const Result one = run_steps(alone, test, {}, 0, 2, {});
    // Evaluates the initial weights, without a training step.
    constexpr Start kNoStep{.first_step = kSteps + 1};
    const double evaluation = run_steps(alone, test, {}, 0, 2, {}, kNoStep).evaluation_loss;
    for (const RankMesh& mesh :
         {RankMesh{.size = 2, .tensor_size = 2}, RankMesh{.size = 4, .tensor_size = 4}}) {
      const Plan plan = plan_of(test, mesh, 2);
      const std::vector<Result> results = results_of_mesh(plan, test, mesh, 2);
      for (const Result& result : results) expect_same_bits(result, results.front());
      // The bound is a few roundings to bf16, because the loss is a mean over tokens: a sum in another order may round an activation to the
      // neighbouring number.
      for (size_t i = 0; i < one.losses.size(); ++i)
        EXPECT_NEAR(results[0].losses[i], one.losses[i],
                    4 * unit_roundoff(DType::kBF16) * std::abs(one.losses[i]));
      EXPECT_NEAR(results_of_mesh(plan, test, mesh, 2, kNoStep)[0].evaluation_loss, evaluation,
                  4 * unit_roundoff(DType::kBF16) * std::abs(evaluation));
    }
  }
}

// Each rank must reserve memory for exactly its part of the tensors that ranks divide.
TEST(TensorParallelRanks, HaveRoomForTheirParts) {
  const auto in_arena = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  TinyCase test{.heads = 4};
  const Plan whole = plan_of(test, {}, 2);
  for (const int ranks : {2, 4}) {
    const Plan divided = plan_of(test, {.size = ranks, .tensor_size = ranks}, 2);
    int checked = 0;
    for (const PersistentBuffer& buffer : whole.persistent) {
      if (buffer.type.shape.depends_on_bucket() || buffer.storage == Storage::kInput ||
          buffer.storage == Storage::kOutput)
        continue;
      const PersistentBuffer& part = divided.buffer(buffer.name);
      const bool is_in_layer = buffer.name.find("encoder.layer.") != std::string::npos;
      const bool is_row_bias = buffer.name.find("output.dense.bias") != std::string::npos;
      const bool is_divided =
          is_in_layer && !is_row_bias && buffer.name.find("LayerNorm") == std::string::npos;
      // The word embeddings have 37 rows, which cannot be divided evenly, so each rank reserves memory for a
      // share that is rounded up.
      const bool has_words = buffer.name.find("word_embeddings") != std::string::npos;
      int64_t elements = buffer.whole_elements() / (is_divided ? ranks : 1);
      if (has_words) elements = TensorSplit::rows_of_rank(37, ranks) * 16;
      EXPECT_EQ(part.type, buffer.type);
      EXPECT_EQ(part.bytes, in_arena(4 * elements)) << buffer.name;
      checked += is_divided || has_words ? 1 : 0;
    }
    // Ranks divide six tensors in each of the two layers, and the word embeddings. Each of these has a gradient
    // and two optimizer states.
    EXPECT_EQ(checked, (2 * 6 + 1) * 4);
    EXPECT_LT(divided.arena_bytes, whole.arena_bytes);
    expect_apart(divided.programs.at(kTrainProgram), "train");
  }
}

// The part of a weight that a rank stores may consist of several pieces of the tensor in a checkpoint. The
// plan must therefore not treat it as one contiguous slice when a checkpoint is read.
TEST(TensorParallelRanks, HaveNoSlicesOfDividedWeights) {
  const RankMesh mesh{.size = 2, .tensor_size = 2};
  const Plan plan = plan_of({}, mesh, 2);
  run_on_mesh(mesh, [&](int /*rank*/, const RankConnections& connections) {
    const Executor executor(plan, {.connections = connections});
    int num_divided = 0;
    for (const WeightSpec& spec : plan.weights) {
      const PersistentBuffer& buffer = plan.buffer(spec.name);
      if (buffer.split) {
        EXPECT_THROW(executor.own_bytes(spec.name), Error) << spec.name;
        ++num_divided;
      } else {
        EXPECT_EQ(executor.own_bytes(spec.name).end, 4 * spec.elements()) << spec.name;
      }
    }
    EXPECT_EQ(num_divided, 2 * 6 + 1) << "six tensors per layer and the table of words";
  });
}

// In the forward and in the backward pass there must be one sum over the ranks per attention layer and per feed-forward layer. The forward
// pass needs one more for the word embeddings. A language model also needs one in the forward pass for the numbers from which the loss is
// computed, and one in the backward pass for the gradient of the head's input.
TEST(TensorParallelRanks, SumOncePerBlockAndPass) {
  const auto sums_of = [](const TinyCase& test) {
    const Plan plan = plan_of(test, {.size = 4, .tensor_size = 2}, 2);
    std::map<Segment, int> sums;
    for (const Op& op : plan.programs.at(kTrainProgram).graph.ops()) {
      if (op.def == &all_reduce_op() && mesh_axis_of(op.attributes) == MeshAxis::kTensor) ++sums[op.segment];
    }
    return sums;
  };
  EXPECT_EQ(sums_of({.layers = 3}),
            (std::map<Segment, int>{{Segment::kForward, 7}, {Segment::kBackward, 6}}));
  for (const ChunkedLoss chunked : {ChunkedLoss::kNever, ChunkedLoss::kAlways}) {
    const TinyCase language{
        .model_type = "gpt2", .problem_type = ProblemType::kCausalLm, .layers = 3, .chunked_loss = chunked};
    EXPECT_EQ(sums_of(language), (std::map<Segment, int>{{Segment::kForward, 8}, {Segment::kBackward, 7}}));
  }
}

// If a gradient of one rank is infinite or NaN, no rank may update its weights.
TEST(TensorParallelRanks, SkipAnUpdateWithANumberThatIsNotFinite) {
  const TinyCase test;
  const RankMesh mesh{.size = 4, .tensor_size = 2};
  const Plan plan = plan_of(test, mesh, 2);
  std::vector<std::string> bad(4);
  run_on_mesh(mesh, [&](int rank, const RankConnections& connections) {
    Executor executor(plan, {.connections = connections});
    testing::fill_weights(executor);
    executor.zero_states();
    executor.set_accumulate(false);
    testing::forward_backward(executor, testing::tiny_batch(test, kLengths, 1), 0,
                              mesh.data_rank(rank) == 0 ? 1e-45 : 6.0);
    executor.set_update(kRate, 1);
    executor.run(kTrainProgram, Segment::kOptimizer);
    EXPECT_FALSE(executor.finite());
    bad[static_cast<size_t>(rank)] = executor.first_bad_gradient();
  });
  EXPECT_NE(bad[0], "");
  for (const std::string& name : bad) EXPECT_EQ(name, bad[0]);
}

}  // namespace
}  // namespace plimsoll
