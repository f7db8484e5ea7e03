// The pages of a KV cache: which page of the cache contains which tokens of which sequence. Sequences that continue the same text share
// its pages, so that beams and several samples of one prompt store their past once. The table stores indices of pages; the keys and
// values themselves are in the planned memory of the cache (kernels/attention/paged_attention.h).
//
// Every sequence is a list of pages of page_size tokens each, of which only the last one may be partly filled. A page has one
// reference per sequence that contains it. A sequence writes only into pages that it alone refers to: if the partly filled last page is
// shared when a sequence grows, the sequence gets a copy of it. Full pages are never copied.
//
// The capacity is fixed: pages_needed() (plan/compile/generation_sizes.h) gives the planner an upper bound that the search cannot exceed.
//
// Not thread-safe. It owns its lists and allocates only when a sequence is added.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

// The value of copy_from of append_kv (kernels/attention/paged_attention.h) if no page is copied.
inline constexpr int32_t kNoPage = -1;

// The index of a sequence in a PageTable.
enum class SequenceId : int32_t {};

class PageTable {
 public:
  // Requires: num_pages >= 0 and page_size >= 1.
  PageTable(int64_t num_pages, int64_t page_size);

  // Adds a sequence without tokens.
  SequenceId add();
  // Adds a sequence with the tokens and pages of another one. Cost: O(pages of the sequence).
  SequenceId fork(SequenceId parent);
  // Removes a sequence and frees the pages that no other sequence contains. A later sequence may get the same id.
  void release(SequenceId sequence);
  // Replaces the sequences of the beams of one prompt after a step of beam search: new beam b continues the old beam parents[b].
  // `*beams` contains the ids of the old sequences before the call and those of the new ones after it; the two lists may have
  // different lengths. If only one new beam continues an old one, it keeps the old sequence and its pages.
  void reorder(std::vector<SequenceId>* beams, std::span<const int32_t> parents);
  // Makes room for `count` more tokens at the end of a sequence. If the partly filled last page was shared, the sequence gets a new
  // page instead of it, and the result is the shared page, from which append_kv must copy the tokens (its argument copy_from);
  // otherwise the result is kNoPage. If several sequences grow, their copies may run in any order, unless a sequence is released in
  // between. Requires: count >= 0. Errors: kInternal if no page is free, because the plan has reserved too few.
  int32_t grow(SequenceId sequence, int64_t count);

  int64_t length(SequenceId sequence) const { return at(sequence).length; }
  std::span<const int32_t> pages(SequenceId sequence) const { return at(sequence).pages; }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  int64_t num_used() const { return static_cast<int64_t>(num_references_.size() - free_.size()); }
  int64_t page_size() const { return page_size_; }
  int64_t num_references(int32_t page) const { return num_references_[static_cast<size_t>(page)]; }

  // Writes the rows of a step: row i of `table` (max_pages entries each) has the pages of sequences[i], then zeros, and lengths[i] its
  // number of tokens. Requires: max_pages is at least the number of pages of each sequence.
  void write_rows(std::span<const SequenceId> sequences, int64_t max_pages, std::span<int32_t> table,
                  std::span<int32_t> lengths) const;

 private:
  struct Sequence {
    std::vector<int32_t> pages;
    int64_t length = 0;
    bool is_used = false;
  };

  Sequence& at(SequenceId id);
  const Sequence& at(SequenceId id) const;
  int32_t take_page();
  void drop_page(int32_t page);

  int64_t page_size_;
  std::vector<int32_t> num_references_;  // number of references to each page
  std::vector<int32_t> free_;            // pages without a reference; the last element is taken next
  std::vector<Sequence> sequences_;
  std::vector<SequenceId> unused_;  // ids of released sequences
};

}  // namespace plimsoll
