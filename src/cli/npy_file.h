// Writes an array of numbers as a .npy file of NumPy (format 1.0), row by row. Not thread-safe.
#pragma once

#include <cstdint>
#include <fstream>
#include <span>
#include <string>

namespace plimsoll::cli {

class NpyFile {
 public:
  // Creates the file PATH.tmp, which finish() renames to PATH. `type` is NumPy's name of the type: "<f4" for floats, "<i4"
  // or "<i8" for integers. `width` is the count of numbers per row, or 0 for an array of one dimension. Errors: kDevice.
  NpyFile(std::string path, std::string type, int64_t width);

  // Append numbers. Requires: they have the type of the file, and all of them together are complete rows.
  void append(std::span<const float> numbers) { append(std::as_bytes(numbers), numbers.size()); }
  void append(std::span<const int32_t> numbers) { append(std::as_bytes(numbers), numbers.size()); }
  void append(std::span<const int64_t> numbers) { append(std::as_bytes(numbers), numbers.size()); }

  // Writes the number of rows into the header, and renames PATH.tmp to PATH. Returns PATH. Errors: kDevice.
  const std::string& finish();

 private:
  void append(std::span<const std::byte> bytes, size_t count);
  std::string header() const;

  std::string path_;
  std::string type_;
  int64_t width_;
  int64_t num_numbers_ = 0;
  std::ofstream file_;
};

}  // namespace plimsoll::cli
