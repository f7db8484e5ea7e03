// Implements the public functions of Tokenizer and TokenStream by TokenizerImpl.
#include "io/text/tokenizer.h"

#include <algorithm>

#include "io/text/tokenizer_impl.h"

namespace plimsoll {

void Encoding::clear() {
  ids.clear();
  type_ids.clear();
  offsets.clear();
  word_starts.clear();
  num_cut = 0;
}

TokenizerScratch::TokenizerScratch() : impl_(std::make_unique<text::ScratchImpl>()) {}
TokenizerScratch::~TokenizerScratch() = default;
TokenizerScratch::TokenizerScratch(TokenizerScratch&&) noexcept = default;
TokenizerScratch& TokenizerScratch::operator=(TokenizerScratch&&) noexcept = default;

Tokenizer::Tokenizer(text::TokenizerSpec spec)
    : impl_(std::make_unique<text::TokenizerImpl>(std::move(spec))) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::unique_ptr<Tokenizer> Tokenizer::load(const std::filesystem::path& folder, std::string_view model_type) {
  return std::make_unique<Tokenizer>(
      text::parse_tokenizer_files(text::read_tokenizer_files(folder, model_type)));
}

AppendedTokens Tokenizer::append(const TextPair& text, const EncodeOptions& options,
                                 TokenizerScratch& scratch, Encoding* out) const {
  return impl_->append(text, options, *scratch.impl_, out);
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  TokenizerScratch scratch;
  Encoding out;
  append({text, std::nullopt}, options, scratch, &out);
  return out;
}

Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                const EncodeOptions& options) const {
  TokenizerScratch scratch;
  Encoding out;
  append({first, second}, options, scratch, &out);
  return out;
}

AppendedTokens Tokenizer::append_words(std::span<const std::string_view> words, const EncodeOptions& options,
                                       TokenizerScratch& scratch, Encoding* out) const {
  return impl_->append_words(words, options, *scratch.impl_, out);
}

Encoding Tokenizer::encode_words(std::span<const std::string_view> words,
                                 const EncodeOptions& options) const {
  TokenizerScratch scratch;
  Encoding out;
  append_words(words, options, scratch, &out);
  return out;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  return impl_->decode(ids, options);
}

int64_t Tokenizer::vocab_size() const {
  return impl_->vocab_size_;
}
int32_t Tokenizer::max_id() const {
  return impl_->max_id_;
}
std::optional<int32_t> Tokenizer::id(std::string_view token) const {
  return impl_->id(token);
}

std::optional<std::string_view> Tokenizer::token(int32_t id) const {
  return impl_->token(id);
}

const SpecialTokenIds& Tokenizer::special_ids() const {
  return impl_->special_ids_;
}
const std::vector<AddedToken>& Tokenizer::added_tokens() const {
  return impl_->added_by_id_;
}
int64_t Tokenizer::num_special_tokens(bool pair) const {
  return impl_->num_special_tokens(pair);
}
int32_t Tokenizer::max_type_id(bool pair) const {
  int32_t max = 0;
  for (const text::TemplatePiece& piece : pair ? impl_->spec_.pair : impl_->spec_.single) {
    max = std::max(max, piece.type_id);
  }
  return max;
}
std::optional<int64_t> Tokenizer::model_max_length() const {
  return impl_->spec_.model_max_length;
}
TextSide Tokenizer::padding_side() const {
  return impl_->spec_.padding_side;
}
TextSide Tokenizer::truncation_side() const {
  return impl_->spec_.truncation_side;
}
const std::optional<TruncationDefault>& Tokenizer::truncation_default() const {
  return impl_->spec_.truncation_default;
}
bool Tokenizer::lowercase() const {
  return impl_->spec_.pipeline ? impl_->normalize("AB").find("ab") != std::string::npos
                               : impl_->spec_.normalizer.lowercase;
}
const std::string& Tokenizer::source() const {
  return impl_->spec_.source;
}
const std::string& Tokenizer::transformers_class() const {
  return impl_->spec_.transformers_class;
}
const Hash128& Tokenizer::content_hash() const {
  return impl_->hash_;
}

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

TokenStream::TokenStream(const Tokenizer& tokenizer, const DecodeOptions& options,
                         std::span<const int32_t> context)
    : tokenizer_(tokenizer),
      options_(options),
      ids_(context.begin(), context.end()),
      num_returned_(context.size()) {
  options_.clean_up_spaces = false;
  returned_ = decode();
  // If the context ends inside a character, its text ends with U+FFFD. This incomplete character is removed from returned_, so that push()
  // returns the whole character when further ids complete it.
  while (returned_.ends_with(kReplacement)) returned_.resize(returned_.size() - kReplacement.size());
}

std::string TokenStream::decode() const {
  return tokenizer_.decode(ids_, options_);
}

std::string TokenStream::push(int32_t id) {
  ids_.push_back(id);
  const std::string text = decode();
  if (text.size() <= returned_.size() || text.ends_with(kReplacement) || !text.starts_with(returned_))
    return {};
  std::string result = text.substr(returned_.size());
  // The text of an id depends at most on the id directly before it. Therefore earlier ids are removed, and only the ids whose text this
  // call returns are kept, as the context of the next ids.
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(num_returned_));
  num_returned_ = ids_.size();
  returned_ = decode();
  return result;
}

std::string TokenStream::finish() {
  const std::string text = decode();
  std::string result = text.starts_with(returned_) ? text.substr(returned_.size()) : std::string();
  ids_.clear();
  num_returned_ = 0;
  returned_.clear();
  return result;
}

}  // namespace plimsoll
