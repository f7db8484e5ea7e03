// A batch of sequences without padding, as named tensors. A program (the compiled graph of a training step, an evaluation or a
// generation) declares the tensors that it reads, the data loader fills them, and the executor copies each into the program's
// input with the same name. The loader and the executor do not depend on the meaning of a tensor, so that adding an input needs
// only a declaration in the model or the task. Not thread-safe: one thread uses an object at a time.
//
// Legend: T tokens of the batch, B sequences, L rows that have a label.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace plimsoll {

// The size of a batch, or an upper bound for the sizes of several batches.
struct BatchSize {
  int64_t tokens = 0;
  int64_t sequences = 0;
  int64_t longest = 0;  // number of tokens of the longest sequence
  // The number of tokens with a label, if a program computes its loss for these tokens only. It is
  // kEachToken if the program computes its loss for every token.
  static constexpr int64_t kEachToken = -1;
  int64_t labels = kEachToken;
  constexpr int64_t label_rows() const { return labels == kEachToken ? tokens : labels; }
  friend bool operator==(const BatchSize&, const BatchSize&) = default;
};

// The declaration of one tensor. It has per_token * T + per_sequence * B + per_label * L + constant elements. Examples: token ids have T
// elements, labels of K classes have K * B, and the starts of all sequences together with the end of the last sequence have B + 1.
struct BatchTensorSpec {
  std::string name;
  DType dtype = DType::kI32;  // element type, kI32 or kF32
  int64_t per_token = 0;
  int64_t per_sequence = 0;
  int64_t per_label = 0;
  int64_t constant = 0;
  // determines how position ids are numbered; see InputRule (graph/ir/graph.h)
  int32_t position_padding_id = -1;
  int64_t elements(const BatchSize& size) const {
    return per_token * size.tokens + per_sequence * size.sequences + per_label * size.label_rows() + constant;
  }
  friend bool operator==(const BatchTensorSpec&, const BatchTensorSpec&) = default;
};

// The tensors of batches, and the size of the largest batch.
struct BatchLayout {
  std::vector<BatchTensorSpec> tensors;
  BatchSize capacity;
};

class TensorBatch {
 public:
  TensorBatch() = default;
  // Allocates all tensors for the largest batch. The batch is empty.
  explicit TensorBatch(const BatchLayout& layout);
  TensorBatch(TensorBatch&&) = default;
  TensorBatch& operator=(TensorBatch&&) = default;
  TensorBatch(const TensorBatch&) = delete;
  TensorBatch& operator=(const TensorBatch&) = delete;

  // Changes the size of the batch, and thus of every tensor. The elements keep their values, and nothing is allocated. Errors:
  // kInternal for a size beyond the capacity.
  void resize(const BatchSize& size);
  const BatchSize& size() const { return size_; }

  const std::vector<BatchTensorSpec>& specs() const { return specs_; }
  // Returns the declaration of the tensor with this name. Errors: kInternal if there is none.
  const BatchTensorSpec& spec(std::string_view name) const;
  bool has_ints(std::string_view name) const { return has(name, DType::kI32); }
  bool has_floats(std::string_view name) const { return has(name, DType::kF32); }
  // Return the elements of a tensor for the current size of the batch. Errors: kInternal if there is no tensor of
  // this name and type.
  std::span<int32_t> ints(std::string_view name);
  std::span<const int32_t> ints(std::string_view name) const;
  std::span<float> floats(std::string_view name);
  std::span<const float> floats(std::string_view name) const;

 private:
  bool has(std::string_view name, DType dtype) const;
  // The position of a tensor's elements in the array that stores all elements of their type. Errors of place_of(): as ints().
  struct Place {
    size_t begin = 0;
    size_t count = 0;
  };
  Place place_of(std::string_view name, DType dtype) const;

  std::vector<BatchTensorSpec> specs_;
  BatchSize capacity_;
  BatchSize size_;
  // For each element type: the elements of all its tensors, in the order of specs_. Each tensor has room for the largest batch.
  std::vector<int32_t> ints_;
  std::vector<float> floats_;
};

}  // namespace plimsoll
