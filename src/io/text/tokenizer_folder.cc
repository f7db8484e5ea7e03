// Combines the files of a folder as transformers does: the vocabulary file first, then tokenizer_config.json,
// then the older special_tokens_map.json and added_tokens.json.
#include <algorithm>
#include <array>
#include <limits>
#include <set>

#include "base/check.h"
#include "base/file.h"
#include "io/text/added_tokens.h"
#include "io/text/decoders.h"
#include "io/text/json_fields.h"
#include "io/text/pipeline.h"
#include "io/text/tokenizer_class.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll::text {
namespace {

// The roles of special tokens, in the order in which transformers adds the tokens to the vocabulary.
constexpr std::array<const char*, 7> kRoles = {"bos_token", "eos_token", "unk_token", "sep_token",
                                               "pad_token", "cls_token", "mask_token"};

// A larger value of model_max_length means that there is no maximum (Hugging Face writes 1e30).
constexpr double kNoMaxLength = 1e12;

// The tokens that occur in tokenizer_config.json, special_tokens_map.json and added_tokens.json, besides those of tokenizer.json.
struct NamedTokens {
  std::map<int64_t, StatedToken> by_id;        // the tokens in added_tokens_decoder or added_tokens.json
  std::map<std::string, StatedToken> by_role;  // the tokens to which a file assigns a role, such as cls_token
  // The tokens with a role of the model itself, such as image_token, which transformers treats as special tokens.
  std::vector<StatedToken> of_model;
  std::vector<StatedToken> extra;
  bool states_extra = false;  // true if a file contains additional_special_tokens
  // true if a file describes mask_token by a JSON object, which also contains the flags for matching it
  bool describes_mask = false;
};

void check_class(const TokenizerClass& tokenizer_class, const TokenizerSpec& spec) {
  if (spec.source == kVocabTxt && !tokenizer_class.reads_vocab_txt) {
    throw_error(
        ErrorCode::kBadData,
        "{} is a vocabulary for BERT's WordPiece, but {}, a class that splits texts in another way. Copy the "
        "tokenizer files that came with the model into this folder, or give their folder as "
        "--tokenizer_name. If the model was trained with this vocabulary, write \"tokenizer_class\": "
        "\"BertTokenizer\" in {} of this folder",
        spec.where, tokenizer_class.source, kTokenizerConfigJson);
  }
  if (tokenizer_class.is_foreign) {
    throw_error(
        ErrorCode::kBadData,
        "{}, which splits texts in its own way and not as tokenizer.json says. Plimsoll does not have "
        "this class. If tokenizer.json is complete, write \"tokenizer_class\": "
        "\"PreTrainedTokenizerFast\" in {}",
        tokenizer_class.source, kTokenizerConfigJson);
  }
}

std::optional<int64_t> read_max_length(const JsonFields& config) {
  const Json* value = config.find("model_max_length");
  if (value == nullptr) value = config.find("max_len");
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || value->get<double>() < 1.0) {
    throw_error(ErrorCode::kBadData, "{} is {} but should be a positive number; correct the file",
                config.name_of("model_max_length"), value->is_number() ? value->dump() : value->type_name());
  }
  if (value->get<double>() >= kNoMaxLength) return std::nullopt;
  return static_cast<int64_t>(value->get<double>());
}

TextSide read_side(const JsonFields& config, const char* key, TextSide fallback) {
  const auto side = config.text(key);
  if (!side) return fallback;
  if (*side != "left" && *side != "right") {
    throw_error(ErrorCode::kBadData, "{} is '{}' but should be 'left' or 'right'; correct the file",
                config.name_of(key), *side);
  }
  return *side == "left" ? TextSide::kLeft : TextSide::kRight;
}

bool flag_in(const std::optional<JsonFields>& config, const char* key, bool fallback) {
  return config ? config->flag_or(key, fallback) : fallback;
}

// Sets the options of the normalizer from the constructor arguments of a class of the BERT family in tokenizer_config.json. A key
// that is missing or null has its default.
void set_normalizer(const std::optional<JsonFields>& config, NormalizerSpec* normalizer) {
  normalizer->clean_text = true;
  normalizer->lowercase = flag_in(config, "do_lower_case", true);
  normalizer->handle_chinese_chars = flag_in(config, "tokenize_chinese_chars", true);
  normalizer->strip_accents = config ? config->flag("strip_accents") : std::nullopt;
}

