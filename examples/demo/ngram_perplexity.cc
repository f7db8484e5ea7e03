// Prints the perplexity of n-gram models on a text: the baseline of `make demo-clm`.
//
//   ngram_perplexity TRAIN_IDS VALIDATION_IDS VOCAB_SIZE BLOCK_SIZE BYTES
//
// The files are the output of `plimsoll tokenize`; BYTES is the length of the validation text in bytes. The last line is "best ORDER
// PERPLEXITY BITS_PER_BYTE TOKENS".
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>

#include "ngram_model.h"

namespace plimsoll::demo {
namespace {

std::vector<int32_t> ids_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot read the file");
  return read_token_ids(file, path);
}

int run(const std::string& train, const std::string& validation, int64_t vocab_size, int64_t block_size,
        int64_t num_bytes) {
  const std::vector<int32_t> learned = ids_of(train);
  const std::vector<int32_t> text = ids_of(validation);
  int best = 0;
  TextScore lowest;
  const int longest = std::min(6, NgramModel::longest_order(vocab_size));
  for (int order = 1; order <= longest; ++order) {
    const TextScore score = score_text(NgramModel(learned, order, vocab_size), text, block_size);
    std::printf("%d-gram, modified Kneser-Ney: perplexity %.2f, %.4f bits per byte\n", order,
                score.perplexity(), score.bits_per_byte(num_bytes));
    if (best != 0 && score.mean_loss >= lowest.mean_loss) continue;
    best = order;
    lowest = score;
  }
  std::printf("best %d %.4f %.6f %lld\n", best, lowest.perplexity(), lowest.bits_per_byte(num_bytes),
              static_cast<long long>(lowest.num_tokens));
  return 0;
}

}  // namespace
}  // namespace plimsoll::demo

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: ngram_perplexity TRAIN_IDS VALIDATION_IDS VOCAB_SIZE BLOCK_SIZE BYTES\n");
    return 2;
  }
  try {
    return plimsoll::demo::run(argv[1], argv[2], std::atoll(argv[3]), std::max(2LL, std::atoll(argv[4])),
                               std::max(1LL, std::atoll(argv[5])));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ngram_perplexity: %s\n", error.what());
    return 4;
  }
}
