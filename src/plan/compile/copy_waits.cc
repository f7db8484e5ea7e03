#include "plan/compile/op_times.h"

#include <algorithm>
#include <array>

#include "graph/analysis/analysis.h"
#include "graph/ops/op.h"

namespace plimsoll {
namespace {

struct UnderWay {
  size_t op = 0;
  uint32_t end = 0;
  double done_ms = 0;
};

// A copy reads each byte at one end and writes it at the other.
double bytes_one_way(const Graph& graph, const Op& op, const Bucket& bucket) {
  return schema_of(op).cost({graph, op}, bucket).bytes / 2;
}

}  // namespace

std::vector<TimedCopy> timed_copies(const Graph& graph, const Bucket& bucket) {
  std::vector<TimedCopy> copies;
  for (const CopyInFlight& copy : find_copies(graph)) {
    const double bytes = bytes_one_way(graph, graph.ops()[copy.op], bucket);
    copies.push_back({.op = copy.op, .end = copy.end, .to = copy.to, .bytes = bytes});
  }
  return copies;
}

void add_copy_waits(const ProgramPlan& program, const PlanRequest& request, std::vector<double>& op_ms) {
  std::vector<TimedCopy> copies;
  for (uint32_t i = 0; i < program.ops.size(); ++i) {
    const OpPlan& plan = program.ops[i];
    if (!plan.copies_to) continue;
    const double bytes = bytes_one_way(program.graph, program.graph.ops()[i], program.bucket);
    copies.push_back({.op = i, .end = plan.copy_end, .to = *plan.copies_to, .bytes = bytes});
  }
  add_copy_waits(copies, request, op_ms);
}

void add_copy_waits(std::span<const TimedCopy> copies, const PlanRequest& request,
                    std::vector<double>& op_ms) {
  std::vector<UnderWay> under_way;
  double now_ms = 0;
  std::array<double, kNumSpaces> free_ms{};
  const auto wait = [&](size_t position) {
    for (const UnderWay& copy : under_way) {
      if (copy.end > position || copy.done_ms <= now_ms) continue;
      op_ms[copy.op] += copy.done_ms - now_ms;
      now_ms = copy.done_ms;
    }
    std::erase_if(under_way, [&](const UnderWay& copy) { return copy.end <= position; });
  };
  auto next = copies.begin();
  for (uint32_t i = 0; i < op_ms.size(); ++i) {
    wait(i);
    if (next == copies.end() || next->op != i) {
      now_ms += op_ms[i];
      continue;
    }
    const TimedCopy& copy = *next++;
    double& queue_ms = free_ms[index_of(copy.to)];
    queue_ms = std::max(queue_ms, now_ms);
    const bool is_alone = free_ms[1 - index_of(copy.to)] <= queue_ms;
    queue_ms += between_copies_ms(request);
    queue_ms += copy.bytes / link_bytes_per_ms(request, is_alone ? LinkUse::kOneWay : LinkUse::kBothWays);
    op_ms[i] = 0;
    under_way.push_back({i, copy.end, queue_ms});
  }
  wait(op_ms.size());
}

}  // namespace plimsoll
