// The baseline of `make demo-clm`: an interpolated n-gram model with modified Kneser-Ney discounts (Chen and Goodman, "An empirical study
// of smoothing techniques for language modeling", 1998, section 3). It reads the same tokens as the transformer with which it is compared.
// While n-grams are added, only one thread may use the object; afterwards several threads may read it.
#pragma once

#include <array>
#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace plimsoll::demo {

// Reads the output of `plimsoll tokenize` and returns the token ids of all lines as one list. Errors: std::runtime_error with the number
// of the line.
std::vector<int32_t> read_token_ids(std::istream& input, const std::string& name);

class NgramModel {
 public:
  // Counts the n-grams of a text. Requires: 1 <= order <= longest_order(vocab_size), ids in [0, vocab_size). Errors: std::invalid_argument.
  // Cost: memory per different n-gram.
  NgramModel(std::span<const int32_t> text, int order, int64_t vocab_size);

  // Returns the largest order whose n-grams fit into keys of 64 bits: 5 for 2048 tokens.
  static int longest_order(int64_t vocab_size);

  // Returns the probability of `token` after a text, of which the model uses only the last order - 1 tokens. The
  // probabilities of all tokens add up to 1.
  double probability(std::span<const int32_t> past, int32_t token) const;

 private:
  // The n-grams of one length that begin with the same tokens; these tokens, all but the last one, are the context.
  struct Context {
    int64_t sum = 0;  // sum of the counts of all tokens that follow this context
    // Number of different tokens that follow this context with a count of 1, of 2, and of 3 or more.
    std::array<int64_t, 3> num_followers{};
  };
  // The n-grams of one length. The count of an n-gram of the longest length is the number of its occurrences, and for shorter n-grams the
  // number of different tokens that precede the n-gram.
  struct Level {
    std::unordered_map<uint64_t, int64_t> counts;
    std::unordered_map<uint64_t, Context> contexts;
    std::array<double, 3> discounts{};
  };

  uint64_t key_of(std::span<const int32_t> tokens) const;

  int order_;
  int bits_per_token_;
  int64_t vocab_size_;
  std::vector<Level> levels_;  // levels_[n - 1] contains the counts of the n-grams with n tokens
};

// The loss of a model on a text that is divided into blocks. It is the mean over the tokens that a language model would
// predict: all tokens but the first of each block.
struct TextScore {
  int64_t num_tokens = 0;
  double mean_loss = 0;  // mean of -log(probability), in nats
  double perplexity() const;
  // Returns the loss of all predicted tokens in bits, divided by the number of bytes of the text. This makes models
  // with different tokenizers comparable.
  double bits_per_byte(int64_t num_bytes) const;
};
// Computes the score of a text that is divided into blocks. The n-gram model may use tokens before a block, which a
// language model cannot; this is an advantage for the n-gram model.
TextScore score_text(const NgramModel& model, std::span<const int32_t> text, int64_t block_size);

}  // namespace plimsoll::demo