// Returns true if the tokenizer produces token types for the model. If the field model_input_names exists, it lists the outputs
// of the tokenizer.
bool gives_types(const TokenizerClass& tokenizer_class, const std::optional<JsonFields>& config) {
  const Json* names = config ? config->array("model_input_names") : nullptr;
  if (names == nullptr) return tokenizer_class.gives_types;
  return std::find(names->begin(), names->end(), "token_type_ids") != names->end();
}

void clear_types(TokenizerSpec* spec) {
  for (auto* pieces : {&spec->single, &spec->pair}) {
    for (TemplatePiece& piece : *pieces) piece.type_id = 0;
  }
}

void read_settings(const JsonFields& config, TokenizerSpec* spec) {
  spec->model_max_length = read_max_length(config);
  spec->padding_side = read_side(config, "padding_side", spec->padding_side);
  spec->truncation_side = read_side(config, "truncation_side", spec->truncation_side);
  spec->clean_up_spaces = config.flag_or("clean_up_tokenization_spaces", false);
  spec->split_special_tokens = config.flag_or("split_special_tokens", false);
}

void read_extra_tokens(const JsonFields& fields, const char* key, NamedTokens* named) {
  const Json* list = fields.find(key);
  if (list == nullptr || (!list->is_array() && !list->is_object())) return;
  for (const Json& value : *list) named->extra.push_back(read_special_token(value, fields.where(), key));
}

// Returns true for a key such as image_token: it ends like a role but is none of kRoles.
bool is_role_of_model(const std::string& key) {
  return key.ends_with("_token") && std::ranges::find(kRoles, key) == kRoles.end();
}

// Reads the tokens with a role of the model itself: keys such as image_token, and the object model_specific_special_tokens.
void read_roles_of_model(const JsonFields& fields, NamedTokens* named) {
  const auto read = [&](const std::string& key, const Json& value) {
    const bool is_token = value.is_string() || (value.is_object() && value.contains("content"));
    if (is_token) named->of_model.push_back(read_special_token(value, fields.where(), key));
  };
  for (const auto& entry : fields.json().items()) {
    if (is_role_of_model(entry.key())) read(entry.key(), entry.value());
  }
  const auto stated = fields.find("model_specific_special_tokens");
  if (stated == nullptr || !stated->is_object()) return;
  for (const auto& entry : stated->items()) read(entry.key(), entry.value());
}

void read_roles(const JsonFields& fields, NamedTokens* named) {
  for (const char* role : kRoles) {
    const Json* value = fields.find(role);
    if (value != nullptr) named->by_role[role] = read_special_token(*value, fields.where(), role);
  }
  if (fields.find("additional_special_tokens") != nullptr) named->states_extra = true;
  read_roles_of_model(fields, named);
  // extra_special_tokens is the newer name. If a file has it, transformers ignores the list with the older name.
  const Json* newer = fields.find("extra_special_tokens");
  const bool has_newer = newer != nullptr && (newer->is_array() || newer->is_object()) && !newer->empty();
  read_extra_tokens(fields, has_newer ? "extra_special_tokens" : "additional_special_tokens", named);
  if (const Json* mask = fields.find("mask_token"); mask != nullptr && mask->is_object())
    named->describes_mask = true;
}

int64_t parse_id_key(const std::string& key, const std::string& name) {
  const bool digits = !key.empty() && key.size() <= 10 &&
                      std::all_of(key.begin(), key.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits) {
    throw_error(ErrorCode::kBadData, "{}: the key '{}' should be a token's id; correct the file", name, key);
  }
  return checked_id(std::stoll(key), name);
}

void read_added_tokens_decoder(const JsonFields& config, NamedTokens* named) {
  const auto decoder = config.object("added_tokens_decoder");
  if (!decoder) return;
  for (const auto& entry : decoder->json().items()) {
    const int64_t id = parse_id_key(entry.key(), config.name_of("added_tokens_decoder"));
    StatedToken token =
        read_added_token(JsonFields(entry.value(), config.where(), "added_tokens_decoder." + entry.key()));
    token.id = static_cast<int32_t>(id);
    named->by_id[id] = std::move(token);
  }
}

