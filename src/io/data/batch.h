// A batch without padding, and the function that writes one into the caller's buffers. Thread-safe:
// assemble_batch only reads the data set and writes the buffers.
//
// Legend: T tokens of the batch, B sequences, K label values per sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/data/dataset.h"
#include "io/data/sampler.h"

namespace plimsoll {

// The destination of a batch. Each span has at least the size given here. The rest of a larger buffer is
// filled, so that a bucket larger than the batch never reads values of an earlier batch: ids, types and
// positions with 0, cu_seqlens with T, labels with kNoLabel or 0, rows with -1.
struct BatchBuffers {
  std::span<int32_t> ids;         // [T]
  std::span<int32_t> types;       // [T]
  std::span<int32_t> positions;   // [T]: 0, 1, ... within each sequence, plus position_offset
  std::span<int32_t> cu_seqlens;  // [B + 1]: the start of each sequence, then T
  std::span<int32_t> classes;     // [B]; empty if the labels are not classes
  std::span<float> values;        // [B * K]; empty if the labels are not floats
  std::span<int32_t> rows;        // [B]: rows in the data set
  int32_t position_offset = 0;    // RoBERTa starts at the padding id + 1
};

struct BatchInfo {
  int64_t num_tokens = 0;
  int64_t num_sequences = 0;
  int64_t longest = 0;
  DataPosition position;  // position of the first row of the batch
  DataPosition next;      // position from which a run resumes after this batch
  bool last_in_epoch = false;
  bool operator==(const BatchInfo&) const = default;
};

// The required size of the buffers.
struct BatchCapacity {
  int64_t tokens = 0;
  int64_t sequences = 0;
  int64_t label_values = 1;  // K
};

// Writes the tokens and labels of the rows and returns the counts; the caller sets position and next.
// Allocates nothing. Requires: the buffers are large enough, and the rows belong to the data set.
BatchInfo assemble_batch(const Dataset& data, std::span<const int32_t> rows, const BatchBuffers& out);

// Buffers that own their memory, for tests, tools and the slots of the loader.
class OwnedBatch {
 public:
  enum class LabelKind { kNone, kClasses, kValues };
  OwnedBatch(const BatchCapacity& capacity, LabelKind labels, int32_t position_offset = 0);
  OwnedBatch(OwnedBatch&&) = default;
  OwnedBatch& operator=(OwnedBatch&&) = default;
  OwnedBatch(const OwnedBatch&) = delete;
  OwnedBatch& operator=(const OwnedBatch&) = delete;
  const BatchBuffers& buffers() const { return buffers_; }
  // Returns the kind that the labels of a data set need.
  static LabelKind label_kind(const Dataset& data);

 private:
  std::vector<int32_t> ints_;
  std::vector<float> floats_;
  BatchBuffers buffers_;
};

}  // namespace plimsoll
