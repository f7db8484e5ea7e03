// Records which page of a KV cache contains which tokens of which sequence. Sequences with the same beginning share its pages, so that
// the common text of beams, or of several samples of one prompt, is stored once. The table stores indices of pages; the keys and values
// themselves are in the memory that the plan reserves for the cache (kernels/attention/paged_attention.h).
//
// Every sequence is a list of pages of page_size tokens each, of which only the last one may be partly filled. The number of references
// to a page is the number of sequences that use it. A sequence writes only into pages that no other sequence uses. If its partly filled
// last page is shared when it grows, it gets a copy of this page. Full pages are never copied.
//
// The number of pages is fixed. The planner computes it with pages_needed() (plan/compile/generation_sizes.h), an upper bound that a
// generation cannot exceed.
//
// Not thread-safe. It owns its lists and allocates only when a sequence is added.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plimsoll {

// The value of copy_from in append_kv() (kernels/attention/paged_attention.h) with which no page is copied.
inline constexpr int32_t kNoPage = -1;

// The index of a sequence in a PageTable.
enum class SequenceId : int32_t {};

class PageTable {
 public:
  // Requires: num_pages >= 0 and page_size >= 1.
  PageTable(int64_t num_pages, int64_t page_size);

  // Adds an empty sequence.
  SequenceId add();
  // Adds a sequence with the same tokens and pages as another one. Cost: O(pages of the sequence).
  SequenceId fork(SequenceId parent);
  // Removes a sequence and frees the pages that no other sequence uses. A later sequence may get the same id.
  void release(SequenceId sequence);
  // Replaces the sequences of the beams of one prompt after a step of beam search: new beam b continues the old beam parents[b]. `*beams`
  // contains the ids of the old sequences before the call and those of the new ones after it; the two lists may have different lengths.
  // An old beam that only one new beam continues is not copied: its sequence and pages are kept.
  void reorder(std::vector<SequenceId>* beams, std::span<const int32_t> parents);
  // Assigns pages for `count` more tokens at the end of a sequence. If the partly filled last page was shared, the sequence gets a new
  // page instead of it, and the function returns the shared page, from which append_kv() must copy the tokens (its argument copy_from).
  // Otherwise it returns kNoPage. If several sequences grow, their copies may run in any order, unless a sequence is removed in between.
  // Requires: count >= 0. Errors: kInternal if no page is free, because the plan has reserved too few.
  int32_t grow(SequenceId sequence, int64_t count);

  int64_t length(SequenceId sequence) const { return at(sequence).length; }
  std::span<const int32_t> pages(SequenceId sequence) const { return at(sequence).pages; }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  int64_t num_used() const { return static_cast<int64_t>(num_references_.size() - free_.size()); }
  int64_t page_size() const { return page_size_; }
  int64_t num_references(int32_t page) const { return num_references_[static_cast<size_t>(page)]; }

  // Writes the inputs of a step of the model: row i of `table`, which has max_pages entries, contains the pages of sequences[i] followed
  // by zeros, and lengths[i] is its number of tokens. Requires: max_pages is at least the number of pages of each sequence.
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
  std::vector<int32_t> free_;            // pages without a reference; the last element is used next
  std::vector<Sequence> sequences_;
  std::vector<SequenceId> unused_;  // ids of removed sequences
};

}  // namespace plimsoll
