#include "plan/compile/stage_plan.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "graph/analysis/analysis.h"
#include "graph/ops/chunk.h"
#include "graph/ops/ops.h"
#include "graph/ops/slice.h"
#include "graph/passes/pass.h"
#include "hardware/gpu_constant.h"
#include "plan/compile/kernel_choice.h"
#include "plan/compile/op_times.h"

namespace plimsoll {
namespace {

// The estimated times of the layers of a model, summed over the forward and backward pass of a micro-batch, and those of the ops before
// the first layer and after the last one.
struct LayerTimes {
  std::vector<double> layers;
  double before = 0, after = 0;
};

LayerTimes layer_times(const PlanRequest& request) {
  PlanRequest whole = request;
  whole.ranks = {};
  whole.passes.dump = {};
  whole.evaluate = request.evaluate && !request.train;
  const PlanGraphs graphs = begin_graphs(whole);
  const Graph& graph = graphs.programs.first().graph;
  const std::vector<std::string> blocks = blocks_of(graph);
  const std::vector<double> op_ms = op_times(graph, find_op_kinds(graph), whole);
  LayerTimes times{.layers = std::vector<double>(blocks.size(), 0.0)};
  std::set<std::string_view> modules_before;
  bool is_before = true;
  for (size_t i = 0; i < graph.ops().size(); ++i) {
    const Op& op = graph.ops()[i];
    if (op.segment == Segment::kOptimizer) break;
    const std::string_view module = graph.module_name(op.module);
    const std::string_view block = block_of(module);
    if (!block.empty()) {
      is_before = false;
      times.layers[static_cast<size_t>(std::ranges::find(blocks, block) - blocks.begin())] += op_ms[i];
      continue;
    }
    if (is_before) modules_before.insert(module);
    (modules_before.contains(module) ? times.before : times.after) += op_ms[i];
  }
  return times;
}

// Returns the actions (compute, send, receive) of a pipeline stage in one segment of its program, in the order of the ops.
std::vector<StageAction> actions_of(const ProgramPlan& program, Segment segment,
                                    const std::vector<double>& op_ms, const PlanRequest& request) {
  std::vector<StageAction> actions;
  const auto add_message = [&](const Op& op, StageAction::Kind kind, int64_t peer, ValueId id,
                               std::string name) {
    const int64_t bytes = program.graph.value(id).bytes(program.bucket);
    actions.push_back({.kind = kind,
                       .chunk = chunk_of(op),
                       .peer = peer,
                       .channel = channel_of(op),
                       .value = std::move(name),
                       .bytes = bytes,
                       .offset = program.offsets[index_of(id)],
                       .ms = rank_exchange_ms(request, Collective::kBroadcast, static_cast<double>(bytes),
                                              MeshAxis::kPipeline)});
  };
  for (size_t i = 0; i < program.graph.ops().size(); ++i) {
    const Op& op = program.graph.ops()[i];
    if (op.segment != segment) continue;
    if (op.def == &send_op()) {
      const ValueId room = op.inputs[SendOp::kRoom];
      add_message(op, StageAction::Kind::kSend, SendOp::to(op.attributes), room,
                  program.graph.value(room).name.substr(kMessagePrefix.size()));
    } else if (op.def == &receive_op()) {
      const ValueId value = op.outputs[ReceiveOp::kY];
      add_message(op, StageAction::Kind::kReceive, ReceiveOp::from(op.attributes), value,
                  program.graph.value(value).name);
    } else if (!schema_of(op).is_communication()) {
      if (actions.empty() || actions.back().kind != StageAction::Kind::kCompute ||
          actions.back().chunk != chunk_of(op))
        actions.push_back({.chunk = chunk_of(op)});
      actions.back().ms += op_ms[i];
    }
  }
  return actions;
}

// Returns the collective operations in which all pipeline stages, or the first and the last one, take part.
std::vector<StageExchange> exchanges_of(const ProgramPlan& program) {
  std::vector<StageExchange> exchanges;
  for (const Op& op : program.graph.ops()) {
    if (!is_collective_of_stages(op)) continue;
    PLIMSOLL_CHECK(
        op.outputs.size() == 1,
        "a collective operation of pipeline stages must have one output, but there are {} in the op '{}'",
        op.outputs.size(), op.def->name());
    exchanges.push_back(
        {.axis = mesh_axis_of(op.attributes), .offset = program.offsets[index_of(op.outputs.front())]});
  }
  return exchanges;
}

StagePlan describe_stage(const Plan& plan, int64_t stage) {
  const std::vector<int64_t>& first_blocks = plan.request.ranks.first_blocks;
  StagePlan result{.first_block = first_blocks[static_cast<size_t>(stage)],
                   .split_weights = plan.split_weights,
                   .arena_bytes = plan.arena_bytes,
                   .total_bytes = plan.total_bytes(),
                   .step_schedule = plan.step_schedule};
  for (int64_t i = 0; plan.request.ranks.chunks > 1 && i < plan.request.ranks.chunks; ++i)
    result.chunks.push_back(
        {.first_block = first_blocks[static_cast<size_t>(stage + i * plan.request.ranks.pipeline_size)]});
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.storage == Storage::kWeight || buffer.storage == Storage::kOptimizerState)
      result.tensors.push_back(buffer);
  }
  if (const ProgramPlan* train = plan.programs.find(kTrainProgram)) {
    const std::vector<double> op_ms = op_times(train->graph, find_op_kinds(train->graph), plan.request);
    for (const Segment segment : {Segment::kForward, Segment::kBackward, Segment::kOptimizer})
      result.train[index_of(segment)] = actions_of(*train, segment, op_ms, plan.request);
    result.exchanges = exchanges_of(*train);
    result.num_slots = train->num_slots;
    result.slot_bytes = train->slot_bytes;
    for (size_t i = 0; i < train->chunk_slots.size(); ++i) {
      result.chunks[i].num_slots = train->chunk_slots[i].count;
      result.chunks[i].slot_bytes = train->chunk_slots[i].bytes;
    }
    for (const TransientBuffer& buffer : train->buffers) {
      if (buffer.purpose == Purpose::kSaved) result.saved_bytes += buffer.bytes;
    }
  }
  if (const ProgramPlan* evaluate = plan.programs.find(kEvaluateProgram)) {
    const std::vector<double> op_ms = op_times(evaluate->graph, find_op_kinds(evaluate->graph), plan.request);
    result.evaluate = actions_of(*evaluate, Segment::kForward, op_ms, plan.request);
  }
  return result;
}

