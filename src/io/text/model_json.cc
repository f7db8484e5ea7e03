// Reads the description of a tokenizer's model from the field "model" of tokenizer.json, or from vocab.json and merges.txt.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "io/text/added_tokens.h"
#include "io/text/json_fields.h"
#include "io/text/subwords.h"
#include "io/text/tokenizer_spec.h"
#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

constexpr const char* kCopyAgain = "copy the file again from its source";

// Returns the value of a field that must exist. Errors: kBadData if it is missing.
template <typename T>
T required(const JsonFields& fields, const char* key, std::optional<T> value) {
  if (!value) throw_error(ErrorCode::kBadData, "{} is missing; {}", fields.name_of(key), kCopyAgain);
  return *std::move(value);
}

Vocabulary read_vocabulary(const JsonFields& vocab) {
  Vocabulary result;
  result.reserve(vocab.json().size());
  for (const auto& [token, id] : vocab.json().get_ref<const Json::object_t&>()) {
    if (id.is_number_integer() && id >= 0 && id < std::numeric_limits<int32_t>::max()) {
      result.emplace_back(token, id.get<int32_t>());
    } else {  // the id has the wrong type or is out of range, so one of these calls throws an error
      checked_id(required(vocab, token.c_str(), vocab.integer(token)), vocab.name_of(token));
    }
  }
  std::sort(result.begin(), result.end(), [](const auto& a, const auto& b) {
    return std::tie(a.second, a.first) < std::tie(b.second, b.first);
  });
  const auto same_id = [](const auto& a, const auto& b) { return a.second == b.second; };
  if (const auto twice = std::adjacent_find(result.begin(), result.end(), same_id); twice != result.end()) {
    throw_error(ErrorCode::kBadData, "{} gives '{}' and '{}' the same id {}; {}", vocab.name(), twice->first,
                std::next(twice)->first, twice->second, kCopyAgain);
  }
  return result;
}

// Adds merges to a BPE model. Checks that the vocabulary contains both tokens of a merge and the token that results from it.
class MergeAdder {
 public:
  MergeAdder(const Vocabulary& vocabulary, BpeSpec* spec) : ids_(vocabulary), spec_(spec) {}

  // Adds the merge of two tokens. `where` is called to get the name of the merge for an error message.
  template <typename Where>
  void add(std::string_view left, std::string_view right, Where&& where) {
    const size_t prefix = spec_->continuing_prefix.size();
    if (right.size() < prefix) {
      throw_error(ErrorCode::kBadData,
                  "{} joins '{}' and '{}', but the second part is shorter than the continuing_subword_prefix "
                  "'{}'; {}",
                  where(), left, right, spec_->continuing_prefix, kCopyAgain);
    }
    joined_.assign(left);
    joined_ += right.substr(prefix);
    BpeMerge merge;
    for (const auto& [text, id] : {std::pair<std::string_view, int32_t*>{left, &merge.left},
                                   {right, &merge.right},
                                   {joined_, &merge.result}}) {
      *id = ids_.find(text);
      if (*id != kNoToken) continue;
      throw_error(
          ErrorCode::kBadData,
          "{} joins '{}' and '{}', but the vocabulary does not have '{}'; copy the vocabulary and the "
          "merges again from the same source",
          where(), left, right, text);
    }
    spec_->merges.push_back(merge);
  }

 private:
  TokenIds ids_;
  BpeSpec* spec_;
  std::string joined_;
};

