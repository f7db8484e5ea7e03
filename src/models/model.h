// Builds the list of weights and the forward graph of a model from its configuration. Thread-safe: pure functions.
//
// The graph has these inputs, each only if the model needs it: ids, token_types and positions i32[T] for T tokens, cu_seqlens i32[B+1] for
// B sequences, and rng i64[2]. It computes logits_BK. A task (src/tasks) adds the loss and its inputs. The tokens of all sequences follow
// one another without padding. With a KV cache the graph also reads page_table i32[B,M], lengths i32[B] and copy_from i32[B]
// (kernels/attention/paged_attention.h).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/ir/graph.h"
#include "models/config.h"
#include "models/weight_spec.h"

namespace plimsoll {

enum class Mode : uint8_t { kTrain, kEvaluate };

// The sizes of the KV cache, from which a model that generates text reads the keys and values of earlier tokens.
struct KvCacheSizes {
  int64_t num_pages = 0;
  int64_t page_size = 0;           // tokens per page
  int64_t pages_per_sequence = 0;  // number of pages of the longest possible sequence
};

// The tokens for which a head with one prediction per token computes logits: kEach for all tokens, kLabelled only for tokens with a label.
// For kLabelled, the input label_ends i32[L+1] contains 0, and then (index + 1) of each of the L tokens with a label, in ascending order.
enum class HeadRows : uint8_t { kEach, kLabelled };

struct ForwardOptions {
  Mode mode = Mode::kTrain;
  DType dtype = DType::kF32;   // type of weights and activations; f64 runs on the reference kernels
  bool outputs_logits = true;  // true if an evaluation copies the logits to the host
  HeadRows head_rows = HeadRows::kEach;
  // If set, each sequence of a batch continues the tokens of this sequence that are in the cache, and logits are computed for its last
  // token only: logits_BK. Requires: kEvaluate and a head for language modelling.
  std::optional<KvCacheSizes> cache = {};
};

struct ForwardGraph {
  Graph graph;
  ValueId loss = kNoValue;  // kNoValue until add_loss() (tasks/task.h) has added the loss
  ValueId logits = kNoValue;
};

// Returns every weight in the order of the model. Cost: linear in the number of weights.
std::vector<WeightSpec> model_weights(const ModelConfig& config);

// Builds the forward graph up to the logits of each sequence. `weights` have the names and shapes of model_weights(config). Requires: the
// configuration was checked.
ForwardGraph build_forward(const ModelConfig& config, const ForwardOptions& options);
ForwardGraph build_forward(const ModelConfig& config, const ForwardOptions& options,
                           std::span<const WeightSpec> weights);

// Returns endings of the names of checkpoint tensors that no weight needs and that are not reported as unused: buffers that transformers
// once saved.
std::vector<std::string> ignored_on_disk(const ModelConfig& config);

}  // namespace plimsoll
