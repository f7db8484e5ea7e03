// Converts conversations of a data file to tokens, and marks the tokens of the assistant, which are trained. Thread-safe: several threads
// may use one encoder, if each thread creates its own session.
//
// Rows have one of three forms, as TRL's SFTTrainer reads them:
// 1. "messages", a list of {"role": ..., "content": ...}; or "conversations", whose messages may have the keys "from" and "value", and
//     the roles of ShareGPT, "human" and "gpt".
// 2. "prompt" and "completion", two lists of messages: only the assistant's turns of the completion are trained.
// 3. "prompt" and "completion", two texts: the completion and an end-of-text token are trained. Both texts are encoded together. The
//     trained tokens are those after the first n, where n is the number of tokens of the prompt alone.
// In the first two forms a chat template turns the messages into a text, which is encoded as a whole without other special tokens.
// ChatTemplate states which parts of that text are trained. The trained tokens of a part are those from the first to the last token that
// contains a character of the part.
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

// Parses a list of messages. Errors: kBadData for a text that is not a JSON list of messages, an empty list, content that is not a text,
// and tool calls, which no template of Plimsoll renders.
std::vector<ChatMessage> parse_messages(std::string_view json);

// Encodes rows of conversations. The arguments `first` and `second` of encode() are the texts of the one or two columns of a row. The
// type of a token is 1 if it is trained and otherwise 0. Conversations are never truncated. Errors of encode: those of parse_messages()
// and ChatTemplate::render(), and kBadData for a row without a trained token.
class ChatEncoder : public TextEncoder {
 public:
  // The function `chat_template` is called once if the columns contain messages, and throws an error if the model has no template. The
  // tokenizer must outlive the encoder. Errors: kUsage if the columns are texts, after which an end-of-text token is needed, but the
  // tokenizer has none.
  ChatEncoder(const Tokenizer& tokenizer, ChatColumns columns,
              const std::function<ChatTemplate()>& chat_template);

  std::unique_ptr<Session> new_session() const override;
  uint64_t content_hash() const override;

  // Returns the number of encoded messages that are missing in the encoded text because the chat template ignores their role.
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
