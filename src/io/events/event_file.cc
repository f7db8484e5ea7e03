#include "io/events/event_file.h"

#include <array>
#include <bit>
#include <utility>

namespace plimsoll {
namespace {

// The wire types of Protocol Buffers that are used: the numbers that identify how a field is encoded.
constexpr uint32_t kVarint = 0;
constexpr uint32_t kFixed64 = 1;
constexpr uint32_t kBytes = 2;
constexpr uint32_t kFixed32 = 5;

constexpr std::array<uint32_t, 256> make_crc_table() {
  constexpr uint32_t kReversedCastagnoli = 0x82f63b78;
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1u) != 0 ? kReversedCastagnoli : 0u);
    table[i] = value;
  }
  return table;
}

constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

void put_little_endian(uint64_t value, int num_bytes, std::string& out) {
  for (int i = 0; i < num_bytes; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

void put_varint(uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>((value & 0x7f) | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void put_key(uint32_t field, uint32_t type, std::string& out) {
  put_varint(field << 3 | type, out);
}

void put_bytes(uint32_t field, std::string_view bytes, std::string& out) {
  put_key(field, kBytes, out);
  put_varint(bytes.size(), out);
  out.append(bytes);
}

// Protocol Buffers do not store an integer field that is zero.
void put_integer(uint32_t field, uint64_t value, std::string& out) {
  if (value == 0) return;
  put_key(field, kVarint, out);
  put_varint(value, out);
}

void put_double(uint32_t field, double value, std::string& out) {
  put_key(field, kFixed64, out);
  put_little_endian(std::bit_cast<uint64_t>(value), 8, out);
}

// The float is a member of a oneof, so it is written even if it is zero.
void put_float(uint32_t field, float value, std::string& out) {
  put_key(field, kFixed32, out);
  put_little_endian(std::bit_cast<uint32_t>(value), 4, out);
}

uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return std::rotr(crc, 15) + 0xa282ead8u;
}

void put_record(std::string_view data, std::string& out) {
  std::string length;
  put_little_endian(data.size(), 8, length);
  out += length;
  put_little_endian(masked_crc(length), 4, out);
  out += data;
  put_little_endian(masked_crc(data), 4, out);
}

// Returns the first fields of the message Event {double wall_time = 1; int64 step = 2; oneof {string file_version = 3; Summary summary =
// 5;}}.
std::string event_head(double wall_time, int64_t step) {
  std::string event;
  put_double(1, wall_time, event);
  put_integer(2, static_cast<uint64_t>(step), event);
  return event;
}

// Adds the message Summary {repeated Value value = 1;} as a field of an event.
void put_summary(std::string_view value, std::string& event) {
  std::string summary;
  put_bytes(1, value, summary);
  put_bytes(5, summary, event);
}

}  // namespace

uint32_t crc32c(std::span<const std::byte> bytes) {
  uint32_t crc = 0xffffffffu;
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ kCrcTable[(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

EventFile::EventFile(FileSystem& files, std::string path, double wall_time)
    : files_(files), path_(std::move(path)) {
  std::string event = event_head(wall_time, 0);
  put_bytes(3, "brain.Event:2", event);
  std::string record;
  put_record(event, record);
  const auto file = files_.create(path_);
  file->write(std::as_bytes(std::span(record)));
  file->close();
}

void EventFile::add_scalars(int64_t step, double wall_time, const std::vector<EventScalar>& scalars) {
  std::string records;
  for (const EventScalar& scalar : scalars) {
    // The message is Value {string tag = 1; oneof {float simple_value = 2; TensorProto tensor = 8;} SummaryMetadata metadata = 9;}.
    std::string value;
    put_bytes(1, scalar.tag, value);
    put_float(2, static_cast<float>(scalar.value), value);
    std::string event = event_head(wall_time, step);
    put_summary(value, event);
    put_record(event, records);
  }
  append(records);
}

void EventFile::add_text(std::string_view tag, std::string_view text, int64_t step, double wall_time) {
  constexpr uint64_t kStringType = 7;  // DT_STRING of TensorFlow's DataType
  // The messages are TensorProto {DataType dtype = 1; TensorShapeProto tensor_shape = 2; repeated bytes string_val = 8;},
  // TensorShapeProto {repeated Dim dim = 2;} and Dim {int64 size = 1;}.
  std::string dimension;
  put_integer(1, 1, dimension);
  std::string shape;
  put_bytes(2, dimension, shape);
  std::string tensor;
  put_integer(1, kStringType, tensor);
  put_bytes(2, shape, tensor);
  put_bytes(8, text, tensor);
  // The messages are SummaryMetadata {PluginData plugin_data = 1;} and PluginData {string plugin_name = 1;}.
  std::string plugin;
  put_bytes(1, "text", plugin);
  std::string metadata;
  put_bytes(1, plugin, metadata);
  std::string value;
  put_bytes(1, std::string(tag) + "/text_summary", value);
  put_bytes(8, tensor, value);
  put_bytes(9, metadata, value);
  std::string event = event_head(wall_time, step);
  put_summary(value, event);
  std::string record;
  put_record(event, record);
  append(record);
}

void EventFile::append(std::string_view records) {
  if (records.empty()) return;
  const auto file = files_.open_append(path_);
  file->write(std::as_bytes(std::span(records)));
  file->close();
}

}  // namespace plimsoll