// Reads added_tokens.json, which maps the text of a token to its id. A token to which another file assigns a role is special and
// is matched in the raw text. `known` contains the added tokens of tokenizer.json, which states more about a token.
void read_added_tokens_file(const JsonFields& file, const TokenizerClass& tokenizer_class,
                            const std::vector<AddedToken>& known, NamedTokens* named) {
  std::set<std::string> special;
  for (const auto& entry : named->by_role) special.insert(entry.second.token.content);
  for (const StatedToken& token : named->extra) special.insert(token.token.content);
  const auto& defaults = tokenizer_class.built == BuiltPipeline::kNone ? bert_roles() : tokenizer_class.roles;
  for (const auto& [role, token] : defaults) {
    if (!named->by_role.contains(role)) special.insert(token);
  }
  for (const auto& entry : file.json().items()) {
    const auto id = file.integer(entry.key());
    if (!id)
      throw_error(ErrorCode::kBadData, "{} should be an id; correct the file", file.name_of(entry.key()));
    StatedToken token;
    const auto same = std::find_if(known.begin(), known.end(),
                                   [&](const AddedToken& each) { return each.content == entry.key(); });
    if (same != known.end()) {
      token.token = *same;
    } else {
      token.token.content = entry.key();
      token.token.special = special.contains(entry.key());
      token.token.normalized = !token.token.special;
    }
    token.id = checked_id(*id, file.name_of(entry.key()));
    named->by_id[*token.id] = std::move(token);
  }
}

// Adds the special tokens of the other files of the folder and the default special tokens of the tokenizer class to those in
// tokenizer.json.
void add_named_tokens(const NamedTokens& named, const TokenizerClass& tokenizer_class, TokenizerSpec* spec) {
  std::vector<int32_t> stated(spec->added_tokens.size(), -1);
  std::set<std::string> known;
  for (const AddedToken& token : spec->added_tokens) known.insert(token.content);
  const auto add = [&](const StatedToken& token) {
    spec->added_tokens.push_back(token.token);
    stated.push_back(token.id.value_or(-1));
    known.insert(token.token.content);
  };
  std::set<std::string> with_role;
  for (const auto& [role, token] : named.by_role) with_role.insert(token.token.content);
  for (const auto& entry : named.by_id) {
    StatedToken token = entry.second;
    if (with_role.contains(token.token.content)) token.token.special = true;
    add(token);
  }
  for (const char* role : kRoles) {
    const auto found = named.by_role.find(role);
    const auto fallback = tokenizer_class.roles.find(role);
    if (found == named.by_role.end() && fallback == tokenizer_class.roles.end()) continue;
    StatedToken token;
    if (found != named.by_role.end()) {
      token = found->second;
    } else {
      token.token.content = fallback->second;
      token.token.special = true;
    }
    if (tokenizer_class.mask_strips_left && std::string_view(role) == "mask_token" && !named.describes_mask)
      token.token.lstrip = true;
    spec->special_tokens[role] = token.token.content;
    if (!known.contains(token.token.content)) add(token);
    // A token with a role is special, even if tokenizer.json or added_tokens_decoder states the opposite.
    for (AddedToken& added : spec->added_tokens) {
      if (added.content == token.token.content) added.special = true;
    }
  }
  for (const std::vector<StatedToken>* tokens : {&named.of_model, &named.extra}) {
    for (const StatedToken& token : *tokens) {
      if (!known.contains(token.token.content)) {
        add(token);
      } else if (tokenizer_class.extra_tokens_are_special) {
        for (AddedToken& added : spec->added_tokens) added.special |= added.content == token.token.content;
      }
    }
  }
  for (const std::string& content : tokenizer_class.extra_tokens) {
    if (named.states_extra || known.contains(content)) continue;
    StatedToken token;
    token.token.content = content;
    token.token.special = true;
    add(token);
  }
  resolve_added_tokens(stated, spec);
}

// Returns the unknown token, or "" if neither a file nor the tokenizer class names one.
std::string unk_token_of(const NamedTokens& named, const TokenizerClass& tokenizer_class) {
  if (const auto found = named.by_role.find("unk_token"); found != named.by_role.end())
    return found->second.token.content;
  const auto fallback = tokenizer_class.roles.find("unk_token");
  return fallback == tokenizer_class.roles.end() ? "" : fallback->second;
}

// Returns the id in the vocabulary of the token with this role. Errors: kBadData if the vocabulary does not contain the token,
// which BERT needs.
int32_t vocab_id(const TokenizerSpec& spec, const char* role) {
  const std::string& token = spec.special_tokens.at(role);
  for (const auto& [text, id] : spec.model.vocab) {
    if (text == token) return id;
  }
  throw_error(ErrorCode::kBadData,
              "{} has {} tokens but not '{}' ({}); name the right token in tokenizer_config.json or copy the "
              "file again",
              spec.where, spec.model.vocab.size(), token, role);
}

