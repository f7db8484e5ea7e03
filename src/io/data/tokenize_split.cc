#include "io/data/tokenize_split.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/run_on_threads.h"

namespace plimsoll {
namespace {

// The number of rows that a thread tokenizes as one unit of work. It is large enough that threads rarely wait for each other, and small
// enough to balance the work.
constexpr int64_t kRowsPerPart = 256;

// The tokens of kRowsPerPart adjacent rows. Ids are stored with 2 bytes if all of them fit.
struct Part {
  std::vector<uint16_t> narrow_ids;
  std::vector<int32_t> wide_ids;
  std::vector<uint8_t> types;
  std::vector<int32_t> word_starts;  // as WordTokens::word_starts: the word that each token begins, or -1
  std::vector<int32_t> lengths;
  TruncationCount truncation;
  std::exception_ptr failure;
};

// The buffers of one thread, with the tokens of the part that it currently tokenizes.
struct Worker {
  std::unique_ptr<TextEncoder::Session> session;
  std::vector<int32_t> ids = {};
  std::vector<int32_t> types = {};
  std::vector<int32_t> word_starts = {};
  std::vector<std::string_view> words = {};  // the words of the current row
};

// The rows to tokenize, and how to encode one of them.
struct RowSource {
  int64_t num_rows = 0;
  // Appends the tokens of a row to the buffers of the worker, and returns the number of tokens that were removed by truncation.
  std::function<int64_t(int64_t row, Worker& worker)> encode;
  std::function<std::string(int64_t row)> where;
};

class Tokenizing {
 public:
  Tokenizing(const RowSource& rows, const TextEncoder& encoder, const TokenizeOptions& options)
      : rows_(rows), encoder_(encoder), options_(options) {
    parts_.resize(static_cast<size_t>((rows.num_rows + kRowsPerPart - 1) / kRowsPerPart));
  }

  void run() {
    const auto num_workers = static_cast<size_t>(
        std::clamp<int64_t>(static_cast<int64_t>(parts_.size()), 1, std::max(1, options_.num_threads)));
    std::vector<Worker> workers;
    for (size_t i = 0; i < num_workers; ++i) {
      workers.push_back({.session = encoder_.new_session()});
    }
    run_on_threads(num_workers, [&](size_t i) { work(workers[i]); });
    // Parts are assigned to threads in order, and a started part is always finished, so all parts before an invalid one were processed.
    // The first failure is therefore that of the first invalid row, for any number of threads.
    for (const Part& part : parts_) {
      if (part.failure != nullptr) {
        std::rethrow_exception(part.failure);
      }
    }
  }

  WordTokens join();

 private:
  void work(Worker& worker) {
    while (!failed_.load(std::memory_order_relaxed)) {
      const int64_t number = next_part_.fetch_add(1, std::memory_order_relaxed);
      if (number >= static_cast<int64_t>(parts_.size())) {
        return;
      }
      Part& part = parts_[static_cast<size_t>(number)];
      try {
        encode_part(number, part, worker);
      } catch (...) {
        part.failure = std::current_exception();
        failed_.store(true, std::memory_order_relaxed);
      }
    }
  }

  void encode_part(int64_t number, Part& part, Worker& worker);
  void encode_row(int64_t row, Part& part, Worker& worker);

