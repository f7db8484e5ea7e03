#include "ngram_model.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <system_error>

namespace plimsoll::demo {
namespace {

// Returns the number of bits that an id takes in the key of an n-gram. Keys contain ids plus one, so that no id is zero
// and n-grams of different lengths have different keys.
int bits_of(int64_t vocab_size) {
  return std::max(1,
                  static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(0, vocab_size)))));
}

size_t class_of(int64_t count) {
  return static_cast<size_t>(std::min<int64_t>(count, 3)) - 1;
}

// Returns Chen and Goodman's estimates of the discounts, which follow from the numbers of n-grams with counts 1
// to 4.
std::array<double, 3> discounts_of(const std::unordered_map<uint64_t, int64_t>& counts) {
  std::array<double, 5> with_count{};
  for (const auto& [key, count] : counts) {
    if (count <= 4) with_count[static_cast<size_t>(count)] += 1;
  }
  std::array<double, 3> discounts{0.5, 1.0, 1.5};
  const double y = with_count[1] / std::max(with_count[1] + 2 * with_count[2], 1.0);
  for (size_t i = 1; i <= 3; ++i) {
    if (with_count[i] > 0 && with_count[i + 1] > 0)
      discounts[i - 1] =
          static_cast<double>(i) - static_cast<double>(i + 1) * y * with_count[i + 1] / with_count[i];
    discounts[i - 1] = std::clamp(discounts[i - 1], 0.0, static_cast<double>(i));
  }
  return discounts;
}

}  // namespace

std::vector<int32_t> read_token_ids(std::istream& input, const std::string& name) {
  std::vector<int32_t> ids;
  int64_t number = 0;
  for (std::string line; std::getline(input, line);) {
    ++number;
    const auto fail = [&] {
      throw std::runtime_error(name + ":" + std::to_string(number) +
                               ": expected a line of `plimsoll tokenize` with \"ids\": [...]");
    };
    const size_t key = line.find("\"ids\": [");
    if (key == std::string::npos) fail();
    const char* at = line.data() + line.find('[', key) + 1;
    const char* const end = line.data() + line.size();
    while (at != end && *at != ']') {
      int32_t id = 0;
      const auto [next, error] = std::from_chars(at, end, id);
      if (error != std::errc()) fail();
      ids.push_back(id);
      at = next;
      while (at != end && (*at == ',' || *at == ' ')) ++at;
    }
    if (at == end) fail();
  }
  return ids;
}

int NgramModel::longest_order(int64_t vocab_size) {
  return 64 / bits_of(vocab_size);
}

uint64_t NgramModel::key_of(std::span<const int32_t> tokens) const {
  uint64_t key = 0;
  for (const int32_t token : tokens) key = (key << bits_per_token_) | static_cast<uint64_t>(token + 1);
  return key;
}

NgramModel::NgramModel(std::span<const int32_t> text, int order, int64_t vocab_size)
    : order_(order), bits_per_token_(bits_of(vocab_size)), vocab_size_(vocab_size) {
  if (vocab_size < 1 || order < 1 || order > longest_order(vocab_size)) {
    throw std::invalid_argument("an n-gram model of " + std::to_string(vocab_size) +
                                " tokens cannot have order " + std::to_string(order) + ": 1 to " +
                                std::to_string(longest_order(vocab_size)) + " are possible");
  }
  levels_.resize(static_cast<size_t>(order));
  for (const int32_t id : text) {
    if (id < 0 || id >= vocab_size) throw std::invalid_argument("a token id is outside the vocabulary");
  }
  const auto n = static_cast<size_t>(order);
  for (size_t i = 0; i + n <= text.size(); ++i) ++levels_[n - 1].counts[key_of(text.subspan(i, n))];
  // For shorter n-grams, the count is the number of different tokens that occur directly before the n-gram.
  for (size_t level = n - 1; level-- > 0;) {
    const uint64_t mask = (uint64_t{1} << (bits_per_token_ * static_cast<int>(level + 1))) - 1;
    for (const auto& [key, count] : levels_[level + 1].counts) ++levels_[level].counts[key & mask];
  }
  for (Level& level : levels_) {
    level.discounts = discounts_of(level.counts);
    for (const auto& [key, count] : level.counts) {
      Context& context = level.contexts[key >> bits_per_token_];
      context.sum += count;
      ++context.num_followers[class_of(count)];
    }
  }
}

double NgramModel::probability(std::span<const int32_t> past, int32_t token) const {
  double probability = 1.0 / static_cast<double>(vocab_size_);
  std::vector<int32_t> ngram;
  const size_t longest = std::min(past.size(), static_cast<size_t>(order_) - 1);
  for (size_t length = 0; length <= longest; ++length) {
    const Level& level = levels_[length];
    ngram.assign(past.end() - static_cast<std::ptrdiff_t>(length), past.end());
    const auto context = level.contexts.find(key_of(ngram));
    if (context == level.contexts.end()) break;
    ngram.push_back(token);
    const auto found = level.counts.find(key_of(ngram));
    const auto sum = static_cast<double>(context->second.sum);
    double kept = 0;
    if (found != level.counts.end())
      kept = (static_cast<double>(found->second) - level.discounts[class_of(found->second)]) / sum;
    double taken = 0;
    for (size_t i = 0; i < 3; ++i)
      taken += level.discounts[i] * static_cast<double>(context->second.num_followers[i]);
    probability = kept + taken / sum * probability;
  }
  return probability;
}

double TextScore::perplexity() const {
  return std::exp(mean_loss);
}

double TextScore::bits_per_byte(int64_t num_bytes) const {
  return mean_loss * static_cast<double>(num_tokens) / std::numbers::ln2 / static_cast<double>(num_bytes);
}

TextScore score_text(const NgramModel& model, std::span<const int32_t> text, int64_t block_size) {
  TextScore score;
  for (size_t i = 0; i < text.size(); ++i) {
    if (static_cast<int64_t>(i) % block_size == 0) continue;
    score.mean_loss -= std::log(model.probability(text.first(i), text[i]));
    ++score.num_tokens;
  }
  if (score.num_tokens > 0) score.mean_loss /= static_cast<double>(score.num_tokens);
  return score;
}

}  // namespace plimsoll::demo
