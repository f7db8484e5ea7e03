// Ranks that divide the layers of a model into the stages of a pipeline make the same steps as one rank. The ranks are threads of this
// process, and form a mesh with data parallelism.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/comm/testing/thread_communicator.h"
#include "graph/ops/ops.h"
#include "kernels/element_wise/rounding.h"
#include "plan/compile/stage_plan.h"
#include "tests/spine/plan_grid.h"
#include "tests/spine/tiny_run.h"

namespace plimsoll {
namespace {

using testing::ThreadCommunicator;
using testing::TinyCase;

constexpr Bucket kBucket{.tokens = 17, .sequences = 3, .longest = 9};
constexpr double kRate = 0.1;
constexpr int kSteps = 3;

// Micro-batches differ in size, so that they run in different buckets.
std::vector<int> lengths_of(int64_t number) {
  return number % 3 == 1 ? std::vector<int>{4, 7} : std::vector<int>{5, 9, 3};
}

// Runs `work` once per rank of a mesh of stages and data-parallel groups, each in its own thread.
void run_on_pipeline(const RankMesh& mesh, const std::function<void(int, const RankConnections&)>& work) {
  using Shared = ThreadCommunicator::Shared;
  ThreadCommunicator::Shared all(mesh.size);
  std::vector<std::unique_ptr<Shared>> data, pipelines, ends;
  for (int i = 0; i < mesh.pipeline_size; ++i) data.push_back(std::make_unique<Shared>(mesh.data_size()));
  for (int i = 0; i < mesh.data_size(); ++i) {
    pipelines.push_back(std::make_unique<Shared>(mesh.pipeline_size));
    ends.push_back(std::make_unique<Shared>(2));
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < mesh.size; ++rank) {
    threads.emplace_back([&, rank] {
      const int stage = mesh.stage(rank), data_rank = mesh.data_rank(rank);
      const bool is_last = stage + 1 == mesh.pipeline_size;
      ThreadCommunicator ranks(all, rank);
      ThreadCommunicator of_data(*data[static_cast<size_t>(stage)], data_rank);
      ThreadCommunicator of_pipeline(*pipelines[static_cast<size_t>(data_rank)], stage);
      ThreadCommunicator of_ends(*ends[static_cast<size_t>(data_rank)], is_last ? 1 : 0);
      RankConnections connections{
          .ranks = &ranks, .data = {.ranks = &of_data}, .pipeline = {.ranks = &of_pipeline}};
      if (stage == 0 || is_last) connections.ends.ranks = &of_ends;
      work(rank, connections);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

using Tensors = std::map<std::string, std::vector<double>>;

// The results of a rank after some steps.
struct Result {
  std::vector<double> losses;  // of the last stage: those of the micro-batches of its data-parallel group
  std::vector<double> norms;
  Tensors tensors;  // weights and states of the whole model
  double evaluation_loss = 0;
  std::vector<double> logits;
};

struct Pipeline {
  RankMesh mesh = {};
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  std::vector<int64_t> first_blocks = {};
};

Plan plan_of(TinyCase test, const Pipeline& pipeline, int rank, int64_t batches) {
  test.accumulation = batches / pipeline.mesh.data_size();
  PlanRequest request = testing::tiny_request(test, kBucket);
  request.device.num_threads = 1;
  request.precision.weight_copies = test.activations.has_value();
  request.ranks = {.count = pipeline.mesh.size,
                   .pipeline_size = pipeline.mesh.pipeline_size,
                   .stage = pipeline.mesh.stage(rank),
                   .schedule = pipeline.schedule,
                   .first_blocks = pipeline.first_blocks,
                   .bucket_bytes = 2048};
  return build_plan(request);
}

// Weights do not depend on their order, which differs from stage to stage.
void fill(Executor& executor, double perturbation, uint32_t seed) {
  for (const WeightSpec& spec : executor.plan().weights) {
    const ValueType type = executor.plan().type_of(spec.name);
    std::vector<std::byte> bytes(static_cast<size_t>(spec.elements() * dtype_bytes(type.dtype)));
    const View view{bytes.data(), type.dtype};
    const auto site = static_cast<uint32_t>(std::hash<std::string>()(spec.name));
    for (int64_t i = 0; i < spec.elements(); ++i) {
      const auto at = static_cast<uint64_t>(i);
      const double noise =
          (philox_element({.seed = 5, .step = 0, .site = site}, at) / 4294967296.0 - 0.5) * 0.346;
      const bool is_up = philox_element({.seed = seed, .step = 9, .site = site}, at) % 2 == 0;
      view.store(i, (spec.initializer == Initializer::kOnes ? 1.0 + noise : noise) *
                        (is_up ? 1.0 + perturbation : 1.0 - perturbation));
    }
    executor.write(spec.name, 0, bytes);
  }
  executor.zero_states();
}

std::vector<std::string> state_names(const Plan& plan) {
  std::vector<std::string> names;
  const auto add = [&](const std::vector<PersistentBuffer>& buffers) {
    for (const PersistentBuffer& buffer : buffers) {
      const bool is_known = std::ranges::find(names, buffer.name) != names.end();
      if (buffer.storage == Storage::kOptimizerState && !is_known) names.push_back(buffer.name);
    }
  };
  for (const StagePlan& stage : plan.stages) add(stage.tensors);
  if (!plan.is_pipelined()) add(plan.persistent);
  return names;
}

Tensors tensors_of(Executor& executor) {
  Tensors tensors;
  for (const WeightSpec& spec : executor.plan().weights)
    tensors[spec.name] = testing::values_of(executor, spec.name);
  for (const std::string& name : state_names(executor.plan()))
    tensors[name] = testing::values_of(executor, name);
  return tensors;
}

struct Start {
  double perturbation = 0.0;
  uint32_t seed = 0;
  const Tensors* tensors = nullptr;  // of a run that this one resumes
  int first_step = 1;
};

void write_tensors(Executor& executor, const Tensors& tensors) {
  for (const auto& [name, values] : tensors) {
    const DType dtype = executor.plan().type_of(name).dtype;
    std::vector<std::byte> bytes(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
    const View view{bytes.data(), dtype};
    for (size_t i = 0; i < values.size(); ++i) view.store(static_cast<int64_t>(i), values[i]);
    executor.write(name, 0, bytes);
  }
}

// Runs the steps from `start` on, in which the ranks compute `batches` micro-batches each.
Result run_steps(const Plan& plan, const TinyCase& test, const RankMesh& mesh, int rank, int64_t batches,
                 const ExecutorOptions& options, const Start& start = {}, int last_step = kSteps) {
  Executor executor(plan, options);
  fill(executor, start.perturbation, start.seed);
  if (start.tensors != nullptr) write_tensors(executor, *start.tensors);
  Result result;
  const bool is_last_stage = mesh.stage(rank) + 1 == mesh.pipeline_size;
  const ProgramPlan& train = plan.programs.at(kTrainProgram);
  const int64_t own_batches = batches / mesh.data_size();
  for (int step = start.first_step; step <= last_step; ++step) {
    for (const ScheduledRun& run : all_runs(plan.step_schedule, own_batches)) {
      if (run.micro_batch >= 0) {
        const int64_t number =
            (step - 1) * batches + run.micro_batch * mesh.data_size() + mesh.data_rank(rank);
        const testing::TinyBatch batch =
            testing::tiny_batch(test, lengths_of(number), static_cast<uint32_t>(number));
        executor.stage(kTrainProgram, batch.tensors(train), 3.0 * static_cast<double>(batches),
                       run.micro_batch % train.num_slots);
        executor.set_random(42, number);
        executor.set_accumulate(run.micro_batch > 0);
      } else {
        executor.set_update(kRate, step);
      }
      executor.run(kTrainProgram, run.segment);
      if (is_last_stage && run.segment == Segment::kForward) result.losses.push_back(executor.loss());
    }
    EXPECT_TRUE(executor.finite());
    EXPECT_EQ(executor.first_bad_gradient(), "");
    result.norms.push_back(executor.grad_norm());
  }
  if (last_step >= start.first_step) {
    EXPECT_EQ(executor.high_water_bytes(), plan.arena_bytes);
  }
  result.tensors = tensors_of(executor);
  testing::stage(executor, kEvaluateProgram, testing::tiny_batch(test, lengths_of(0), 77), 3.0);
  executor.run(kEvaluateProgram, Segment::kForward);
  if (!is_last_stage) return result;
  result.evaluation_loss = executor.loss();
  if (plan.request.model.outputs_logits) {
    const View logits = executor.tensor("logits");
    for (int64_t i = 0; i < 9; ++i) result.logits.push_back(logits.load(i));
  }
  return result;
}

std::vector<Result> results_of(const TinyCase& test, const Pipeline& pipeline, int64_t batches,
                               const Start& start = {}, int last_step = kSteps) {
  const RankMesh& mesh = pipeline.mesh;
  std::vector<Result> results(static_cast<size_t>(mesh.size));
  std::vector<Plan> plans;
  for (int rank = 0; rank < mesh.size; ++rank) plans.push_back(plan_of(test, pipeline, rank, batches));
  run_on_pipeline(mesh, [&](int rank, const RankConnections& connections) {
    const auto i = static_cast<size_t>(rank);
    results[i] =
        run_steps(plans[i], test, mesh, rank, batches, {.connections = connections}, start, last_step);
  });
  return results;
}

Result result_alone(const TinyCase& test, int64_t batches, const Start& start = {}) {
  const Plan plan = plan_of(test, {}, 0, batches);
  return run_steps(plan, test, {}, 0, batches, {}, start);
}

double largest(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

void expect_same_bits(const Tensors& found, const Tensors& wanted) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, values] : wanted) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(found.at(name) == values) << name << " differs by " << largest(found.at(name), values);
  }
}

// Returns the numbers of a result that are compared, by name.
Tensors figures_of(const Result& result) {
  Tensors figures = result.tensors;
  figures["the norms"] = result.norms;
  figures["the losses"] = result.losses;
  figures["the evaluation loss"] = {result.evaluation_loss};
  figures["the logits"] = result.logits;
  return figures;
}

// All cases are in fp64 and use the reference kernels, so that an element that is wrong differs by many orders of magnitude more than
// one whose terms were added in another order.
TinyCase classifier() {
  return {
      .dtype = DType::kF64,
      .optimizer = {.kind = OptimizerKind::kSgd, .weight_decay = 0.01, .momentum = 0.9, .max_grad_norm = 0.0},
      .reference_kernels = true,
      .layers = 4};
}
TinyCase language_model(const std::string& model_type) {
  TinyCase test = classifier();
  test.model_type = model_type;
  test.problem_type = ProblemType::kCausalLm;
  return test;
}

// Returns the results of a mesh as one rank would have them: its losses in the order of the micro-batches.
Result joined(const std::vector<Result>& results, const RankMesh& mesh) {
  Result result = results.back();
  result.losses.clear();
  const auto per_rank = static_cast<int64_t>(results.back().losses.size());
  for (int64_t i = 0; i < per_rank; ++i) {
    for (int data_rank = 0; data_rank < mesh.data_size(); ++data_rank) {
      const auto rank = static_cast<size_t>(mesh.rank_at(mesh.pipeline_size - 1, data_rank, 0));
      result.losses.push_back(results[rank].losses[static_cast<size_t>(i)]);
    }
  }
  return result;
}

// Every stage computes with the same kernels in the same order as one rank. Only the norm of the gradients is summed in another order:
// n squares are added with an error of at most n u of the sum, and the stages round their norms and add their squares.
TEST(PipelineRanks, MakeTheStepsOfOneRankToTheBit) {
  const TinyCase test = classifier();
  constexpr int64_t kBatches = 4;
  const Result expected = result_alone(test, kBatches);
  for (const int stages : {2, 4}) {
    for (const PipelineSchedule schedule :
         {PipelineSchedule::kGpipe, PipelineSchedule::kOneForwardOneBackward}) {
      SCOPED_TRACE(fmt::format("{} stages, schedule {}", stages, static_cast<int>(schedule)));
      const RankMesh mesh{.size = stages, .pipeline_size = stages};
      const std::vector<Result> results = results_of(test, {.mesh = mesh, .schedule = schedule}, kBatches);
      for (const Result& result : results) {
        expect_same_bits(result.tensors, expected.tensors);
        EXPECT_EQ(result.norms, results.front().norms);
        ASSERT_EQ(result.norms.size(), expected.norms.size());
        for (size_t i = 0; i < result.norms.size(); ++i) {
          EXPECT_NEAR(result.norms[i], expected.norms[i],
                      20'000 * unit_roundoff(DType::kF64) * expected.norms[i]);
        }
      }
      EXPECT_EQ(results.back().losses, expected.losses);
      EXPECT_EQ(results.back().evaluation_loss, expected.evaluation_loss);
      EXPECT_EQ(results.back().logits, expected.logits);
    }
  }
}

// The numbers that one rank computes, and bounds of the differences that an order of summation may make, as in tensor_spine_test.cc:
// the result of a sum in either order is exact for a matrix whose elements are changed relatively by at most n u, here with n <= 96. The
// effect of such changes is measured with changes of 2^-30, whose signs are random. All layers in both passes and all
// steps may make one, with the least favourable signs: a factor of 64 over the largest effect of 4 random choices.
class Expected {
 public:
  Expected(const TinyCase& test, int64_t batches) : result(result_alone(test, batches)) {
    constexpr double kChange = 0x1p-30;
    const Tensors exact = figures_of(result);
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      const Result changed = result_alone(test, batches, {.perturbation = kChange, .seed = seed});
      for (const auto& [name, values] : figures_of(changed))
        bounds_[name] = std::max(bounds_[name], largest(values, exact.at(name)));
    }
    for (auto& [name, bound] : bounds_) bound *= 64 * 96 * unit_roundoff(DType::kF64) / kChange;
  }

  void check(const Result& found) const {
    const Tensors exact = figures_of(result);
    for (const auto& [name, values] : figures_of(found)) {
      EXPECT_LE(largest(values, exact.at(name)), bounds_.at(name)) << name;
      // The bound is far below an error in one element.
      EXPECT_LT(bounds_.at(name), 1e-6) << name;
    }
  }

  Result result;

 private:
  std::map<std::string, double> bounds_;
};

struct NamedCase {
  std::string name;
  TinyCase test;
};

// Cases in which sums have another order than on one rank: a table that both ends read, clipping by the norm, fused ops that a stage
// boundary cuts, sums over data-parallel ranks.
std::vector<NamedCase> cases() {
  TinyCase gpt2 = language_model("gpt2");
  std::vector<NamedCase> list{{"gpt2", gpt2}};
  gpt2.optimizer = {.epsilon = 1e-3, .max_grad_norm = 0.5};
  list.push_back({"gpt2, AdamW, clipping", gpt2});
  gpt2.recompute.policy = RecomputePolicy::kFull;
  list.push_back({"gpt2, full recomputation", gpt2});
  gpt2.recompute.policy = RecomputePolicy::kNone;
  gpt2.chunked_loss = ChunkedLoss::kAlways;
  list.push_back({"gpt2, chunked loss", gpt2});
  TinyCase llama = language_model("llama");
  llama.hidden_act = "silu";
  llama.decoder.num_key_value_heads = 2;
  list.push_back({"llama", llama});
  llama.tied = false;
  list.push_back({"llama, untied", llama});
  TinyCase masked = classifier();
  masked.problem_type = ProblemType::kMaskedLm;
  masked.label_share = 0.4;
  list.push_back({"bert, masked", masked});
  TinyCase modern = classifier();
  modern.model_type = "modernbert";
  modern.dropout = 0.0;
  list.push_back({"modernbert", modern});
  return list;
}

TEST(PipelineRanks, MakeTheStepsOfOneRank) {
  constexpr int64_t kBatches = 4;
  for (const NamedCase& item : cases()) {
    const Expected expected(item.test, kBatches);
    for (const RankMesh& mesh :
         {RankMesh{.size = 2, .pipeline_size = 2}, RankMesh{.size = 4, .pipeline_size = 4},
          RankMesh{.size = 4, .pipeline_size = 2}}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks in {} stages", item.name, mesh.size, mesh.pipeline_size));
      const std::vector<Result> results = results_of(item.test, {.mesh = mesh}, kBatches);
      for (const Result& result : results) {
        EXPECT_EQ(result.norms, results.front().norms);
        expect_same_bits(result.tensors, results.front().tensors);
      }
      expected.check(joined(results, mesh));
    }
  }
}

// A step of one micro-batch, whose gradients do not persist.
TEST(PipelineRanks, MakeStepsOfOneMicroBatch) {
  const TinyCase test = language_model("gpt2");
  const RankMesh mesh{.size = 2, .pipeline_size = 2};
  Expected(test, 1).check(joined(results_of(test, {.mesh = mesh}, 1), mesh));
}

// A run writes whole weights and states, from which a run with any number of stages continues.
TEST(PipelineRanks, ContinueTheStepsOfAnyNumberOfStages) {
  constexpr int64_t kBatches = 4;
  TinyCase test = language_model("gpt2");
  test.optimizer = {.epsilon = 1e-3, .max_grad_norm = 0.5};
  const Expected expected(test, kBatches);
  const std::vector<RankMesh> meshes{
      {}, {.size = 2, .pipeline_size = 2}, {.size = 4, .pipeline_size = 2}, {.size = 4, .pipeline_size = 4}};
  for (const RankMesh& first : meshes) {
    const Result saved = joined(results_of(test, {.mesh = first}, kBatches, {}, 1), first);
    for (const RankMesh& second : meshes) {
      if (second == first) continue;
      SCOPED_TRACE(fmt::format("{} stages after {}", second.pipeline_size, first.pipeline_size));
      Result found = joined(
          results_of(test, {.mesh = second}, kBatches, {.tensors = &saved.tensors, .first_step = 2}), second);
      found.norms.insert(found.norms.begin(), saved.norms.begin(), saved.norms.end());
      found.losses.insert(found.losses.begin(), saved.losses.begin(), saved.losses.end());
      expected.check(found);
    }
  }
}

// Mixed precision: the ends of a pipeline store a table that both read in different ways, and have the same bits of it.
TEST(PipelineRanks, StoreWeightsInHalves) {
  for (const MasterWeights master : {MasterWeights::kAuto, MasterWeights::kWhole}) {
    for (const int64_t batches : {1, 4}) {
      TinyCase test{.model_type = "gpt2",
                    .problem_type = ProblemType::kCausalLm,
                    .optimizer = {.master_weights = master},
                    .reference_kernels = true,
                    .layers = 4,
                    .activations = DType::kBF16};
      const RankMesh mesh{.size = 2, .pipeline_size = 2};
      const std::vector<Result> results = results_of(test, {.mesh = mesh}, batches);
      expect_same_bits(results[0].tensors, results[1].tensors);
      const Result one = result_alone(test, batches);
      // Activations are rounded to bf16, so that a sum in another order may be rounded to a neighbour. The mean of the losses of the
      // tokens changes by less than a few such roundings.
      ASSERT_EQ(results[1].losses.size(), one.losses.size());
      for (size_t i = 0; i < one.losses.size(); ++i)
        EXPECT_NEAR(results[1].losses[i], one.losses[i],
                    4 * unit_roundoff(DType::kBF16) * std::abs(one.losses[i]));
    }
  }
}

int64_t in_arena(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Each stage has room for its own weights, states and gradients, to the byte.
TEST(PipelineRanks, HaveRoomForTheirLayers) {
  TinyCase test = language_model("gpt2");
  test.dtype = DType::kF32;
  const Plan whole = plan_of(test, {}, 0, 4);
  const Pipeline pipeline{.mesh = {.size = 4, .pipeline_size = 4}};
  std::map<std::string, int> holders;
  for (int rank = 0; rank < 4; ++rank) {
    const Plan plan = plan_of(test, pipeline, rank, 4);
    for (const PersistentBuffer& buffer : plan.persistent) {
      if (buffer.storage == Storage::kMessage) {
        // Tokens x hidden numbers in fp32.
        EXPECT_EQ(buffer.bytes, in_arena(17 * 16 * 4)) << buffer.name;
        continue;
      }
      if (whole.persistent_by_name.contains(buffer.name)) {
        EXPECT_EQ(buffer.bytes, whole.buffer(buffer.name).bytes) << buffer.name;
      } else {
        // Each end adds its own terms to the gradient of the table, which has another name if they are all.
        EXPECT_TRUE(buffer.storage == Storage::kGradient) << buffer.name;
        EXPECT_EQ(buffer.bytes, in_arena(37 * 16 * 4)) << buffer.name;
      }
      if (buffer.storage == Storage::kWeight) ++holders[buffer.name];
    }
    expect_apart(plan.programs.at(kTrainProgram), "train");
    EXPECT_LT(plan.arena_bytes, whole.arena_bytes);
    ASSERT_EQ(plan.stages.size(), 4u);
    EXPECT_EQ(plan.stages[static_cast<size_t>(rank)].arena_bytes, plan.arena_bytes);
  }
  int num_weights = 0;
  for (const PersistentBuffer& buffer : whole.persistent) {
    if (buffer.storage != Storage::kWeight) continue;
    ++num_weights;
    // The first and the last stage read the table of words.
    EXPECT_EQ(holders[buffer.name], buffer.name.find("wte") != std::string::npos ? 2 : 1) << buffer.name;
  }
  EXPECT_EQ(std::ssize(holders), num_weights);
}

// With gpipe a stage keeps the activations of all micro-batches, with 1f1b those of at most one micro-batch per stage from it on. All
// else has the same size.
TEST(PipelineRanks, KeepActivationsPerMicroBatch) {
  TinyCase test = classifier();
  test.dtype = DType::kF32;
  constexpr int64_t kBatches = 8;
  const RankMesh mesh{.size = 4, .pipeline_size = 4};
  for (int rank = 0; rank < 4; ++rank) {
    const Plan gpipe = plan_of(test, {.mesh = mesh, .schedule = PipelineSchedule::kGpipe}, rank, kBatches);
    const Plan turns = plan_of(test, {.mesh = mesh}, rank, kBatches);
    const ProgramPlan& all = gpipe.programs.at(kTrainProgram);
    EXPECT_EQ(all.num_slots, kBatches);
    EXPECT_EQ(turns.programs.at(kTrainProgram).num_slots, 4 - rank);
    int64_t slot_bytes = 0;
    for (const TransientBuffer& buffer : all.buffers) {
      const bool is_saved = all.graph.ops()[buffer.first].segment == Segment::kForward &&
                            all.graph.ops()[buffer.last].segment != Segment::kForward;
      if (buffer.slot == 0 && is_saved) slot_bytes += buffer.bytes;
    }
    EXPECT_EQ(all.slot_bytes, slot_bytes);
    if (rank < 3) {
      EXPECT_EQ(gpipe.arena_bytes - turns.arena_bytes, (kBatches - (4 - rank)) * slot_bytes);
    }
    EXPECT_GE(gpipe.arena_bytes, gpipe.lower_bound_bytes);
  }
}

// One value per boundary and direction, and none of another size.
TEST(PipelineRanks, SendOneValuePerBoundaryAndDirection) {
  for (const std::string model_type :
       {"bert", "gpt2", "llama", "modernbert", "roberta", "distilbert", "electra"}) {
    TinyCase test = classifier();
    test.model_type = model_type;
    test.dropout = 0.0;
    if (model_type == "llama") test.hidden_act = "silu";
    const Plan plan = plan_of(test, {.mesh = {.size = 4, .pipeline_size = 4}}, 1, 4);
    for (size_t stage = 0; stage < plan.stages.size(); ++stage) {
      std::map<StageAction::Kind, int> forward, backward;
      for (const StageAction& action : plan.stages[stage].train[index_of(Segment::kForward)])
        ++forward[action.kind];
      for (const StageAction& action : plan.stages[stage].train[index_of(Segment::kBackward)])
        ++backward[action.kind];
      SCOPED_TRACE(fmt::format("{}, stage {}", model_type, stage));
      EXPECT_EQ(forward[StageAction::Kind::kReceive], stage > 0 ? 1 : 0);
      EXPECT_EQ(forward[StageAction::Kind::kSend], stage < 3 ? 1 : 0);
      EXPECT_EQ(backward[StageAction::Kind::kReceive], stage < 3 ? 1 : 0);
      EXPECT_EQ(backward[StageAction::Kind::kSend], stage > 0 ? 1 : 0);
    }
  }
}

// A number that is not finite in one stage stops the update of all, and every rank names the same gradient.
TEST(PipelineRanks, SkipAnUpdateWithANumberThatIsNotFinite) {
  const TinyCase test{.layers = 4};
  const RankMesh mesh{.size = 4, .pipeline_size = 2};
  std::vector<Plan> plans;
  for (int rank = 0; rank < 4; ++rank) plans.push_back(plan_of(test, {.mesh = mesh}, rank, 4));
  std::vector<std::string> bad(4);
  run_on_pipeline(mesh, [&](int rank, const RankConnections& connections) {
    const Plan& plan = plans[static_cast<size_t>(rank)];
    Executor executor(plan, {.connections = connections});
    fill(executor, 0, 0);
    for (const ScheduledRun& run : all_runs(plan.step_schedule, 2)) {
      if (run.micro_batch >= 0) {
        const testing::TinyBatch batch =
            testing::tiny_batch(test, lengths_of(0), static_cast<uint32_t>(run.micro_batch));
        executor.stage(kTrainProgram, batch.tensors(plan.programs.at(kTrainProgram)),
                       mesh.data_rank(rank) == 0 ? 1e-45 : 6.0,
                       run.micro_batch % plan.programs.at(kTrainProgram).num_slots);
        executor.set_random(42, run.micro_batch);
        executor.set_accumulate(run.micro_batch > 0);
      } else {
        executor.set_update(kRate, 1);
      }
      executor.run(kTrainProgram, run.segment);
    }
    EXPECT_FALSE(executor.finite());
    bad[static_cast<size_t>(rank)] = executor.first_bad_gradient();
  });
  EXPECT_NE(bad[0], "");
  for (const std::string& name : bad) EXPECT_EQ(name, bad[0]);
}

TEST(PipelineRanks, RefuseMoreStagesThanLayers) {
  try {
    plan_of({}, {.mesh = {.size = 3, .pipeline_size = 3}}, 0, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_STREQ(
        error.what(),
        "--pp_size 3: the model has 2 layers, and every stage of a pipeline needs at least one; give a "
        "--pp_size of at most 2");
  }
}

}  // namespace
}  // namespace plimsoll
