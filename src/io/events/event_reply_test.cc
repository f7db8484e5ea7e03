// Tests the lines that a reader of --event_fd sends back.
#include "plimsoll/event_reply.h"

#include <gtest/gtest.h>

#include <cmath>

#include "plimsoll/error.h"

namespace plimsoll {
namespace {

std::string refusal_of(const std::string& line) {
  try {
    parse_event_reply(line);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST(EventReply, IsRead) {
  const EventReply reply =
      parse_event_reply(R"({"id": 7, "metrics": {"f1": 0.5, "n": null}, "control": ["stop", "log"]})");
  EXPECT_EQ(reply.id, 7);
  ASSERT_TRUE(reply.metrics.has_value());
  EXPECT_EQ(reply.metrics->at("f1"), 0.5);
  EXPECT_TRUE(std::isnan(reply.metrics->at("n")));
  EXPECT_TRUE(reply.control.stop && reply.control.log);
  EXPECT_FALSE(reply.control.save || reply.control.evaluate);
  const EventReply empty = parse_event_reply("{}");
  EXPECT_FALSE(empty.id.has_value() || empty.metrics.has_value());
  TrainControl control{.save = true};
  add_requests(reply.control, control);
  EXPECT_TRUE(control.stop && control.save && control.log);
  EXPECT_FALSE(control.evaluate);
}

TEST(EventReply, OtherLinesAreRefused) {
  EXPECT_EQ(
      refusal_of("no\x1b[2J"),
      "the reader of --event_fd replied \"no\\u001b[2J\": it is not a JSON object; a reply is a line such as "
      "{\"id\": 3, "
      "\"metrics\": {\"f1\": 0.5}, \"control\": [\"stop\"]}, with the id of the event that it replies to");
  const std::string deep = "{\"control\": [" + std::string(500000, '[') + std::string(500000, ']') + "]}";
  for (const auto& [line, reason] :
       {std::pair<std::string, const char*>{R"({"f1": 1})", "\"f1\" is neither a whole number 'id'"},
        {R"({"id": "3"})", "\"id\" is neither"},
        {R"({"id": 1.5})", "\"id\" is neither"},
        {R"({"metrics": [1]})", "\"metrics\" is neither"},
        {R"({"metrics": {"f1": "high"}})", "the metric \"f1\" is not a number"},
        {R"({"control": ["sleep"]})", "\"sleep\" is none of stop, evaluate, save and log"},
        {deep, "nested deeper than 64 levels"},
        {R"({"control": [["stop"]]})", "a request is none of stop"},
        {R"({"id": 1} {"id": 2})", "it is not a JSON object"},
        {"", "it is not a JSON object"}}) {
    EXPECT_NE(refusal_of(line).find(reason), std::string::npos)
        << line.substr(0, 100) << refusal_of(line).substr(0, 300);
  }
}

}  // namespace
}  // namespace plimsoll
