#include "io/text/token_model.h"

#include <algorithm>
#include <atomic>

#include "base/check.h"

namespace plimsoll::text {

// The character U+2581, with which SentencePiece marks the beginning of a word.
static constexpr std::string_view kWordMark = "\xE2\x96\x81";

TokenModel::Model TokenModel::make_model(const ModelSpec& spec, const TokenIds& ids) {
  return std::visit(
      [&](const auto& kind) -> Model {
        using Kind = std::decay_t<decltype(kind)>;
        if constexpr (std::is_same_v<Kind, WordPieceSpec>) return WordPiece(spec.vocab, kind);
        if constexpr (std::is_same_v<Kind, BpeSpec>) return Bpe(spec.vocab, ids, kind);
        if constexpr (std::is_same_v<Kind, UnigramSpec>) return Unigram(spec.vocab, ids, kind);
        if constexpr (std::is_same_v<Kind, WordLevelSpec>) return WordLevel{ids.find(kind.unk_token)};
      },
      spec.kind);
}

static uint64_t next_model_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// Returns true if the model is a BPE model that splits a text into the same tokens when the text is first divided before each word mark
// (kWordMark) and each part is split separately.
static bool splits_before_mark(const Bpe* model, const ModelSpec& spec) {
  return model != nullptr && model->splits_before(kWordMark, spec.vocab);
}

TokenModel::TokenModel(const ModelSpec& spec)
    : ids_(spec.vocab),
      model_(make_model(spec, ids_)),
      splits_before_mark_(splits_before_mark(std::get_if<Bpe>(&model_), spec)),
      number_(next_model_number()) {}

void TokenModel::claim(ModelScratch& scratch) const {
  if (scratch.model == number_) return;
  scratch.model = number_;
  scratch.words.clear();
  scratch.byte_words.clear();
}

void TokenModel::split(std::string_view word, ModelScratch& scratch, std::vector<WordToken>* out) const {
  if (const auto* word_piece = std::get_if<WordPiece>(&model_)) return word_piece->split(word, out);
  if (const auto* word_level = std::get_if<WordLevel>(&model_)) {
    int32_t id = ids_.find(word);
    if (id == kNoToken) id = word_level->unk_id;
    if (id == kNoToken) {
      throw_error(ErrorCode::kBadData,
                  "the vocabulary has no token for the word '{}', nor an unknown token; correct unk_token in "
                  "tokenizer.json or remove the word",
                  word);
    }
    out->push_back({id, 0, static_cast<uint32_t>(word.size())});
    return;
  }
  claim(scratch);
  if (!splits_before_mark_) return split_cached(word, scratch, out);
  for (size_t begin = 0; begin < word.size();) {
    // The current part ends before the next word mark, but consecutive marks stay together.
    size_t end = word.find(kWordMark, begin + 1);
    while (end != std::string_view::npos && word.substr(0, end).ends_with(kWordMark)) {
      end = word.find(kWordMark, end + 1);
    }
    end = std::min(end, word.size());
    const size_t first = out->size();
    split_cached(word.substr(begin, end - begin), scratch, out);
    for (size_t i = first; i < out->size(); ++i) {
      (*out)[i].begin += static_cast<uint32_t>(begin);
      (*out)[i].end += static_cast<uint32_t>(begin);
    }
    begin = end;
  }
}

void TokenModel::split_cached(std::string_view word, ModelScratch& scratch,
                              std::vector<WordToken>* out) const {
  if (scratch.words.find(word, out)) return;
  const size_t first = out->size();
  if (const auto* bpe = std::get_if<Bpe>(&model_)) {
    bpe->split(word, scratch.bpe, out);
  } else {
    std::get<Unigram>(model_).split(word, scratch.unigram, out);
  }
  scratch.words.store(word, std::span(*out).subspan(first));
}

bool TokenModel::is_byte_level() const {
  const auto* bpe = std::get_if<Bpe>(&model_);
  return bpe != nullptr && bpe->is_byte_level();
}

void TokenModel::split_bytes(std::string_view bytes, ModelScratch& scratch,
                             std::vector<WordToken>* out) const {
  claim(scratch);
  if (scratch.byte_words.find(bytes, out)) return;
  const size_t first = out->size();
  std::get<Bpe>(model_).split_bytes(bytes, scratch.bpe, out);
  scratch.byte_words.store(bytes, std::span(*out).subspan(first));
}

int32_t TokenModel::unk_id() const {
  return std::visit(
      [](const auto& model) {
        if constexpr (requires { model.unk_id(); }) {
          return model.unk_id();
        } else {
          return model.unk_id;
        }
      },
      model_);
}

}  // namespace plimsoll::text
