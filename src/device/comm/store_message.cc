#include "device/comm/store_message.h"

#include <algorithm>

#include "base/check.h"

namespace plimsoll {
namespace {

struct StoreHeader {
  uint32_t magic;
  uint32_t kind;
  uint32_t request;
  uint32_t length;
};

// "PLS" and the version of the protocol.
constexpr uint32_t kStoreMagic = 0x504c5301;

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
  PLIMSOLL_CHECK(payload.size() <= kMaxStorePayload, "message of {} bytes", payload.size());
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

StoreParse take_store_message(std::vector<std::byte>& input) {
  StoreParse parse;
  StoreHeader header = {};
  // A foreign program is recognized by its first bytes, even if it sends fewer than a header.
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