// Simulates pipeline stages, each of which executes its list of actions.
class PipelineClock {
 public:
  using Actions = std::vector<const StageAction*>;
  explicit PipelineClock(std::vector<Actions> stages)
      : stages_(std::move(stages)),
        next_(stages_.size(), 0),
        now_ms_(stages_.size(), 0.0),
        busy_ms_(stages_.size(), 0.0) {}

  PipelineTime run() {
    bool has_advanced = true;
    while (has_advanced) {
      has_advanced = false;
      for (size_t stage = 0; stage < stages_.size(); ++stage) {
        while (next_[stage] < stages_[stage].size() && try_next(stage)) has_advanced = true;
      }
    }
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      if (next_[stage] == stages_[stage].size()) continue;
      const StageAction& action = *stages_[stage][next_[stage]];
      PLIMSOLL_CHECK(false,
                     "the sends and receives of the pipeline stages deadlock: stage {} waits forever when it "
                     "{} '{}' {} stage {}",
                     stage, action.kind == StageAction::Kind::kSend ? "sends" : "receives", action.value,
                     action.kind == StageAction::Kind::kSend ? "to" : "from", action.peer);
    }
    return {.step_ms = *std::ranges::max_element(now_ms_), .busy_ms = busy_ms_};
  }

 private:
  // The values that have been sent from one stage to another through one channel and not been received yet.
  struct Link {
    // values in the order of sending, with the times at which they were sent
    std::deque<std::pair<const StageAction*, double>> messages;
    double received_ms = 0;  // time at which the last value was received
  };

  // Executes the next action of a stage and returns true, or returns false if the stage must wait for another one.
  bool try_next(size_t stage) {
    const StageAction& action = *stages_[stage][next_[stage]];
    const auto own = static_cast<int64_t>(stage);
    if (action.kind == StageAction::Kind::kCompute) {
      now_ms_[stage] += action.ms;
      busy_ms_[stage] += action.ms;
    } else if (action.kind == StageAction::Kind::kSend) {
      Link& link = links_[{own, action.peer, action.channel}];
      if (!link.messages.empty()) return false;
      now_ms_[stage] = std::max(now_ms_[stage], link.received_ms);
      link.messages.emplace_back(&action, now_ms_[stage]);
    } else {
      Link& link = links_[{action.peer, own, action.channel}];
      if (link.messages.empty()) return false;
      const auto [sent, sent_ms] = link.messages.front();
      PLIMSOLL_CHECK(sent->bytes == action.bytes && sent->value == action.value,
                     "pipeline stage {} expects '{}' with {} bytes, but stage {} sends '{}' with {}", stage,
                     action.value, action.bytes, action.peer, sent->value, sent->bytes);
      now_ms_[stage] = std::max(now_ms_[stage], sent_ms) + action.ms;
      link.received_ms = now_ms_[stage];
      link.messages.pop_front();
    }
    ++next_[stage];
    return true;
  }

  std::vector<Actions> stages_;
  std::vector<size_t> next_;
  std::vector<double> now_ms_, busy_ms_;
  // The values in transfer. The key is the sender, the receiver and the channel.
  std::map<std::tuple<int64_t, int64_t, int64_t>, Link> links_;
};

