// The map of an arena: the address of each buffer, and the first and the last op at which it is in use. Pure;
// thread-safe.
//
// Invariants: the sizes of the buffers that are live at the peak, without gaps, add up to live_bytes(peak). Persistent buffers
// are live at every op and begin at address 0. No two buffers that are live at one op share a byte.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "plan/compile/plan.h"

namespace plimsoll {

struct MapBuffer {
  std::string name = {};
  std::string module = {};
  Purpose purpose = Purpose::kTemporary;
  int64_t offset = 0;
  int64_t bytes = 0;
  uint32_t first = 0;  // positions of the first and the last op at which the buffer is in use
  uint32_t last = 0;
  bool is_persistent = false;
};

struct MapSegment {
  std::string name = {};  // name of the segment of the program, such as "forward"
  uint32_t first = 0;     // position of the first op of the segment
};

struct BufferMap {
  std::string program = {};
  int64_t arena_bytes = 0;
  // The estimated start time of each op in milliseconds; the last element is the end of the program.
  std::vector<double> start_ms = {};
  std::vector<std::string> ops = {};  // name of each op, in the order in which the ops run
  std::vector<MapSegment> segments = {};
  std::vector<MapBuffer> buffers = {};
  uint32_t peak = 0;  // position of the op at which the most bytes are in use, as in MemoryAnatomy::peaks

  size_t num_ops() const { return ops.size(); }
  int64_t live_bytes(uint32_t op) const;
  // Returns the sum over all buffers of their bytes times the number of ops during which they are live.
  double byte_ops() const;
};

// Returns the map of a program of the plan. Cost: linear in the number of ops and of buffers.
BufferMap buffer_map(const Plan& plan, const ProgramPlan& program);

// Convert a map to JSON and back. Errors of parse_map(): kBadData if a value is missing, or if a buffer is outside of the arena or
// the program; `where` names the file.
nlohmann::json map_json(const BufferMap& map);
BufferMap parse_map(const nlohmann::json& json, const std::string& where);

}  // namespace plimsoll
