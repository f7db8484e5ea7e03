#include "io/data/chat_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/data/batch.h"
#include "io/data/blocks.h"
#include "io/data/document_reader.h"
#include "io/data/token_cache.h"
#include "io/text/testing/tokenizer_fixtures.h"
#include "io/text/tokenizer_spec.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

class ChatRowsTest : public ::testing::Test {
 protected:
  ChatRowsTest() : fixture_(text::read_json_fixture("chat.json")) {
    for (const auto& [kind, json] : fixture_.at("tokenizers").items()) {
      const std::string path = folder_.write(kind + "/tokenizer.json", json.dump());
      folder_.write(
          kind + "/tokenizer_config.json",
          R"({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"})");
      tokenizers_[kind] = Tokenizer::load(std::filesystem::path(path).parent_path());
    }
  }

  ChatEncoder encoder(ChatColumns columns, std::string_view name = "chatml",
                      const char* kind = "byte_level") const {
    const Tokenizer& tokenizer = *tokenizers_.at(kind);
    return {tokenizer, columns, [&, name] { return ChatTemplate::named(name, tokenizer); }};
  }

  struct Row {
    std::vector<int32_t> ids;
    std::string mask;
  };
  static Row encode(const ChatEncoder& encoder, std::string_view first,
                    std::optional<std::string_view> second = std::nullopt) {
    Row row;
    std::vector<int32_t> types;
    encoder.new_session()->encode(first, second, 1, row.ids, types);
    for (const int32_t type : types) row.mask += type == 1 ? '1' : '0';
    return row;
  }
  static std::string fault(const ChatEncoder& encoder, std::string_view first,
                           std::optional<std::string_view> second = std::nullopt) {
    try {
      encode(encoder, first, second);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kBadData);
      return error.what();
    }
    return "";
  }
  // Returns the text of the trained tokens.
  std::string trained(const Row& row) const {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < row.ids.size(); ++i) {
      if (row.mask[i] == '1') ids.push_back(row.ids[i]);
    }
    return tokenizers_.at("byte_level")->decode(ids);
  }
  TextSplit split_of(const std::string& lines) const {
    const std::string path = folder_.write("rows.jsonl", lines);
    std::optional<TextSplit> split;
    read_documents(path, {.reads_chats = true}, [&](const TextSplit& part) { split = part; });
    return *split;
  }
  TokenSet tokens_of(const std::string& lines) const {
    const TextSplit split = split_of(lines);
    TokenSet tokens = tokenize_split(split, encoder(split.chat()), {.max_seq_length = 1 << 20});
    tokens.set_type_use(TypeUse::kTrained);
    return tokens;
  }

  Json fixture_;
  test::ScratchFolder folder_;
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers_;
};

TEST_F(ChatRowsTest, IdsAndMasksAsTransformers) {
  size_t num_rows = 0;
  for (const Json& c : fixture_.at("cases")) {
    for (const char* kind : {"byte_level", "pieces"}) {
      if (!c.contains(kind)) continue;
      const Json& conversation = fixture_.at("conversations").at(c.at("conversation").get<size_t>());
      const std::string mask = c.at(kind).at("mask");
      const ChatEncoder chat = encoder(ChatColumns::kMessages, c.at("template").get<std::string>(), kind);
      const std::string label = c.at("template").get<std::string>() + " " + conversation.dump();
      if (mask.find('1') == std::string::npos) {
        EXPECT_NE(fault(chat, conversation.dump()), "") << label;
        continue;
      }
      const Row row = encode(chat, conversation.dump());
      EXPECT_EQ(row.ids, c.at(kind).at("ids").get<std::vector<int32_t>>()) << label;
      EXPECT_EQ(row.mask, mask) << label;
      ++num_rows;
    }
  }
  EXPECT_GT(num_rows, 500u);
}

TEST_F(ChatRowsTest, ReadsMessagesOfShareGpt) {
  const ChatEncoder chat = encoder(ChatColumns::kMessages);
  const Row named = encode(
      chat,
      R"([{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a"}])");
  const Row other = encode(
      chat, R"([{"from":"system","value":"s"},{"from":"human","value":"q"},{"from":"gpt","value":"a"}])");
  EXPECT_EQ(named.ids, other.ids);
  EXPECT_EQ(named.mask, other.mask);
  EXPECT_EQ(trained(named), "a<|im_end|>");
}

TEST_F(ChatRowsTest, TrainsOnCompletions) {
  const ChatEncoder messages = encoder(ChatColumns::kPromptMessages);
  const Row row = encode(
      messages,
      R"([{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"r"}])",
      R"([{"role":"assistant","content":"b c"}])");
  EXPECT_EQ(trained(row), "b c<|im_end|>");
  const ChatEncoder texts = encoder(ChatColumns::kPromptText);
  EXPECT_EQ(trained(encode(texts, "Hello", " there")), " there</s>");
  EXPECT_EQ(trained(encode(texts, "Hello", " there</s>")), " there</s>");
  EXPECT_EQ(trained(encode(texts, "Hello", "")), "</s>");
}

