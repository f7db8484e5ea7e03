// A batch of rows of a data set, and the function that fills one. Thread-safe: assemble_batch only reads the data set
// and writes the batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/tensor_batch.h"
#include "io/data/dataset.h"
#include "io/data/sampler.h"

namespace plimsoll {

struct BatchInfo {
  DataPosition position;  // position of the first row of the batch
  DataPosition next;      // position from which a run resumes after this batch
  bool last_in_epoch = false;
  int64_t num_labels = 0;  // number of labelled sequences, or of labelled tokens if tokens have labels
  // The number of labels in the optimizer step that would begin with this batch. The losses of its micro-batches are
  // divided by it.
  int64_t labels_in_step = 0;
  // The number of batches that all ranks together take at this point of the epoch, including this batch; 1 for one rank.
  int64_t batches_of_ranks = 1;
  // False if the epoch ended before the turn of this rank. The batch then repeats that of the first rank, and must add
  // nothing to loss and gradients.
  bool contributes = true;
  bool operator==(const BatchInfo&) const = default;
};

struct MicroBatch {
  TensorBatch tensors;
  std::vector<int32_t> rows;  // the rows of the data set: one per sequence, unless rows are packed
  BatchInfo info;
  const BatchSize& size() const { return tensors.size(); }
};

// Allocates a batch with room for the layout's capacity.
MicroBatch make_micro_batch(const BatchLayout& layout);

// Returns the size of the batch of these rows.
BatchSize size_of_batch(const Dataset& data, std::span<const int32_t> rows);

// Fills the tensors, the rows and info.num_labels. The caller sets the rest of info; info.position.epoch has to be set before,
// because the masks of a masked language model depend on it. The name of a tensor determines what it contains: ids, token_types,
// positions (0, 1, ... within each sequence), cu_seqlens (the start of each sequence, then the number of tokens) and labels
// (kNoLabel or 0 if the data set has none). If a tensor has elements per label, label_ends has the ends of the tokens with a
// label, and labels only their labels. Allocates nothing. Errors: kInternal for a batch without enough room, a row that is not in
// the data set, or a tensor of another name.
void assemble_batch(const Dataset& data, std::span<const int32_t> rows, MicroBatch& batch);

}  // namespace plimsoll
