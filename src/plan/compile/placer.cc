#include "plan/compile/placer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/units.h"
#include "hardware/gpu_constant.h"
#include "plan/compile/checkpoint_share.h"
#include "plan/compile/graphs.h"

namespace plimsoll {

template <typename Work>
void Placer::for_each_program(const Work& work) {
  size_t i = 0;
  for (ProgramPlan& program : plan_.programs) work(program, placers_[i++]);
}

PlanSizes sizes_of(const PlanRequest& request) {
  return {.train_bucket = request.batches.train,
          .evaluate_bucket = request.batches.evaluate,
          .gradient_accumulation_steps = request.batches.accumulation_steps,
          .captured_buckets = request.captured_buckets,
          .host = request.host};
}

Placer::Placer(const PlanRequest& request, PlanGraphs graphs)
    : plan_{.request = request, .weights = std::move(graphs.weights)} {
  if (plan_.is_on_gpu()) {
    plan_.persistent_by_name.emplace(kStagedInputs, plan_.persistent.size());
    plan_.persistent.push_back({.name = std::string(kStagedInputs), .storage = Storage::kInput});
  }
  plan_.programs = std::move(graphs.programs);
  placers_.reserve(plan_.programs.size());
  for (ProgramPlan& program : plan_.programs) placers_.emplace_back(plan_, program);
  name_parts_of_weights();
  if (plan_.scales_loss()) plan_.initial_states.push_back({std::string(kLossScaleState), kInitialLossScale});
}

void Placer::name_parts_of_weights() {
  if (!plan_.request.precision.activation_dtype) return;
  for (const WeightSpec& spec : plan_.weights) {
    const std::string copy = weight_copy_name(spec.name, *plan_.request.precision.activation_dtype);
    if (!plan_.persistent_by_name.contains(copy)) continue;
    const std::string remainder = remainder_name(spec.name);
    if (!plan_.persistent_by_name.contains(remainder)) {
      plan_.weight_copies.push_back({spec.name, copy});
      continue;
    }
    PLIMSOLL_CHECK(!plan_.persistent_by_name.contains(spec.name),
                   "the weight '{}' must be stored in the same way in every program, but is split into "
                   "halves in one and whole in another",
                   spec.name);
    plan_.split_weights[spec.name] = {copy, remainder};
  }
}

const Plan& Placer::place(const PlanSizes& sizes) {
  PlanRequest& request = plan_.request;
  request.batches.train = sizes.train_bucket;
  request.batches.evaluate = sizes.evaluate_bucket;
  request.batches.accumulation_steps = sizes.gradient_accumulation_steps;
  request.captured_buckets = sizes.captured_buckets;
  request.host = sizes.host;
  if (plan_.trains()) {
    plan_.step_schedule =
        request.ranks.chunks > 1 ? interleaved_step_schedule(request.ranks)
        : request.ranks.pipeline_size > 1
            ? pipeline_step_schedule(micro_batches_held(request.ranks, request.batches.accumulation_steps))
            : step_schedule(request.update.in_backward);
  }
  if (ProgramPlan* train = plan_.programs.find(kTrainProgram)) train->bucket = sizes.train_bucket;
  if (ProgramPlan* evaluate = plan_.programs.find(kEvaluateProgram)) evaluate->bucket = sizes.evaluate_bucket;
  for_each_program([&](ProgramPlan& program, ProgramPlacer& placer) { placer.lay_out(program, request); });
  place_persistent();
  place_transient();
  add_constants();
  return plan_;
}

void Placer::place_persistent() {
  for (PersistentBuffer& buffer : plan_.persistent) buffer.bytes = 0;
  for_each_program(
      [&](ProgramPlan& program, ProgramPlacer& placer) { placer.grow_persistent(plan_, program); });
  stage_inputs();
  std::array<int64_t, kNumSpaces> ends{};
  for (Storage storage : {Storage::kWeight, Storage::kOptimizerState, Storage::kGradient, Storage::kCache,
                          Storage::kMessage, Storage::kInput, Storage::kOutput}) {
    for (PersistentBuffer& buffer : plan_.persistent) {
      if (buffer.storage != storage) continue;
      int64_t& end = ends[index_of(buffer.space)];
      buffer.offset = end;
      end += buffer.bytes;
    }
  }
  plan_.persistent_bytes = ends[index_of(Space::kDevice)];
  plan_.host_persistent_bytes = ends[index_of(Space::kHost)];
  plan_.disk_bytes = ends[index_of(Space::kDisk)];
}

// Sets the size of the buffer into which the next batch is copied: the sum of the bytes of all inputs.
void Placer::stage_inputs() {
  if (!plan_.is_on_gpu()) return;
  int64_t bytes = 0;
  for (const PersistentBuffer& buffer : plan_.persistent) {
    if (buffer.storage == Storage::kInput) bytes += buffer.bytes;
  }
  PersistentBuffer& staged = plan_.persistent[plan_.persistent_by_name.at(std::string(kStagedInputs))];
  staged.bytes = bytes;
  staged.type = {DType::kU8, Shape{bytes}};
}

void Placer::place_transient() {
  int64_t transient = 0;
  int64_t bound = 0;
  int64_t host_transient = 0;
  int64_t host_bound = 0;
  for_each_program([&](ProgramPlan& program, ProgramPlacer& placer) {
    const int64_t below = plan_.request.separate_buffers ? transient : 0;
    const int64_t host_below = plan_.request.separate_buffers ? host_transient : 0;
    placer.resolve_offsets(plan_, plan_.persistent_bytes + below, plan_.host_persistent_bytes + host_below,
                           program);
    transient = std::max(transient, below + program.transient_bytes);
    bound = std::max(bound, program.lower_bound_bytes);
    host_transient = std::max(host_transient, host_below + program.host.transient_bytes);
    host_bound = std::max(host_bound, program.host.lower_bound_bytes);
  });
  plan_.arena_bytes = plan_.persistent_bytes + transient;
  plan_.lower_bound_bytes = plan_.persistent_bytes + bound;
  plan_.host_arena_bytes = plan_.host_persistent_bytes + host_transient;
  plan_.host_lower_bound_bytes = plan_.host_persistent_bytes + host_bound;
}

namespace {

// Returns the memory that is lost to fragmentation of the heap. While ops run, a library allocates and frees blocks, whose sizes depend on
// the bucket (batch size). When the bucket changes, handles of kernels are allocated between these blocks, so that a later block often does
// not fit into the gap that an earlier one left. Measured with CPU instructions below AVX-512, where oneDNN 2.6 packs the operands of
// matrix products: runs of a BERT of 6 layers with 8 to 76 buckets and blocks of at most 7.7 MiB used 0.5 to 2.7 MiB more per bucket than a
// run with one bucket. HostMemory::process_bytes contains up to 1.8 MiB of this.
int64_t kept_between_blocks(int64_t library_bytes, int64_t buckets) {
  constexpr int64_t kMostPerBucket = 4 * kMiB;
  return buckets * std::min(library_bytes / 8, kMostPerBucket);
}

// Returns the memory that a GPU needs for its connections with the GPUs of other ranks.
int64_t communicator_bytes(const RankOptions& ranks, int64_t arena_bytes) {
  int64_t bytes = 0, num_nccl = 0;
  const auto add_axis = [&](int64_t size, bool maps_peers) {
    if (maps_peers) bytes += (size - 1) * peer_mapping_bytes(arena_bytes);
    if (size > 1 && !maps_peers) ++num_nccl;
  };
  add_axis(ranks.data_size(), ranks.maps_peers);
  add_axis(ranks.tensor_size, ranks.tensor_maps_peers);
  add_axis(ranks.pipeline_size, ranks.pipeline_maps_peers);
  if (num_nccl > 0) bytes += kNcclBytes + (num_nccl - 1) * kNcclMoreBytes;
  if (ranks.pipeline_size == 1 || ranks.pipeline_maps_peers) return bytes;
  // A pipeline stage has two NCCL connections with each neighbouring stage. The first and the last stage are also connected to each other.
  const bool is_first = ranks.stage == 0, is_last = ranks.is_last_stage();
  const int64_t num_neighbours = (is_first ? 0 : 1) + (is_last ? 0 : 1);
  return bytes + (is_first || is_last ? kNcclMoreBytes : 0) + 2 * num_neighbours * kNcclMessageBytes;
}

}  // namespace

void Placer::add_constants() {
  plan_.host = plan_.request.host;
  int64_t blocks = 0;
  for (const ProgramPlan& program : plan_.programs) blocks = std::max(blocks, program.library_bytes);
  plan_.host.library_bytes = blocks + kept_between_blocks(blocks, plan_.host.bound_buckets);
  if (plan_.is_on_gpu()) {
    plan_.gpu_constant = captured_graphs(plan_);
    plan_.gpu_constant.context_bytes = plan_.request.device.gpu.constant_bytes;
    plan_.gpu_constant.communicator_bytes = communicator_bytes(plan_.request.ranks, plan_.arena_bytes);
  }
  if (plan_.request.async_save && plan_.trains()) {
    plan_.host.checkpoint_bytes = checkpoint_share_bytes(plan_);
    // If the plan does not fit otherwise, it leaves out the buffer for saving in the background, and training waits for each save.
    if (!plan_.is_on_gpu() && !plan_.fits()) plan_.host.checkpoint_bytes = 0;
  }
  plan_.host.data_bytes += std::max<int64_t>(0, plan_.host.reading_bytes - plan_.host_bytes());
}

Plan place_plan(const PlanRequest& request, PlanGraphs graphs) {
  Placer placer(request, std::move(graphs));
  placer.place(sizes_of(request));
  return std::move(placer).take();
}

}  // namespace plimsoll
