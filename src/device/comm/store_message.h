// The messages between the rendezvous store (store_server.h) and its clients (store_client.h). A message is a header of four numbers
// (magic, kind, request, length) and a payload of `length` bytes, in the byte order of the host. The comments below list the payload of
// each kind, whose numbers are int32_t. Values only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/comm/rank_progress.h"

namespace plimsoll {

inline constexpr size_t kMaxStorePayload = size_t{1} << 20;

enum class StoreMessageKind : uint32_t {
  // Messages from a client to the server; each comment lists the payload. The payload of kRegister is the rank, the number of ranks,
  // and the hash of the program (lower and upper half). The server answers at once with kWelcome, and later with kComplete or kRefused.
  kRegister = 1,
  kSet,          // payload: length of the key, key, value; the server answers with kDone
  kGet,          // payload: key; the server answers with kValue as soon as the key exists
  kListMissing,  // no payload; the server answers with kMissing
  kLeave,        // payload: text of a failure, or nothing if the rank leaves without one
  // no payload; asks all other ranks for their positions (what they are doing), each of which is sent back as kPosition
  kAskPositions,
  kMyPosition,  // payload: the rank that asked, and what this rank is doing (position_payload())
  // Messages from the server.
  kWelcome = 100,
  // all ranks are registered; payload: the address at which other hosts reach the host of rank 0, or empty if only this host takes part
  kComplete,
  kRefused,  // the server does not register the rank; payload: error code, text of the error
  kDone,
  kValue,     // payload: the value of the requested key
  kMissing,   // payload: the numbers of all ranks that have not registered
  kEnded,     // payload: the rank that ended, RankEnd::kind, RankEnd::text
  kWhere,     // payload: the rank that asks for the position of the receiver, which answers with kMyPosition
  kPosition,  // payload: the number of a rank, its position (what it is doing)
};

struct StoreMessage {
  StoreMessageKind kind = StoreMessageKind::kRegister;
  uint32_t request = 0;  // a number that the client chooses and the server repeats in its answer
  std::vector<std::byte> payload;

  std::string text(size_t offset = 0) const;
  // Returns the number at index `index` of the payload, or nothing if the payload is too short.
  std::optional<int32_t> number(size_t index) const;
};

// Appends the message to `output`. Requires: at most kMaxStorePayload bytes of payload.
void append_store_message(std::vector<std::byte>& output, StoreMessageKind kind, uint32_t request,
                          std::span<const std::byte> payload);

// Builds a payload of numbers followed by text.
std::vector<std::byte> store_payload(std::initializer_list<int32_t> numbers, std::string_view text = {});

// Write `number` and the position of a rank (what it is doing) to a payload, and read the position. Reading returns nothing if
// the payload is too short.
std::vector<std::byte> position_payload(int32_t number, const RankPosition& position);
std::optional<RankPosition> read_position(const StoreMessage& message);

struct StoreParse {
  std::optional<StoreMessage> message;  // absent if the input contains no complete message
  bool is_foreign = false;              // true if the input does not follow this protocol
};
// Removes the first message from `input` and returns it.
StoreParse take_store_message(std::vector<std::byte>& input);

// How a rank ended, as the server tells the other ranks.
struct RankEnd {
  enum class Kind : int32_t {
    kLeft,    // the rank left regularly, after its last operation
    kFailed,  // the rank reported a failure
    kDied,    // the connection closed although the rank had not left, so its process died
  };
  int rank = 0;
  Kind kind = Kind::kLeft;
  std::string text = {};  // text of the failure, if the rank reported one
};

}  // namespace plimsoll
