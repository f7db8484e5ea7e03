#include "io/data/blocks.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"

namespace plimsoll {
namespace {

void check_count(int64_t count, int64_t block_size) {
  if (count <= std::numeric_limits<int32_t>::max()) return;
  throw_error(ErrorCode::kBadData,
              "the documents give {} sequences in blocks of {} tokens, but a data set has at most {}; use a "
              "larger --block_size, or split the data",
              count, block_size, std::numeric_limits<int32_t>::max());
}

Dataset concatenate(const TokenSet& documents, const BlockOptions& options) {
  const int64_t begin = documents.offsets().front();
  const int64_t end = documents.offsets().back();
  int64_t num_blocks = (end - begin + options.block_size - 1) / options.block_size;
  num_blocks = std::min(num_blocks, options.max_blocks.value_or(num_blocks));
  check_count(num_blocks, options.block_size);
  std::vector<int64_t> offsets(static_cast<size_t>(num_blocks) + 1);
  for (int64_t block = 0; block <= num_blocks; ++block)
    offsets[static_cast<size_t>(block)] = std::min(begin + block * options.block_size, end);
  Dataset data;
  data.tokens = documents.with_rows(std::move(offsets));
  return data;
}

// Returns the boundaries of the sequences. A document is one sequence, or several if it is longer than a block.
std::vector<int64_t> sequence_offsets(const TokenSet& documents, int64_t block_size) {
  std::vector<int64_t> offsets = {documents.offsets().front()};
  int64_t count = 0;
  for (int64_t row = 0; row < documents.num_rows(); ++row)
    count += (documents.length(row) + block_size - 1) / block_size;
  check_count(count, block_size);
  offsets.reserve(static_cast<size_t>(count) + 1);
  for (const int64_t end : documents.offsets().subspan(1)) {
    while (offsets.back() < end) offsets.push_back(std::min(offsets.back() + block_size, end));
  }
  return offsets;
}

// Packs sequences into blocks: all rows of the token set `sequences`, or only those whose indices are in `chosen`. All blocks with the same
// number r of free tokens form a linked list. Bit r of has_room_ is set if this list is not empty, so that the fullest block with enough
// room is found quickly.
class Packing {
 public:
  Packing(const TokenSet& sequences, std::optional<std::span<const int32_t>> chosen, int64_t block_size)
      : sequences_(sequences),
        chosen_(chosen),
        block_size_(block_size),
        first_with_room_(static_cast<size_t>(block_size) + 1, kNone),
        has_room_(static_cast<size_t>(block_size) / 64 + 1, 0) {}

  PackedRows pack() && {
    block_of_.resize(num_chosen());
    for (const int32_t sequence : longest_first()) place(sequence);
    return in_order();
  }

 private:
  static constexpr int32_t kNone = -1;

  size_t num_chosen() const { return chosen_ ? chosen_->size() : static_cast<size_t>(sequences_.num_rows()); }
  int32_t chosen(size_t i) const { return chosen_ ? (*chosen_)[i] : static_cast<int32_t>(i); }
  int64_t length(size_t i) const { return sequences_.length(chosen(i)); }

  // Returns the chosen sequences by decreasing length. Sequences of equal length keep their order.
  std::vector<int32_t> longest_first() const {
    // Counting sort by s, the number of tokens that a sequence is shorter than a block. First, counts[s + 1] is the number of sequences
    // with this s. After the additions, counts[s] is the position in `order` of the next sequence with this s.
    std::vector<int64_t> counts(static_cast<size_t>(block_size_) + 2, 0);
    const auto shortness = [&](size_t i) { return static_cast<size_t>(block_size_ - length(i)); };
    for (size_t i = 0; i < num_chosen(); ++i) ++counts[shortness(i) + 1];
    for (size_t i = 1; i < counts.size(); ++i) counts[i] += counts[i - 1];
    std::vector<int32_t> order(num_chosen());
    for (size_t i = 0; i < num_chosen(); ++i)
      order[static_cast<size_t>(counts[shortness(i)]++)] = static_cast<int32_t>(i);
    return order;
  }

