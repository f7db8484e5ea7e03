// Turns the merges of a BPE model into the scores of the SentencePiece model from which they were converted. A SentencePiece
// model joins the neighbours whose joined text has the highest score, whatever they are; BPE joins the pair with the lowest
// rank. Both give the same tokens if every way to divide a token into two tokens is a merge, and the merges of a token are
// next to each other. Thread-safe: a pure function.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "io/text/tokenizer_spec.h"

namespace plimsoll {

struct SentencePieceScores {
  std::vector<float> scores;  // by id
  std::string problem;        // why there are no scores that give the same tokens; "" if there are
};

// `added` are the ids of added tokens, which are found before the model is used. Cost: a look-up per character of each token.
SentencePieceScores sentence_piece_scores(std::span<const std::string> tokens,
                                          std::span<const text::BpeMerge> merges,
                                          const std::unordered_set<int32_t>& added);

}  // namespace plimsoll
