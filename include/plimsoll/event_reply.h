// Parses the lines that the program at the other end of --event_fd (the reader) sends back. docs/PYTHON.md describes
// them. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plimsoll/training.h"

namespace plimsoll {

struct EventReply {
  // The `id` of the event that this line answers; nothing for a request that does not answer an event.
  std::optional<int64_t> id = {};
  std::optional<MetricMap> metrics = {};
  TrainControl control = {};
};

// Parses a line of the reader. Errors: kUsage for a line that is not a valid reply, with the line and the reason.
EventReply parse_event_reply(const std::string& line);

// Throws kUsage with a message that contains the line of the reader and the reason why it cannot be accepted.
[[noreturn]] void refuse_event_reply(const std::string& line, const std::string& reason);

// Adds requests: each request (such as a stop or a save) that is set in `added` is set in `control` too.
void add_requests(const TrainControl& added, TrainControl& control);

}  // namespace plimsoll
