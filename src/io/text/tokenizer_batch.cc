// Implements the encoding of many texts on several threads.
#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>

#include "base/check.h"
#include "base/run_on_threads.h"
#include "io/text/tokenizer.h"

namespace plimsoll {
namespace {

// The number of texts that a thread takes from the list at a time, by increasing a shared counter. The number is large enough that the
// increments cost little time, and small enough to distribute long texts evenly over the threads.
constexpr size_t kTextsAtOnce = 32;

// Stores the error of the failed text that comes first in the input, whichever thread finds it.
class FirstError {
 public:
  void record(size_t text, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ && text_ < text) return;
    text_ = text;
    error_ = std::move(error);
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  size_t text_ = 0;
  std::exception_ptr error_;
};

}  // namespace

std::vector<Encoding> Tokenizer::encode_batch(std::span<const TextPair> texts, const EncodeOptions& options,
                                              int num_threads) const {
  PLIMSOLL_CHECK(num_threads >= 1, "{} threads", num_threads);
  std::vector<Encoding> results(texts.size());
  std::atomic<size_t> next{0};
  FirstError first_error;
  // After an error, threads start no text that comes after the failed one in the input. All texts before it are still encoded, because the
  // error of the first failed text is the one to report.
  std::atomic<size_t> stop{texts.size()};
  const auto work = [&](size_t /*thread*/) {
    TokenizerScratch scratch;
    for (size_t begin; (begin = next.fetch_add(kTextsAtOnce)) < stop.load();) {
      const size_t end = std::min(begin + kTextsAtOnce, texts.size());
      for (size_t i = begin; i < end; ++i) {
        try {
          append(texts[i], options, scratch, &results[i]);
        } catch (...) {
          first_error.record(i, std::current_exception());
          stop.store(std::min(stop.load(), i));
        }
      }
    }
  };
  const size_t useful = (texts.size() + kTextsAtOnce - 1) / kTextsAtOnce;
  run_on_threads(std::min(static_cast<size_t>(num_threads), useful), work);
  first_error.rethrow();
  return results;
}

}  // namespace plimsoll
