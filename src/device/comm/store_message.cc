#include "device/comm/store_message.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace plimsoll {
namespace {

struct StoreHeader {
  uint32_t magic;
  uint32_t kind;
  uint32_t request;
  uint32_t length;
};

// The first number of the header of every message: the letters PLS and the version of the protocol.
constexpr uint32_t kStoreMagic = 0x504c5302;

}  // namespace

std::string StoreMessage::text(size_t offset) const {
  std::string result(payload.size() - std::min(offset, payload.size()), '\0');
  if (!result.empty()) std::memcpy(result.data(), payload.data() + offset, result.size());
  return result;
}

std::optional<int32_t> StoreMessage::number(size_t index) const {
  if (payload.size() / sizeof(int32_t) <= index) return std::nullopt;
  int32_t value = 0;
  std::memcpy(&value, payload.data() + index * sizeof value, sizeof value);
  return value;
}

void append_store_message(std::vector<std::byte>& output, StoreMessageKind kind, uint32_t request,
                          std::span<const std::byte> payload) {
  PLIMSOLL_CHECK(payload.size() <= kMaxStorePayload,
                 "a message to the store may have at most {} bytes, but has {}", kMaxStorePayload,
                 payload.size());
  const StoreHeader header = {.magic = kStoreMagic,
                              .kind = static_cast<uint32_t>(kind),
                              .request = request,
                              .length = static_cast<uint32_t>(payload.size())};
  const auto bytes = std::as_bytes(std::span(&header, 1));
  output.insert(output.end(), bytes.begin(), bytes.end());
  output.insert(output.end(), payload.begin(), payload.end());
}

std::vector<std::byte> store_payload(std::initializer_list<int32_t> numbers, std::string_view text) {
  const auto number_bytes = std::as_bytes(std::span(numbers.begin(), numbers.size()));
  const auto text_bytes = std::as_bytes(std::span(text));
  std::vector<std::byte> payload(number_bytes.begin(), number_bytes.end());
  payload.insert(payload.end(), text_bytes.begin(), text_bytes.end());
  return payload;
}

std::vector<std::byte> position_payload(int32_t number, const RankPosition& position) {
  const auto clamped = [](int64_t value) {
    return static_cast<int32_t>(std::clamp<int64_t>(value, 0, std::numeric_limits<int32_t>::max()));
  };
  constexpr size_t kLongestName = 256;
  return store_payload(
      {number, static_cast<int32_t>(position.phase), clamped(position.step), position.waits ? 1 : 0,
       position.peer, clamped(position.number), clamped(position.time.count())},
      std::string_view(position.operation).substr(0, kLongestName));
}

std::optional<RankPosition> read_position(const StoreMessage& message) {
  constexpr size_t kNumbers = 7;
  if (!message.number(kNumbers - 1)) return std::nullopt;
  const auto number = [&](size_t index) { return message.number(index).value_or(0); };
  return RankPosition{.phase = static_cast<RankPhase>(number(1)),
                      .step = number(2),
                      .waits = number(3) != 0,
                      .peer = number(4),
                      .number = number(5),
                      .operation = message.text(kNumbers * sizeof(int32_t)),
                      .time = std::chrono::milliseconds(number(6))};
}

StoreParse take_store_message(std::vector<std::byte>& input) {
  StoreParse parse;
  StoreHeader header = {};
  // The first bytes identify the protocol. A program with another protocol is recognized even if it sends fewer bytes than a header has.
  if (!input.empty()) std::memcpy(&header, input.data(), std::min(input.size(), sizeof header));
  if (input.size() >= sizeof header.magic && header.magic != kStoreMagic) parse.is_foreign = true;
  if (input.size() < sizeof header || parse.is_foreign) return parse;
  if (header.length > kMaxStorePayload) {
    parse.is_foreign = true;
    return parse;
  }
  const size_t total = sizeof header + header.length;
  if (input.size() < total) return parse;
  const auto end = input.begin() + static_cast<std::ptrdiff_t>(total);
  parse.message = StoreMessage{.kind = static_cast<StoreMessageKind>(header.kind),
                               .request = header.request,
                               .payload = {input.begin() + static_cast<std::ptrdiff_t>(sizeof header), end}};
  input.erase(input.begin(), end);
  return parse;
}

}  // namespace plimsoll
