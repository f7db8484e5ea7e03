#include "show/html/buffer_map.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "plan/anatomy/memory.h"
#include "plan/anatomy/operations.h"
#include "plan/compile/op_times.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

std::string buffer_name(const ProgramPlan& program, const TransientBuffer& buffer) {
  if (buffer.root == kNoValue) {
    const Op& op = program.graph.ops()[buffer.op];
    const std::string of = op.outputs.empty() ? "" : " for " + program.graph.value(op.outputs[0]).name;
    return "scratch of " + std::string(op.def->name()) + of;
  }
  std::string name = program.graph.value(buffer.root).name;
  if (program.num_slots > 1 && program.is_in_slots(buffer.offset))
    name += " of micro-batch slot " + std::to_string(buffer.slot);
  return name;
}

// Returns the module of the op that first writes the buffer, or that uses it as scratch memory.
std::string buffer_module(const ProgramPlan& program, const TransientBuffer& buffer) {
  const size_t op = buffer.root == kNoValue ? buffer.op : buffer.first;
  return program.graph.module_name(program.graph.ops()[op].module);
}

double rounded_ms(double ms) {
  return std::round(ms * 1e4) / 1e4;
}

}  // namespace

int64_t BufferMap::live_bytes(uint32_t op) const {
  int64_t sum = 0;
  for (const MapBuffer& buffer : buffers) sum += buffer.first <= op && op <= buffer.last ? buffer.bytes : 0;
  return sum;
}

double BufferMap::byte_ops() const {
  double sum = 0;
  for (const MapBuffer& buffer : buffers)
    sum += static_cast<double>(buffer.bytes) * (buffer.last - buffer.first + 1);
  return sum;
}

BufferMap buffer_map(const Plan& plan, const ProgramPlan& program) {
  BufferMap map{.program = program.name, .arena_bytes = plan.arena_bytes};
  std::vector<double> op_ms;
  for (const OpEstimate& op : estimate_ops(plan, program)) {
    op_ms.push_back(op.ms);
    map.ops.push_back(op.op);
  }
  PLIMSOLL_CHECK(!op_ms.empty(), "program '{}' has no ops", program.name);
  const auto last = static_cast<uint32_t>(op_ms.size() - 1);
  double end_ms = 0;
  for (const OpSpan& span : op_spans(program, plan.request, op_ms)) {
    map.start_ms.push_back(rounded_ms(span.issued_ms));
    end_ms = std::max(end_ms, span.end_ms);
  }
  map.start_ms.push_back(rounded_ms(end_ms));
  for (uint32_t i = 0; i < map.ops.size(); ++i) {
    const std::string name(segment_name(program.graph.ops()[i].segment));
    if (map.segments.empty() || map.segments.back().name != name) map.segments.push_back({name, i});
  }
  for (const PersistentBuffer& buffer : plan.persistent) {
    if (buffer.space != Space::kDevice) continue;
    map.buffers.push_back({.name = buffer.name,
                           .module = buffer.module,
                           .purpose = purpose_of(buffer.storage),
                           .offset = buffer.offset,
                           .bytes = buffer.bytes,
                           .first = 0,
                           .last = last,
                           .is_persistent = true});
  }
  for (const TransientBuffer& buffer : program.buffers) {
    map.buffers.push_back({.name = buffer_name(program, buffer),
                           .module = buffer_module(program, buffer),
                           .purpose = buffer.purpose,
                           .offset = buffer.offset,
                           .bytes = buffer.bytes,
                           .first = buffer.first,
                           .last = buffer.last});
  }
  map.peak = static_cast<uint32_t>(memory_timeline(plan, program).peak);
  return map;
}

