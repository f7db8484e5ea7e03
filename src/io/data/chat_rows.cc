#include "io/data/chat_rows.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/hash.h"
#include "io/data/text_file.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Returns the value that a message has under the key `name` or, as in the ShareGPT format, under the key `other`; null if it has neither.
const Json* find_value(const Json& message, const char* name, const char* other) {
  for (const char* key : {name, other}) {
    const auto found = message.find(key);
    if (found != message.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

// Converts the names of roles in the ShareGPT format ("human", "gpt") to the usual ones ("user", "assistant").
std::string role_named(std::string name) {
  if (name == "human") return "user";
  if (name == "gpt") return "assistant";
  return name;
}

std::string text_of(const Json& message, size_t number, const char* name, const char* other) {
  const Json* value = find_value(message, name, other);
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  throw_error(ErrorCode::kBadData, "message {}: expected a text as \"{}\", found {}{}", number, name,
              value == nullptr ? "none" : excerpt(value->dump()),
              value != nullptr && value->is_array() ? "; lists of parts are not read: write one text" : "");
}

// Returns true if the message has a key of this name whose value is neither null nor empty.
bool is_given(const Json& message, const char* name) {
  const auto found = message.find(name);
  return found != message.end() && !found->empty();
}

ChatMessage read_message(const Json& message, size_t number) {
  if (!message.is_object())
    throw_error(ErrorCode::kBadData, "message {}: expected an object with \"role\" and \"content\", found {}",
                number, excerpt(message.dump()));
  for (const char* name : {"tool_calls", "function_call"}) {
    if (!is_given(message, name)) continue;
    throw_error(
        ErrorCode::kBadData,
        "message {} has \"{}\", which no chat template of Plimsoll renders; write the call as the content of "
        "the message, or remove the row",
        number, name);
  }
  ChatMessage result{.role = role_named(text_of(message, number, "role", "from")),
                     .content = text_of(message, number, "content", "value")};
  if (is_given(message, "reasoning_content"))
    result.reasoning = text_of(message, number, "reasoning_content", "reasoning_content");
  return result;
}

// Sets the type of each token that overlaps one of the trained parts of the text to 1.
void mark_trained(const Encoding& encoding, std::span<const TextSpan> parts, std::span<int32_t> types) {
  size_t from = 0;
  for (const TextSpan& part : parts) {
    const auto overlaps = [&](const TextSpan& token) {
      return token.end > part.begin && token.begin < part.end && token.begin < token.end;
    };
    while (from < types.size() && encoding.offsets[from].end <= part.begin) ++from;
    size_t end = from;
    for (size_t i = from; i < types.size() && encoding.offsets[i].begin < part.end; ++i) {
      if (overlaps(encoding.offsets[i])) end = i + 1;
    }
    while (from < end && !overlaps(encoding.offsets[from])) ++from;
    for (size_t i = from; i < end; ++i) types[i] = 1;
  }
}

}  // namespace

std::vector<ChatMessage> parse_messages(std::string_view json) {
  const Json list = find_json(json);
  if (!list.is_array() || list.empty()) {
    throw_error(ErrorCode::kBadData, "expected a list of messages, found {}",
                list.is_array() ? "an empty list; remove the row" : excerpt(json));
  }
  std::vector<ChatMessage> messages;
  for (const Json& message : list) messages.push_back(read_message(message, messages.size() + 1));
  return messages;
}

class ChatEncoder::ChatSession : public TextEncoder::Session {
 public:
  explicit ChatSession(const ChatEncoder& encoder) : encoder_(encoder) {}

  int64_t encode(std::string_view first, std::optional<std::string_view> second, int64_t /*max_length*/,
                 std::vector<int32_t>& ids, std::vector<int32_t>& types) override {
    const size_t begin = types.size();
    if (encoder_.columns_ == ChatColumns::kPromptText) {
      encode_texts(first, second.value());
    } else {
      encode_messages(first, second);
    }
    if (std::ranges::find(types_, 1) == types_.end()) {
      throw_error(
          ErrorCode::kBadData, "{}, so no token of the row is trained; remove the row",
          encoder_.columns_ == ChatColumns::kMessages ? "the conversation has no turn of the assistant"
          : encoder_.columns_ == ChatColumns::kPromptMessages ? "the completion has no turn of the assistant"
                                                              : "the completion gives no token");
    }
    ids.insert(ids.end(), encoding_.ids.begin(), encoding_.ids.end());
    types.insert(types.end(), types_.begin(), types_.end());
    PLIMSOLL_CHECK(types.size() - begin == encoding_.ids.size());
    return 0;
  }

  int64_t encode_words(std::span<const std::string_view>, int64_t, std::vector<int32_t>&,
                       std::vector<int32_t>&, std::vector<int32_t>&) override {
    PLIMSOLL_CHECK(false, "conversations must be encoded as texts, but encode_words() was called");
    return 0;
  }

 private:
  void encode_messages(std::string_view first, std::optional<std::string_view> second) {
    std::vector<ChatMessage> messages = parse_messages(first);
    // The assistant's turns in the prompt are context only, so their tokens are not trained.
    size_t num_untrained = 0;
    if (second) {
      num_untrained =
          static_cast<size_t>(std::ranges::count(messages, std::string("assistant"), &ChatMessage::role));
      for (ChatMessage& message : parse_messages(*second)) messages.push_back(std::move(message));
    }
    const RenderedChat chat = encoder_.template_->render(messages, GenerationPrompt::kOmit);
    if (chat.num_left_out > 0) encoder_.num_left_out_ += chat.num_left_out;
    tokenize(chat.text, SpecialTokens::kOmit, Offsets::kRecord);
    PLIMSOLL_CHECK(chat.trained.size() >= num_untrained);
    mark_trained(encoding_, std::span(chat.trained).subspan(num_untrained), types_);
  }

  void encode_texts(std::string_view prompt, std::string_view completion) {
    tokenize(prompt, SpecialTokens::kAdd, Offsets::kSkip);
    const size_t num_untrained = encoding_.ids.size();
    std::string text(prompt);
    text += completion;
    if (!completion.ends_with(encoder_.eos_)) text += encoder_.eos_;
    tokenize(text, SpecialTokens::kAdd, Offsets::kSkip);
    for (size_t i = num_untrained; i < types_.size(); ++i) types_[i] = 1;
  }

  void tokenize(std::string_view text, SpecialTokens special_tokens, Offsets offsets) {
    encoding_.clear();
    encoder_.tokenizer_.append({text, std::nullopt}, {.special_tokens = special_tokens, .offsets = offsets},
                               scratch_, &encoding_);
    types_.assign(encoding_.ids.size(), 0);
  }

  const ChatEncoder& encoder_;
  TokenizerScratch scratch_;
  Encoding encoding_;
  std::vector<int32_t> types_;
};

ChatEncoder::ChatEncoder(const Tokenizer& tokenizer, ChatColumns columns,
                         const std::function<ChatTemplate()>& chat_template)
    : tokenizer_(tokenizer), columns_(columns) {
  if (columns != ChatColumns::kPromptText) {
    template_ = chat_template();
    return;
  }
  const std::optional<int32_t> eos = tokenizer.special_ids().eos;
  if (!eos) {
    throw_error(
        ErrorCode::kUsage,
        "rows of prompts and completions end with an end-of-text token, but the tokenizer names none; add "
        "\"eos_token\" to its tokenizer_config.json");
  }
  eos_ = tokenizer.token(*eos).value();
}

std::unique_ptr<TextEncoder::Session> ChatEncoder::new_session() const {
  return std::make_unique<ChatSession>(*this);
}

uint64_t ChatEncoder::content_hash() const {
  return hash64(fmt::format("{}\n{}\n{}\n{}", tokenizer_.content_hash().low, static_cast<int>(columns_),
                            template_ ? template_->content_hash() : 0, eos_));
}

}  // namespace plimsoll
