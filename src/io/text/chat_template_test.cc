// Checks that Plimsoll renders conversations exactly as apply_chat_template() of transformers, whose results are stored in the
// fixture chat.json.
#include "io/text/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "io/text/testing/tokenizer_fixtures.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

using text::read_json_fixture;
using Json = nlohmann::json;

constexpr const char* kConfig =
    R"({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"})";

std::vector<ChatMessage> messages_of(const Json& list) {
  std::vector<ChatMessage> messages;
  for (const Json& message : list) {
    messages.push_back({.role = message.at("role"), .content = message.at("content"), .reasoning = {}});
    if (message.contains("reasoning_content")) messages.back().reasoning = message.at("reasoning_content");
  }
  return messages;
}

// Provides a folder with the files of a tokenizer. Each test adds the chat templates that it needs.
class ChatTemplateTest : public ::testing::Test {
 protected:
  ChatTemplateTest() : fixture_(read_json_fixture("chat.json")) {
    folder_.write("tokenizer.json", fixture_.at("tokenizers").at("byte_level").dump());
    folder_.write("tokenizer_config.json", kConfig);
    tokenizer_ = Tokenizer::load(folder_.path());
  }

  std::string fault() const {
    try {
      ChatTemplate::of_folder(folder_.path(), *tokenizer_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return error.what();
    }
    return "";
  }

  Json fixture_;
  test::ScratchFolder folder_;
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(ChatTemplateTest, RendersAsTransformers) {
  size_t num_texts = 0, num_refused = 0;
  std::set<std::string> names;
  for (const Json& c : fixture_.at("cases")) {
    const std::string name = c.at("template");
    names.insert(name);
    const ChatTemplate chat_template = ChatTemplate::named(name, *tokenizer_);
    const Json& conversation = fixture_.at("conversations").at(c.at("conversation").get<size_t>());
    const std::vector<ChatMessage> messages = messages_of(conversation);
    const std::string label = name + " " + conversation.dump();
    if (c.contains("refused")) {
      EXPECT_THROW(chat_template.render(messages, GenerationPrompt::kOmit), Error) << label;
      ++num_refused;
      continue;
    }
    const RenderedChat chat = chat_template.render(messages, GenerationPrompt::kOmit);
    EXPECT_EQ(chat.text, c.at("text").get<std::string>()) << label;
    std::vector<std::vector<int32_t>> trained;
    for (const TextSpan& span : chat.trained) trained.push_back({span.begin, span.end});
    EXPECT_EQ(trained, c.at("trained").get<std::vector<std::vector<int32_t>>>()) << label;
    EXPECT_EQ(chat_template.render(messages, GenerationPrompt::kAdd).text, c.at("prompt").get<std::string>())
        << label;
    ++num_texts;
  }
  EXPECT_GT(num_texts, 1500u);
  EXPECT_GT(num_refused, 200u);
  // Every template that Plimsoll knows must occur in the fixture, so that none stays untested.
  for (const auto& [name, text] : fixture_.at("templates").items()) EXPECT_TRUE(names.contains(name));
  EXPECT_EQ(names.size(), static_cast<size_t>(std::ranges::count(chat_template_names(), ',') + 1));
}

TEST_F(ChatTemplateTest, KnowsTemplatesByTheirNormalForm) {
  for (const auto& [name, text] : fixture_.at("templates").items()) {
    folder_.write("chat_template.jinja", text.get<std::string>());
    EXPECT_EQ(ChatTemplate::of_folder(folder_.path(), *tokenizer_).name(), name)
        << to_hex(text::template_fingerprint(text.get<std::string>()));
  }
}

TEST_F(ChatTemplateTest, ReadsTheFilesOfAFolderInTheOrderOfTransformers) {
  EXPECT_NE(fault().find("has no chat template"), std::string::npos) << fault();
  EXPECT_NE(fault().find("--chat_template with one of chatml, "), std::string::npos) << fault();
  const std::string gemma = fixture_.at("templates").at("gemma"), phi3 = fixture_.at("templates").at("phi3");
  Json config = Json::parse(kConfig);
  config["chat_template"] = gemma;
  folder_.write("tokenizer_config.json", config.dump());
  EXPECT_EQ(ChatTemplate::of_folder(folder_.path(), *tokenizer_).name(), "gemma");
  config["chat_template"] = {{{"name", "rag"}, {"template", gemma}},
                             {{"name", "default"}, {"template", phi3}}};
  folder_.write("tokenizer_config.json", config.dump());
  EXPECT_EQ(ChatTemplate::of_folder(folder_.path(), *tokenizer_).name(), "phi3");
  folder_.write("chat_template.jinja", gemma);
  EXPECT_EQ(ChatTemplate::of_folder(folder_.path(), *tokenizer_).name(), "gemma");
  folder_.write("chat_template.jinja", "{% for m in messages %}\n{{ m.content }}{% endfor %}");
  EXPECT_NE(
      fault().find(
          "chat_template.jinja: Plimsoll does not know this chat template, which begins with '{% for m in "
          "messages %}' (fingerprint "),
      std::string::npos)
      << fault();
}

TEST_F(ChatTemplateTest, NeedsAnEndOfTextTokenWhereItEndsTurns) {
  const std::string path =
      folder_.write("other/tokenizer.json", fixture_.at("tokenizers").at("byte_level").dump());
  const auto bare = Tokenizer::load(std::filesystem::path(path).parent_path());
  EXPECT_THROW(ChatTemplate::named("zephyr", *bare), Error);
  EXPECT_NO_THROW(ChatTemplate::named("chatml", *bare));
  EXPECT_THROW(ChatTemplate::named("chat ml", *bare), Error);
}

TEST(TemplateForm, IsEqualWhereJinjaRendersTheSame) {
  const auto form = [](const char* text) { return text::template_form(text); };
  const std::string first = form("{% for m in messages %}{{ m['role'] + '\\n' }}{% endfor %}");
  for (const char* other : {"{%for m in messages%}{{m.role+'\\n'}}{%endfor%}",
                            "{%- for m in messages %}\n{{ m[\"role\"] + \"\\n\" }}{% endfor %}\n",
                            "{# a comment #}{% for m in messages %}{{- m['role'] + '\n' -}}   {% endfor %}",
                            "{% for m in messages -%}\n\n {{ m['role'] + '\\n' }}\n{%- endfor -%}\n\n",
                            "  {% for m in messages %}\r\n{{ m['role'] + '\\n' }}{% endfor %}"})
    EXPECT_EQ(form(other), first) << other;
  for (const char* other : {"{% for m in messages %}{{ m['role'] + '\\\\n' }}{% endfor %}",
                            "{% for m in messages %}{{ m.role + '\\n' }}   {% endfor %}",
                            "{% for m in messages %} {{ m.role + '\\n' }}{% endfor %}",
                            "{% for m in messages %}{{ m['role'] + '\\n' }}\n{% endfor %}",
                            "{% for m in messages %}{{ m.roles + '\\n' }}{% endfor %}",
                            "{% for m in messages %}{{ ['role'] + '\\n' }}{% endfor %}",
                            "{% form in messages %}{{ m.role + '\\n' }}{% endfor %}"})
    EXPECT_NE(form(other), first) << other;
  // template_form() must not fail for text that is not valid Jinja.
  for (const char* text : {"", "{", "{{", "{{ 'a", "{% x", "{# x", "a {{ b -", "{{ '\\", "}}"}) form(text);
}

}  // namespace
}  // namespace plimsoll
