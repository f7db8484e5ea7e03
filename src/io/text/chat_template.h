// Chat templates: they convert a conversation to the text format that a model was trained on, and mark the parts that the
// assistant writes.
//
// A template in the files of a tokenizer is a program in the language Jinja. Plimsoll does not run it. It recognizes published
// templates by a hash of their normal form (template_fingerprint()) and renders these with its own code, with the same result as
// apply_chat_template() of transformers. Other templates are refused with an error. Two differences from transformers are
// intended: the readers of conversations refuse tools and tool calls, and templates that state today's date instead state the
// fixed date that they contain for systems without a clock, so that runs can be repeated.
//
// The trained part of an assistant's turn is what the model has to generate: everything after the header of the turn, up to and
// including the end-of-turn token. The training templates of TRL mark the same part with {% generation %}, except that line
// breaks after the end-of-turn token are not trained here.
//
// Thread-safe: values that do not change after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/text/tokenizer.h"

namespace plimsoll {

struct ChatMessage {
  std::string role;
  std::string content;
  std::optional<std::string> reasoning = {};  // the field reasoning_content; only Qwen 3's template uses it
};

struct RenderedChat {
  std::string text;
  // the ranges of the text on which the model is trained, in code points and in order
  std::vector<TextSpan> trained;
  int64_t num_left_out = 0;  // number of messages whose role the template does not render
};

// Selects whether the rendered text ends with the header of a new assistant's turn, after which the model generates an answer.
enum class GenerationPrompt : uint8_t { kOmit, kAdd };

namespace text {
struct ChatRecord;
}

// The key of tokenizer_config.json under which a training stores the name of its template, if it was chosen by --chat_template.
inline constexpr const char* kTrainedChatTemplate = "plimsoll_chat_template";

class ChatTemplate {
 public:
  // Returns the template with this name. Errors: kUsage for an unknown name (the message lists the known ones), or if the
  // template ends turns with the end-of-text token but the tokenizer has no such token.
  static ChatTemplate named(std::string_view name, const Tokenizer& tokenizer);
  // Returns the template of a tokenizer's folder. It is looked up in this order: the name stored under kTrainedChatTemplate, the
  // file chat_template.jinja, the field chat_template of tokenizer_config.json (of a list, the entry named "default"). Errors:
  // kUsage if the folder has no template or an unknown one (the message contains the file, the first line and the fingerprint of
  // the template, and the names of the known templates), and the errors of named().
  static ChatTemplate of_folder(const std::string& folder, const Tokenizer& tokenizer);

  std::string_view name() const;
  // Returns the token that ends a turn of the assistant.
  std::string_view end_of_turn() const;
  // Renders a conversation. Requires: at least one message. Errors: kBadData if the template does not permit the role of a
  // message; the error text contains the number of the message.
  RenderedChat render(std::span<const ChatMessage> messages, GenerationPrompt prompt) const;
  // Returns a hash that changes whenever the same conversation could be rendered differently.
  uint64_t content_hash() const;

 private:
  ChatTemplate(const text::ChatRecord& record, const Tokenizer& tokenizer);

  const text::ChatRecord* record_;
  std::string bos_;  // the begin-of-text token; empty if the tokenizer has none
  std::string eos_;
};

// The chat template that the files of a folder contain.
struct StatedChatTemplate {
  std::string trained_name;  // the name stored under kTrainedChatTemplate; empty if there is none
  std::string jinja;  // the text of the template, whether Plimsoll knows it or not; empty if there is none
};
// Reads the chat template of a folder without rendering anything. Errors: kUsage if tokenizer_config.json lists several templates
// and none is named "default", or if a stored name is unknown; kBadData for files that cannot be read.
StatedChatTemplate stated_chat_template(const std::string& folder);

// Returns the names of the known templates, separated by commas.
std::string chat_template_names();

namespace text {

// Returns the normal form of a Jinja template with the settings that transformers uses (trim_blocks, lstrip_blocks). Two
// templates with the same normal form render the same text. The form omits comments and white space that is not rendered, decodes
// escapes in strings, and spells x['name'] as x.name. A text that is not valid Jinja also gives a normal form, without an error.
std::string template_form(std::string_view text);
// Returns the hash of the normal form of a template.
uint64_t template_fingerprint(std::string_view text);

}  // namespace text

}  // namespace plimsoll
