// Converts conversations of a data file to tokens, and marks the tokens of the assistant, which are trained. Thread-safe: an encoder may
// be used by several threads, and each session by one.
//
// Rows have one of three forms, as TRL's SFTTrainer reads them:
// 1. "messages", a list of {"role": ..., "content": ...}; or "conversations", whose messages may have the keys "from" and "value", and
//     the roles of ShareGPT, "human" and "gpt".
// 2. "prompt" and "completion", two lists of messages: only the assistant's turns of the completion are trained.
// 3. "prompt" and "completion", two texts: the completion and an end-of-text token are trained. Both texts are encoded together. The
//     trained tokens are those after the first n, where n is the number of tokens of the prompt alone.
// In the first two forms a chat template turns the messages into a text, which is encoded as a whole without other special tokens.
// ChatTemplate states which parts of that text are trained. In each part, the tokens from the first to the last one that contain a
// character of it are trained.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/data/data_columns.h"
#include "io/data/text_encoder.h"
#include "io/text/chat_template.h"

namespace plimsoll {

// Parses a list of messages. Errors: kBadData for a text that is no such list, an empty list, content that is not a text, and
// tool calls, which no template of Plimsoll renders.
std::vector<ChatMessage> parse_messages(std::string_view json);

// Encodes rows of conversations: `first` and `second` of encode() are the cells of the columns. Types are 1 for trained tokens
// and otherwise 0. Conversations are never cut. Errors of encode: kBadData as parse_messages() and ChatTemplate::render(), and for
// a row without a trained token.
class ChatEncoder : public TextEncoder {
 public:
  // `chat_template` is called once, for the forms that need one, and throws the reason if there is none. The tokenizer must outlive the
  // encoder. Errors: kUsage if a form needs an end-of-text token that the tokenizer lacks.
  ChatEncoder(const Tokenizer& tokenizer, ChatColumns columns,
              const std::function<ChatTemplate()>& chat_template);

  std::unique_ptr<Session> new_session() const override;
  uint64_t content_hash() const override;

  // Returns the number of messages, of those encoded so far, whose role the template does not render.
  int64_t num_left_out() const { return num_left_out_; }
  std::string_view template_name() const { return template_ ? template_->name() : ""; }

 private:
  class ChatSession;

  const Tokenizer& tokenizer_;
  const ChatColumns columns_;
  std::optional<ChatTemplate> template_;
  std::string eos_;
  mutable std::atomic<int64_t> num_left_out_{0};
};

}  // namespace plimsoll
