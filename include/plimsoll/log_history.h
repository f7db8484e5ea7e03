// The log of a run: one record for each time that something was logged or evaluated, kept compactly, since a
// long run logs hundreds of thousands of times. A sequence of LogRecord values; a record is made when it is
// asked for. Values; not thread-safe while it grows.
//
// Memory: 24 bytes a record and 10 a value, in blocks that are never copied; a name is kept once.
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

// One record of log.jsonl and of trainer_state.json's log_history.
struct LogRecord {
  int64_t step = 0;
  double epoch = 0;
  MetricMap values;  // loss, grad_norm, learning_rate; or eval_loss, eval_accuracy, ...
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

  // Requires: index < size().
  LogRecord operator[](size_t index) const {
    LogRecord record{.step = entries_[index].step, .epoch = entries_[index].epoch, .values = {}};
    for (size_t i = index == 0 ? 0 : entries_[index - 1].end; i < entries_[index].end; ++i) {
      record.values[names_[name_of_[i]]] = values_[i];
    }
    return record;
  }
  // Requires: !empty().
  LogRecord back() const { return (*this)[size() - 1]; }

  void push_back(const LogRecord& record) {
    for (const auto& [name, value] : record.values) {
      const auto [it, is_new] = ids_.try_emplace(name, static_cast<uint16_t>(names_.size()));
      if (is_new) names_.push_back(name);
      name_of_.push_back(it->second);
      values_.push_back(value);
    }
    entries_.push_back({record.step, record.epoch, values_.size()});
  }

 private:
  struct Entry {
    int64_t step;
    double epoch;
    size_t end;  // of its values
  };
  std::deque<Entry> entries_;
  std::deque<double> values_;
  std::deque<uint16_t> name_of_;
  std::vector<std::string> names_;
  std::map<std::string, uint16_t> ids_;
};

}  // namespace plimsoll
