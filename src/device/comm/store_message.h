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
  // Messages from a client. kRegister: rank, number of ranks, hash of the program (lower and upper half); answered by kWelcome at once, and
  // later by kComplete or kRefused.
  kRegister = 1,
  kSet,           // length of the key, key, value; answered by kDone
  kGet,           // key; answered by kValue when the key exists
  kListMissing,   // answered by kMissing
  kLeave,         // text of a failure, or empty
  kAskPositions,  // asks all other ranks for their positions; each is answered by kPosition
  kMyPosition,    // rank that asked, position as position_payload() writes it
  // Messages from the server.
  kWelcome = 100,
  kComplete,  // all ranks are registered; address at which other hosts reach the host of rank 0, or empty
  kRefused,   // error code, text
  kDone,
  kValue,     // value
  kMissing,   // one missing rank per number
  kEnded,     // rank, how it ended, text
  kWhere,     // rank that asks for the position; answered by kMyPosition
  kPosition,  // rank, its position
};

struct StoreMessage {
  StoreMessageKind kind = StoreMessageKind::kRegister;
  uint32_t request = 0;  // chosen by the client, repeated in the answer
  std::vector<std::byte> payload;

  std::string text(size_t offset = 0) const;
  // Returns number `index` of the payload, or nothing if the payload is too short.
  std::optional<int32_t> number(size_t index) const;
};

// Appends the message to `output`. Requires: at most kMaxStorePayload bytes of payload.
void append_store_message(std::vector<std::byte>& output, StoreMessageKind kind, uint32_t request,
                          std::span<const std::byte> payload);

// Builds a payload of numbers followed by text.
std::vector<std::byte> store_payload(std::initializer_list<int32_t> numbers, std::string_view text = {});

// Write `number` and the position of a rank to a payload, and read the position back. Reading returns nothing if the payload is too short.
std::vector<std::byte> position_payload(int32_t number, const RankPosition& position);
std::optional<RankPosition> read_position(const StoreMessage& message);

struct StoreParse {
  std::optional<StoreMessage> message;  // empty if the input holds no complete message
  bool is_foreign = false;              // the input does not follow this protocol
};
// Removes the first message from `input` and returns it.
StoreParse take_store_message(std::vector<std::byte>& input);

// How a rank ended, as the server tells the other ranks.
struct RankEnd {
  enum class Kind : int32_t {
    kLeft,    // it left after its last operation
    kFailed,  // it reported a failure
    kDied,    // its connection closed without a message
  };
  int rank = 0;
  Kind kind = Kind::kLeft;
  std::string text = {};  // failure that the rank reported
};

}  // namespace plimsoll