void finish_vocab_txt(TokenizerSpec* spec) {
  using Kind = TemplatePiece::Kind;
  spec->model.kind = WordPieceSpec{.unk_token = spec->special_tokens.at("unk_token")};
  const Json decoder{{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  spec->decoder = std::make_shared<Decoder>();
  read_decoder(JsonFields(decoder, spec->where, "decoder"), spec->decoder.get());
  vocab_id(*spec, "unk_token");
  const std::vector<int32_t> cls{vocab_id(*spec, "cls_token")}, sep{vocab_id(*spec, "sep_token")};
  spec->single = {{Kind::kSpecial, 0, cls}, {Kind::kFirst, 0, {}}, {Kind::kSpecial, 0, sep}};
  spec->pair = spec->single;
  spec->pair.push_back({Kind::kSecond, 1, {}});
  spec->pair.push_back({Kind::kSpecial, 1, sep});
}

// A JSON file of the folder, which may be absent.
class OptionalDocument {
 public:
  OptionalDocument(const std::optional<std::string>& text, const std::string& where) {
    if (!text) return;
    document_ = parse_tokenizer_text(*text, where);
    fields_.emplace(document_, where, "");
  }
  OptionalDocument(const OptionalDocument&) = delete;
  OptionalDocument& operator=(const OptionalDocument&) = delete;

  const std::optional<JsonFields>& fields() const { return fields_; }

 private:
  Json document_;
  std::optional<JsonFields> fields_;
};

// Parses tokenizer.json. If the tokenizer class builds its own pipeline, this pipeline replaces the one in the file.
TokenizerSpec parse_with_class(const TokenizerFiles& files, const TokenizerClass& tokenizer_class,
                               const std::optional<JsonFields>& config, NamedTokens& named,
                               bool* has_post_processor) {
  const std::string where = join_path(files.folder, kTokenizerJson);
  Json document = parse_tokenizer_text(*files.tokenizer_json, where);
  *has_post_processor = JsonFields(document, where, "").find("post_processor") != nullptr;
  // The token with which tokenizer.json pads has the role pad_token, unless another file or the class names one.
  if (const auto padding = JsonFields(document, where, "").object("padding");
      padding && !tokenizer_class.roles.contains("pad_token") && !named.by_role.contains("pad_token")) {
    if (const Json* token = padding->find("pad_token"); token != nullptr && token->is_string())
      named.by_role["pad_token"] = read_special_token(*token, where, "padding.pad_token");
  }
  if (tokenizer_class.built != BuiltPipeline::kNone) {
    build_pipeline(tokenizer_class, config, unk_token_of(named, tokenizer_class), &document);
  }
  return parse_tokenizer_document(document, where);
}

TokenizerSpec parse_vocab_json(const TokenizerFiles& files, const TokenizerClass& tokenizer_class,
                               const std::optional<JsonFields>& config, const NamedTokens& named) {
  const std::string where = join_path(files.folder, kVocabJson);
  if (!tokenizer_class.reads_merges()) {
    throw_error(
        ErrorCode::kBadData,
        "{} does not say how to split texts, and {}. Write \"tokenizer_class\": \"GPT2Tokenizer\" (or "
        "RobertaTokenizer, Qwen2Tokenizer, GPTNeoXTokenizer) in {}, or save the tokenizer in its fast form "
        "(tokenizer.json)",
        where, tokenizer_class.name.empty() ? "no file names the tokenizer's class" : tokenizer_class.source,
        kTokenizerConfigJson);
  }
  if (!files.merges_txt) {
    throw_error(ErrorCode::kBadData,
                "{} needs merges.txt in the same folder; copy it from where the model came", where);
  }
  Json document = {{"model", {{"merges", Json::array()}}}};
  build_pipeline(tokenizer_class, config, unk_token_of(named, tokenizer_class), &document);
  TokenizerSpec spec =
      parse_tokenizer_document(document, where,
                               parse_vocab_and_merges(*files.vocab_json, where, *files.merges_txt,
                                                      join_path(files.folder, kMergesTxt)));
  spec.source = kVocabJson;
  return spec;
}

// Returns the id of the token with this role. Requires: add_named_tokens() was called.
int32_t role_id(const TokenizerSpec& spec, const char* role) {
  const std::string& content = spec.special_tokens.at(role);
  const auto found = std::find_if(spec.added_tokens.begin(), spec.added_tokens.end(),
                                  [&](const AddedToken& token) { return token.content == content; });
  PLIMSOLL_CHECK(found != spec.added_tokens.end(), "no token {}", content);
  return found->id;
}

// Sets the templates that state where special tokens are added to a text or pair, for a tokenizer class that builds its own pipeline.
// `flags` contains the fields add_bos_token and add_eos_token, or is absent if these must be ignored.
void set_templates(BuiltPipeline built, const std::optional<JsonFields>& config, bool has_post_processor,
                   const std::optional<JsonFields>& flags, TokenizerSpec* spec) {
  using Kind = TemplatePiece::Kind;
  const auto special = [&](const char* role, int32_t type) {
    return TemplatePiece{Kind::kSpecial, type, {role_id(*spec, role)}};
  };
  const bool has_template = built == BuiltPipeline::kRoberta || built == BuiltPipeline::kXlmRoberta ||
                            built == BuiltPipeline::kCamembert || built == BuiltPipeline::kT5;
  if (!has_template) {
    if (has_post_processor && built != BuiltPipeline::kGptNeoX) return;
    const auto adds = [&](const char* key, const char* role) {
      return flags && flags->flag(key).value_or(false) && spec->special_tokens.contains(role);
    };
    const bool adds_bos = adds("add_bos_token", "bos_token"), adds_eos = adds("add_eos_token", "eos_token");
    spec->offset_trimming.reset();
    spec->single.clear();
    spec->pair.clear();
    for (const Kind kind : {Kind::kFirst, Kind::kSecond}) {
      const int32_t type = kind == Kind::kFirst ? 0 : 1;
      if (adds_bos) spec->pair.push_back(special("bos_token", type));
      spec->pair.push_back({kind, type, {}});
      if (adds_eos) spec->pair.push_back(special("eos_token", type));
      if (kind == Kind::kFirst) spec->single = spec->pair;
    }
    return;
  }
  const TemplatePiece first{Kind::kFirst, 0, {}}, second{Kind::kSecond, 0, {}};
  if (built != BuiltPipeline::kT5) {
    const bool is_roberta = built == BuiltPipeline::kRoberta;
    const TemplatePiece begin = special(is_roberta ? "cls_token" : "bos_token", 0),
                        end = special(is_roberta ? "sep_token" : "eos_token", 0);
    spec->single = {begin, first, end};
    spec->pair = {begin, first, end, end, second, end};
    spec->offset_trimming.reset();
    if (is_roberta && flag_in(config, "trim_offsets", true)) {
      spec->offset_trimming = OffsetTrimming{flag_in(config, "add_prefix_space", false)};
    }
  } else {
    const TemplatePiece end = special("eos_token", 0);
    spec->single = {first, end};
    spec->pair = {first, end, second, end};
    spec->offset_trimming.reset();
  }
}

}  // namespace

TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder, std::string_view model_type) {
  FileSystem& files = posix_file_system();
  TokenizerFiles result;
  result.folder = folder.string();
  const auto read = [&](std::string_view name) -> std::optional<std::string> {
    const std::string path = join_path(result.folder, name);
    const auto status = files.status(path);
    if (!status || status->kind == FileKind::kFolder) return std::nullopt;
    return read_text_file(files, path, kMaxTokenizerFileBytes);
  };
  result.tokenizer_json = read(kTokenizerJson);
  if (!result.tokenizer_json) {
    result.vocab_txt = read(kVocabTxt);
    result.vocab_json = read(kVocabJson);
    result.merges_txt = read(kMergesTxt);
  }
  if (!result.tokenizer_json && !result.vocab_txt && !result.vocab_json) {
    throw_error(ErrorCode::kBadData,
                "no tokenizer in '{}': it has neither tokenizer.json nor vocab.json nor vocab.txt; copy them "
                "there from "
                "where the model came, or name another folder with --tokenizer_name",
                result.folder);
  }
  result.tokenizer_config = read(kTokenizerConfigJson);
  result.special_tokens_map = read(kSpecialTokensMapJson);
  result.added_tokens = read(kAddedTokensJson);
  result.model_config = read(kModelConfigJson);
  result.model_type = model_type;
  return result;
}