TEST_F(ChatRowsTest, RefusesRowsThatItCannotRender) {
  const ChatEncoder chat = encoder(ChatColumns::kMessages);
  const auto has = [&](const char* json, const char* part) {
    const std::string text = fault(chat, json);
    EXPECT_NE(text.find(part), std::string::npos) << json << ": " << text;
  };
  has("[]", "expected a list of messages, found an empty list");
  has("[1]", "message 1: expected an object with \"role\" and \"content\", found 1");
  has(R"([{"role":"user"}])", "message 1: expected a text as \"content\", found none");
  has(R"([{"content":"x"}])", "message 1: expected a text as \"role\", found none");
  has(R"([{"role":"user","content":5}])", "expected a text as \"content\", found 5");
  has(R"([{"role":"user","content":[{"type":"text","text":"x"}]}])", "lists of parts are not read");
  has(R"([{"role":"assistant","content":"x","tool_calls":[{"name":"f"}]}])", "message 1 has \"tool_calls\"");
  has(R"([{"role":"user","content":"x"}])", "the conversation has no turn of the assistant");
  EXPECT_EQ(fault(chat, R"([{"role":"assistant","content":"x","tool_calls":null}])"), "");
  EXPECT_NE(fault(encoder(ChatColumns::kMessages, "gemma"), R"([{"role":"system","content":"x"}])")
                .find("message 1 has the role 'system', but the chat template 'gemma' needs a conversation "
                      "without a system message"),
            std::string::npos);
}

TEST_F(ChatRowsTest, FindsTheColumnsOfConversations) {
  const std::string list = R"([{"role":"user","content":"q"},{"role":"assistant","content":"a"}])";
  EXPECT_EQ(split_of("{\"id\":1,\"text\":\"t\",\"messages\":" + list + "}\n").chat(), ChatColumns::kMessages);
  EXPECT_EQ(split_of("{\"conversations\":" + list + "}\n").chat(), ChatColumns::kMessages);
  EXPECT_EQ(split_of("{\"prompt\":" + list + ",\"completion\":" + list + "}\n").chat(),
            ChatColumns::kPromptMessages);
  EXPECT_EQ(split_of("{\"prompt\":\"a\",\"completion\":\"b\"}\n").chat(), ChatColumns::kPromptText);
  EXPECT_EQ(split_of("{\"prompt\":\"a\",\"text\":\"b\"}\n").chat(), ChatColumns::kNone);
  EXPECT_EQ(split_of("{\"messages\":\"a\",\"text\":\"b\"}\n").chat(), ChatColumns::kNone);
  const auto fault_of = [&](const std::string& lines) -> std::string {
    try {
      split_of(lines);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(fault_of("{\"messages\":" + list + "}\n{\"messages\":\"x\"}\n")
                .find("rows.jsonl:2: expected a list of messages"),
            std::string::npos);
  EXPECT_NE(fault_of("{\"messages\":" + list + "}\n{\"prompt\":\"x\"}\n").find("rows.jsonl:2: "),
            std::string::npos);
  EXPECT_NE(fault_of("{\"messages\":" + list + ",\"tools\":[{\"name\":\"f\"}]}\n").find("has \"tools\""),
            std::string::npos);
  EXPECT_EQ(fault_of("{\"messages\":" + list + ",\"tools\":[]}\n"), "");
}

std::string row_of(int num_words) {
  std::string answer;
  for (int i = 0; i < num_words; ++i) answer += "Hello ";
  return Json({{"messages",
                {{{"role", "user"}, {"content", "q"}}, {{"role", "assistant"}, {"content", answer}}}}})
             .dump() +
         "\n";
}

TEST_F(ChatRowsTest, RowsAreCutToABlockAndLabelsAreTheTrainedTokens) {
  const std::string unanswered = Json({{"messages",
                                        {{{"role", "user"}, {"content", std::string(200, 'q')}},
                                         {{"role", "assistant"}, {"content", "a"}}}}})
                                     .dump() +
                                 "\n";
  const TokenSet tokens = tokens_of(row_of(3) + row_of(60) + unanswered + row_of(1));
  ASSERT_EQ(tokens.num_rows(), 4);
  for (const BlockRule rule : {BlockRule::kSeparate, BlockRule::kPack}) {
    const Dataset data = make_blocks(tokens, {.block_size = 40, .rule = rule});
    // The third conversation is left out, because its answer begins after the end of the block.
    ASSERT_EQ(data.packed.sequences.size(), 3u);
    int64_t num_labels = 0;
    for (int64_t row = 0; row < data.num_rows(); ++row) {
      EXPECT_LE(data.row_lengths()[static_cast<size_t>(row)], 40);
      const std::vector<int32_t> rows{static_cast<int32_t>(row)};
      num_labels += data.num_labels(rows, 0);
    }
    int64_t expected = 0;
    for (const int64_t document : {0, 1, 3}) {
      std::vector<int32_t> types(static_cast<size_t>(tokens.length(document)));
      tokens.copy_types(document, types.data());
      types.resize(std::min<size_t>(types.size(), 40));
      expected += std::ranges::count(types, 1);
    }
    EXPECT_EQ(num_labels, expected);
    EXPECT_EQ(make_blocks(tokens, {.block_size = 40, .rule = rule, .max_blocks = 1}).num_rows(), 1);
  }
}

TEST_F(ChatRowsTest, TheTokenCacheKeepsWhatIsTrained) {
  const TokenSet tokens = tokens_of(row_of(3) + row_of(60));
  const TokenCacheKey key{.text_hash = 1, .encoder_hash = 2, .max_seq_length = 3};
  const std::string path = folder_.path() + "/" + key.file_name();
  TokenCacheWriter writer(posix_file_system(), path, 1000);
  writer.add(tokens);
  writer.add(tokens);
  writer.finish(key);
  std::string why_not;
  const std::optional<WordTokens> read = read_token_cache(posix_file_system(), path, key, why_not);
  ASSERT_TRUE(read) << why_not;
  TokenJoiner joiner;
  joiner.add(tokens);
  joiner.add(tokens);
  EXPECT_EQ(read->tokens, std::move(joiner).finish());
  EXPECT_EQ(read->tokens.type_use(), TypeUse::kTrained);
  EXPECT_EQ(read->content_hash, content_hash(read->tokens));
}

}  // namespace
}  // namespace plimsoll
