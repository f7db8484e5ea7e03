// Chat templates: conversations as the text that a model was trained on, and the parts of it that the assistant writes.
//
// A template in the files of a tokenizer is a program in Jinja. Plimsoll does not run it: it recognizes published templates by
// a hash of their normal form (template_fingerprint()), and renders these itself, equal to apply_chat_template() of
// transformers. Any other template is refused by name. Intended differences from transformers: tools and tool calls are
// refused by the readers of conversations, and templates that state today's date state the one that they have for systems
// without a clock, so that a run can be repeated.
//
// The trained part of an assistant's turn is what the model has to write after the prompt of the turn: everything from the end
// of its header to its end-of-turn token, inclusive. This is what {% generation %} marks in the training templates of TRL, but
// for line breaks after the end-of-turn token, which are not trained.
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
  std::optional<std::string> reasoning = {};  // reasoning_content, which Qwen 3 reads
};

struct RenderedChat {
  std::string text;
  std::vector<TextSpan> trained;  // code points of the text, in order
  int64_t num_left_out = 0;       // messages whose role the template does not render
};

// States if the text ends with the header of an assistant's turn that is to be written.
enum class GenerationPrompt : uint8_t { kOmit, kAdd };

namespace text {
struct ChatRecord;
}

// The key of tokenizer_config.json under which a training saves the name of the template that --chat_template gave it.
inline constexpr const char* kTrainedChatTemplate = "plimsoll_chat_template";

class ChatTemplate {
 public:
  // Returns the template of this name. Errors: kUsage for an unknown name (the message lists the known ones), and if the
  // template ends turns with the end-of-text token and the tokenizer has none.
  static ChatTemplate named(std::string_view name, const Tokenizer& tokenizer);
  // Returns the template of a folder: the one that kTrainedChatTemplate names, else that in chat_template.jinja, else chat_template in
  // tokenizer_config.json (if these are several, the one called "default"). Errors: kUsage if there is none or if it is not known, with
  // the file, the first line, the fingerprint and the names of known templates; as named().
  static ChatTemplate of_folder(const std::string& folder, const Tokenizer& tokenizer);

  std::string_view name() const;
  // Returns the token that ends a turn of the assistant.
  std::string_view end_of_turn() const;
  // Renders a conversation. Requires: there is a message. Errors: kBadData for roles that the template refuses, with the number of
  // the message.
  RenderedChat render(std::span<const ChatMessage> messages, GenerationPrompt prompt) const;
  // Returns a hash of everything on which rendered texts depend.
  uint64_t content_hash() const;

 private:
  ChatTemplate(const text::ChatRecord& record, const Tokenizer& tokenizer);

  const text::ChatRecord* record_;
  std::string bos_;  // empty if the tokenizer has none
  std::string eos_;
};

// The facts about the chat template in the files of a folder.
struct StatedChatTemplate {
  std::string trained_name;  // the name under kTrainedChatTemplate, or ""
  std::string jinja;         // the text of the template, known or not, or ""
};
// Errors: kUsage for several templates of which none is called "default", and for a trained name that is not known; kBadData for
// files that cannot be read.
StatedChatTemplate stated_chat_template(const std::string& folder);

// Returns the names of the known templates, separated by commas.
std::string chat_template_names();

namespace text {

// Returns the normal form of a Jinja template under the settings of transformers (trim_blocks, lstrip_blocks): two templates
// with the same form render the same text. Comments and white space that is not rendered are left out, escapes in strings are
// decoded, and x['name'] is x.name. A text that is not Jinja has a form as well.
std::string template_form(std::string_view text);
// Returns the hash of the normal form.
uint64_t template_fingerprint(std::string_view text);

}  // namespace text

}  // namespace plimsoll
