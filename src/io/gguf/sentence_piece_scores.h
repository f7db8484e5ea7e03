// Converts the merges of a BPE model to the scores of the SentencePiece model from which they were converted. A SentencePiece model joins
// the two adjacent tokens whose joined text is the token with the highest score; BPE joins the two adjacent tokens whose merge has the
// lowest rank. Both give the same tokens if every way to divide a token into two tokens is a merge, and if all merges that produce the
// same token are next to each other in the list of merges. Thread-safe: a pure function.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "io/text/tokenizer_spec.h"

namespace plimsoll {

struct SentencePieceScores {
  std::vector<float> scores;  // the score of each token, by id
  std::string problem;        // the reason if no scores give the same tokens; otherwise empty
};

// Returns the scores for these tokens and merges. `added` contains the ids of the added tokens, which no merge needs to produce because a
// tokenizer finds them in the text before it applies the BPE model. Cost: one look-up per character of each token.
SentencePieceScores sentence_piece_scores(std::span<const std::string> tokens,
                                          std::span<const text::BpeMerge> merges,
                                          const std::unordered_set<int32_t>& added);

}  // namespace plimsoll
