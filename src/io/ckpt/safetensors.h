// The safetensors file format: a strict writer, and a reader that validates all data before it is used.
//
// A file consists of the length N of the header as a little-endian u64, N bytes of JSON, and the data. The JSON maps names to {dtype,
// shape, data_offsets}. Offsets count from the start of the data, are contiguous without gaps or overlaps, and end exactly at the end of
// the file. The reader accepts names in any order, whitespace around the JSON, unaligned data, and types that Plimsoll cannot compute
// with (they are listed, but reading them is an error). It never maps a file into memory and never casts a pointer into it.
//
// Thread-safety: a SafetensorsFile is immutable after opening; several threads may call read() at the same time. Ownership: it owns the
// open file. Tensors are read directly into the caller's memory and written directly from it. Errors: kBadData, with a message that names
// the file, the tensor, the offset, the expected and the found value, and the remedy; FileError from the disk.
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

// Element types of the format, in the order in which the format lists them. The writer sorts tensors by this order.
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

// Returns the number of bits of one element, which may be less than 8.
int stored_type_bits(StoredType type);
// Returns the name of an element type in the file: "F32", "BF16", ...
std::string_view stored_type_name(StoredType type);
std::optional<StoredType> parse_stored_type(std::string_view name);
// Returns the DType with the same representation, or nothing if there is none. BOOL is read as u8.
std::optional<DType> stored_type_dtype(StoredType type);
StoredType to_stored_type(DType dtype);

struct StoredTensor {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // byte offset of the tensor from the start of the data
  int64_t end = 0;
  // True if reading must return the transpose of the matrix in the file; `shape` is then that of the transpose.
  bool is_transposed = false;

  int64_t num_elements() const;
  // Returns the size of the outermost dimension, or 1 for a scalar.
  int64_t num_rows() const { return shape.empty() ? 1 : shape.front(); }
};

// Converts the row-major index i of an element of a matrix with this many rows and columns to the row-major index of the same element in
// the transpose.
constexpr int64_t transposed_index(int64_t i, int64_t rows, int64_t columns) {
  return i % columns * rows + i / columns;
}

// Returns the tensor with is_transposed set and the shape of the transpose. A tensor that is transposed already, or that is not a matrix,
// is returned unchanged.
StoredTensor transpose_of(StoredTensor tensor);

struct SafetensorsHeader {
  int64_t data_offset = 0;            // byte offset of the data from the start of the file
  std::vector<StoredTensor> tensors;  // tensors in the order of their data in the file
  std::map<std::string, std::string> metadata;
};

inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;

// Parses the JSON of a header and checks it against the size of the file. `file` is the name of the file for messages. A pure function.
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t file_size_bytes,
                                           const std::string& file);

// A range of rows of a tensor: the indices [first, first + count) of its outermost dimension.
struct RowRange {
  int64_t first = 0;
  int64_t count = 0;
};

class SafetensorsFile {
 public:
  // Opens a file: reads and checks the header, but does not read the data. Memory: the text of the header during parsing, then the list
  // of tensors.
  static SafetensorsFile open(FileSystem& files, const std::string& path);

  const std::string& path() const { return path_; }
  int64_t size_bytes() const { return size_bytes_; }
  const std::vector<StoredTensor>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const StoredTensor* find(std::string_view name) const;

  // Marks the matrix of this name, so that reading it returns its transpose. Does nothing if it is marked already, or if the tensor is
  // not a matrix.
  void transpose(std::string_view name);

  // Reads a complete tensor into contiguous memory for num_elements() elements of destination.dtype. Equal types are read directly into
  // the destination. f16, bf16, f32 and f64 are converted to each other with a buffer of kFileChunkBytes. Conversions round to nearest,
  // ties to even; conversions to a 16-bit type first round to fp32. Errors: kBadData if the types cannot be converted.
  void read(const StoredTensor& tensor, View destination) const;
  // Reads a range of rows in the same way as read(). Requires: the range is inside the tensor. Cost for a transposed matrix: one read
  // call per row of the matrix in the file.
  void read_rows(const StoredTensor& tensor, RowRange rows, View destination) const;

 private:
  void read_transposed_rows(const StoredTensor& tensor, DType source_type, RowRange rows,
                            View destination) const;
  SafetensorsFile() = default;
  std::string path_;
  int64_t size_bytes_ = 0;
  std::unique_ptr<File> file_;
  SafetensorsHeader header_;
  // Maps the name of each tensor to its index in header_.tensors. The keys are views of the names in header_.
  std::map<std::string_view, size_t> by_name_;
};

// A tensor to write. Its bytes are either in memory at `data`, or produced by the function `fill`. The writer does not own them.
struct TensorSource {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  // Writes the bytes of the tensor that start at `offset_bytes` into `bytes`. Used for weights whose memory layout differs from that of
  // the file (packed, on a device, or an fp32 master weight in two halves). It is called for consecutive ranges of at most
  // kFileChunkBytes, in order.
  std::function<void(int64_t offset_bytes, std::span<std::byte> bytes)> fill = {};
  // Set if the ranks of a run divide the tensor among them: the byte range [begin, end) of the tensor that this rank has, and a function
  // that reads parts of it. TensorSource::fill then exchanges bytes between the ranks, so each rank has to call it for the same ranges.
  struct OwnBytes {
    int64_t begin = 0;
    int64_t end = 0;
    std::function<void(int64_t offset_bytes, std::span<std::byte> bytes)> fill = {};
  };
  std::optional<OwnBytes> own = {};
  // True if the ranks divide the tensor, but the bytes of a rank are not contiguous in the file. `own` is then empty. `fill` exchanges
  // bytes between the ranks, so each rank has to call it for the same ranges.
  bool is_exchanged = false;

  int64_t num_elements() const;
  int64_t size_bytes() const { return num_elements() * dtype_bytes(dtype); }
};

// The metadata of every file that Plimsoll writes. Hugging Face's loader refuses a file without the entry "format".
inline const std::map<std::string, std::string> kPytorchMetadata = {{"format", "pt"}};

// The header of a file and the offsets of the tensors in it. They are computed from the names, types and shapes of the tensors, so the
// layout is known before any data is read.
struct SafetensorsLayout {
  struct Place {
    const TensorSource* tensor = nullptr;
    int64_t offset = 0;  // byte offset of the tensor from the start of the file
  };
  std::string header;         // all bytes of the file before the data of the first tensor
  std::vector<Place> places;  // tensors in the order of their data in the file
  int64_t size_bytes = 0;     // size of the file
};

// Returns the layout of the file that write_safetensors() writes. The tensors must outlive it.
SafetensorsLayout lay_out_safetensors(std::span<const TensorSource> tensors,
                                      const std::map<std::string, std::string>& metadata = kPytorchMetadata);

// Creates the file, writes the tensors in the canonical order of the format (by type, wide types first, then by name) and syncs it.
// Returns the size and the hash, which is computed during writing. The same tensors always give the same bytes. Requires: the names are
// distinct, valid UTF-8, and not "__metadata__". Memory: the header, and kFileChunkBytes if a tensor has the function `fill`.
WrittenFile write_safetensors(FileSystem& files, const std::string& path,
                              std::span<const TensorSource> tensors,
                              const std::map<std::string, std::string>& metadata = kPytorchMetadata);

// Formats a shape for messages: "[2, 3]".
std::string format_shape(std::span<const int64_t> shape);

}  // namespace plimsoll
