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
  DataPosition position;  // position in the data of the first row of the batch
  DataPosition next;      // position in the data from which training continues after this batch
  bool last_in_epoch = false;
  int64_t num_labels = 0;  // number of labelled sequences, or of labelled tokens if tokens have labels
  // If this batch is the first micro-batch of an optimizer step: the number of labels in the whole step. The losses of all micro-batches of
  // the step are divided by this number.
  int64_t labels_in_step = 0;
  // The number of ranks that read a batch at this point of the epoch; it is smaller than the number of ranks if fewer batches are left in
  // the epoch. It is 1 in a run with one rank.
  int64_t batches_of_ranks = 1;
  // False if the epoch ended before this rank could read a batch. The batch is then a copy of the batch of the first rank, and must add
  // nothing to loss and gradients.
  bool contributes = true;
  bool operator==(const BatchInfo&) const = default;
};

struct MicroBatch {
  TensorBatch tensors;
  // The rows of the data set that are in the batch, by index. A row is one sequence, or several if sequences are packed.
  std::vector<int32_t> rows;
  BatchInfo info;
  const BatchSize& size() const { return tensors.size(); }
};

// Allocates the tensors of a batch with the largest sizes that the layout permits.
MicroBatch make_micro_batch(const BatchLayout& layout);

// Returns the numbers of tokens and sequences of a batch of these rows, and the length of the longest sequence.
BatchSize size_of_batch(const Dataset& data, std::span<const int32_t> rows);

// Fills the tensors, the rows and info.num_labels. The caller sets the rest of info; info.position.epoch has to be set before, because the
// masks of a masked language model depend on it. The name of a tensor determines what it contains: ids, token_types, positions (0, 1, ...
// within each sequence), cu_seqlens (the start of each sequence, then the number of tokens) and labels (if the data set has none: kNoLabel
// for classes, 0 for real numbers). If the layout stores one element per label instead of per token, label_ends contains 0 and then, for
// each token with a label, its index plus one, and labels contains only the labels of these tokens. Allocates nothing. Errors: kInternal if
// the tensors are too small for the rows, for a row that is not in the data set, or for a tensor with an unknown name.
void assemble_batch(const Dataset& data, std::span<const int32_t> rows, MicroBatch& batch);

}  // namespace plimsoll
