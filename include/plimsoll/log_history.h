// The log of a run: one record per log entry or evaluation. The records are stored compactly because a long
// run logs hundreds of thousands of times. The class behaves as a sequence of LogRecord values, which are
// created on access. Not thread-safe while records are added.
//
// Memory: 32 bytes per record, 10 per number and 4 per text value (LogRecord::words), in blocks that are never
// copied. Each distinct name and text is stored once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace plimsoll {

using MetricMap = std::map<std::string, double>;
using WordMap = std::map<std::string, std::string>;

// One record of log.jsonl and of trainer_state.json's log_history.
struct LogRecord {
  int64_t step = 0;
  double epoch = 0;
  MetricMap values;    // numbers by name, such as loss, grad_norm or eval_accuracy
  WordMap words = {};  // texts by name, such as gpu_throttle (why a GPU reduces its clocks)
};

class LogHistory {
 public:
  class Iterator {
   public:
    using value_type = LogRecord;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    Iterator(const LogHistory* history, size_t index) : history_(history), index_(index) {}
    LogRecord operator*() const { return (*history_)[index_]; }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    bool operator==(const Iterator& other) const { return index_ == other.index_; }

   private:
    const LogHistory* history_;
    size_t index_;
  };

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, size()}; }

  // Returns a record. Requires: index < size().
  LogRecord operator[](size_t index) const {
    const Entry before = index == 0 ? Entry{} : entries_[index - 1];
    const Entry& entry = entries_[index];
    LogRecord record{.step = entry.step, .epoch = entry.epoch, .values = {}};
    for (size_t i = before.end; i < entry.end; ++i) record.values[names_[name_of_[i]]] = values_[i];
    for (size_t i = before.end_of_words; i < entry.end_of_words; ++i)
      record.words[names_[words_[i].name]] = names_[words_[i].text];
    return record;
  }
  // Returns the last record. Requires: !empty().
  LogRecord back() const { return (*this)[size() - 1]; }

  void push_back(const LogRecord& record) {
    for (const auto& [name, value] : record.values) {
      name_of_.push_back(id_of(name));
      values_.push_back(value);
    }
    for (const auto& [name, text] : record.words) words_.push_back({id_of(name), id_of(text)});
    entries_.push_back({record.step, record.epoch, values_.size(), words_.size()});
  }

 private:
  struct Entry {
    int64_t step = 0;
    double epoch = 0;
    size_t end = 0;  // index after the last number of this record, in the array of all numbers
    size_t end_of_words = 0;
  };
  struct Word {
    uint16_t name;
    uint16_t text;
  };

  uint16_t id_of(const std::string& name) {
    const auto [it, is_new] = ids_.try_emplace(name, static_cast<uint16_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return it->second;
  }

  std::deque<Entry> entries_;
  std::deque<double> values_;
  std::deque<uint16_t> name_of_;
  std::deque<Word> words_;
  std::vector<std::string> names_;
  std::map<std::string, uint16_t> ids_;
};

}  // namespace plimsoll
