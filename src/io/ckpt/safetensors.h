// The safetensors file format: a strict writer and a reader that checks everything before it trusts anything.
//
// A file is: u64 little-endian N, N bytes of JSON, data. The JSON maps names to {dtype, shape, data_offsets};
// offsets count from the start of the data, follow each other without holes or overlaps, and end exactly
// where the file ends. The reader takes any order of names, whitespace around the JSON, data that is not
// aligned, and types that Plimsoll cannot compute with (they are listed, reading them is an error). It never
// maps a file and never casts a pointer into it.
//
// Thread-safety: a SafetensorsFile is immutable once open; read() may be called by several threads at once.
// Ownership: it owns the open file; tensors are read into the caller's memory and written out of it.
// Errors: kBadData, with file, tensor, offset, both values and what to do; FileError from the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/view.h"

namespace plimsoll {

// Element types of the format, in the format's own order, by which the writer sorts.
enum class StoredType : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3Fnuz,
  kF8E5M2Fnuz,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

inline constexpr int kNumStoredTypes = 22;

// Bits of one element (4 and 6 exist).
int stored_type_bits(StoredType type);
// "F32", "BF16"...: the word in the file.
std::string_view stored_type_name(StoredType type);
std::optional<StoredType> parse_stored_type(std::string_view name);
// The type of ours with the same bytes (BOOL is read as u8); nothing if there is none.
std::optional<DType> stored_type_dtype(StoredType type);
StoredType to_stored_type(DType dtype);

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes from the start of the data
  int64_t end = 0;

  int64_t num_elements() const;
  // Of the outermost dimension; 1 for rank 0.
  int64_t num_rows() const { return shape.empty() ? 1 : shape.front(); }
};

struct SafetensorsHeader {
  int64_t data_offset = 0;            // bytes from the start of the file
  std::vector<StoredTensor> tensors;  // in the order of their data
  std::map<std::string, std::string> metadata;
};

inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// The header's JSON, checked against the size of the file. `file` is the name for messages. Pure.
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t file_size_bytes,
                                           const std::string& file);

// Rows [first, first + count) of the outermost dimension.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};

class SafetensorsFile {
 public:
  // Reads and checks the header; the data stays on the disk. Memory: the header's text while it is parsed,
  // then the list.
  static SafetensorsFile open(FileSystem& files, const std::string& path);

  const std::string& path() const { return path_; }
  int64_t size_bytes() const { return size_bytes_; }
  const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const StoredTensor* find(std::string_view name) const;

  // Reads all of a tensor into contiguous memory of num_elements() elements of destination.dtype. Equal types
  // go straight into the destination; f16, bf16, f32 and f64 convert into each other (round to nearest, ties
  // to even; to a 16-bit type through fp32) through kFileChunkBytes of memory. Errors: kBadData if the types
  // do not convert.
  void read(const StoredTensor& tensor, View destination) const;
  // The same for a range of rows. Requires: the range lies in the tensor.
  void read_rows(const StoredTensor& tensor, RowRange rows, View destination) const;

 private:
  SafetensorsFile() = default;
  std::string path_;
  int64_t size_bytes_ = 0;
  std::unique_ptr<File> file_;
  SafetensorsHeader header_;
  std::map<std::string_view, size_t> by_name_;  // views of the names in header_
};

// A tensor to write: its bytes lie at `data`, or `fill` makes them. The writer owns neither.
struct TensorSource {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  // For weights that do not lie in memory as they are stored (packed, on a device, master in two halves):
  // fills `bytes` with the tensor's bytes from `offset_bytes` on. Called with consecutive ranges of at most
  // kFileChunkBytes, in order.
  std::function<void(int64_t offset_bytes, std::span<std::byte> bytes)> fill = {};

  int64_t num_elements() const;
  int64_t size_bytes() const { return num_elements() * dtype_bytes(dtype); }
};

// Without it Hugging Face's loader refuses the file.
inline const std::map<std::string, std::string> kPytorchMetadata = {{"format", "pt"}};

// Creates the file, writes the tensors in the format's canonical order (type descending, then name), syncs it
// and returns size and hash, computed while writing. The same tensors give the same bytes. Requires: names
// are distinct valid UTF-8 and none is "__metadata__". Memory: the header, and kFileChunkBytes if a source
// has `fill`.
WrittenFile write_safetensors(FileSystem& files, const std::string& path,
                              std::span<const TensorSource> tensors,
                              const std::map<std::string, std::string>& metadata = kPytorchMetadata);

// "[2, 3]", for messages.
std::string format_shape(std::span<const int64_t> shape);

}  // namespace plimsoll
