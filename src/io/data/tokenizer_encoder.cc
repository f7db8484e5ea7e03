#include "io/data/tokenizer_encoder.h"

namespace plimsoll {
namespace {

class TokenizerSession : public TextEncoder::Session {
 public:
  explicit TokenizerSession(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  int64_t encode(std::string_view first, std::optional<std::string_view> second, int64_t max_length,
                 std::vector<int32_t>& ids, std::vector<int32_t>& types) override {
    EncodeOptions options;
    options.max_length = max_length;
    options.offsets = Offsets::kSkip;
    encoding_.clear();
    const AppendedTokens appended = tokenizer_.append({first, second}, options, scratch_, &encoding_);
    ids.insert(ids.end(), encoding_.ids.begin(), encoding_.ids.end());
    types.insert(types.end(), encoding_.type_ids.begin(), encoding_.type_ids.end());
    return appended.num_cut;
  }

 private:
  const Tokenizer& tokenizer_;
  TokenizerScratch scratch_;
  Encoding encoding_;
};

}  // namespace

std::unique_ptr<TextEncoder::Session> TokenizerEncoder::new_session() const {
  return std::make_unique<TokenizerSession>(tokenizer_);
}

}  // namespace plimsoll
