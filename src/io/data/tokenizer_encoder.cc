#include "io/data/text_encoder.h"

namespace plimsoll {
namespace {

class TokenizerSession : public TextEncoder::Session {
 public:
  explicit TokenizerSession(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  int64_t encode(std::string_view first, std::optional<std::string_view> second, int64_t max_length,
                 std::vector<int32_t>& ids, std::vector<int32_t>& types) override {
    encoding_.clear();
    const AppendedTokens appended =
        tokenizer_.append({first, second}, options(max_length), scratch_, &encoding_);
    copy_to(ids, types);
    return appended.num_cut;
  }

  int64_t encode_words(std::span<const std::string_view> words, int64_t max_length, std::vector<int32_t>& ids,
                       std::vector<int32_t>& types, std::vector<int32_t>& word_starts) override {
    encoding_.clear();
    const AppendedTokens appended = tokenizer_.append_words(words, options(max_length), scratch_, &encoding_);
    copy_to(ids, types);
    word_starts.insert(word_starts.end(), encoding_.word_starts.begin(), encoding_.word_starts.end());
    return appended.num_cut;
  }

 private:
  static EncodeOptions options(int64_t max_length) {
    return {.max_length = max_length, .offsets = Offsets::kSkip};
  }
  void copy_to(std::vector<int32_t>& ids, std::vector<int32_t>& types) const {
    ids.insert(ids.end(), encoding_.ids.begin(), encoding_.ids.end());
    types.insert(types.end(), encoding_.type_ids.begin(), encoding_.type_ids.end());
  }

  const Tokenizer& tokenizer_;
  TokenizerScratch scratch_;
  Encoding encoding_;
};

}  // namespace

std::unique_ptr<TextEncoder::Session> TokenizerEncoder::new_session() const {
  return std::make_unique<TokenizerSession>(tokenizer_);
}

}  // namespace plimsoll
