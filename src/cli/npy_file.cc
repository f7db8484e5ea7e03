#include "cli/npy_file.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <utility>

#include "plimsoll/error.h"

namespace plimsoll::cli {

NpyFile::NpyFile(std::string path, std::string type, int64_t width)
    : path_(std::move(path)), type_(std::move(type)), width_(width), file_(path_ + ".tmp", std::ios::binary) {
  const std::string begin = header();
  file_.write(begin.data(), static_cast<std::streamsize>(begin.size()));
}

// The header always has 128 bytes, whatever the number of rows is, because finish() overwrites it with the final number of rows.
std::string NpyFile::header() const {
  constexpr size_t kBytes = 128;
  const int64_t rows = num_numbers_ / (width_ == 0 ? 1 : width_);
  const std::string columns = width_ == 0 ? "" : " " + std::to_string(width_);
  std::string text = "{'descr': '" + type_ + "', 'fortran_order': False, 'shape': (" + std::to_string(rows) +
                     "," + columns + "), }";
  constexpr size_t kPrefix = 10;
  text.resize(kBytes - kPrefix - 1, ' ');
  std::string begin("\x93NUMPY\x01\x00", 8);
  begin += static_cast<char>((kBytes - kPrefix) & 0xff);
  begin += '\0';
  return begin + text + "\n";
}

void NpyFile::append(std::span<const std::byte> bytes, size_t count) {
  file_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  num_numbers_ += static_cast<int64_t>(count);
}

const std::string& NpyFile::finish() {
  errno = 0;
  file_.seekp(0);
  const std::string begin = header();
  file_.write(begin.data(), static_cast<std::streamsize>(begin.size()));
  file_.close();
  if (!file_) {
    throw Error(ErrorCode::kDevice,
                path_ + ".tmp: cannot write the file: " + std::strerror(errno) +
                    "; check the permissions of the folder and the free space on its disk");
  }
  std::filesystem::rename(path_ + ".tmp", path_);
  return path_;
}

}  // namespace plimsoll::cli