  const RowSource& rows_;
  const TextEncoder& encoder_;
  const TokenizeOptions& options_;
  std::vector<Part> parts_;
  std::atomic<int64_t> next_part_{0};
  std::atomic<bool> failed_{false};
  std::mutex progress_mutex_;
  int64_t rows_done_ = 0;
};

void Tokenizing::encode_row(int64_t row, Part& part, Worker& worker) {
  const std::vector<int32_t>& ids = worker.ids;
  const std::vector<int32_t>& types = worker.types;
  const size_t before = ids.size();
  int64_t cut = 0;
  try {
    cut = rows_.encode(row, worker);
  } catch (const Error& error) {
    throw error.with_context(rows_.where(row));
  }
  if (options_.end_token) {
    worker.ids.push_back(*options_.end_token);
    worker.types.push_back(0);
  }
  const auto length = static_cast<int64_t>(ids.size() - before);
  PLIMSOLL_CHECK(types.size() == ids.size(),
                 "the tokenizer must give one token type per id, but gave {1} types for {0} ids", ids.size(),
                 types.size());
  if (length == 0 && options_.empty_rows == EmptyRows::kRefuse) {
    throw_error(
        ErrorCode::kBadData,
        "{}: the text gives no token, and the tokenizer adds no special tokens, so there is nothing to "
        "compute; remove the row",
        rows_.where(row));
  }
  if (length > options_.max_seq_length) {
    throw_error(ErrorCode::kBadData,
                "{}: the text gives {} tokens although it is truncated to {}, because the template of the "
                "tokenizer contains it more than once; correct \"post_processor\" in tokenizer.json",
                rows_.where(row), length, options_.max_seq_length);
  }
  part.lengths.push_back(narrow<int32_t>(length));
  part.truncation.rows += cut > 0 ? 1 : 0;
  part.truncation.tokens += cut;
}

void Tokenizing::encode_part(int64_t number, Part& part, Worker& worker) {
  std::vector<int32_t>& ids = worker.ids;
  std::vector<int32_t>& types = worker.types;
  ids.clear();
  types.clear();
  worker.word_starts.clear();
  const int64_t begin = number * kRowsPerPart;
  const int64_t end = std::min(begin + kRowsPerPart, rows_.num_rows);
  for (int64_t row = begin; row < end; ++row) {
    encode_row(row, part, worker);
  }
  PLIMSOLL_CHECK(worker.word_starts.empty() || worker.word_starts.size() == ids.size());
  part.word_starts = worker.word_starts;
  const bool fits = std::all_of(ids.begin(), ids.end(), [](int32_t id) { return id >= 0 && id < 65536; });
  if (fits) {
    part.narrow_ids.reserve(ids.size());
    for (const int32_t id : ids) {
      part.narrow_ids.push_back(static_cast<uint16_t>(id));
    }
  } else {
    part.wide_ids = ids;
  }
  if (std::any_of(types.begin(), types.end(), [](int32_t type) { return type != 0; })) {
    part.types.reserve(types.size());
    for (const int32_t type : types) {
      part.types.push_back(narrow<uint8_t>(type));
    }
  }
  if (options_.progress) {
    const std::lock_guard lock(progress_mutex_);
    rows_done_ += end - begin;
    options_.progress(rows_done_);
  }
}

WordTokens Tokenizing::join() {
  bool any_wide = false;
  bool any_types = false;
  bool any_words = false;
  std::vector<int64_t> offsets = {0};
  offsets.reserve(static_cast<size_t>(rows_.num_rows) + 1);
  TruncationCount truncation;
  for (const Part& part : parts_) {
    any_wide = any_wide || !part.wide_ids.empty();
    any_types = any_types || !part.types.empty();
    any_words = any_words || !part.word_starts.empty();
    truncation.rows += part.truncation.rows;
    truncation.tokens += part.truncation.tokens;
    for (const int32_t length : part.lengths) {
      offsets.push_back(offsets.back() + length);
    }
  }
  const auto total = static_cast<size_t>(offsets.back());
  std::vector<uint16_t> narrow_ids;
  std::vector<int32_t> wide_ids;
  std::vector<uint8_t> types;
  (any_wide ? wide_ids.reserve(total) : narrow_ids.reserve(total));
  std::vector<int32_t> word_starts;
  types.reserve(any_types ? total : 0);
  word_starts.reserve(any_words ? total : 0);
  for (Part& part : parts_) {
    const size_t count = part.narrow_ids.size() + part.wide_ids.size();
    if (any_wide) {
      wide_ids.insert(wide_ids.end(), part.narrow_ids.begin(), part.narrow_ids.end());
      wide_ids.insert(wide_ids.end(), part.wide_ids.begin(), part.wide_ids.end());
    } else {
      narrow_ids.insert(narrow_ids.end(), part.narrow_ids.begin(), part.narrow_ids.end());
    }
    if (any_types && part.types.empty()) {
      types.resize(types.size() + count, 0);
    } else if (any_types) {
      types.insert(types.end(), part.types.begin(), part.types.end());
    }
    word_starts.insert(word_starts.end(), part.word_starts.begin(), part.word_starts.end());
    part = Part();
  }
  return {TokenSet::from_parts(std::move(narrow_ids), std::move(wide_ids), std::move(types),
                               std::move(offsets), truncation),
          std::move(word_starts)};
}

WordTokens tokenize_rows(const RowSource& rows, const TextEncoder& encoder, const TokenizeOptions& options) {
  PLIMSOLL_CHECK(options.max_seq_length >= 1 && options.num_threads >= 1);
  Tokenizing tokenizing(rows, encoder, options);
  tokenizing.run();
  return tokenizing.join();
}

// Returns the file and line of a row, for messages.
std::string where_is(const TextSplit& split, int64_t row) {
  return fmt::format("{}:{}", split.table().file_name(), split.line(row));
}

}  // namespace

TokenSet tokenize_texts(const TextRows& rows, const TextEncoder& encoder, const TokenizeOptions& options) {
  const auto encode = [&](int64_t row, Worker& worker) {
    return worker.session->encode(rows.first(row), rows.second(row), options.max_seq_length, worker.ids,
                                  worker.types);
  };
  return tokenize_rows({rows.num_rows, encode, rows.where}, encoder, options).tokens;
}

TokenSet tokenize_split(const TextSplit& split, const TextEncoder& encoder, const TokenizeOptions& options) {
  return tokenize_texts({.num_rows = split.num_rows(),
                         .first = [&](int64_t row) { return split.first_text(row); },
                         .second = [&](int64_t row) { return split.second_text(row); },
                         .where = [&](int64_t row) { return where_is(split, row); }},
                        encoder, options);
}

WordTokens tokenize_words(const WordRows& rows, const TextEncoder& encoder, const TokenizeOptions& options) {
  const auto encode = [&](int64_t row, Worker& worker) {
    worker.words.clear();
    rows.words(row, worker.words);
    return worker.session->encode_words(worker.words, options.max_seq_length, worker.ids, worker.types,
                                        worker.word_starts);
  };
  return tokenize_rows({rows.num_rows, encode, rows.where}, encoder, options);
}

WordTokens tokenize_rows(const TextSplit& split, const TextEncoder& encoder, const TokenizeOptions& options) {
  if (!split.has_words()) return {.tokens = tokenize_split(split, encoder, options), .word_starts = {}};
  const auto words = [&](int64_t row, std::vector<std::string_view>& list) {
    for (int64_t i = 0; i < split.num_words(row); ++i) list.push_back(split.word(row, i));
  };
  const auto where = [&](int64_t row) { return where_is(split, row); };
  return tokenize_words({.num_rows = split.num_rows(), .words = words, .where = where}, encoder, options);
}

}  // namespace plimsoll
