// Reads tokenizer.json, the file that Hugging Face's `tokenizers` writes.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "io/text/added_tokens.h"
#include "io/text/decoders.h"
#include "io/text/json_fields.h"
#include "io/text/pipeline.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll::text {
namespace {

std::string type_of(const JsonFields& fields) {
  return fields.text("type").value_or("(none)");
}

// Returns the value of a field that must exist. Errors: kBadData if it is missing.
template <typename T>
T required(const JsonFields& fields, const char* key, std::optional<T> value) {
  if (!value) {
    throw_error(ErrorCode::kBadData, "{} is missing; copy the file again from its source",
                fields.name_of(key));
  }
  return *std::move(value);
}

// Returns the text of the model's unknown token, which represents text that matches no other token.
std::optional<std::string> unk_token(const ModelSpec& model) {
  if (const auto* word_piece = std::get_if<WordPieceSpec>(&model.kind)) return word_piece->unk_token;
  if (const auto* bpe = std::get_if<BpeSpec>(&model.kind)) return bpe->unk_token;
  if (const auto* word_level = std::get_if<WordLevelSpec>(&model.kind)) return word_level->unk_token;
  const auto& unk_id = std::get<UnigramSpec>(model.kind).unk_id;
  return unk_id ? std::optional(model.vocab[static_cast<size_t>(*unk_id)].first) : std::nullopt;
}

// Reads the normalizer and the pre-tokenizer. If they are those of BERT, which have a faster implementation, only their settings are
// stored; any others are stored as a general pipeline.
void read_steps(const JsonFields& root, TokenizerSpec* spec) {
  const auto normalizer = root.object("normalizer");
  const auto pre_tokenizer = root.object("pre_tokenizer");
  const bool has_bert_normalizer = normalizer && type_of(*normalizer) == "BertNormalizer";
  spec->normalizer =
      has_bert_normalizer ? read_bert_normalizer(*normalizer) : NormalizerSpec{false, false, false, false};
  const bool has_bert_splitting = pre_tokenizer && type_of(*pre_tokenizer) == "BertPreTokenizer";
  if (has_bert_splitting && (has_bert_normalizer || !normalizer)) return;
  spec->byte_level = find_byte_level_steps(normalizer, pre_tokenizer);
  spec->pipeline = std::make_shared<Pipeline>();
  spec->pipeline->where = root.where();
  spec->pipeline_has_bert_normalizer = has_bert_normalizer;
  if (normalizer) {
    spec->pipeline->description = describe(*normalizer);
    read_normalizers(*normalizer, &spec->pipeline->normalizers);
  }
  spec->pipeline->description += '|';
  if (pre_tokenizer) {
    spec->pipeline->description += describe(*pre_tokenizer);
    read_pre_tokenizers(*pre_tokenizer, &spec->pipeline->pre_tokenizers);
  }
}

using SpecialIds = std::map<std::string, std::vector<int32_t>>;

SpecialIds read_template_tokens(const JsonFields& processor) {
  SpecialIds result;
  const auto tokens = required(processor, "special_tokens", processor.object("special_tokens"));
  for (const auto& entry : tokens.json().items()) {
    const auto fields = required(tokens, entry.key().c_str(), tokens.object(entry.key()));
    const Json* ids = fields.array("ids");
    if (ids == nullptr) {
      throw_error(ErrorCode::kBadData, "{} is missing; copy the file again from its source",
                  fields.name_of("ids"));
    }
    std::vector<int32_t>& list = result[entry.key()];
    for (const Json& id : *ids) {
      if (!id.is_number_integer()) {
        throw_error(ErrorCode::kBadData,
                    "{} should hold integers but holds a value of type {}; correct the file",
                    fields.name_of("ids"), id.type_name());
      }
      list.push_back(checked_id(id.get<int64_t>(), fields.name_of("ids")));
    }
  }
  return result;
}

// Returns a token type. Errors: kBadData if it does not fit into the byte in which it is stored.
int32_t checked_type(int64_t type, const std::string& name) {
  if (type < 0 || type > 255) {
    throw_error(ErrorCode::kBadData, "{} is {}, but a token type is 0 to 255; correct the file", name, type);
  }
  return static_cast<int32_t>(type);
}

TemplatePiece read_piece(const Json& value, const std::string& where, const std::string& path,
                         const SpecialIds& special) {
  const JsonFields fields(value, where, path);
  TemplatePiece piece;
  const auto sequence = fields.object("Sequence");
  const auto token = fields.object("SpecialToken");
  if (!sequence == !token) {
    throw_error(ErrorCode::kBadData,
                "{}: {} should be one \"Sequence\" or one \"SpecialToken\"; correct the file", where, path);
  }
  const JsonFields& inner = sequence ? *sequence : *token;
  const std::string id = required(inner, "id", inner.text("id"));
  piece.type_id =
      checked_type(required(inner, "type_id", inner.integer("type_id")), inner.name_of("type_id"));
  if (sequence) {
    if (id != "A" && id != "B") {
      throw_error(ErrorCode::kBadData, "{} is '{}' but should be 'A' or 'B'; correct the file",
                  inner.name_of("id"), id);
    }
    piece.kind = id == "A" ? TemplatePiece::Kind::kFirst : TemplatePiece::Kind::kSecond;
    return piece;
  }
  const auto found = special.find(id);
  if (found == special.end()) {
    throw_error(ErrorCode::kBadData,
                "{} is '{}', which the template's special_tokens do not list; add it there",
                inner.name_of("id"), id);
  }
  piece.kind = TemplatePiece::Kind::kSpecial;
  piece.special_ids = found->second;
  return piece;
}

std::vector<TemplatePiece> read_template(const JsonFields& processor, const char* key,
                                         const SpecialIds& special) {
  const Json* pieces = processor.array(key);
  if (pieces == nullptr) {
    throw_error(ErrorCode::kBadData, "{} is missing; copy the file again from its source",
                processor.name_of(key));
  }
  std::vector<TemplatePiece> result;
  const bool single = std::string_view(key) == "single";
  for (const Json& piece : *pieces) {
    result.push_back(read_piece(piece, processor.where(), std::string("post_processor.") + key, special));
    if (single && result.back().kind == TemplatePiece::Kind::kSecond) {
      throw_error(ErrorCode::kBadData,
                  "{} uses sequence 'B', which a single text does not have; correct the file",
                  processor.name_of(key));
    }
  }
  return result;
}

// Reads a token with its id, such as ["[SEP]", 102].
std::vector<int32_t> read_bert_token(const JsonFields& processor, const char* key) {
  const Json* pair = processor.array(key);
  if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_string() || !(*pair)[1].is_number_integer()) {
    throw_error(ErrorCode::kBadData,
                "{} should be a token and its id, as in [\"[SEP]\", 102]; correct the file",
                processor.name_of(key));
  }
  return {checked_id((*pair)[1].get<int64_t>(), processor.name_of(key))};
}

