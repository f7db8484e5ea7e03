// The chunk of layers that an op belongs to, if a pipeline stage has several chunks of neighbouring layers. Each chunk has its own forward
// and backward pass.
#pragma once

#include "graph/ir/graph.h"

namespace plimsoll {

inline constexpr std::string_view kChunkAttribute = "chunk";
inline constexpr std::string_view kChannelAttribute = "channel";

// Returns the number of an op's chunk of layers within its pipeline stage, counted from 0.
inline int64_t chunk_of(const Op& op) {
  return op.attributes.integer_or(kChunkAttribute, 0);
}
// Returns true if two ops run in the same pass: in the same segment (forward, backward or optimizer), for the same chunk of layers.
inline bool run_together(const Op& a, const Op& b) {
  return a.segment == b.segment && chunk_of(a) == chunk_of(b);
}
// Returns the channel of a send or receive op. Values that one rank sends to another through one channel arrive in the order in which they
// are sent; values of different channels do not wait for one another.
inline int64_t channel_of(const Op& op) {
  return op.attributes.integer_or(kChannelAttribute, 0);
}
// The numbers of the channels between chunk `chunk` of the model and the chunk before it: channel_into() for the activations that it
// receives, channel_of_gradients_from() for their gradients, which it sends back.
constexpr int64_t channel_into(int64_t chunk) {
  return 2 * chunk;
}
constexpr int64_t channel_of_gradients_from(int64_t chunk) {
  return 2 * chunk + 1;
}

}  // namespace plimsoll
