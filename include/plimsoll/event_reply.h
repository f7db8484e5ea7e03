// Reads the lines that a reader of --event_fd sends back. docs/PYTHON.md describes them. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plimsoll/training.h"

namespace plimsoll {

struct EventReply {
  // The `id` of the event that it replies to; nothing for requests that reply to no event.
  std::optional<int64_t> id = {};
  std::optional<MetricMap> metrics = {};
  TrainControl control = {};
};

// Returns the reply in a line. Errors: kUsage for a line that is none, with the line and the reason.
EventReply parse_event_reply(const std::string& line);

// Throws kUsage: the reader has sent a line that cannot be accepted, for this reason.
[[noreturn]] void refuse_event_reply(const std::string& line, const std::string& reason);

// Adds the requests in `added` to those in `control`.
void add_requests(const TrainControl& added, TrainControl& control);

}  // namespace plimsoll
