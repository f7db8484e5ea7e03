#include "io/text/chat_template.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "io/text/json_fields.h"
#include "io/text/tokenizer_spec.h"

namespace plimsoll {
namespace text {

class ChatWriter;

using Messages = std::span<const ChatMessage>;

struct ChatRecord {
  std::string_view name;
  void (*render)(const ChatRecord& record, Messages messages, ChatWriter& out);
  // The system message that the template writes for a conversation without a system message; empty if it writes none for such a
  // conversation.
  std::string_view default_system = {};
  // The token that ends each turn; empty if it is the tokenizer's end-of-text token.
  std::string_view end_of_turn = {};
};

// Builds the text of a conversation, and records on which parts of it the model is trained.
class ChatWriter {
 public:
  ChatWriter(const ChatRecord& record, std::string_view bos, std::string_view eos, GenerationPrompt prompt)
      : record_(record), bos_(bos), eos_(eos), prompt_(prompt) {}

  ChatWriter& operator<<(std::string_view text) {
    text_ += text;
    return *this;
  }
  std::string_view bos() const { return bos_; }
  std::string_view eos() const { return eos_; }
  bool adds_prompt() const { return prompt_ == GenerationPrompt::kAdd; }

  // Writes texts of an assistant and records their range as a part of the conversation on which the model is trained.
  template <typename... Texts>
  void train(const Texts&... texts) {
    const size_t begin = text_.size();
    (*this << ... << std::string_view(texts));
    trained_.push_back({begin, text_.size()});
  }
  void leave_out() { ++num_left_out_; }

  // Throws the error for message i, whose role the template does not permit at this position. `wanted` describes the roles that it permits.
  [[noreturn]] void fail(size_t i, const ChatMessage& message, std::string_view wanted) const {
    throw_error(ErrorCode::kBadData,
                "message {} has the role '{}', but the chat template '{}' needs {}; correct the "
                "conversation, or choose another "
                "template with --chat_template",
                i + 1, message.role, record_.name, wanted);
  }
  // Checks that the messages from index `first` on alternate between user and assistant, beginning with a user. Errors: kBadData.
  void require_turns(Messages messages, size_t first) const {
    for (size_t i = first; i < messages.size(); ++i) {
      const bool is_users_turn = (i - first) % 2 == 0;
      if ((messages[i].role == "user") != is_users_turn)
        fail(i, messages[i],
             is_users_turn
                 ? "the role 'user' here, because user and assistant alternate, beginning with the user"
                 : "the role 'assistant' here, because user and assistant alternate");
    }
  }

  RenderedChat finish() && {
    RenderedChat chat{.text = std::move(text_), .trained = {}, .num_left_out = num_left_out_};
    size_t at = 0;
    int32_t points = 0;
    const auto points_until = [&](size_t byte) {
      for (; at < byte; ++at) points += is_utf8_continuation(chat.text[at]) ? 0 : 1;
      return points;
    };
    for (const auto& [begin, end] : trained_) {
      const int32_t first = points_until(begin);
      chat.trained.push_back({first, points_until(end)});
    }
    return chat;
  }

