#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/disguised_file.h"
#include "base/guarded_json.h"
#include "base/utf8.h"
#include "io/hub/hub_cache.h"
#include "io/text/tokenizer.h"
#include "plimsoll/inspect.h"

namespace plimsoll {

void require_text(std::string_view first_line, const std::string& name) {
  refuse_disguised_text(first_line.substr(0, kDisguiseBytes), name);
}

struct LineTokenizer::Impl {
  std::unique_ptr<Tokenizer> tokenizer;
  // The tokenizer stores the ids of words that it has encoded in this object, so that later lines need not encode them again.
  TokenizerScratch scratch;

  Encoding encode(std::string_view line) {
    Encoding encoding;
    tokenizer->append({line, std::nullopt}, {}, scratch, &encoding);
    return encoding;
  }
};

LineTokenizer::LineTokenizer(const std::string& name, const Environment& environment)
    : impl_(std::make_unique<Impl>()) {
  impl_->tokenizer = Tokenizer::load(resolve_model_folder(posix_file_system(), hub_environment(environment),
                                                          name, "main", kTokenizerArgument));
}

LineTokenizer::~LineTokenizer() = default;

namespace {

// Refuses a line that is not valid UTF-8, as the readers of training data do.
void require_utf8(std::string_view line) {
  const size_t at = find_invalid_utf8(line);
  if (at == line.size()) return;
  throw_error(ErrorCode::kBadData,
              "byte 0x{:02X} at byte {} of the line is not valid UTF-8\n  if the text is Latin-1: iconv -f "
              "LATIN1 -t UTF-8",
              static_cast<unsigned>(static_cast<unsigned char>(line[at])), at);
}

}  // namespace

std::string LineTokenizer::encode_json(std::string_view line) const {
  require_utf8(line);
  const Encoding encoding = impl_->encode(line);
  std::string ids;
  std::string offsets;
  for (size_t i = 0; i < encoding.ids.size(); ++i) {
    ids += (i == 0 ? "" : ", ") + std::to_string(encoding.ids[i]);
    offsets +=
        fmt::format("{}[{}, {}]", i == 0 ? "" : ", ", encoding.offsets[i].begin, encoding.offsets[i].end);
  }
  return "{\"ids\": [" + ids + "], \"offsets\": [" + offsets + "]}";
}

std::string LineTokenizer::encode_for_people(std::string_view line) const {
  require_utf8(line);
  std::string text;
  for (int32_t id : impl_->encode(line).ids) {
    text += fmt::format("{}{}({})", text.empty() ? "" : " ", impl_->tokenizer->token(id).value_or("?"), id);
  }
  return text;
}

std::string LineTokenizer::decode(std::string_view line, DecodedTokens tokens) const {
  const nlohmann::json document = find_json(line);
  const auto excerpt = line.substr(0, 40);
  constexpr std::string_view kWanted =
      "the line should be a list of ids, as in [101, 7592] or {\"ids\": [101, 7592]}";
  if (document.is_discarded())
    throw_error(ErrorCode::kBadData, "{}, but '{}' is not complete JSON", kWanted, excerpt);
  const nlohmann::json* list = &document;
  if (document.is_object() && document.contains("ids")) list = &document.at("ids");
  std::vector<int32_t> ids;
  bool is_valid = list->is_array();
  if (is_valid) {
    for (const nlohmann::json& id : *list) {
      is_valid = is_valid && id.is_number_integer() && id >= 0 && id <= std::numeric_limits<int32_t>::max();
      if (is_valid) ids.push_back(id.get<int32_t>());
    }
  }
  if (!is_valid) {
    throw_error(ErrorCode::kBadData, "{} with numbers from 0 to {}, but it is '{}'", kWanted,
                std::numeric_limits<int32_t>::max(), excerpt);
  }
  for (const int32_t id : ids) {
    if (impl_->tokenizer->token(id)) continue;
    throw_error(ErrorCode::kBadData, "the tokenizer has no token with id {}; its largest id is {}", id,
                impl_->tokenizer->max_id());
  }
  return impl_->tokenizer->decode(ids, {.skip_special_tokens = tokens == DecodedTokens::kWithoutSpecial});
}

std::string LineTokenizer::decode_json(std::string_view line, DecodedTokens tokens) const {
  return "{\"text\": " + nlohmann::json(decode(line, tokens)).dump() + "}";
}

}  // namespace plimsoll
