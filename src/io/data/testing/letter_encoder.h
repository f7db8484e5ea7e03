// Code that the tests of src/io/data share: a small tokenizer with one token per byte, random numbers, and a function that returns the
// message of an error. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash.h"
#include "base/philox.h"
#include "io/data/text_encoder.h"
#include "io/data/text_split.h"

namespace plimsoll {

// Encodes a text as the id 1, an id per byte, and the id 2. For a pair, the second text follows as an id per byte and the id 2, with
// token type 1. The id of a byte is first_letter plus its value.
class LetterEncoder : public TextEncoder {
 public:
  explicit LetterEncoder(int32_t first_letter = 10) : first_letter_(first_letter) {}

  std::unique_ptr<Session> new_session() const override { return std::make_unique<LetterSession>(*this); }
  uint64_t content_hash() const override { return static_cast<uint64_t>(first_letter_); }

  mutable std::atomic<int64_t> num_calls{0};

 private:
  class LetterSession : public Session {
   public:
    explicit LetterSession(const LetterEncoder& encoder) : encoder_(encoder) {}
    int64_t encode(std::string_view first, std::optional<std::string_view> second, int64_t max_length,
                   std::vector<int32_t>& ids, std::vector<int32_t>& types) override {
      return encoder_.encode(first, second, max_length, ids, types);
    }
    // Encodes each byte of a word as one token.
    int64_t encode_words(std::span<const std::string_view> words, int64_t max_length,
                         std::vector<int32_t>& ids, std::vector<int32_t>& types,
                         std::vector<int32_t>& word_starts) override {
      const size_t begin = ids.size();
      std::string text;
      std::vector<int32_t> starts = {-1};
      for (size_t i = 0; i < words.size(); ++i) {
        text += words[i];
        if (!words[i].empty()) starts.push_back(static_cast<int32_t>(i));
        starts.resize(text.size() + 1, -1);
      }
      const int64_t num_cut = encoder_.encode(text, std::nullopt, max_length, ids, types);
      starts.resize(ids.size() - begin, -1);
      starts.back() = -1;
      word_starts.insert(word_starts.end(), starts.begin(), starts.end());
      return num_cut;
    }

   private:
    const LetterEncoder& encoder_;
  };

  int64_t encode(std::string_view first, std::optional<std::string_view> second, int64_t max_length,
                 std::vector<int32_t>& ids, std::vector<int32_t>& types) const {
    ++num_calls;
    const auto room = static_cast<size_t>(max_length) - (second.has_value() ? 3 : 2);
    size_t a = first.size();
    size_t b = second.value_or("").size();
    const size_t before = a + b;
    while (a + b > room) {
      a > b ? --a : --b;
    }
    const auto push = [&](int32_t id, int32_t type) {
      ids.push_back(id);
      types.push_back(type);
    };
    push(1, 0);
    for (const char letter : first.substr(0, a)) {
      push(first_letter_ + static_cast<unsigned char>(letter), 0);
    }
    push(2, 0);
    if (second.has_value()) {
      for (const char letter : second->substr(0, b)) {
        push(first_letter_ + static_cast<unsigned char>(letter), 1);
      }
      push(2, 1);
    }
    if (first == "refused") {
      throw_error(ErrorCode::kBadData, "this text is refused");
    }
    return static_cast<int64_t>(before - a - b);
  }
  int32_t first_letter_;
};

// Random integers, seeded with the name of the running test.
class TestRandom {
 public:
  TestRandom() {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    const std::string name = fmt::format("{}.{}", test->test_suite_name(), test->name());
    where_.seed = hash64(name);
  }
  // Returns an integer in [0, range).
  int64_t below(int64_t range) {
    return static_cast<int64_t>(
        (static_cast<uint64_t>(philox_element(where_, next_++)) * static_cast<uint64_t>(range)) >> 32);
  }
  uint64_t seed() const { return where_.seed; }

 private:
  RandomSite where_;
  uint64_t next_ = 0;
};

// Returns the message of the plimsoll::Error that the call throws, preceded by its code: "4: ...".
template <typename Call>
std::string error_of(Call&& call) {
  try {
    std::forward<Call>(call)();
  } catch (const Error& error) {
    return fmt::format("{}: {}", static_cast<int>(error.code()), error.what());
  }
  return "no error";
}

}  // namespace plimsoll
