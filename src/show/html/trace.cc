#include "show/html/trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/units.h"
#include "plan/anatomy/memory.h"
#include "plan/compile/op_times.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// A trace has one track for the segments (forward, backward, optimizer) and one track per queue (computation, copies,
// communication).
constexpr int kSegmentTrack = 1;
int track_of(Queue queue) {
  return kSegmentTrack + 1 + static_cast<int>(queue);
}
constexpr std::array<std::string_view, kNumQueues> kQueueNames{"compute", "copies to the device",
                                                               "copies to the host", "communication"};

double microseconds(double ms) {
  return std::round(ms * 1e6) / 1e3;
}

Json slice(std::string_view name, std::string_view category, int track, double start_ms, double end_ms) {
  return {{"name", name},
          {"cat", category},
          {"ph", "X"},
          {"ts", microseconds(start_ms)},
          {"pid", 1},
          {"tid", track},
          {"dur", std::max(0.0, microseconds(end_ms) - microseconds(start_ms))}};
}

Json track_name(int track, std::string_view name) {
  return {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", track}, {"args", {{"name", name}}}};
}

// Adds the name of the process and of each track that contains at least one slice, ordered by track number.
void add_tracks(const ProgramPlan& program, std::string_view process, Json& events) {
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", process}}}});
  events.push_back(track_name(kSegmentTrack, "segments"));
  std::array<bool, kNumQueues> is_used{};
  for (const OpPlan& op : program.ops) is_used[index_of(op.queue)] = true;
  for (size_t q = 0; q < kNumQueues; ++q) {
    if (is_used[q]) events.push_back(track_name(track_of(static_cast<Queue>(q)), kQueueNames[q]));
  }
}

void add_segments(const std::vector<OpEstimate>& ops, const std::vector<OpSpan>& spans, Json& events) {
  for (size_t i = 0; i < ops.size();) {
    size_t end = i;
    double end_ms = spans[i].end_ms;
    for (; end < ops.size() && ops[end].segment == ops[i].segment; ++end)
      end_ms = std::max(end_ms, spans[end].end_ms);
    events.push_back(slice(segment_name(ops[i].segment), "segment", kSegmentTrack, spans[i].issued_ms,
                           end < ops.size() ? spans[end].issued_ms : end_ms));
    i = end;
  }
}

void add_ops(const ProgramPlan& program, const std::vector<OpEstimate>& ops, const std::vector<OpSpan>& spans,
             Json& events) {
  for (size_t i = 0; i < ops.size(); ++i) {
    const OpEstimate& op = ops[i];
    Json event = slice(op.op, segment_name(op.segment), track_of(program.ops[i].queue), spans[i].start_ms,
                       spans[i].end_ms);
    event["args"] = {{"output", op.output}, {"module", op.module},
                     {"kernel", op.kernel}, {"flops", op.flops},
                     {"bytes", op.bytes},   {"group", op_group_name(op.group)},
                     {"position", i},       {"runs_per_step", op.runs_per_step}};
    events.push_back(std::move(event));
  }
}

void add_counters(const Plan& plan, const ProgramPlan& program, const std::vector<OpSpan>& spans,
                  Json& events) {
  const MemoryTimeline timeline = memory_timeline(plan, program);
  std::array<bool, kNumPurposes> is_used{};
  for (const PurposeBytes& bytes : timeline.by_op) {
    for (size_t p = 0; p < kNumPurposes; ++p) is_used[p] = is_used[p] || bytes[p] > 0;
  }
  for (size_t i = 0; i < timeline.by_op.size(); ++i) {
    if (i > 0 && timeline.by_op[i] == timeline.by_op[i - 1]) continue;
    Json args = Json::object();
    for (size_t p = 0; p < kNumPurposes; ++p) {
      if (is_used[p]) args[std::string(purpose_name(static_cast<Purpose>(p)))] = timeline.by_op[i][p];
    }
    events.push_back({{"name", "live bytes in the arena"},
                      {"ph", "C"},
                      {"ts", microseconds(spans[i].issued_ms)},
                      {"pid", 1},
                      {"args", std::move(args)}});
  }
}

// Returns the times of each op, computed from the measured durations. Copies and communication have queues of their own.
// They start when they are enqueued or, if that is later, when the previous op of their queue has ended.
std::vector<OpSpan> measured_spans(const ProgramPlan& program, const std::vector<double>& op_ms) {
  std::vector<OpSpan> spans;
  double now_ms = 0;
  std::array<double, kNumQueues> free_ms{};
  for (size_t i = 0; i < op_ms.size(); ++i) {
    const Queue queue = program.ops[i].queue;
    if (queue == Queue::kCompute) {
      spans.push_back({now_ms, now_ms, now_ms + op_ms[i]});
      now_ms += op_ms[i];
      continue;
    }
    double& free = free_ms[index_of(queue)];
    const double start_ms = std::max(free, now_ms);
    free = start_ms + op_ms[i];
    spans.push_back({now_ms, start_ms, free});
  }
  return spans;
}

std::string trace_json(const Plan& plan, const ProgramPlan& program, const PlanLabels& labels,
                       const std::vector<OpEstimate>& ops, const std::vector<OpSpan>& spans,
                       std::string_view times) {
  Json events = Json::array();
  const std::string run = labels.model_of(plan.request) + " on " + labels.device;
  add_tracks(program, run + ", program " + program.name + ", " + std::string(times) + " times", events);
  add_segments(ops, spans, events);
  add_ops(program, ops, spans, events);
  add_counters(plan, program, spans, events);
  const Json trace{{"displayTimeUnit", "ms"},
                   {"otherData",
                    {{"model", labels.model_of(plan.request)},
                     {"device", labels.device},
                     {"program", program.name},
                     {"times", times},
                     {"arena_bytes", plan.arena_bytes},
                     {"micro_batches_per_step", plan.request.batches.accumulation_steps}}},
                   {"traceEvents", std::move(events)}};
  return trace.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string plan_trace(const Plan& plan, const PlanLabels& labels) {
  PLIMSOLL_CHECK(!plan.programs.empty(), "a trace needs a plan with at least one program");
  const ProgramPlan& program = plan.programs.first();
  const std::vector<OpEstimate> ops = estimate_ops(plan, program);
  std::vector<double> op_ms;
  for (const OpEstimate& op : ops) op_ms.push_back(op.ms);
  return trace_json(plan, program, labels, ops, op_spans(program, plan.request, std::move(op_ms)),
                    "estimated");
}

std::string profile_trace(const Plan& plan, const ProgramPlan& program, const PlanLabels& labels,
                          const std::vector<OpEstimate>& ops, std::span<const double> ms_per_step) {
  PLIMSOLL_CHECK(ops.size() == ms_per_step.size(),
                 "every op of the program needs one measured time, but there are {} ops and {} times",
                 ops.size(), ms_per_step.size());
  std::vector<double> op_ms;
  for (size_t i = 0; i < ops.size(); ++i)
    op_ms.push_back(ms_per_step[i] / static_cast<double>(std::max<int64_t>(1, ops[i].runs_per_step)));
  return trace_json(plan, program, labels, ops, measured_spans(program, op_ms), "measured");
}

}  // namespace plimsoll
