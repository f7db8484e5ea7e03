// Test cases of bad input: conversations as training data and as prompts, their chat templates, and Parquet
// files.
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

std::string chat_model() {
  return std::string(PLIMSOLL_SOURCE_DIR) + "/tests/parity/models/llama_lm";
}

constexpr const char* kChatRow =
    R"({"messages": [{"role": "user", "content": "good"}, {"role": "assistant", "content": "file"}]})"
    "\n";

// Makes a test case: a dry run of a small Llama with a training file of this name and content.
Case chat(std::string name, int exit_code, Words words, std::string file, std::string text, Words more) {
  return {std::move(name), exit_code, std::move(words),
          [file = std::move(file), text = std::move(text), more = std::move(more)](const Ground& ground) {
            Words all = {"train",
                         "--model_name_or_path",
                         chat_model(),
                         "--train_file",
                         ground.file(file, text),
                         "--num_threads",
                         "1",
                         "--use_cpu",
                         "--dry_run"};
            all.insert(all.end(), more.begin(), more.end());
            return all;
          }};
}

Case chatml(std::string name, int exit_code, Words words, std::string text) {
  return chat(std::move(name), exit_code, std::move(words), "rows.jsonl", std::move(text),
              {"--chat_template", "chatml"});
}

// Makes a test case that trains a copy of the model whose tokenizer_config.json has this content.
Case with_template(const std::string& name, int exit_code, Words words, std::string config, Words more) {
  return {name, exit_code, std::move(words),
          [name, config = std::move(config), more = std::move(more)](const Ground& ground) {
            const std::string copy = ground.path(name);
            std::filesystem::copy(chat_model(), copy);
            ground.file(name + "/tokenizer_config.json", config);
            Words all = {"train",
                         "--model_name_or_path",
                         copy,
                         "--train_file",
                         ground.file("rows.jsonl", kChatRow),
                         "--num_threads",
                         "1",
                         "--use_cpu",
                         "--dry_run"};
            all.insert(all.end(), more.begin(), more.end());
            return all;
          }};
}

Case chat_generation(std::string name, int exit_code, Words words, Words more) {
  return {std::move(name), exit_code, std::move(words), [more = std::move(more)](const Ground&) {
            Words all = {"generate", "--model_name_or_path", chat_model(), "--use_cpu", "--num_threads", "1"};
            all.insert(all.end(), more.begin(), more.end());
            return all;
          }};
}

Case chat_prompts(std::string name, int exit_code, Words words, std::string text, Words more) {
  return {std::move(name), exit_code, std::move(words),
          [text = std::move(text), more = std::move(more)](const Ground& ground) {
            Words all = {"generate",      "--model_name_or_path",
                         chat_model(),    "--use_cpu",
                         "--num_threads", "1",
                         "--prompt_file", ground.file("prompts.jsonl", text)};
            all.insert(all.end(), more.begin(), more.end());
            return all;
          }};
}

}  // namespace

