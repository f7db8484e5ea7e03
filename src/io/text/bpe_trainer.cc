#include "io/text/tokenizer_training.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <string_view>

#include "base/check.h"
#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

using Pair = std::pair<int32_t, int32_t>;

uint64_t key_of(const Pair& pair) {
  return uint64_t{static_cast<uint32_t>(pair.first)} << 32 | static_cast<uint32_t>(pair.second);
}

// The change (+1 or -1) of the number of occurrences of a pair that results from merging a neighbouring pair in a word.
struct Change {
  Pair pair;
  int32_t by;
};

// A pair of adjacent tokens that may be merged, and the indices of the words that contain it. `count` is the number of
// occurrences at the time when the candidate entered the queue, and may be outdated.
struct Candidate {
  Pair pair;
  int64_t count = 0;
  std::vector<uint32_t> words;

  // Puts the pair with the largest count first in the queue, and of equal counts the pair with the lower token ids.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class Trainer {
 public:
  Trainer(const WordCounts& words, const BpeTraining& options)
      : options_(options), words_(words.begin(), words.end()) {
    std::sort(words_.begin(), words_.end());
  }

  TrainedBpe train() {
    for (const std::string& token : options_.special_tokens) id_of(token);
    add_alphabet();
    split_words();
    count_pairs();
    join_pairs();
    return std::move(result_);
  }

 private:
  // Returns the id of a token, and adds the token if it is new.
  int32_t id_of(const std::string& token) {
    const auto [place, is_new] = ids_.emplace(token, static_cast<int32_t>(result_.tokens.size()));
    if (is_new) result_.tokens.push_back(token);
    return place->second;
  }

  static std::string text_of(char32_t c) {
    std::string text;
    append_utf8(c, &text);
    return text;
  }

  void add_alphabet() {
    std::map<char32_t, int64_t> counts;
    for (const auto& [word, count] : words_) {
      for (size_t i = 0; i < word.size();) {
        const DecodedCodePoint c = decode_valid_utf8(word.data() + i);
        counts[c.value] += count;
        i += c.num_bytes;
      }
    }
    for (const char32_t c : options_.initial_alphabet) counts[c] = std::numeric_limits<int64_t>::max();
    std::vector<std::pair<char32_t, int64_t>> kept(counts.begin(), counts.end());
    if (options_.limit_alphabet && narrow<int64_t>(kept.size()) > *options_.limit_alphabet) {
      std::stable_sort(kept.begin(), kept.end(),
                       [](const auto& a, const auto& b) { return a.second > b.second; });
      kept.resize(narrow<size_t>(*options_.limit_alphabet));
      std::sort(kept.begin(), kept.end());
    }
    for (const auto& entry : kept) id_of(text_of(entry.first));
  }

  // Converts every word to a list of character ids. Characters outside the alphabet are dropped.
  void split_words() {
    symbols_.resize(words_.size());
    for (size_t w = 0; w < words_.size(); ++w) {
      const std::string& word = words_[w].first;
      for (size_t i = 0; i < word.size();) {
        const DecodedCodePoint c = decode_valid_utf8(word.data() + i);
        std::string token = word.substr(i, c.num_bytes);
        const bool is_first = i == 0;
        i += c.num_bytes;
        if (!ids_.contains(token)) continue;
        if (!is_first) token = options_.continuing_prefix + token;
        if (i == word.size()) token += options_.end_suffix;
        symbols_[w].push_back(id_of(token));
      }
    }
  }

  void count_pairs() {
    for (size_t w = 0; w < symbols_.size(); ++w) {
      for (size_t i = 0; i + 1 < symbols_[w].size(); ++i) {
        note({symbols_[w][i], symbols_[w][i + 1]}, 1, w);
      }
    }
    enqueue_new();
  }

  void note(const Pair& pair, int32_t change, size_t word) {
    counts_[key_of(pair)] += change * words_[word].second;
    if (change <= 0) return;
    std::vector<uint32_t>& places = new_places_[pair];
    if (places.empty() || places.back() != word) places.push_back(static_cast<uint32_t>(word));
  }

  void enqueue_new() {
    for (auto& [pair, places] : new_places_) {
      const int64_t count = counts_[key_of(pair)];
      if (count > 0) queue_.push({pair, count, std::move(places)});
    }
    new_places_.clear();
  }

  void join_pairs() {
    std::vector<Change> changes;
    std::unordered_map<uint64_t, size_t> rank_of;
    while (narrow<int64_t>(result_.tokens.size()) < options_.vocab_size && !queue_.empty()) {
      Candidate top = queue_.top();
      queue_.pop();
      const int64_t count = counts_[key_of(top.pair)];
      if (top.count != count) {
        top.count = count;
        queue_.push(std::move(top));
        continue;
      }
      if (top.count < 1 || top.count < options_.min_frequency) break;
      std::string_view second = result_.tokens[static_cast<size_t>(top.pair.second)];
      if (second.starts_with(options_.continuing_prefix))
        second.remove_prefix(options_.continuing_prefix.size());
      const int32_t joined = id_of(result_.tokens[static_cast<size_t>(top.pair.first)] + std::string(second));
      // The same pair can be chosen twice, because later merges can create it again. Only the later of the two merges is kept.
      const auto [place, is_new] = rank_of.emplace(key_of(top.pair), merges_.size());
      if (!is_new) {
        merges_[place->second].reset();
        place->second = merges_.size();
      }
      merges_.push_back(top.pair);
      for (const uint32_t word : top.words) {
        changes.clear();
        join(top.pair, joined, &symbols_[word], &changes);
        for (const Change& change : changes) note(change.pair, change.by, word);
      }
      enqueue_new();
    }
    for (const auto& merge : merges_) {
      if (merge) result_.merges.push_back(*merge);
    }
  }

  // Merges all occurrences of a pair in a word, and records how the counts of the neighbouring pairs change. The count of the
  // merged pair itself is not updated, as in Hugging Face's trainer.
  static void join(const Pair& pair, int32_t joined, std::vector<int32_t>* word,
                   std::vector<Change>* changes) {
    std::vector<int32_t>& ids = *word;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      if (ids[i] != pair.first || ids[i + 1] != pair.second) continue;
      ids[i] = joined;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      if (i > 0) {
        changes->push_back({{ids[i - 1], pair.first}, -1});
        changes->push_back({{ids[i - 1], joined}, 1});
      }
      if (i + 1 < ids.size()) {
        changes->push_back({{pair.second, ids[i + 1]}, -1});
        changes->push_back({{joined, ids[i + 1]}, 1});
      }
    }
  }

  const BpeTraining& options_;
  std::vector<std::pair<std::string, int64_t>> words_;  // the words and their counts, sorted by word
  std::vector<std::vector<int32_t>> symbols_;           // the current token ids of each word
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<uint64_t, int64_t> counts_;  // the number of occurrences of each pair in all words
  std::map<Pair, std::vector<uint32_t>> new_places_;
  std::priority_queue<Candidate> queue_;
  std::vector<std::optional<Pair>> merges_;
  TrainedBpe result_;
};

}  // namespace

TrainedBpe train_bpe(const WordCounts& words, const BpeTraining& options) {
  return Trainer(words, options).train();
}

}  // namespace plimsoll::text