// Reads a post-processor of type BertProcessing or RobertaProcessing. Both have fixed templates: the token "cls" before the first text, and
// the token "sep" after each text.
void read_fixed_template(const JsonFields& fields, bool is_roberta, TokenizerSpec* spec) {
  using Kind = TemplatePiece::Kind;
  const std::vector<int32_t> cls = read_bert_token(fields, "cls"), sep = read_bert_token(fields, "sep");
  const int32_t second_type = is_roberta ? 0 : 1;
  spec->single = {{Kind::kSpecial, 0, cls}, {Kind::kFirst, 0, {}}, {Kind::kSpecial, 0, sep}};
  spec->pair = spec->single;
  if (is_roberta) spec->pair.push_back({Kind::kSpecial, 0, sep});
  spec->pair.push_back({Kind::kSecond, second_type, {}});
  spec->pair.push_back({Kind::kSpecial, second_type, sep});
}

void trim_offsets(const JsonFields& fields, TokenizerSpec* spec) {
  if (!fields.flag_or("trim_offsets", true)) return;
  spec->offset_trimming = OffsetTrimming{fields.flag_or("add_prefix_space", true)};
}

// Reads one post-processor. Returns true if post-processors of its type add special tokens.
bool read_processor(const JsonFields& fields, TokenizerSpec* spec) {
  const std::string type = type_of(fields);
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    read_fixed_template(fields, type == "RobertaProcessing", spec);
    if (type == "RobertaProcessing") trim_offsets(fields, spec);
    return true;
  }
  if (type == "TemplateProcessing") {
    const SpecialIds special = read_template_tokens(fields);
    spec->single = read_template(fields, "single", special);
    spec->pair = read_template(fields, "pair", special);
    return true;
  }
  if (type == "ByteLevel") {
    trim_offsets(fields, spec);
    return false;
  }
  throw_error(ErrorCode::kBadData,
              "{} is '{}', a post-processor that Plimsoll does not have; use a tokenizer without it",
              fields.name_of("type"), type);
}