std::vector<Case> chat_cases() {
  const std::string bert = R"("tokenizer_class": "BertTokenizer", "eos_token": "[SEP]")";
  return {
      chatml("ChatRows", 0, {"train 2 rows"}, std::string(kChatRow) + kChatRow),
      chat("ChatPacked", 0, {"train 2 rows, 116 tokens"}, "rows.jsonl", std::string(kChatRow) + kChatRow,
           {"--chat_template", "chatml", "--packing"}),
      chat("ChatWithoutTemplate", 2, {"has no chat template", "give --chat_template with one of chatml, "},
           "rows.jsonl", kChatRow, {}),
      chat("ChatWithAWrongName", 2, {"--chat_template", "chatml"}, "rows.jsonl", kChatRow,
           {"--chat_template", "chat-ml"}),
      chat("ChatTemplateWithoutConversations", 0, {"train "}, "rows.jsonl", "{\"text\": \"good file\"}\n",
           {"--chat_template", "chatml"}),
      with_template(
          "ChatOfAnUnknownTemplate", 2,
          {"tokenizer_config.json: Plimsoll does not know this chat template, which begins with '{{ x }}'",
           "fingerprint", "--chat_template"},
          "{" + bert + R"(, "chat_template": "{{ x }}\nand more"})", {}),
      with_template("ChatOfAnUnknownTemplateWithAName", 0, {"train 1 row"},
                    "{" + bert + R"(, "chat_template": "{{ x }}"})", {"--chat_template", "zephyr"}),
      with_template("ChatOfANumberAsTemplate", 4, {"chat_template should be a text, or a list"},
                    "{" + bert + R"(, "chat_template": 3})", {}),
      with_template("ChatWithoutAnEndOfTextToken", 2,
                    {"'zephyr' ends turns with the end-of-text token", "\"eos_token\""},
                    R"({"tokenizer_class": "BertTokenizer"})", {"--chat_template", "zephyr"}),
      chatml("ChatWithoutAnAnswer", 4, {"rows.jsonl:2: the conversation has no turn of the assistant"},
             std::string(kChatRow) + R"({"messages": [{"role": "user", "content": "good"}]})"),
      chatml("ChatOfAText", 4, {"rows.jsonl:2: expected a list of messages in column 'messages', found text"},
             std::string(kChatRow) + R"({"messages": "good"})"),
      chatml("ChatEmpty", 4, {"rows.jsonl:2: expected a list of messages, found an empty list"},
             std::string(kChatRow) + R"({"messages": []})"),
      chatml("ChatWithTools", 4, {"rows.jsonl:1: the conversation has \"tools\""},
             R"({"messages": [{"role": "assistant", "content": "x"}], "tools": [{"name": "f"}]})"),
      chatml("ChatWithAToolCall", 4, {"rows.jsonl:1: message 1 has \"tool_calls\""},
             R"({"messages": [{"role": "assistant", "content": "x", "tool_calls": [{"name": "f"}]}]})"),
      chatml("ChatWithParts", 4,
             {"rows.jsonl:1: message 1: expected a text as \"content\"", "lists of parts"},
             R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]})"),
      chat("ChatOfRolesThatDoNotAlternate", 4,
           {"rows.jsonl:1: message 1 has the role 'assistant'", "needs the role 'user' here"}, "rows.jsonl",
           R"({"messages": [{"role": "assistant", "content": "x"}]})", {"--chat_template", "gemma"}),
      chat("ChatLeavesOutARole", 0, {"warning: ", "leaves out 1 message whose role it does not render"},
           "rows.jsonl",
           R"({"messages": [{"role": "judge", "content": "x"}, {"role": "assistant", "content": "x"}]})",
           {"--chat_template", "qwen3-2507"}),
      chat("ChatCut", 0, {"warning: ", "1 of 1 conversation was cut to 54 tokens (--block_size)"},
           "rows.jsonl", kChatRow, {"--chat_template", "chatml", "--block_size", "54"}),
      chat("ChatTooLong", 4, {"no answer of the assistant begins within the first 8 tokens"}, "rows.jsonl",
           kChatRow, {"--chat_template", "chatml", "--block_size", "8"}),
      chat("ChatInOverlappingBlocks", 2, {"--stride 4: ", "has conversations"}, "rows.jsonl",
           std::string(kChatRow) + kChatRow, {"--chat_template", "chatml", "--stride", "4", "--do_eval"}),
      chat_generation("GenerateChatWithoutTemplate", 2, {"has no chat template"}, {"--chat", "good"}),
      chat_generation("GenerateChatOfRandomPrompts", 2, {"--chat needs a tokenizer"},
                      {"--chat", "--dataset_name", "dummy"}),
      chat_prompts("GenerateMessagesWithoutChat", 4,
                   {"prompts.jsonl:1: \"messages\" is a list of messages; give --chat"}, kChatRow, {}),
      chat_prompts("GenerateMessagesOfATool", 4, {"message 1 has \"tool_calls\""},
                   R"({"messages": [{"role": "assistant", "content": "x", "tool_calls": [{"name": "f"}]}]})",
                   {"--chat", "--chat_template", "chatml"}),
      chat_prompts("GenerateMessages", 0, {"1 text"},
                   R"({"messages": [{"role": "user", "content": "good"}]})",
                   {"--chat", "--chat_template", "chatml", "--max_new_tokens", "2"}),
  };
}

}  // namespace plimsoll::testing
