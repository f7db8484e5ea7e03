#include "generate/page_table.h"

#include <algorithm>

#include "base/check.h"

namespace plimsoll {
PageTable::PageTable(int64_t num_pages, int64_t page_size) : page_size_(page_size) {
  PLIMSOLL_CHECK(num_pages >= 0 && page_size >= 1);
  num_references_.resize(static_cast<size_t>(num_pages), 0);
  for (int64_t page = num_pages - 1; page >= 0; --page) free_.push_back(narrow<int32_t>(page));
}

PageTable::Sequence& PageTable::at(SequenceId id) {
  const auto index = static_cast<size_t>(id);
  PLIMSOLL_CHECK(index < sequences_.size() && sequences_[index].is_used,
                 "the sequence {} does not exist or was released", index);
  return sequences_[index];
}

const PageTable::Sequence& PageTable::at(SequenceId id) const {
  const auto index = static_cast<size_t>(id);
  PLIMSOLL_CHECK(index < sequences_.size() && sequences_[index].is_used,
                 "the sequence {} does not exist or was released", index);
  return sequences_[index];
}

int32_t PageTable::take_page() {
  PLIMSOLL_CHECK(!free_.empty(), "all {} pages of the KV cache are in use", num_references_.size());
  const int32_t page = free_.back();
  free_.pop_back();
  num_references_[static_cast<size_t>(page)] = 1;
  return page;
}

void PageTable::drop_page(int32_t page) {
  if (--num_references_[static_cast<size_t>(page)] == 0) free_.push_back(page);
}

SequenceId PageTable::add() {
  if (unused_.empty()) {
    unused_.push_back(static_cast<SequenceId>(narrow<int32_t>(std::ssize(sequences_))));
    sequences_.emplace_back();
  }
  const SequenceId id = unused_.back();
  unused_.pop_back();
  sequences_[static_cast<size_t>(id)].is_used = true;
  return id;
}

SequenceId PageTable::fork(SequenceId parent) {
  const SequenceId id = add();
  const Sequence& from = at(parent);
  Sequence& to = at(id);
  to.pages = from.pages;
  to.length = from.length;
  for (const int32_t page : to.pages) ++num_references_[static_cast<size_t>(page)];
  return id;
}

void PageTable::release(SequenceId sequence) {
  Sequence& released = at(sequence);
  for (const int32_t page : released.pages) drop_page(page);
  released.pages.clear();
  released.length = 0;
  released.is_used = false;
  unused_.push_back(sequence);
}

void PageTable::reorder(std::vector<SequenceId>* beams, std::span<const int32_t> parents) {
  std::vector<SequenceId> next;
  std::vector<bool> is_continued(beams->size(), false);
  for (const int32_t parent : parents) {
    const auto index = static_cast<size_t>(parent);
    PLIMSOLL_CHECK(index < beams->size(), "a new beam continues beam {}, but there are only {} beams", parent,
                   beams->size());
    // The first new beam that continues an old beam takes over its sequence; every further one gets a copy of the sequence.
    next.push_back(is_continued[index] ? fork((*beams)[index]) : (*beams)[index]);
    is_continued[index] = true;
  }
  for (size_t i = 0; i < beams->size(); ++i) {
    if (!is_continued[i]) release((*beams)[i]);
  }
  *beams = std::move(next);
}

int32_t PageTable::grow(SequenceId sequence, int64_t count) {
  PLIMSOLL_CHECK(count >= 0);
  if (count == 0) return kNoPage;
  Sequence& grown = at(sequence);
  int32_t copied = kNoPage;
  const bool has_partial_page = grown.length % page_size_ != 0;
  if (has_partial_page && num_references(grown.pages.back()) > 1) {
    copied = grown.pages.back();
    grown.pages.back() = take_page();
    drop_page(copied);
  }
  grown.length += count;
  while (std::ssize(grown.pages) * page_size_ < grown.length) grown.pages.push_back(take_page());
  return copied;
}

void PageTable::write_rows(std::span<const SequenceId> sequences, int64_t max_pages, std::span<int32_t> table,
                           std::span<int32_t> lengths) const {
  PLIMSOLL_CHECK(std::ssize(table) == std::ssize(sequences) * max_pages &&
                 lengths.size() == sequences.size());
  std::ranges::fill(table, 0);
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& sequence = at(sequences[i]);
    PLIMSOLL_CHECK(std::ssize(sequence.pages) <= max_pages);
    std::ranges::copy(sequence.pages, table.begin() + static_cast<std::ptrdiff_t>(i) * max_pages);
    lengths[i] = narrow<int32_t>(sequence.length);
  }
}

}  // namespace plimsoll