  // Returns the number of free tokens of the fullest block that has room for `length` tokens, or the size of a block if no block has room
  // and a new one is needed.
  size_t room_for(size_t length) const {
    size_t word = length / 64;
    uint64_t bits = has_room_[word] & (~uint64_t{0} << (length % 64));
    while (bits == 0 && ++word < has_room_.size()) bits = has_room_[word];
    return bits == 0 ? static_cast<size_t>(block_size_)
                     : word * 64 + static_cast<size_t>(std::countr_zero(bits));
  }

  void place(int32_t sequence) {
    const auto num_tokens = static_cast<size_t>(length(static_cast<size_t>(sequence)));
    const size_t room = room_for(num_tokens);
    int32_t block = first_with_room_[room];
    if (block == kNone) {
      block = static_cast<int32_t>(next_with_room_.size());
      next_with_room_.push_back(kNone);
    } else {
      first_with_room_[room] = next_with_room_[static_cast<size_t>(block)];
      if (first_with_room_[room] == kNone) has_room_[room / 64] &= ~(uint64_t{1} << (room % 64));
    }
    block_of_[static_cast<size_t>(sequence)] = block;
    const size_t left = room - num_tokens;
    if (left == 0) return;
    next_with_room_[static_cast<size_t>(block)] = std::exchange(first_with_room_[left], block);
    has_room_[left / 64] |= uint64_t{1} << (left % 64);
  }

  // Numbers the blocks in the order of the first sequence of each block, and returns the sequences of each block in this order.
  PackedRows in_order() {
    const size_t num_blocks = next_with_room_.size();
    // number_of maps each block to its new number. It reuses the memory of the linked lists, which are not needed any more.
    std::vector<int32_t>& number_of = next_with_room_;
    std::ranges::fill(number_of, kNone);
    int32_t next = 0;
    PackedRows packed{.offsets = std::vector<int64_t>(num_blocks + 1, 0),
                      .sequences = std::vector<int32_t>(block_of_.size())};
    for (int32_t& block : block_of_) {
      int32_t& number = number_of[static_cast<size_t>(block)];
      if (number == kNone) number = next++;
      block = number;
      ++packed.offsets[static_cast<size_t>(number) + 1];
    }
    for (size_t i = 1; i <= num_blocks; ++i) packed.offsets[i] += packed.offsets[i - 1];
    std::vector<int64_t> at(packed.offsets.begin(), packed.offsets.end() - 1);
    for (size_t sequence = 0; sequence < block_of_.size(); ++sequence)
      packed.sequences[static_cast<size_t>(at[static_cast<size_t>(block_of_[sequence])]++)] =
          chosen(sequence);
    return packed;
  }