 private:
  const ChatRecord& record_;
  const std::string_view bos_;
  const std::string_view eos_;
  const GenerationPrompt prompt_;
  std::string text_;
  std::vector<std::pair<size_t, size_t>> trained_;  // byte ranges of text_ on which the model is trained
  int64_t num_left_out_ = 0;
};

namespace {

// Removes white space at both ends, as Python's str.strip() does.
std::string_view strip(std::string_view text) {
  const auto is_space = [](std::string_view point) {
    if (point.size() == 1) {
      const auto c = static_cast<unsigned char>(point[0]);
      return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
    }
    static constexpr std::string_view kOthers[] = {"\u0085", "\u00A0", "\u1680", "\u2028",
                                                   "\u2029", "\u202F", "\u205F", "\u3000"};
    return std::ranges::find(kOthers, point) != std::end(kOthers) ||
           (point >= "\u2000" && point <= "\u200A" && point.size() == 3);
  };
  while (!text.empty()) {
    const size_t length = std::max<size_t>(1, utf8_sequence_length(text));
    if (!is_space(text.substr(0, length))) break;
    text.remove_prefix(length);
  }
  while (!text.empty()) {
    size_t begin = text.size() - 1;
    while (begin > 0 && is_utf8_continuation(text[begin])) --begin;
    if (!is_space(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

std::string_view without_leading(std::string_view text, char c) {
  while (text.starts_with(c)) text.remove_prefix(1);
  return text;
}
std::string_view without_trailing(std::string_view text, char c) {
  while (text.ends_with(c)) text.remove_suffix(1);
  return text;
}

bool begins_with_system(Messages messages) {
  return messages[0].role == "system";
}

// --- ChatML: each turn is <|im_start|>role, a line feed, the content and <|im_end|>.

void write_im_turn(const ChatMessage& message, std::string_view content, ChatWriter& out) {
  out << "<|im_start|>" << message.role << "\n";
  message.role == "assistant" ? out.train(content, "<|im_end|>")
                              : static_cast<void>(out << content << "<|im_end|>");
  out << "\n";
}

void write_im_prompt(ChatWriter& out) {
  if (out.adds_prompt()) out << "<|im_start|>assistant\n";
}

void write_default_system(const ChatRecord& record, Messages messages, ChatWriter& out) {
  if (record.default_system.empty() || begins_with_system(messages)) return;
  out << "<|im_start|>system\n" << record.default_system << "<|im_end|>\n";
}

void render_chatml(const ChatRecord& record, Messages messages, ChatWriter& out) {
  write_default_system(record, messages, out);
  for (const ChatMessage& message : messages) write_im_turn(message, message.content, out);
  write_im_prompt(out);
}

// Writes the result of a tool call, which the templates of Qwen 2.5 and 3 put into a turn of the user. Consecutive results share
// one turn.
void write_tool_answer(Messages messages, size_t i, ChatWriter& out) {
  if (i == 0 || messages[i - 1].role != "tool") out << "<|im_start|>user";
  out << "\n<tool_response>\n" << messages[i].content << "\n</tool_response>";
  if (i + 1 == messages.size() || messages[i + 1].role != "tool") out << "<|im_end|>\n";
}

// Writes a conversation in the format that all Qwen templates share. write_answer(i) is called for each message i of the
// assistant.
template <typename WriteAnswer>
void write_qwen_turns(const ChatRecord& record, Messages messages, ChatWriter& out,
                      const WriteAnswer& write_answer) {
  write_default_system(record, messages, out);
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role == "assistant") {
      write_answer(i);
    } else if (role == "user" || role == "system") {
      write_im_turn(messages[i], messages[i].content, out);
    } else if (role == "tool") {
      write_tool_answer(messages, i, out);
    } else {
      out.leave_out();
    }
  }
  write_im_prompt(out);
}

void render_qwen(const ChatRecord& record, Messages messages, ChatWriter& out) {
  write_qwen_turns(record, messages, out,
                   [&](size_t i) { write_im_turn(messages[i], messages[i].content, out); });
}

// Returns the index of the last message that the user wrote. Results of tools, which also have the role "user", do not count. Returns the
// index of the last message if the user wrote none.
size_t last_query(Messages messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    const std::string& content = messages[i].content;
    const bool is_tools = content.starts_with("<tool_response>") && content.ends_with("</tool_response>");
    if (messages[i].role == "user" && !is_tools) return i;
  }
  return messages.size() - 1;
}

// Renders a conversation for Qwen 3. Only the answers after the user's last query are rendered with their reasoning. The last answer gets
// the tags <think> and </think> even if it has no reasoning.
void render_qwen3(const ChatRecord& record, Messages messages, ChatWriter& out) {
  const size_t query = last_query(messages);
  write_qwen_turns(record, messages, out, [&](size_t i) {
    constexpr std::string_view kOpen = "<think>", kClose = "</think>";
    std::string_view content = messages[i].content;
    std::string_view reasoning;
    if (messages[i].reasoning) {
      reasoning = *messages[i].reasoning;
    } else if (const size_t close = content.find(kClose); close != std::string_view::npos) {
      reasoning = without_trailing(content.substr(0, close), '\n');
      if (const size_t open = reasoning.rfind(kOpen); open != std::string_view::npos)
        reasoning.remove_prefix(open + kOpen.size());
      reasoning = without_leading(reasoning, '\n');
      content = without_leading(content.substr(content.rfind(kClose) + kClose.size()), '\n');
    }
    if (i <= query || (i + 1 < messages.size() && reasoning.empty())) {
      write_im_turn(messages[i], content, out);
      return;
    }
    const std::string thought =
        fmt::format("{}\n{}\n{}\n\n{}", kOpen, without_trailing(without_leading(reasoning, '\n'), '\n'),
                    kClose, without_leading(content, '\n'));
    write_im_turn(messages[i], thought, out);
  });
}

// --- The templates of the Llama models.

void render_llama2(const ChatRecord&, Messages messages, ChatWriter& out) {
  const size_t first = begins_with_system(messages) ? 1 : 0;
  out.require_turns(messages, first);
  for (size_t i = first; i < messages.size(); ++i) {
    std::string content = messages[i].content;
    if (i == 1 && first == 1)
      content = fmt::format("<<SYS>>\n{}\n<</SYS>>\n\n{}", messages[0].content, content);
    if (messages[i].role == "user") {
      out << out.bos() << "[INST] " << strip(content) << " [/INST]";
    } else if (messages[i].role == "assistant") {
      out.train(" ", strip(content), " ", out.eos());
    } else {
      out.leave_out();
    }
  }
}

void write_header(std::string_view role, ChatWriter& out) {
  out << "<|start_header_id|>" << role << "<|end_header_id|>\n\n";
}

void write_llama3_turn(const ChatMessage& message, ChatWriter& out) {
  constexpr std::string_view kEnd = "<|eot_id|>";
  write_header(message.role, out);
  message.role == "assistant" ? out.train(strip(message.content), kEnd)
                              : static_cast<void>(out << strip(message.content) << kEnd);
}

void render_llama3(const ChatRecord&, Messages messages, ChatWriter& out) {
  out << out.bos();
  for (const ChatMessage& message : messages) write_llama3_turn(message, out);
  if (out.adds_prompt()) write_header("assistant", out);
}

void render_llama31(const ChatRecord&, Messages messages, ChatWriter& out) {
  const bool has_system = begins_with_system(messages);
  out << out.bos();
  write_header("system", out);
  out << "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
      << (has_system ? strip(messages[0].content) : "") << "<|eot_id|>";
  for (const ChatMessage& message : messages.subspan(has_system ? 1 : 0)) {
    if (message.role == "tool" || message.role == "ipython") {
      write_header("ipython", out);
      out << nlohmann::json(message.content).dump() << "<|eot_id|>";
    } else {
      write_llama3_turn(message, out);
    }
  }
  if (out.adds_prompt()) write_header("assistant", out);
}

// --- The templates of the Mistral models.

void require_assistant(size_t i, const ChatMessage& message, const ChatWriter& out) {
  if (message.role != "user" && message.role != "assistant")
    out.fail(i, message, "users and assistants only");
}

template <typename WriteAnswer>
void render_mistral(Messages messages, ChatWriter& out, const WriteAnswer& write_answer) {
  out.require_turns(messages, 0);
  out << out.bos();
  for (size_t i = 0; i < messages.size(); ++i) {
    require_assistant(i, messages[i], out);
    if (messages[i].role == "user") {
      out << "[INST] " << messages[i].content << " [/INST]";
    } else {
      write_answer(messages[i]);
    }
  }
}

void render_mistral_v01(const ChatRecord&, Messages messages, ChatWriter& out) {
  render_mistral(messages, out, [&](const ChatMessage& message) {
    out.train(message.content, out.eos());
    out << " ";
  });
}

void render_mistral_v02(const ChatRecord&, Messages messages, ChatWriter& out) {
  render_mistral(messages, out, [&](const ChatMessage& message) { out.train(message.content, out.eos()); });
}

void render_mistral_v1(const ChatRecord&, Messages messages, ChatWriter& out) {
  const size_t first = begins_with_system(messages) ? 1 : 0;
  out.require_turns(messages, first);
  out << out.bos();
  for (size_t i = first; i < messages.size(); ++i) {
    require_assistant(i, messages[i], out);
    if (messages[i].role == "assistant") {
      out.train(" ", messages[i].content, out.eos());
      continue;
    }
    out << " [INST] ";
    if (first == 1 && i == 1) out << messages[0].content << "\n\n";
    out << messages[i].content << " [/INST]";
  }
}

// --- The templates of Zephyr, Gemma and Phi 3.

// Writes a turn, which begins with <|role|>, for each message of the system, the user or the assistant. Messages with other roles
// are left out.
void write_bar_turns(Messages messages, std::string_view end, ChatWriter& out) {
  for (const ChatMessage& message : messages) {
    if (message.role != "user" && message.role != "system" && message.role != "assistant") {
      out.leave_out();
      continue;
    }
    out << "<|" << message.role << "|>\n";
    message.role == "assistant" ? out.train(message.content, end)
                                : static_cast<void>(out << message.content << end);
    out << "\n";
  }
}

void render_zephyr(const ChatRecord&, Messages messages, ChatWriter& out) {
  write_bar_turns(messages, out.eos(), out);
  if (out.adds_prompt()) out << "<|assistant|>\n";
}

void render_phi3(const ChatRecord&, Messages messages, ChatWriter& out) {
  write_bar_turns(messages, "<|end|>", out);
  out << (out.adds_prompt() ? "<|assistant|>\n" : out.eos());
}

void render_gemma(const ChatRecord&, Messages messages, ChatWriter& out) {
  constexpr std::string_view kEnd = "<end_of_turn>";
  if (begins_with_system(messages))
    out.fail(0, messages[0],
             "a conversation without a system message; move its text into the first message of the user");
  out.require_turns(messages, 0);
  out << out.bos();
  for (const ChatMessage& message : messages) {
    const bool is_answer = message.role == "assistant";
    out << "<start_of_turn>" << (is_answer ? "model" : message.role) << "\n";
    is_answer ? out.train(strip(message.content), kEnd)
              : static_cast<void>(out << strip(message.content) << kEnd);
    out << "\n";
  }
  if (out.adds_prompt()) out << "<start_of_turn>model\n";
}

constexpr ChatRecord kRecords[] = {
    {.name = "chatml", .render = render_chatml, .end_of_turn = "<|im_end|>"},
    {.name = "qwen1.5",
     .render = render_chatml,
     .default_system = "You are a helpful assistant",
     .end_of_turn = "<|im_end|>"},
    {.name = "qwen2",
     .render = render_chatml,
     .default_system = "You are a helpful assistant.",
     .end_of_turn = "<|im_end|>"},
    {.name = "qwen2.5",
     .render = render_qwen,
     .default_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     .end_of_turn = "<|im_end|>"},
    {.name = "qwen2.5-base",
     .render = render_qwen,
     .default_system = "You are a helpful assistant.",
     .end_of_turn = "<|im_end|>"},
    {.name = "qwen3", .render = render_qwen3, .end_of_turn = "<|im_end|>"},
    {.name = "qwen3-2507", .render = render_qwen, .end_of_turn = "<|im_end|>"},
    {.name = "smollm2",
     .render = render_chatml,
     .default_system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
     .end_of_turn = "<|im_end|>"},
    {.name = "llama2", .render = render_llama2},
    {.name = "llama3", .render = render_llama3, .end_of_turn = "<|eot_id|>"},
    {.name = "llama3.1", .render = render_llama31, .end_of_turn = "<|eot_id|>"},
    {.name = "llama3.2", .render = render_llama31, .end_of_turn = "<|eot_id|>"},
    {.name = "mistral-v0.1", .render = render_mistral_v01},
    {.name = "mistral-v0.2", .render = render_mistral_v02},
    {.name = "mistral-v1", .render = render_mistral_v1},
    {.name = "zephyr", .render = render_zephyr},
    {.name = "gemma", .render = render_gemma, .end_of_turn = "<end_of_turn>"},
    {.name = "phi3", .render = render_phi3, .end_of_turn = "<|end|>"},
};

// A published template: the hash of its normal form and the name under which Plimsoll knows it.
struct KnownFingerprint {
  uint64_t fingerprint;
  std::string_view name;
};
constexpr KnownFingerprint kFingerprints[] = {
#include "io/text/tables/chat_fingerprints.inc"
};

const ChatRecord* find_record(std::string_view name) {
  const auto* found = std::ranges::find(kRecords, name, &ChatRecord::name);
  return found == std::end(kRecords) ? nullptr : found;
}

// The text of a template and the file in which it was found.
struct StatedTemplate {
  std::string file;
  std::string text;
};

// Returns the template in tokenizer_config.json. The file contains either one template, or a list of named ones, of which the one
// named "default" is used.
std::optional<StatedTemplate> template_in_config(const std::string& path, const std::string& content) {
  const Json document = parse_tokenizer_text(content, path);
  const JsonFields fields(document, path, "");
  const Json* stated = fields.find("chat_template");
  if (stated == nullptr) return std::nullopt;
  if (stated->is_string()) return StatedTemplate{path, stated->get<std::string>()};
  if (stated->is_array()) {
    for (const JsonFields& entry : fields.required_objects("chat_template")) {
      if (entry.required_text("name") == "default")
        return StatedTemplate{path, entry.required_text("template")};
    }
    throw_error(ErrorCode::kUsage,
                "{} has several chat templates, but none is called \"default\"; give --chat_template NAME",
                path);
  }
  throw_error(ErrorCode::kBadData,
              "{} should be a text, or a list of objects with \"name\" and \"template\"; correct the file",
              fields.name_of("chat_template"));
}

// Returns the content of the file at this path, or nothing if it does not exist.
std::optional<std::string> content_of(const std::string& path) {
  FileSystem& files = posix_file_system();
  const auto status = files.status(path);
  if (!status || status->kind == FileKind::kFolder) return std::nullopt;
  return read_text_file(files, path, kMaxTokenizerFileBytes);
}

// Returns the template whose name an earlier training stored in the folder, or null if the folder contains none. Errors: kUsage
// if the name is unknown.
const ChatRecord* trained_template(const std::string& folder) {
  const std::string path = join_path(folder, kTokenizerConfigJson);
  const std::optional<std::string> content = content_of(path);
  if (!content) return nullptr;
  const Json document = parse_tokenizer_text(*content, path);
  const JsonFields fields(document, path, "");
  const Json* name = fields.find(kTrainedChatTemplate);
  if (name == nullptr) return nullptr;
  if (const ChatRecord* record = name->is_string() ? find_record(name->get<std::string>()) : nullptr)
    return record;
  throw_error(ErrorCode::kUsage,
              "{} is {}, but this version knows no chat template of this name; known are {}: give one with "
              "--chat_template",
              fields.name_of(kTrainedChatTemplate), name->dump(), chat_template_names());
}

std::optional<StatedTemplate> template_of_folder(const std::string& folder) {
  const std::string jinja = join_path(folder, "chat_template.jinja");
  if (std::optional<std::string> content = content_of(jinja))
    return StatedTemplate{jinja, *std::move(content)};
  const std::string config = join_path(folder, kTokenizerConfigJson);
  const std::optional<std::string> content = content_of(config);
  return content ? template_in_config(config, *content) : std::nullopt;
}

// Returns the first line of a template, shortened for error messages.
std::string first_line(const std::string& text) {
  constexpr size_t kMost = 72;
  std::string line = text.substr(0, text.find('\n'));
  if (line.size() <= kMost) return line;
  size_t end = kMost;
  while (end > 0 && is_utf8_continuation(line[end])) --end;
  return line.substr(0, end) + "...";
}

}  // namespace
}  // namespace text

StatedChatTemplate stated_chat_template(const std::string& folder) {
  StatedChatTemplate stated;
  if (const text::ChatRecord* record = text::trained_template(folder)) stated.trained_name = record->name;
  if (auto found = text::template_of_folder(folder)) stated.jinja = std::move(found->text);
  return stated;
}

std::string chat_template_names() {
  std::string names;
  for (const text::ChatRecord& record : text::kRecords)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", record.name);
  return names;
}

ChatTemplate::ChatTemplate(const text::ChatRecord& record, const Tokenizer& tokenizer) : record_(&record) {
  const auto text_of = [&](const std::optional<int32_t>& id) {
    return id ? std::string(tokenizer.token(*id).value_or("")) : std::string();
  };
  bos_ = text_of(tokenizer.special_ids().bos);
  eos_ = text_of(tokenizer.special_ids().eos);
  if (!record.end_of_turn.empty() || !eos_.empty()) return;
  throw_error(
      ErrorCode::kUsage,
      "the chat template '{}' ends turns with the end-of-text token, but the tokenizer names none; add "
      "\"eos_token\" to its tokenizer_config.json",
      record.name);
}

ChatTemplate ChatTemplate::named(std::string_view name, const Tokenizer& tokenizer) {
  if (const text::ChatRecord* record = text::find_record(name)) return {*record, tokenizer};
  throw_error(ErrorCode::kUsage, "--chat_template {}: there is no chat template of this name; known are {}",
              name, chat_template_names());
}

ChatTemplate ChatTemplate::of_folder(const std::string& folder, const Tokenizer& tokenizer) {
  if (const text::ChatRecord* record = text::trained_template(folder)) return {*record, tokenizer};
  const std::optional<text::StatedTemplate> stated = text::template_of_folder(folder);
  if (!stated) {
    throw_error(
        ErrorCode::kUsage,
        "the tokenizer in {} has no chat template, which conversations need; give --chat_template with one "
        "of {}",
        folder, chat_template_names());
  }
  const uint64_t fingerprint = text::template_fingerprint(stated->text);
  const auto* known =
      std::ranges::find(text::kFingerprints, fingerprint, &text::KnownFingerprint::fingerprint);
  if (known != std::end(text::kFingerprints)) return {*text::find_record(known->name), tokenizer};
  throw_error(
      ErrorCode::kUsage,
      "{}: Plimsoll does not know this chat template, which begins with '{}' (fingerprint {}). If it writes "
      "conversations as one of {}, give its name with --chat_template",
      stated->file, text::first_line(stated->text), to_hex(fingerprint), chat_template_names());
}

std::string_view ChatTemplate::name() const {
  return record_->name;
}

std::string_view ChatTemplate::end_of_turn() const {
  return record_->end_of_turn.empty() ? std::string_view(eos_) : record_->end_of_turn;
}

RenderedChat ChatTemplate::render(std::span<const ChatMessage> messages, GenerationPrompt prompt) const {
  PLIMSOLL_CHECK(!messages.empty());
  text::ChatWriter out(*record_, bos_, eos_, prompt);
  record_->render(*record_, messages, out);
  return std::move(out).finish();
}

uint64_t ChatTemplate::content_hash() const {
  // Increase this number whenever a template is rendered differently, so that tokens cached by earlier versions are not used.
  constexpr int kVersion = 1;
  return hash64(fmt::format("{}\n{}\n{}\n{}", record_->name, bos_, eos_, kVersion));
}

}  // namespace plimsoll
