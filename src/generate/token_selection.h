// Selects the next token from processed scores: the largest one (greedy decoding), or a random one with the probabilities softmax(scores)
// (sampling). Also computes the random numbers for beam search with sampling.
//
// Random numbers come from Philox4x32-10, whose key is the seed and whose counter identifies the sequence and the position. Hence a text
// depends on the seed, on its own number and on its own scores, but not on other texts of the batch, on the order of calls, or on
// threads:
//
//   sampling            counter = {low, high 32 bits of the number of the sequence, kSamplingSite, position}
//   beam search         counter = {token / 4, row, kBeamSite, position}; the random number of the token is lane token % 4
//
// Philox returns four 32-bit numbers, called lanes 0 to 3.
//
// The number of a sequence is (number of the prompt) * num_return_sequences + (number of its text). A row is
// (number of the prompt) * num_beams + (number of the beam). The position is the number of new tokens before this one.
//
// Sampling inverts the distribution: u = (2^32 lane 0 + lane 1, without its low 11 bits) / 2^64 is uniform in [0, 1), and
// the token is the first one, in the order of ids, for which the sum of exp(x - largest) up to and including it exceeds u times the
// sum over all. Sums are in double, in the order of ids. Beam search draws without replacement by the Gumbel-top-k trick (Kool
// et al., arXiv 1903.06059, section 3): the largest of log p + g, where g = -log(-log(w)) and w = (lane + 0.5) / 2^32.
//
// Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "base/philox.h"

namespace plimsoll {

// The score of a token that must not be selected.
inline constexpr float kRemovedScore = -std::numeric_limits<float>::infinity();

inline constexpr uint32_t kSamplingSite = 0x53414d50u;  // the ASCII codes of "SAMP"
inline constexpr uint32_t kBeamSite = 0x4245414du;      // the ASCII codes of "BEAM"

// Returns the first of the largest scores, like torch.argmax. Errors: kNotFinite if a score is NaN or +infinity; kUsage if all are
// -infinity.
int32_t select_greedy(std::span<const float> scores);

// Checks the scores for the same errors as select_greedy(), if only the largest score and the logarithm of the sum of all exponentials
// are known.
void check_scores(float largest, double log_sum);

// Returns the uniform random number with which the token of a sequence at a position is selected.
double sampling_number(uint64_t seed, uint64_t sequence, uint32_t position);

// Returns the token that is selected with the uniform random number. Errors: as select_greedy(). Cost: one exponential per score that is
// not -infinity.
int32_t select_sampled(std::span<const float> scores, double uniform);

// Returns the Gumbel random number of a token of a row.
double beam_gumbel(uint64_t seed, uint32_t row, uint32_t position, int32_t token);

}  // namespace plimsoll