nlohmann::json map_json(const BufferMap& map) {
  // Many buffers have the same module, so each buffer stores the index of its module in a list of names.
  std::map<std::string, size_t> number_of;
  Json modules = Json::array();
  Json buffers = Json::array();
  for (const MapBuffer& buffer : map.buffers) {
    const auto [it, is_new] = number_of.emplace(buffer.module, modules.size());
    if (is_new) modules.push_back(buffer.module);
    buffers.push_back({buffer.name, it->second, static_cast<int>(buffer.purpose), buffer.offset, buffer.bytes,
                       buffer.first, buffer.last, buffer.is_persistent ? 1 : 0});
  }
  Json segments = Json::array();
  for (const MapSegment& segment : map.segments) segments.push_back({segment.name, segment.first});
  Json purposes = Json::array();
  for (int p = 0; p < kNumPurposes; ++p) purposes.push_back(purpose_name(static_cast<Purpose>(p)));
  return {{"program", map.program},
          {"arena_bytes", map.arena_bytes},
          {"start_ms", map.start_ms},
          {"ops", map.ops},
          {"segments", std::move(segments)},
          {"purposes", std::move(purposes)},
          {"modules", std::move(modules)},
          {"buffers", std::move(buffers)},
          {"peak", map.peak}};
}

BufferMap parse_map(const nlohmann::json& json, const std::string& where) {
  try {
    BufferMap map{.program = json.at("program").get<std::string>(),
                  .arena_bytes = json.at("arena_bytes").get<int64_t>(),
                  .start_ms = json.at("start_ms").get<std::vector<double>>(),
                  .ops = json.at("ops").get<std::vector<std::string>>(),
                  .peak = json.at("peak").get<uint32_t>()};
    for (const Json& segment : json.at("segments"))
      map.segments.push_back({segment.at(0).get<std::string>(), segment.at(1).get<uint32_t>()});
    const auto modules = json.at("modules").get<std::vector<std::string>>();
    for (const Json& b : json.at("buffers")) {
      const auto purpose = b.at(2).get<int>();
      MapBuffer buffer{.name = b.at(0).get<std::string>(),
                       .module = modules.at(b.at(1).get<size_t>()),
                       .purpose = static_cast<Purpose>(purpose),
                       .offset = b.at(3).get<int64_t>(),
                       .bytes = b.at(4).get<int64_t>(),
                       .first = b.at(5).get<uint32_t>(),
                       .last = b.at(6).get<uint32_t>(),
                       .is_persistent = b.at(7).get<int>() != 0};
      const bool is_inside = purpose >= 0 && purpose < kNumPurposes && buffer.offset >= 0 &&
                             buffer.bytes >= 0 && buffer.bytes <= map.arena_bytes &&
                             buffer.offset <= map.arena_bytes - buffer.bytes && buffer.first <= buffer.last &&
                             buffer.last < map.num_ops();
      if (!is_inside) {
        throw_error(
            ErrorCode::kBadData,
            "{}: buffer '{}' is outside of the arena of {} bytes or of the program of {} ops; the file "
            "is damaged, run the training again",
            where, buffer.name, map.arena_bytes, map.num_ops());
      }
      map.buffers.push_back(std::move(buffer));
    }
    const bool is_whole = map.num_ops() > 0 && map.start_ms.size() == map.num_ops() + 1 &&
                          map.peak < map.num_ops() && map.arena_bytes > 0 &&
                          std::ranges::all_of(map.segments, [&](const MapSegment& segment) {
                            return segment.first < map.num_ops();
                          });
    if (!is_whole) {
      throw_error(ErrorCode::kBadData,
                  "{}: the map has {} ops and {} times, and its peak is op {}; the file is damaged, run the "
                  "training again",
                  where, map.num_ops(), map.start_ms.size(), map.peak);
    }
    return map;
  } catch (const Json::exception& error) {
    throw_error(ErrorCode::kBadData, "{}: the map of the arena cannot be read: {}; run the training again",
                where, error.what());
  } catch (const std::out_of_range&) {
    throw_error(ErrorCode::kBadData,
                "{}: a buffer of the map refers to a module that is not in the file; run the training again",
                where);
  }
}

}  // namespace plimsoll