// Returns by how many bytes this plan underestimates the memory for mapping the arenas of other stages. Each GPU maps the arena of every
// other stage, but the sizes of these arenas were not known when the plan of the stage was made.
int64_t missing_mapping_bytes(std::span<const StagePlan> stages, size_t own) {
  int64_t missing = 0;
  for (size_t i = 0; i < stages.size(); ++i)
    missing += peer_mapping_bytes(stages[i].arena_bytes) - peer_mapping_bytes(stages[own].arena_bytes);
  return missing;
}

// Checks that no stage waits forever, for every number of micro-batches that a step of the plan may have. The order of forward and backward
// passes of a stage is periodic. Steps with more than twice as many micro-batches as stages only repeat the period more often, and are not
// checked. With several chunks of layers, the period has as many micro-batches as there are stages, and a stage runs up to chunks + 1
// periods of forward passes before its first backward pass.
void check_pipeline(std::span<const StagePlan> stages, const PlanRequest& request) {
  const auto num_stages = static_cast<int64_t>(stages.size());
  const int64_t chunks = request.ranks.chunks;
  const int64_t repeating = chunks == 1 ? 2 * num_stages : (2 * chunks + 4) * num_stages;
  const int64_t most = std::min(request.batches.accumulation_steps, repeating);
  for (int64_t n = 1; request.train && n <= most; ++n) simulate_step(stages, n);
  if (request.evaluate) simulate_evaluation(stages, 2 * num_stages);
}

}  // namespace

std::vector<int64_t> divide_layers_evenly(const std::vector<double>& layers, double before, double after,
                                          int64_t num_stages) {
  const auto count = static_cast<int64_t>(layers.size());
  PLIMSOLL_CHECK(num_stages >= 1 && num_stages <= count,
                 "cannot divide {} layers among {} pipeline stages: each needs at least one layer", count,
                 num_stages);
  std::vector<double> sums{0.0};
  for (const double layer : layers) sums.push_back(sums.back() + layer);
  // Returns the cost of a stage that has the layers from `begin` to `end` - 1.
  const auto cost = [&](int64_t begin, int64_t end) {
    return sums[static_cast<size_t>(end)] - sums[static_cast<size_t>(begin)] + (begin == 0 ? before : 0.0) +
           (end == count ? after : 0.0);
  };
  // least[s][b]: suppose that stage s begins with layer b, and that the remaining layers are divided in the best way among the stages from
  // s on. The value is the cost of the most expensive of these stages.
  constexpr double kImpossible = std::numeric_limits<double>::infinity();
  const auto rows = static_cast<size_t>(num_stages), columns = static_cast<size_t>(count) + 1;
  std::vector<std::vector<double>> least(rows, std::vector<double>(columns, kImpossible));
  for (int64_t begin = 0; begin < count; ++begin)
    least[rows - 1][static_cast<size_t>(begin)] = cost(begin, count);
  for (size_t s = rows - 1; s-- > 0;) {
    for (int64_t begin = 0; begin < count; ++begin) {
      double& best = least[s][static_cast<size_t>(begin)];
      for (int64_t end = begin + 1; end < count; ++end)
        best = std::min(best, std::max(cost(begin, end), least[s + 1][static_cast<size_t>(end)]));
    }
  }
  std::vector<int64_t> first{0};
  for (size_t s = 0; s + 1 < rows; ++s) {
    const int64_t begin = first.back();
    int64_t end = begin + 1;
    while (std::max(cost(begin, end), least[s + 1][static_cast<size_t>(end)]) > least[0][0]) ++end;
    first.push_back(end);
  }
  return first;
}

