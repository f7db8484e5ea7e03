// From a model's configuration to its forward graph and the names of its weights on disk. Thread-safe: pure
// functions.
//
// The graph reads these inputs (declared only where the model needs them): ids, token_types, positions
// i32[T]; cu_seqlens i32[B+1]; labels i32[B] or f32[B,K]; denominator f32[1]; num_sequences i32[1]; rng
// i64[2]. It computes logits_BK and loss_1. Tokens lie end to end without padding.
#pragma once

#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "models/config.h"

namespace plimsoll {

enum class Initializer : uint8_t {
  kNormal,
  kZeros,
  kOnes,
  kUniform  // between -1 / sqrt(columns) and that: Kaiming's uniform with the slope sqrt(5)
};

// A tensor of a checkpoint that fills some rows of a weight. Several spellings are tried in order.
struct WeightPart {
  std::vector<std::string> disk_names;
  int64_t first_row = 0;  // of dimension 0
  int64_t num_rows = 0;
};

struct WeightSpec {
  std::string name;  // of the value in the graph
  std::vector<int64_t> shape;
  Initializer initializer = Initializer::kNormal;
  bool decays = true;  // weight decay applies (not to biases and norms, as in Trainer)
  std::vector<WeightPart> parts;
  int64_t zero_row = -1;  // starts as zero whatever the initializer says: the padding token's; -1: none
  bool trainable = true;  // no: it has no gradient and no states, and keeps what was loaded
  // Which files have it: a model's, an adapter's (under PEFT's names), or both.
  bool in_model = true;
  bool in_adapter = false;

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t size : shape) n *= size;
    return n;
  }
};

enum class Mode : uint8_t { kTrain, kEvaluate };

struct ForwardOptions {
  Mode mode = Mode::kTrain;
  DType dtype = DType::kF32;  // of weights and activations; f64 runs on the references
  ProblemType problem_type = ProblemType::kSingleLabel;
  double label_smoothing = 0.0;
};

struct ForwardGraph {
  Graph graph;
  ValueId loss = kNoValue;
  ValueId logits = kNoValue;
};

// Every weight in the order of the model. Cost: linear in the number of weights.
std::vector<WeightSpec> model_weights(const ModelConfig& config);

// The forward graph for sequence classification. Requires: the configuration was checked.
ForwardGraph build_forward(const ModelConfig& config, const ForwardOptions& options);

// The names on disk of tensors that a checkpoint may hold and that this model ignores on purpose
// (position_ids and such).
bool is_ignored_on_disk(std::string_view name);

}  // namespace plimsoll
