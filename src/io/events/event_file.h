// Writes event files of TensorBoard: a sequence of TFRecords, each of which contains one message `Event` of TensorFlow's protocol buffers.
//
// A TFRecord is the length of its data (u64, little endian), a checksum of these 8 bytes, the data, and a checksum of the data. The
// checksum is a CRC-32C (Castagnoli polynomial), rotated and with a constant added, because the CRC of data that contains its own CRC
// would be useless. Source: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto,
// tensorflow/core/framework/summary.proto.
//
// All events of one call are written by one write() to a file that is opened for appending. If the process is killed, the file therefore
// contains complete records only, unless the kill interrupts this write() itself; readers ignore a record that is cut off.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace plimsoll {

// Returns the CRC-32C of the bytes.
uint32_t crc32c(std::span<const std::byte> bytes);

// A number and its tag, such as "train/loss".
struct EventScalar {
  std::string tag;
  double value = 0;  // rounded to fp32 when it is written
};

class EventFile {
 public:
  // Creates the file and writes its first record, the version of the format. `wall_time` is in seconds since 1970. The file system has to
  // outlive this object. Errors: FileError.
  EventFile(FileSystem& files, std::string path, double wall_time);

  // Appends one event per number. Errors: FileError.
  void add_scalars(int64_t step, double wall_time, const std::vector<EventScalar>& scalars);
  // Appends a text, which TensorBoard shows as Markdown. Errors: FileError.
  void add_text(std::string_view tag, std::string_view text, int64_t step, double wall_time);

  const std::string& path() const { return path_; }

 private:
  void append(std::string_view records);

  FileSystem& files_;
  std::string path_;
};

}  // namespace plimsoll