TokenizerSpec parse_tokenizer_files(const TokenizerFiles& files) {
  const auto where = [&](std::string_view name) { return join_path(files.folder, name); };
  const OptionalDocument config(files.tokenizer_config, where(kTokenizerConfigJson));
  const OptionalDocument model_config(files.model_config, where(kModelConfigJson));
  const bool has_byte_level =
      files.tokenizer_json && files.tokenizer_json->find("\"ByteLevel\"") != std::string::npos;
  TokenizerClass tokenizer_class =
      find_tokenizer_class(config.fields(), model_config.fields(), files.model_type, has_byte_level);
  const bool reads_vocab_json =
      !files.tokenizer_json && files.vocab_json && (tokenizer_class.reads_merges() || !files.vocab_txt);
  // If the vocabulary must be read from vocab.txt and no file names a tokenizer class, the class of BERT is used.
  const bool reads_vocab_txt = !files.tokenizer_json && !reads_vocab_json;
  if (reads_vocab_txt && tokenizer_class.name.empty()) {
    tokenizer_class = find_tokenizer_class(std::nullopt, std::nullopt, "bert");
  }
  NamedTokens named;
  bool has_decoder = false;
  if (config.fields()) {
    read_roles(*config.fields(), &named);
    read_added_tokens_decoder(*config.fields(), &named);
    has_decoder = config.fields()->has_key("added_tokens_decoder");
  }
  // special_tokens_map.json and added_tokens.json are used only if tokenizer_config.json does not contain the newer field
  // added_tokens_decoder.
  if (files.special_tokens_map && !has_decoder) {
    const OptionalDocument map(files.special_tokens_map, where(kSpecialTokensMapJson));
    read_roles(*map.fields(), &named);
  }
  bool has_post_processor = true;
  TokenizerSpec spec;
  if (files.tokenizer_json) {
    spec = parse_with_class(files, tokenizer_class, config.fields(), named, &has_post_processor);
  } else if (reads_vocab_json) {
    spec = parse_vocab_json(files, tokenizer_class, config.fields(), named);
    has_post_processor = false;
  } else {
    spec.source = kVocabTxt;
    spec.where = where(kVocabTxt);
    spec.model.vocab = parse_vocab_txt(files.vocab_txt.value_or(""), spec.where);
  }
  check_class(tokenizer_class, spec);
  // The special tokens of a class that builds its own pipeline replace those of tokenizer.json.
  if (tokenizer_class.built != BuiltPipeline::kNone) spec.special_tokens.clear();
  // vocab.txt does not state which token is the unknown or padding token, so every class that reads it uses BERT's special tokens.
  if (reads_vocab_txt) tokenizer_class.roles = bert_roles();
  if (!tokenizer_class.name.empty()) spec.transformers_class = tokenizer_class.name;
  // A tokenizer class sets the options of a BertNormalizer only. Pipelines without such a normalizer are not changed.
  const bool has_bert_normalizer = !spec.pipeline || spec.pipeline_has_bert_normalizer;
  if (has_bert_normalizer && (tokenizer_class.sets_normalizer || reads_vocab_txt)) {
    set_normalizer(config.fields(), &spec.normalizer);
    if (spec.pipeline) spec.pipeline->normalizers.front() = make_bert_normalizer(spec.normalizer);
  }
  if (config.fields()) read_settings(*config.fields(), &spec);
  // If tokenizer_config.json contains the field added_tokens_decoder, a class that builds its own pipeline ignores the added
  // tokens in tokenizer.json.
  if (has_decoder && tokenizer_class.built != BuiltPipeline::kNone) spec.added_tokens.clear();
  if (files.added_tokens && !has_decoder) {
    const OptionalDocument added(files.added_tokens, where(kAddedTokensJson));
    read_added_tokens_file(*added.fields(), tokenizer_class, spec.added_tokens, &named);
  }
  // Adds the tokens that tokenizer.json does not list: transformers also adds those that other files or the defaults of the tokenizer
  // class name, such as a cls_token.
  add_named_tokens(named, tokenizer_class, &spec);
  if (reads_vocab_txt) finish_vocab_txt(&spec);
  if (tokenizer_class.built != BuiltPipeline::kNone) {
    // Like transformers, ignores add_bos_token and add_eos_token if the folder contains tokenizer.json.
    set_templates(tokenizer_class.built, config.fields(), has_post_processor,
                  files.tokenizer_json ? std::nullopt : config.fields(), &spec);
  }
  if (!gives_types(tokenizer_class, config.fields())) clear_types(&spec);
  return spec;
}

}  // namespace plimsoll::text
