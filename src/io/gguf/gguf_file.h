// Writes GGUF files, version 3, the format that llama.cpp and the programs built on it read.
//
// A file consists of "GGUF", the version, the number of tensors, the number of metadata entries, these entries, a description of each
// tensor (name, sizes from the innermost dimension, type, offset), and the data of the tensors. Numbers are little-endian. The data of
// each tensor begins at a multiple of 32 bytes; the bytes in between are zero.
//
// The writer reads the tensors piece by piece, so that its memory does not depend on the size of the model. Thread-safe: free functions.
// Errors: kBadData for numbers that cannot be stored, with a message that names the tensor and the remedy; FileError from the disk.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/gguf_metadata.h"

namespace plimsoll {

// The types of tensor elements, with the numbers by which the format identifies them. kQ8_0 stores 32 adjacent elements of a row as a
// block: a scale in f16 and 32 integers of 8 bits.
enum class GgufType : uint32_t { kF32 = 0, kF16 = 1, kQ8_0 = 8, kBF16 = 30 };

inline constexpr int64_t kGgufBlock = 32;  // number of elements in a block of kQ8_0
// The data of a tensor begins at a multiple of this number of bytes.
inline constexpr int64_t kGgufAlignment = 32;

// Returns the size in bytes of a row with this number of elements. Requires: for kQ8_0, the number is a multiple of the block size.
int64_t gguf_row_bytes(GgufType type, int64_t columns);

// Encodes numbers in one of the types. Rounding is to nearest: for f16 and bf16 with ties to even. For kQ8_0 each number is multiplied by
// the reciprocal of the scale of its block and rounded with ties away from zero, as in the reference implementation of the format.
// Requires: `bytes` has gguf_row_bytes(type, values.size()) bytes. Returns -1, or the index of the first number that the type cannot
// store, because it is not finite or exceeds the largest number of f16.
int64_t encode_gguf(GgufType type, std::span<const float> values, std::span<std::byte> bytes);

// A tensor to write. A row consists of the elements of the innermost dimension; a vector is one row.
struct GgufTensor {
  std::string name;
  GgufType type = GgufType::kF32;
  std::vector<int64_t> shape;  // one or two dimensions, the outermost first
  // The number of rows in each call of `read` is a multiple of this number. It is above 1 if `read` reorders rows within blocks of this
  // number of rows, such as the rows of an attention head.
  int64_t rows_per_unit = 1;
  // Writes consecutive rows, beginning with `first_row`, into `values`. It is called in the order of the rows.
  std::function<void(int64_t first_row, std::span<float> values)> read = {};

  int64_t rows() const { return shape.size() > 1 ? shape.front() : 1; }
  int64_t columns() const { return shape.back(); }
  int64_t size_bytes() const { return rows() * gguf_row_bytes(type, columns()); }
};

// Writes the file under a temporary name, syncs it, renames it to `path` and syncs the folder, so that after a failure or a
// crash `path` is either unchanged or complete. Returns the size of the file. After a failure no temporary file is left, unless
// the disk refuses to remove it. Requires: the names of tensors and the keys of entries are distinct; rows_per_unit divides
// the number of rows.
int64_t write_gguf(FileSystem& files, const std::string& path, const GgufMetadata& metadata,
                   std::span<const GgufTensor> tensors);

// Returns true if the file begins with "GGUF".
bool is_gguf_file(FileSystem& files, const std::string& path);

}  // namespace plimsoll