void read_post_processor(const JsonFields& root, TokenizerSpec* spec) {
  const auto fields = root.object("post_processor");
  if (!fields) return;
  if (type_of(*fields) != "Sequence") {
    read_processor(*fields, spec);
    return;
  }
  int num_templates = 0;
  for (const JsonFields& step : fields->required_objects("processors"))
    num_templates += read_processor(step, spec);
  if (num_templates > 1) {
    throw_error(
        ErrorCode::kBadData,
        "{}: {} of the post-processors add special tokens, but Plimsoll applies one template; combine them "
        "into one TemplateProcessing",
        root.name_of("post_processor"), num_templates);
  }
}

std::optional<TruncationDefault> read_truncation(const JsonFields& root) {
  const auto fields = root.object("truncation");
  if (!fields) return std::nullopt;
  TruncationDefault result;
  result.max_length = required(*fields, "max_length", fields->integer("max_length"));
  const std::string strategy = fields->text("strategy").value_or("LongestFirst");
  if (strategy == "OnlyFirst") result.strategy = Truncation::kOnlyFirst;
  if (strategy == "OnlySecond") result.strategy = Truncation::kOnlySecond;
  if (fields->text("direction").value_or("Right") == "Left") result.side = TextSide::kLeft;
  return result;
}

void read_added_tokens(const JsonFields& root, TokenizerSpec* spec) {
  const Json* tokens = root.array("added_tokens");
  if (tokens == nullptr) return;
  std::vector<int32_t> stated;
  for (size_t i = 0; i < tokens->size(); ++i) {
    const StatedToken token =
        read_added_token(JsonFields((*tokens)[i], root.where(), fmt::format("added_tokens[{}]", i)));
    spec->added_tokens.push_back(token.token);
    stated.push_back(token.id.value_or(-1));
  }
  resolve_added_tokens(stated, spec);
}

}  // namespace

TokenizerSpec parse_tokenizer_json(const std::string& json, const std::string& where) {
  return parse_tokenizer_document(parse_tokenizer_text(json, where), where);
}

TokenizerSpec parse_tokenizer_document(const Json& document, const std::string& where,
                                       std::optional<ModelSpec> model) {
  const JsonFields root(document, where, "");
  if (const auto version = root.text("version"); version && *version != "1.0") {
    throw_error(ErrorCode::kBadData,
                "{}: version is '{}', but Plimsoll reads version '1.0'; save the tokenizer in that version",
                where, *version);
  }
  TokenizerSpec spec;
  spec.source = kTokenizerJson;
  spec.where = where;
  spec.model = model ? *std::move(model) : read_model(root);
  read_steps(root, &spec);
  read_post_processor(root, &spec);
  if (const auto decoder = root.object("decoder")) {
    spec.decoder = std::make_shared<Decoder>();
    read_decoder(*decoder, spec.decoder.get());
  }
  spec.truncation_default = read_truncation(root);
  if (spec.truncation_default) spec.truncation_side = spec.truncation_default->side;
  if (const auto padding = root.object("padding")) {
    if (padding->text("direction").value_or("Right") == "Left") spec.padding_side = TextSide::kLeft;
  }
  read_added_tokens(root, &spec);
  for (const char* role : {"pad", "unk", "cls", "sep", "mask"}) {
    std::string name(role);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(c - 'a' + 'A'); });
    spec.special_tokens[std::string(role) + "_token"] = "[" + name + "]";
  }
  if (const auto unk = unk_token(spec.model)) spec.special_tokens["unk_token"] = *unk;
  return spec;
}

}  // namespace plimsoll::text
