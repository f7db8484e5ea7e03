#include "tests/spine/mesh_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "device/comm/testing/thread_communicator.h"
#include "exec/quantized_weights.h"
#include "kernels/element_wise/rounding.h"
#include "plan/compile/schedule.h"

namespace plimsoll::testing {
namespace {

constexpr Bucket kMeshBucket{.tokens = 17, .sequences = 3, .longest = 9};

Tensors tensors_of(Executor& executor) {
  Tensors tensors;
  for (const WeightSpec& spec : executor.plan().weights) tensors[spec.name] = values_of(executor, spec.name);
  for (const std::string& name : executor.plan().state_names()) tensors[name] = values_of(executor, name);
  return tensors;
}

void write_tensors(Executor& executor, const Tensors& tensors) {
  for (const auto& [name, values] : tensors) {
    const DType dtype = executor.plan().type_of(name).dtype;
    std::vector<std::byte> bytes(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
    const View view{bytes.data(), dtype};
    for (size_t i = 0; i < values.size(); ++i) view.store(static_cast<int64_t>(i), values[i]);
    executor.write(name, 0, bytes);
  }
}

MeshResult run_steps(const Plan& plan, const TinyCase& test, const RankMesh& mesh, int rank, int64_t batches,
                     const ExecutorOptions& options, const MeshStart& start, int last_step) {
  Executor executor(plan, options);
  fill_by_name(executor, start);
  if (start.tensors != nullptr) write_tensors(executor, *start.tensors);
  MeshResult result;
  const bool is_last_stage = mesh.stage(rank) + 1 == mesh.pipeline_size;
  const ProgramPlan& train = plan.programs.at(kTrainProgram);
  const RankOptions& ranks_of_plan = plan.request.ranks;
  for (int step = start.first_step; step <= last_step; ++step) {
    for (const ScheduledRun& run : all_runs(plan.step_schedule, batches / mesh.data_size())) {
      if (run.micro_batch >= 0) {
        const int64_t number =
            (step - 1) * batches + run.micro_batch * mesh.data_size() + mesh.data_rank(rank);
        const TinyBatch batch = tiny_batch(test, mesh_lengths(number), static_cast<uint32_t>(number));
        executor.stage(kTrainProgram, batch.tensors(train), 3.0 * static_cast<double>(batches),
                       {.slot = train.slot_of(run.micro_batch, run.chunk), .chunk = run.chunk});
        executor.set_random(42, number);
        executor.set_accumulate(run.micro_batch > 0);
      } else {
        executor.set_update(kMeshRate, step);
      }
      executor.run(kTrainProgram, run.segment);
      const bool ends = run.segment == Segment::kForward && run.chunk + 1 == ranks_of_plan.chunks;
      if (is_last_stage && ends) result.losses.push_back(executor.loss());
    }
    EXPECT_TRUE(executor.finite());
    EXPECT_EQ(executor.first_bad_gradient(), "");
    result.norms.push_back(executor.grad_norm());
  }
  if (last_step >= start.first_step) {
    // Every plan has memory for the ZeRO slices of the first rank, which are the largest. Other ranks may have smaller slices and use less
    // of the planned arena.
    const bool may_be_smaller = plan.request.ranks.zero_stage != ZeroStage::kNone && rank > 0;
    EXPECT_LE(executor.high_water_bytes(), plan.arena_bytes);
    EXPECT_TRUE(may_be_smaller || executor.high_water_bytes() == plan.arena_bytes)
        << executor.high_water_bytes() << " of " << plan.arena_bytes;
  }
  result.tensors = tensors_of(executor);
  stage(executor, kEvaluateProgram, tiny_batch(test, mesh_lengths(0), 77), 3.0);
  executor.run(kEvaluateProgram, Segment::kForward);
  if (!is_last_stage) return result;
  result.evaluation_loss = executor.loss();
  if (plan.request.model.outputs_logits) {
    const View logits = executor.tensor("logits");
    for (int64_t i = 0; i < 9; ++i) result.logits.push_back(logits.load(i));
  }
  return result;
}

double largest(const std::vector<double>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double most = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// Returns all results that tests compare, by name: weights, states, norms, losses and logits.
Tensors figures_of(const MeshResult& result) {
  Tensors figures = result.tensors;
  figures["the norms"] = result.norms;
  figures["the losses"] = result.losses;
  figures["the evaluation loss"] = {result.evaluation_loss};
  figures["the logits"] = result.logits;
  return figures;
}

}  // namespace

std::vector<int> mesh_lengths(int64_t number) {
  return number % 3 == 1 ? std::vector<int>{4, 7} : std::vector<int>{5, 9, 3};
}

void fill_by_name(Executor& executor, const MeshStart& start) {
  for (const WeightSpec& spec : executor.plan().weights) {
    const bool quantized = is_quantized(executor.plan(), spec.name);
    const ValueType type{quantized ? DType::kF32 : executor.plan().type_of(spec.name).dtype, {}};
    const double perturbation = quantized ? 0.0 : start.perturbation;
    std::vector<std::byte> bytes(static_cast<size_t>(spec.elements() * dtype_bytes(type.dtype)));
    const View view{bytes.data(), type.dtype};
    const auto site = static_cast<uint32_t>(std::hash<std::string>()(spec.name));
    for (int64_t i = 0; i < spec.elements(); ++i) {
      const auto at = static_cast<uint64_t>(i);
      const double noise =
          (philox_element({.seed = 5, .step = 0, .site = site}, at) / 4294967296.0 - 0.5) * 0.346;
      const bool is_up = philox_element({.seed = start.seed, .step = 9, .site = site}, at) % 2 == 0;
      const double value = spec.initializer == Initializer::kOnes ? 1.0 + noise : noise;
      view.store(i, value * (is_up ? 1.0 + perturbation : 1.0 - perturbation));
    }
    for (size_t part = 0; quantized && part < spec.parts.size(); ++part) {
      const int64_t offset = dtype_bytes(type.dtype) * spec.parts[part].first_row * spec.shape[1];
      write_quantized(executor, spec, part, ConstView{bytes.data() + offset, type.dtype});
    }
    if (!quantized) executor.write(spec.name, 0, bytes);
  }
  executor.zero_states();
}

void run_on_mesh(const RankMesh& mesh, const std::function<void(int, const RankConnections&)>& work) {
  using Shared = ThreadCommunicator::Shared;
  // The memory through which the ranks of a group exchange data, by the axis of the mesh and the number of the group's first rank.
  std::map<std::pair<MeshAxis, int>, std::unique_ptr<Shared>> groups;
  const bool has_ends = mesh.pipeline_size > 1;
  const auto axes_of = [&](int rank) {
    std::vector<MeshAxis> axes{MeshAxis::kData, MeshAxis::kTensor, MeshAxis::kPipeline};
    const int stage = mesh.stage(rank);
    if (has_ends && (stage == 0 || stage + 1 == mesh.pipeline_size)) axes.push_back(MeshAxis::kEnds);
    return axes;
  };
  for (int rank = 0; rank < mesh.size; ++rank) {
    for (const MeshAxis axis : axes_of(rank)) {
      const std::vector<int> members = mesh.group_of(rank, axis);
      auto& shared = groups[{axis, members.front()}];
      if (shared == nullptr) shared = std::make_unique<Shared>(static_cast<int>(members.size()));
    }
  }
  Shared all(mesh.size);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(mesh.size));
  for (int rank = 0; rank < mesh.size; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadCommunicator ranks(all, rank);
      std::map<MeshAxis, std::unique_ptr<ThreadCommunicator>> of_axis;
      for (const MeshAxis axis : axes_of(rank)) {
        const std::vector<int> members = mesh.group_of(rank, axis);
        const auto place = std::ranges::find(members, rank) - members.begin();
        of_axis[axis] = std::make_unique<ThreadCommunicator>(*groups.at({axis, members.front()}),
                                                             static_cast<int>(place));
      }
      work(rank, {.ranks = &ranks,
                  .data = {.ranks = of_axis[MeshAxis::kData].get()},
                  .tensor = {.ranks = of_axis[MeshAxis::kTensor].get()},
                  .pipeline = {.ranks = of_axis[MeshAxis::kPipeline].get()},
                  .ends = {.ranks = of_axis[MeshAxis::kEnds].get()}});
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Plan plan_of_rank(TinyCase test, const MeshCase& ranks, int rank, int64_t batches) {
  test.accumulation = batches / ranks.mesh.data_size();
  Bucket bucket = kMeshBucket;
  // Rounds the number of tokens up so that the ranks can divide the rows evenly, as request_of() does for a real run.
  const int64_t multiple = ranks.sequence_parallel || ranks.context_parallel || ranks.rounds_buckets
                               ? 8 * ranks.mesh.tensor_size
                               : 1;
  bucket.tokens = (bucket.tokens + multiple - 1) / multiple * multiple;
  PlanRequest request = tiny_request(test, bucket);
  request.device.num_threads = 1;
  // Selects 16-bit copies of weights. On a CPU only the reference kernels read such copies; the fast kernels
  // read the fp32 weights and round them.
  request.precision.weight_copies = test.activations.has_value() && test.reference_kernels;
  request.ranks = {.count = ranks.mesh.size,
                   .tensor_size = ranks.mesh.tensor_size,
                   .sequence_parallel = ranks.sequence_parallel,
                   .context_parallel = ranks.context_parallel,
                   .pipeline_size = ranks.mesh.pipeline_size,
                   .stage = ranks.mesh.stage(rank),
                   .schedule = ranks.schedule,
                   .chunks = ranks.chunks,
                   .first_blocks = ranks.first_blocks,
                   .zero_stage = ranks.zero_stage,
                   .least_divided_elements = 17,
                   .keeps_gathered = ranks.keeps_gathered,
                   .bucket_bytes = ranks.bucket_bytes};
  return build_plan(request);
}

std::vector<MeshResult> results_of(const TinyCase& test, const MeshCase& ranks, int64_t batches,
                                   const MeshStart& start, int last_step) {
  const RankMesh& mesh = ranks.mesh;
  std::vector<MeshResult> results(static_cast<size_t>(mesh.size));
  std::vector<Plan> plans;
  for (int rank = 0; rank < mesh.size; ++rank) plans.push_back(plan_of_rank(test, ranks, rank, batches));
  const auto run = [&](int rank, const RankConnections& connections) {
    const auto i = static_cast<size_t>(rank);
    results[i] = run_steps(plans[i], test, mesh, rank, batches,
                           {.connections = connections, .late_copies = ranks.late}, start, last_step);
  };
  if (mesh.size == 1) {
    run(0, {});
  } else {
    run_on_mesh(mesh, run);
  }
  return results;
}

MeshResult joined(const std::vector<MeshResult>& results, const RankMesh& mesh) {
  MeshResult result = results.back();
  result.losses.clear();
  for (size_t i = 0; i < results.back().losses.size(); ++i) {
    for (int data_rank = 0; data_rank < mesh.data_size(); ++data_rank) {
      const auto rank = static_cast<size_t>(mesh.rank_at(mesh.pipeline_size - 1, data_rank, 0));
      result.losses.push_back(results[rank].losses[i]);
    }
  }
  return result;
}

void expect_equal_ranks(const std::vector<MeshResult>& results) {
  for (const MeshResult& result : results) {
    EXPECT_EQ(result.norms, results.front().norms);
    ASSERT_EQ(result.tensors.size(), results.front().tensors.size());
    for (const auto& [name, values] : results.front().tensors)
      EXPECT_TRUE(result.tensors.at(name) == values)
          << name << " differs by " << largest(result.tensors.at(name), values);
  }
}

ExpectedSteps::ExpectedSteps(const TinyCase& test, int64_t batches)
    : result(results_of(test, {}, batches).front()) {
  constexpr double kChange = 0x1p-30;
  const Tensors exact = figures_of(result);
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    const MeshResult changed = results_of(test, {}, batches, {.perturbation = kChange, .seed = seed}).front();
    for (const auto& [name, values] : figures_of(changed))
      bounds_[name] = std::max(bounds_[name], largest(values, exact.at(name)));
  }
  constexpr double kDeviations = 7, kDeviationsOfLargest = 1.0 / 3;
  const auto most_terms = static_cast<double>(6 * test.hidden);
  // The number of independent rounding effects: both of the compared runs round, in 2 kinds of products (with
  // weights, and in attention), in each forward and backward pass and in the evaluation.
  constexpr double kEffects = 2 * 2 * (2 * kMeshSteps + 1);
  const double scale = kDeviations / kDeviationsOfLargest * std::sqrt(kEffects * most_terms) *
                       unit_roundoff(DType::kF64) / kChange;
  for (auto& [name, bound] : bounds_) bound *= scale;
}

double ExpectedSteps::check(const MeshResult& found) const {
  const Tensors exact = figures_of(result);
  double share = 0;
  for (const auto& [name, values] : figures_of(found)) {
    const double difference = largest(values, exact.at(name));
    EXPECT_LE(difference, bounds_.at(name)) << name;
    // A single wrong element must exceed the bound by far, so the bound itself must be small.
    EXPECT_LT(bounds_.at(name), 1e-6) << name;
    if (difference > 0) share = std::max(share, difference / bounds_.at(name));
  }
  return share;
}

}  // namespace plimsoll::testing
