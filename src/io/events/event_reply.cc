#include "plimsoll/event_reply.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/guarded_json.h"
#include "plimsoll/error.h"

namespace plimsoll {
namespace {

using nlohmann::json;

// Returns the start of a text, in quotes and without control characters, for an error message.
std::string excerpt_of(const std::string& line) {
  constexpr size_t kMostBytes = 200;
  return json(line.substr(0, kMostBytes)).dump(-1, ' ', false, json::error_handler_t::replace);
}

MetricMap metrics_in(const json& object, const std::string& line) {
  MetricMap metrics;
  for (const auto& [name, number] : object.items()) {
    if (!number.is_number() && !number.is_null())
      refuse_event_reply(line, "the metric " + excerpt_of(name) + " is not a number");
    metrics[name] = number.is_null() ? std::nan("") : number.get<double>();
  }
  return metrics;
}

TrainControl requests_in(const json& list, const std::string& line) {
  TrainControl control;
  for (const json& request : list) {
    if (request == "stop") {
      control.stop = true;
    } else if (request == "evaluate") {
      control.evaluate = true;
    } else if (request == "save") {
      control.save = true;
    } else if (request == "log") {
      control.log = true;
    } else {
      refuse_event_reply(line, (request.is_string() ? excerpt_of(request.get<std::string>()) : "a request") +
                                   " is none of stop, evaluate, save and log");
    }
  }
  return control;
}

}  // namespace

void refuse_event_reply(const std::string& line, const std::string& reason) {
  throw Error(
      ErrorCode::kUsage,
      "the reader of --event_fd replied " + excerpt_of(line) + ": " + reason +
          "; a reply is a line such as {\"id\": 3, \"metrics\": {\"f1\": 0.5}, \"control\": [\"stop\"]}, "
          "with the id of the event that it replies to");
}

EventReply parse_event_reply(const std::string& line) {
  JsonTree<json> tree;
  const std::optional<JsonFault> fault = read_json(line, {}, tree);
  if (fault && fault->kind != JsonFaultKind::kText) refuse_event_reply(line, fault->reason);
  const json object = fault ? json() : tree.take();
  if (!object.is_object()) refuse_event_reply(line, "it is not a JSON object");
  EventReply reply;
  for (const auto& [name, value] : object.items()) {
    if (name == "id" && value.is_number_integer()) {
      reply.id = value.get<int64_t>();
    } else if (name == "metrics" && value.is_object()) {
      reply.metrics = metrics_in(value, line);
    } else if (name == "control" && value.is_array()) {
      reply.control = requests_in(value, line);
    } else {
      refuse_event_reply(
          line, excerpt_of(name) +
                    " is neither a whole number 'id', nor an object 'metrics', nor a list 'control'");
    }
  }
  return reply;
}

void add_requests(const TrainControl& added, TrainControl& control) {
  control.stop = control.stop || added.stop;
  control.evaluate = control.evaluate || added.evaluate;
  control.save = control.save || added.save;
  control.log = control.log || added.log;
}

}  // namespace plimsoll
