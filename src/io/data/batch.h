// A batch without padding, and how one is written into buffers that somebody else owns. Thread-safe:
// assemble_batch only reads the data set and writes the buffers.
//
// Legend: T tokens of the batch, B sequences, K label values a sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/data/dataset.h"
#include "io/data/sampler.h"

namespace plimsoll {

// Where a batch is written. Each span has at least the size given here; what lies behind the batch's own
// values is filled so that a bucket larger than the batch never reads what an earlier batch left: ids, types
// and positions 0, cu_seqlens T, labels kNoLabel or 0, rows -1.
struct BatchBuffers {
  std::span<int32_t> ids;         // [T]
  std::span<int32_t> types;       // [T]
  std::span<int32_t> positions;   // [T]: 0, 1, ... within each sequence, plus position_offset
  std::span<int32_t> cu_seqlens;  // [B + 1]: where each sequence begins, then T
  std::span<int32_t> classes;     // [B]; empty if the labels are not classes
  std::span<float> values;        // [B * K]; empty if the labels are not floats
  std::span<int32_t> rows;        // [B]: the rows of the data set
  int32_t position_offset = 0;    // RoBERTa counts from the padding id + 1
};

struct BatchInfo {
  int64_t num_tokens = 0;
  int64_t num_sequences = 0;
  int64_t longest = 0;
  DataPosition position;  // of its first row
  DataPosition next;      // where a resumed run goes on after it
  bool last_in_epoch = false;
  bool operator==(const BatchInfo&) const = default;
};

// How large buffers must be.
struct BatchCapacity {
  int64_t tokens = 0;
  int64_t sequences = 0;
  int64_t label_values = 1;  // K
};

// Writes the rows' tokens and labels and returns the counts; position and next are left to the caller.
// Allocates nothing. Requires: the buffers are large enough; rows are of the data set.
BatchInfo assemble_batch(const Dataset& data, std::span<const int32_t> rows, const BatchBuffers& out);

// Buffers that own their memory, for tests, tools and the loader's slots.
class OwnedBatch {
 public:
  enum class LabelKind { kNone, kClasses, kValues };
  OwnedBatch(const BatchCapacity& capacity, LabelKind labels, int32_t position_offset = 0);
  OwnedBatch(OwnedBatch&&) = default;
  OwnedBatch& operator=(OwnedBatch&&) = default;
  OwnedBatch(const OwnedBatch&) = delete;
  OwnedBatch& operator=(const OwnedBatch&) = delete;
  const BatchBuffers& buffers() const { return buffers_; }
  // The kind that a data set's labels need.
  static LabelKind label_kind(const Dataset& data);

 private:
  std::vector<int32_t> ints_;
  std::vector<float> floats_;
  BatchBuffers buffers_;
};

}  // namespace plimsoll