// Splits the text of a merge, "left right", at its space. Returns nothing if it does not contain exactly one space.
std::optional<std::pair<std::string_view, std::string_view>> split_merge(std::string_view text) {
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
    return std::nullopt;
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

constexpr std::string_view kMergesVersion = "#version";

void read_merges(const JsonFields& model, const Vocabulary& vocabulary, BpeSpec* spec) {
  const Json* merges = model.array("merges");
  if (merges == nullptr)
    throw_error(ErrorCode::kBadData, "{} is missing; {}", model.name_of("merges"), kCopyAgain);
  MergeAdder adder(vocabulary, spec);
  spec->merges.reserve(merges->size());
  for (size_t i = 0; i < merges->size(); ++i) {
    const Json& merge = (*merges)[i];
    const auto where = [&] { return fmt::format("{}[{}]", model.name_of("merges"), i); };
    const bool is_pair =
        merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (is_pair) {
      adder.add(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>(), where);
      continue;
    }
    const auto* text = merge.get_ptr<const std::string*>();
    if (text != nullptr && text->starts_with(kMergesVersion)) continue;
    const auto parts = text != nullptr ? split_merge(*text) : std::nullopt;
    if (!parts) {
      throw_error(ErrorCode::kBadData,
                  "{} is {} but should be two tokens, as in [\"t\", \"he\"] or \"t he\"; {}", where(),
                  text != nullptr ? "'" + *text + "'" : "of type " + std::string(merge.type_name()),
                  kCopyAgain);
    }
    adder.add(parts->first, parts->second, where);
  }
}

ModelSpec read_word_piece(const JsonFields& fields) {
  WordPieceSpec spec;
  spec.unk_token = required(fields, "unk_token", fields.text("unk_token"));
  spec.continuing_prefix =
      required(fields, "continuing_subword_prefix", fields.text("continuing_subword_prefix"));
  spec.max_chars_per_word =
      required(fields, "max_input_chars_per_word", fields.integer("max_input_chars_per_word"));
  if (spec.max_chars_per_word < 0) {
    throw_error(ErrorCode::kBadData,
                "{} is {}, but must not be negative (usual values are about 100); correct the file",
                fields.name_of("max_input_chars_per_word"), spec.max_chars_per_word);
  }
  ModelSpec result{read_vocabulary(required(fields, "vocab", fields.object("vocab"))), spec};
  const auto has_unk = [&](const auto& entry) { return entry.first == spec.unk_token; };
  if (std::none_of(result.vocab.begin(), result.vocab.end(), has_unk)) {
    throw_error(ErrorCode::kBadData,
                "{} has {} tokens but not '{}', which represents unknown words; copy the file again",
                fields.name_of("vocab"), result.vocab.size(), spec.unk_token);
  }
  return result;
}

ModelSpec read_bpe(const JsonFields& fields) {
  BpeSpec spec;
  if (const Json* dropout = fields.find("dropout")) {
    if (!dropout->is_number() || dropout->get<double>() != 0.0) {
      throw_error(ErrorCode::kBadData,
                  "{} is {}: with dropout the tokens of a text are chosen at random, which Plimsoll does not "
                  "support; set it to null",
                  fields.name_of("dropout"), dropout->is_number() ? dropout->dump() : dropout->type_name());
    }
  }
  spec.unk_token = fields.text("unk_token");
  spec.continuing_prefix = fields.text("continuing_subword_prefix").value_or("");
  spec.end_suffix = fields.text("end_of_word_suffix").value_or("");
  spec.fuse_unk = fields.flag_or("fuse_unk", false);
  spec.byte_fallback = fields.flag_or("byte_fallback", false);
  spec.ignore_merges = fields.flag_or("ignore_merges", false);
  ModelSpec result{read_vocabulary(required(fields, "vocab", fields.object("vocab"))), {}};
  read_merges(fields, result.vocab, &spec);
  result.kind = std::move(spec);
  return result;
}

ModelSpec read_unigram(const JsonFields& fields) {
  const Json* vocab = fields.array("vocab");
  if (vocab == nullptr)
    throw_error(ErrorCode::kBadData, "{} is missing; {}", fields.name_of("vocab"), kCopyAgain);
  ModelSpec result;
  UnigramSpec spec;
  result.vocab.reserve(vocab->size());
  spec.scores.reserve(vocab->size());
  for (size_t i = 0; i < vocab->size(); ++i) {
    const Json& entry = (*vocab)[i];
    const std::string name = fmt::format("{}[{}]", fields.name_of("vocab"), i);
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string()) {
      throw_error(ErrorCode::kBadData, "{} should be a token and its score, as in [\"the\", -3.4]; {}", name,
                  kCopyAgain);
    }
    if (!entry[1].is_number() || !std::isfinite(entry[1].get<double>())) {
      throw_error(ErrorCode::kBadData, "{}: the score of '{}' should be a number but is {}; {}", name,
                  entry[0].get_ref<const std::string&>(),
                  entry[1].is_number() ? "not finite" : "of type " + std::string(entry[1].type_name()),
                  kCopyAgain);
    }
    result.vocab.emplace_back(entry[0].get_ref<const std::string&>(), static_cast<int32_t>(i));
    spec.scores.push_back(entry[1].get<double>());
  }
  if (const auto unk = fields.integer("unk_id")) {
    if (*unk < 0 || *unk >= static_cast<int64_t>(vocab->size())) {
      throw_error(ErrorCode::kBadData, "{} is {}, but the vocabulary has {} tokens; {}",
                  fields.name_of("unk_id"), *unk, vocab->size(), kCopyAgain);
    }
    spec.unk_id = static_cast<int32_t>(*unk);
  }
  spec.byte_fallback = fields.flag_or("byte_fallback", false);
  result.kind = std::move(spec);
  return result;
}