  const TokenSet& sequences_;
  const std::optional<std::span<const int32_t>> chosen_;
  const int64_t block_size_;
  std::vector<int32_t> block_of_;         // the index of the block of each chosen sequence
  std::vector<int32_t> first_with_room_;  // per number of free tokens: the first block of the linked list
  std::vector<int32_t> next_with_room_;   // per block: the next block with the same number of free tokens
  std::vector<uint64_t> has_room_;        // bit r is set if a block has r free tokens
};

void keep_first(std::optional<int64_t> max_blocks, PackedRows& packed) {
  if (!max_blocks || *max_blocks >= packed.num_rows()) return;
  packed.offsets.resize(static_cast<size_t>(*max_blocks) + 1);
  packed.sequences.resize(static_cast<size_t>(packed.offsets.back()));
}

Dataset pack(const TokenSet& documents, const BlockOptions& options) {
  Dataset data;
  data.tokens = documents.with_rows(sequence_offsets(documents, options.block_size));
  data.packed = Packing(data.tokens, std::nullopt, options.block_size).pack();
  keep_first(options.max_blocks, data.packed);
  return data;
}

// Returns rows that consist of one sequence each.
PackedRows single_rows(std::vector<int32_t> sequences) {
  PackedRows packed;
  packed.offsets.resize(sequences.size() + 1);
  std::iota(packed.offsets.begin(), packed.offsets.end(), 0);
  packed.sequences = std::move(sequences);
  return packed;
}

// Returns the conversations as rows, each in its own row or packed. A conversation that is longer than a block is truncated.
Dataset make_conversations(const TokenSet& documents, const BlockOptions& options) {
  check_count(2 * documents.num_rows(), options.block_size);
  std::vector<int64_t> offsets = {documents.offsets().front()};
  std::vector<int32_t> chosen;
  for (const int64_t end : documents.offsets().subspan(1)) {
    const int64_t row = std::ssize(offsets) - 1;
    const int64_t begin = offsets.back();
    offsets.push_back(std::min(begin + options.block_size, end));
    const auto types =
        documents.types().subspan(static_cast<size_t>(begin), static_cast<size_t>(offsets.back() - begin));
    // The first token is never a label, because no token before it predicts it. Conversations in which no other token is trained are left
    // out.
    if (!types.empty() && std::ranges::find(types.subspan(1), 1) != types.end())
      chosen.push_back(static_cast<int32_t>(row));
    if (offsets.back() < end) offsets.push_back(end);
  }
  Dataset data;
  data.tokens = documents.with_rows(std::move(offsets));
  data.packed = options.rule == BlockRule::kPack ? Packing(data.tokens, chosen, options.block_size).pack()
                                                 : single_rows(std::move(chosen));
  keep_first(options.max_blocks, data.packed);
  return data;
}

// Returns true if the document has a token that can be a label.
bool has_prediction(const TokenSet& documents, int64_t row, const BlockOptions& options) {
  const int64_t length = documents.length(row);
  if (!options.masking) return length >= 2;
  for (int64_t i = 0; i < length; ++i) {
    if (!options.masking->is_special(documents.id(row, i))) return true;
  }
  return false;
}

Dataset separate(const TokenSet& documents, const BlockOptions& options) {
  check_count(documents.num_rows(), options.block_size);
  std::vector<int32_t> rows;
  const int64_t most = options.max_blocks.value_or(documents.num_rows());
  for (int64_t row = 0; row < documents.num_rows() && std::ssize(rows) < most; ++row) {
    if (has_prediction(documents, row, options)) rows.push_back(static_cast<int32_t>(row));
  }
  Dataset data;
  data.tokens = documents;
  if (std::ssize(rows) == documents.num_rows()) return data;
  data.packed = single_rows(std::move(rows));
  return data;
}

Dataset rows_of(const TokenSet& documents, const BlockOptions& options) {
  if (documents.type_use() == TypeUse::kTrained) return make_conversations(documents, options);
  if (options.rule == BlockRule::kSeparate) return separate(documents, options);
  return options.rule == BlockRule::kPack ? pack(documents, options) : concatenate(documents, options);
}

}  // namespace

Dataset make_blocks(const TokenSet& documents, const BlockOptions& options) {
  PLIMSOLL_CHECK(options.block_size >= 1 && options.max_blocks.value_or(1) >= 1);
  Dataset data = rows_of(documents, options);
  data.labels.masking = options.masking;
  data.labels.is_next_token = !options.masking;
  return data;
}

Dataset make_overlapping_blocks(const TokenSet& documents, const BlockOptions& options, int64_t stride) {
  PLIMSOLL_CHECK(options.rule == BlockRule::kConcatenate && stride >= 1 && stride <= options.block_size);
  PLIMSOLL_CHECK(documents.type_use() == TypeUse::kSegments,
                 "conversations cannot be cut into overlapping blocks, but a stride is given");
  const int64_t end_of_all = documents.offsets().back();
  int64_t begin = documents.offsets().front();
  const int64_t rest = std::max<int64_t>(0, end_of_all - begin - options.block_size);
  check_count((rest + stride - 1) / stride + 1, options.block_size);
  TokenJoiner joiner(documents.max_id());
  Dataset data;
  for (int64_t counted = begin; begin < end_of_all; begin += stride) {
    if (options.max_blocks && std::ssize(data.labels.first_targets) == *options.max_blocks) break;
    const int64_t end = std::min(begin + options.block_size, end_of_all);
    joiner.add(documents.with_rows({begin, end}).copied());
    data.labels.first_targets.push_back(narrow<int32_t>(counted - begin));
    counted = end;
    if (end == end_of_all) break;
  }
  data.tokens = std::move(joiner).finish();
  data.labels.is_next_token = true;
  return data;
}

}  // namespace plimsoll
