#include <algorithm>
#include <utility>

#include "graph/analysis/analysis.h"

namespace plimsoll {
namespace {

// Builds lists of positions. `add_all(add)` must call add(list, position) for every entry, with the entries of each list in order. It is
// called twice: once to count the entries of each list, and once to store them.
template <typename AddAll>
OpLists lists_of(size_t num_lists, const AddAll& add_all) {
  std::vector<uint32_t> ends(num_lists, 0);
  add_all([&](size_t list, uint32_t) { ++ends[list]; });
  uint32_t sum = 0;
  for (uint32_t& end : ends) {
    const uint32_t count = end;
    end = sum;
    sum += count;
  }
  // At this point ends[list] is the position at which the list begins. Storing an entry
  // increments it, so that after the last entry it is the end of the list.
  std::vector<uint32_t> positions(sum);
  add_all([&](size_t list, uint32_t position) { positions[ends[list]++] = position; });
  return {std::move(ends), std::move(positions)};
}

}  // namespace

OpLists find_readers(const Graph& graph) {
  std::vector<uint32_t> last(graph.values().size());
  return lists_of(graph.values().size(), [&](const auto& add) {
    // An op that reads a value several times is listed only once as a reader.
    std::ranges::fill(last, static_cast<uint32_t>(graph.ops().size()));
    for (uint32_t i = 0; i < graph.ops().size(); ++i) {
      for (ValueId id : graph.ops()[i].inputs) {
        if (id != kNoValue && std::exchange(last[index_of(id)], i) != i) add(index_of(id), i);
      }
    }
  });
}

Dependences find_dependences(const Graph& graph) {
  const OpLists readers = find_readers(graph);
  const size_t num_ops = graph.ops().size();
  std::vector<uint32_t> ends;
  std::vector<uint32_t> positions;
  ends.reserve(num_ops);
  positions.reserve(4 * num_ops);
  for (uint32_t i = 0; i < num_ops; ++i) {
    const auto begin = static_cast<std::ptrdiff_t>(positions.size());
    const auto add = [&](uint32_t op) {
      if (op != i) positions.push_back(op);
    };
    for (ValueId id : graph.ops()[i].inputs) {
      if (id != kNoValue && graph.value(id).producer != kNoOp)
        add(static_cast<uint32_t>(graph.value(id).producer));
    }
    for (ValueId id : graph.ops()[i].outputs) {
      const ValueId older = graph.value(id).version_of;
      if (older == kNoValue) continue;
      for (uint32_t reader : readers[index_of(older)]) add(reader);
      if (graph.value(older).producer != kNoOp) add(static_cast<uint32_t>(graph.value(older).producer));
    }
    std::sort(positions.begin() + begin, positions.end());
    positions.erase(std::unique(positions.begin() + begin, positions.end()), positions.end());
    ends.push_back(static_cast<uint32_t>(positions.size()));
  }
  Dependences result{.before = OpLists(std::move(ends), std::move(positions)), .after = {}};
  result.after = lists_of(num_ops, [&](const auto& add) {
    for (uint32_t i = 0; i < num_ops; ++i) {
      for (uint32_t op : result.before[i]) add(op, i);
    }
  });
  return result;
}

}  // namespace plimsoll