ModelSpec read_word_level(const JsonFields& fields) {
  WordLevelSpec spec{required(fields, "unk_token", fields.text("unk_token"))};
  return {read_vocabulary(required(fields, "vocab", fields.object("vocab"))), spec};
}

// Derives the type of a model from its fields, because old files do not contain the type.
std::string guess_type(const JsonFields& model) {
  if (model.has_key("merges")) return "BPE";
  if (const Json* vocab = model.find("vocab"); vocab != nullptr && vocab->is_array()) return "Unigram";
  return "WordPiece";
}

}  // namespace

ModelSpec read_model(const JsonFields& root) {
  const JsonFields model = required(root, "model", root.object("model"));
  const std::string type = model.text("type").value_or(guess_type(model));
  if (const Json* vocab = model.find("vocab"); vocab != nullptr && vocab->is_structured() && vocab->empty() &&
                                               (type == "BPE" || type == "Unigram" || type == "WordLevel")) {
    throw_error(ErrorCode::kBadData, "{} has no tokens; {}", model.name_of("vocab"), kCopyAgain);
  }
  if (type == "WordPiece") return read_word_piece(model);
  if (type == "BPE") return read_bpe(model);
  if (type == "Unigram") return read_unigram(model);
  if (type == "WordLevel") return read_word_level(model);
  throw_error(
      ErrorCode::kBadData,
      "{} is '{}'. Plimsoll has the models WordPiece, BPE, Unigram and WordLevel; use a tokenizer with one "
      "of them",
      model.name_of("type"), type);
}

ModelSpec parse_vocab_and_merges(const std::string& vocab_json, const std::string& vocab_where,
                                 std::string_view merges_txt, const std::string& merges_where) {
  const Json document = parse_tokenizer_text(vocab_json, vocab_where);
  ModelSpec result{read_vocabulary(JsonFields(document, vocab_where, "")), {}};
  if (result.vocab.empty()) throw_error(ErrorCode::kBadData, "{} has no tokens; {}", vocab_where, kCopyAgain);
  BpeSpec spec;
  MergeAdder adder(result.vocab, &spec);
  for (int64_t number = 1; !merges_txt.empty(); ++number) {
    const size_t end = std::min(merges_txt.find('\n'), merges_txt.size());
    std::string_view line = merges_txt.substr(0, end);
    merges_txt.remove_prefix(std::min(end + 1, merges_txt.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with(kMergesVersion)) continue;
    const auto where = [&] { return fmt::format("{}:{}: the line", merges_where, number); };
    if (!is_valid_utf8(line))
      throw_error(ErrorCode::kBadData, "{} is not valid UTF-8; save the file as UTF-8", where());
    const auto parts = split_merge(line);
    if (!parts) {
      throw_error(ErrorCode::kBadData, "{} '{}' should be two tokens with one space between them; {}",
                  where(), line, kCopyAgain);
    }
    adder.add(parts->first, parts->second, where);
  }
  result.kind = std::move(spec);
  return result;
}

}  // namespace plimsoll::text
