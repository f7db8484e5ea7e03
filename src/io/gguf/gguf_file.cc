#include "io/gguf/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>
#include <type_traits>

#include "base/check.h"

namespace plimsoll {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kFormatVersion = 3;
// Tensors are read and converted in pieces of about this many bytes of fp32 numbers. A piece is larger if rows_per_unit rows, the smallest
// number that can be read at once, need more.
constexpr int64_t kPieceBytes = 4 * kFileChunkBytes;

// The numbers by which the format identifies the types of metadata values.
enum class ValueType : uint32_t { kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9 };

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

class HeaderText {
 public:
  template <typename Number>
  void number(Number value) {
    static_assert(std::is_arithmetic_v<Number> || std::is_enum_v<Number>);
    char bytes[sizeof(Number)];
    std::memcpy(bytes, &value, sizeof(value));
    text_.append(bytes, sizeof(bytes));
  }
  void string(std::string_view value) {
    number(static_cast<uint64_t>(value.size()));
    text_ += value;
  }
  void raw(std::string_view value) { text_ += value; }
  void pad() { text_.append(static_cast<size_t>(padding(std::ssize(text_))), '\0'); }

  // Returns the number of padding bytes between `bytes` and the next multiple of the alignment.
  static int64_t padding(int64_t bytes) { return (kGgufAlignment - bytes % kGgufAlignment) % kGgufAlignment; }

  void operator()(uint32_t value) { typed(ValueType::kUint32, value); }
  void operator()(float value) { typed(ValueType::kFloat32, value); }
  void operator()(bool value) { typed(ValueType::kBool, static_cast<uint8_t>(value ? 1 : 0)); }
  void operator()(const std::string& value) {
    number(ValueType::kString);
    string(value);
  }
  void operator()(const std::vector<std::string>& values) {
    array(ValueType::kString, values.size());
    for (const std::string& value : values) string(value);
  }
  void operator()(const std::vector<int32_t>& values) {
    array(ValueType::kInt32, values.size());
    for (const int32_t value : values) number(value);
  }
  void operator()(const std::vector<float>& values) {
    array(ValueType::kFloat32, values.size());
    for (const float value : values) number(value);
  }

  std::string&& take() && { return std::move(text_); }

 private:
  template <typename Number>
  void typed(ValueType type, Number value) {
    number(type);
    number(value);
  }
  void array(ValueType type, size_t size) {
    number(ValueType::kArray);
    number(type);
    number(static_cast<uint64_t>(size));
  }

  std::string text_;
};

std::string header_of(const GgufMetadata& metadata, std::span<const GgufTensor> tensors) {
  HeaderText header;
  header.raw(kMagic);
  header.number(kFormatVersion);
  header.number(static_cast<uint64_t>(tensors.size()));
  header.number(static_cast<uint64_t>(metadata.entries().size()));
  std::set<std::string_view> names;
  for (const GgufEntry& entry : metadata.entries()) {
    PLIMSOLL_CHECK(names.insert(entry.key).second, "the key '{}' occurs twice", entry.key);
    header.string(entry.key);
    std::visit(header, entry.value);
  }
  names.clear();
  int64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    PLIMSOLL_CHECK(names.insert(tensor.name).second, "the tensor '{}' occurs twice", tensor.name);
    header.string(tensor.name);
    header.number(static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      header.number(static_cast<uint64_t>(*size));
    header.number(tensor.type);
    header.number(static_cast<uint64_t>(offset));
    offset += tensor.size_bytes();
    offset += HeaderText::padding(offset);
  }
  header.pad();
  return std::move(header).take();
}

[[noreturn]] void refuse_number(const GgufTensor& tensor, float value) {
  if (!std::isfinite(value)) {
    throw_error(ErrorCode::kBadData,
                "the tensor '{}' contains {}: the model is damaged; export an earlier checkpoint",
                tensor.name, value);
  }
  throw_error(ErrorCode::kBadData,
              "the tensor '{}' contains {}, which is too large for this type; give --outtype bf16 or f32",
              tensor.name, value);
}

void write_tensor(File& file, const GgufTensor& tensor) {
  const int64_t columns = tensor.columns(), row_bytes = gguf_row_bytes(tensor.type, columns);
  PLIMSOLL_CHECK(tensor.rows() % tensor.rows_per_unit == 0, "the number of rows, {}, is not a multiple of {}",
                 tensor.rows(), tensor.rows_per_unit);
  const int64_t unit_bytes = std::max<int64_t>(1, 4 * columns * tensor.rows_per_unit);
  const int64_t rows_per_piece = std::max<int64_t>(1, kPieceBytes / unit_bytes) * tensor.rows_per_unit;
  const int64_t most_rows = std::min(rows_per_piece, tensor.rows());
  std::vector<float> values(static_cast<size_t>(most_rows * columns));
  std::vector<std::byte> bytes(static_cast<size_t>(most_rows * row_bytes));
  for (int64_t row = 0; row < tensor.rows(); row += rows_per_piece) {
    const int64_t count = std::min(rows_per_piece, tensor.rows() - row);
    const auto piece = std::span(values).first(static_cast<size_t>(count * columns));
    const auto encoded = std::span(bytes).first(static_cast<size_t>(count * row_bytes));
    tensor.read(row, piece);
    const int64_t bad = encode_gguf(tensor.type, piece, encoded);
    if (bad >= 0) refuse_number(tensor, piece[static_cast<size_t>(bad)]);
    file.write(encoded);
  }
  const std::byte zeros[kGgufAlignment] = {};
  const int64_t padding = HeaderText::padding(tensor.size_bytes());
  if (padding > 0) file.write(std::span(zeros).first(static_cast<size_t>(padding)));
}

int64_t write_content(FileSystem& files, const std::string& path, const std::string& header,
                      std::span<const GgufTensor> tensors) {
  const auto file = files.create(path);
  file->write(std::as_bytes(std::span(header)));
  for (const GgufTensor& tensor : tensors) write_tensor(*file, tensor);
  const int64_t size = file->size_bytes();
  file->sync();
  file->close();
  return size;
}

void remove_quietly(FileSystem& files, const std::string& path) {
  try {
    files.remove_file(path);
  } catch (const FileError&) {  // ignored, because the first error is reported
  }
}

}  // namespace

int64_t write_gguf(FileSystem& files, const std::string& path, const GgufMetadata& metadata,
                   std::span<const GgufTensor> tensors) {
  const std::string header = header_of(metadata, tensors);
  const std::string temporary = temporary_path(path);
  int64_t size = 0;
  try {
    size = write_content(files, temporary, header, tensors);
    files.rename(temporary, path);
  } catch (...) {
    remove_quietly(files, temporary);
    throw;
  }
  files.sync_folder(parent_folder(path));
  return size;
}

bool is_gguf_file(FileSystem& files, const std::string& path) {
  std::byte start[kMagic.size()];
  return files.open_read(path)->pread(start, 0) == std::ssize(start) &&
         std::memcmp(start, kMagic.data(), kMagic.size()) == 0;
}

}  // namespace plimsoll