Plan build_stage_plan(const PlanRequest& request) {
  const LayerTimes times = layer_times(request);
  const int64_t num_stages = request.ranks.pipeline_size;
  const int64_t num_layers = std::ssize(times.layers);
  const int64_t num_chunks = request.ranks.num_chunks_of_model();
  if (num_stages <= num_layers && num_chunks > num_layers) {
    throw_error(
        ErrorCode::kUsage,
        "--pp_chunks {}: the model has {} layers, and each of the {} chunks of {} stages (--pp_size) needs "
        "at least one; give a --pp_chunks of at most {}, or --pipeline_schedule 1f1b",
        request.ranks.chunks, num_layers, num_chunks, num_stages,
        std::max<int64_t>(1, num_layers / num_stages));
  }
  if (num_stages > num_layers) {
    throw_error(
        ErrorCode::kUsage,
        "--pp_size {}: the model has {} layers, and every stage of a pipeline needs at least one; give a "
        "--pp_size of at most {}",
        num_stages, num_layers, num_layers);
  }
  PlanRequest divided = request;
  std::vector<int64_t>& first_blocks = divided.ranks.first_blocks;
  if (first_blocks.empty())
    first_blocks = divide_layers_evenly(times.layers, times.before, times.after, num_chunks);
  // Returns the number of layers in one chunk of the model.
  const auto blocks_of_chunk = [&](int64_t chunk) {
    const auto i = static_cast<size_t>(chunk);
    return (chunk + 1 < num_chunks ? first_blocks[i + 1] : num_layers) - first_blocks[i];
  };
  Plan own;
  std::vector<StagePlan> stages;
  std::vector<std::string> unused_kernels = request.device.forced_kernels;
  for (int64_t stage = 0; stage < num_stages; ++stage) {
    PlanRequest of_stage = divided;
    of_stage.ranks.stage = stage;
    if (stage != request.ranks.stage) of_stage.passes.dump = {};
    Plan plan = plan_within_limit(of_stage, build_graphs);
    remove_used_kernels(unused_kernels, plan.programs);
    stages.push_back(describe_stage(plan, stage));
    stages.back().num_blocks = blocks_of_chunk(stage);
    int64_t chunk = stage;
    for (StageChunk& each : stages.back().chunks) {
      each.num_blocks = blocks_of_chunk(chunk);
      chunk += num_stages;
    }
    if (stage == request.ranks.stage) own = std::move(plan);
  }
  refuse_unused_kernels(unused_kernels);
  check_pipeline(stages, request);
  if (request.ranks.pipeline_maps_peers) {
    for (size_t i = 0; i < stages.size(); ++i) stages[i].total_bytes += missing_mapping_bytes(stages, i);
    own.gpu_constant.communicator_bytes +=
        missing_mapping_bytes(stages, static_cast<size_t>(request.ranks.stage));
  }
  own.stages = std::move(stages);
  return own;
}

bool is_collective_of_stages(const Op& op) {
  if (!schema_of(op).is_communication() || op.def == &send_op() || op.def == &receive_op()) return false;
  const MeshAxis axis = mesh_axis_of(op.attributes);
  return axis == MeshAxis::kPipeline || axis == MeshAxis::kEnds;
}

double PipelineTime::waiting_ms() const {
  return busy_ms.empty() ? 0.0 : step_ms - *std::ranges::max_element(busy_ms);
}

double PipelineTime::bubble() const {
  return step_ms > 0 ? waiting_ms() / step_ms : 0.0;
}

PipelineTime simulate_step(std::span<const StagePlan> stages, int64_t num_micro_batches) {
  std::vector<PipelineClock::Actions> actions(stages.size());
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    for (const ScheduledRun& run : all_runs(stages[stage].step_schedule, num_micro_batches)) {
      if (run.micro_batch < 0) continue;
      for (const StageAction& action : stages[stage].train[index_of(run.segment)]) {
        if (action.chunk == run.chunk) actions[stage].push_back(&action);
      }
    }
  }
  return PipelineClock(std::move(actions)).run();
}

PipelineTime simulate_evaluation(std::span<const StagePlan> stages, int64_t num_batches) {
  std::vector<PipelineClock::Actions> actions(stages.size());
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    for (int64_t batch = 0; batch < num_batches; ++batch) {
      for (const StageAction& action : stages[stage].evaluate) actions[stage].push_back(&action);
    }
  }
  return PipelineClock(std::move(actions)).run();
}

}  // namespace plimsoll
