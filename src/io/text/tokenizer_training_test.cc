// Compares trained tokenizers with recorded results of the trainers in Hugging Face's tokenizers, and checks that Plimsoll can
// read the files that it writes.
#include "io/text/tokenizer_training.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "io/text/pattern.h"
#include "io/text/testing/tokenizer_fixtures.h"

namespace plimsoll::text {
namespace {

BpeTraining training_of(const nlohmann::json& options) {
  BpeTraining training;
  training.vocab_size = options.at("vocab_size");
  training.min_frequency = options.value("min_frequency", 0);
  training.special_tokens = options.value("special_tokens", std::vector<std::string>());
  for (const auto& c : options.value("initial_alphabet", nlohmann::json::array()))
    training.initial_alphabet += to_code_points(c.get<std::string>());
  if (options.contains("limit_alphabet"))
    training.limit_alphabet = options.at("limit_alphabet").get<int64_t>();
  training.continuing_prefix = options.value("continuing_subword_prefix", "");
  training.end_suffix = options.value("end_of_word_suffix", "");
  return training;
}

TEST(TrainingTest, VocabularyAndMergesAsHuggingFace) {
  const nlohmann::json fixture = read_json_fixture("training.json");
  WordCounts words;
  for (const auto& [word, count] : fixture.at("words").items()) words[word] = count.get<int64_t>();
  size_t num_merges = 0;
  for (const auto& c : fixture.at("cases")) {
    const TrainedBpe trained = train_bpe(words, training_of(c.at("options")));
    EXPECT_EQ(trained.tokens, c.at("tokens").get<std::vector<std::string>>()) << c.at("options");
    std::vector<std::pair<std::string, std::string>> merges;
    for (const auto& [left, right] : trained.merges) {
      merges.push_back(
          {trained.tokens.at(static_cast<size_t>(left)), trained.tokens.at(static_cast<size_t>(right))});
    }
    EXPECT_EQ(merges, (c.at("merges").get<std::vector<std::pair<std::string, std::string>>>()))
        << c.at("options");
    num_merges += merges.size();
  }
  EXPECT_GT(num_merges, 2000u);
}

// A temporary file that is removed at the end of the test.
class TextFile {
 public:
  explicit TextFile(const std::string& content)
      : path_(testing::TempDir() + "/training_" +
              testing::UnitTest::GetInstance()->current_test_info()->name() + ".txt") {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string some_text() {
  std::string text;
  for (int i = 0; i < 50; ++i)
    text += "The lowest prices are lower than the newest ones, na\xC3\xAFve \xF0\x9F\xA4\x96 readers say.\n";
  return text;
}

TokenizerFiles files_of(const TrainedTokenizer& trained) {
  TokenizerFiles files;
  files.folder = "trained";
  files.tokenizer_json = trained.tokenizer_json;
  files.tokenizer_config = trained.tokenizer_config_json;
  return files;
}

TEST(TrainingTest, ByteLevelTokenizersReadTheirText) {
  const TextFile file(some_text());
  for (const int threads : {1, 3}) {
    const TrainedTokenizer trained = train_tokenizer(
        {file.path()}, {.vocab_size = 300, .special_tokens = {"<pad>"}, .num_threads = threads});
    const Tokenizer tokenizer(parse_tokenizer_files(files_of(trained)));
    EXPECT_EQ(tokenizer.vocab_size(), 300);
    EXPECT_EQ(tokenizer.id("<|endoftext|>"), 0);
    EXPECT_EQ(tokenizer.id("<pad>"), 1);
    EXPECT_EQ(tokenizer.special_ids().eos, 0);
    EXPECT_EQ(trained.num_merges, 300 - 256 - 2);
    const std::string text = "The lowest \xE2\x82\xAC prices\n";
    const Encoding encoding = tokenizer.encode(text);
    EXPECT_LT(encoding.ids.size(), 14u);
    EXPECT_EQ(tokenizer.decode(encoding.ids), text);
  }
}

TEST(TrainingTest, WordPieceTokenizersAreThoseOfBert) {
  const TextFile file(some_text());
  for (const bool lowercase : {true, false}) {
    const TrainedTokenizer trained = train_tokenizer(
        {file.path()}, {.model = TrainedModel::kWordPiece, .vocab_size = 120, .lowercase = lowercase});
    const Tokenizer tokenizer(parse_tokenizer_files(files_of(trained)));
    EXPECT_EQ(tokenizer.lowercase(), lowercase);
    EXPECT_EQ(tokenizer.special_ids().cls, 2);
    EXPECT_EQ(tokenizer.special_ids().mask, 4);
    const Encoding encoding = tokenizer.encode("the lowest");
    EXPECT_EQ(encoding.ids.front(), 2);
    EXPECT_EQ(encoding.ids.back(), 3);
    EXPECT_EQ(tokenizer.decode(encoding.ids, {.skip_special_tokens = true}), "the lowest");
    EXPECT_EQ(tokenizer.encode_pair("the", "the").type_ids.back(), 1);
  }
}

TEST(TrainingTest, SaysWhatIsWrongWithTheText) {
  const auto message = [](const std::string& content, const TrainingOptions& options, ErrorCode code) {
    const TextFile file(content);
    return error_message([&] { train_tokenizer({file.path()}, options); }, code);
  };
  EXPECT_NE(message("ok\n\xFFx\n", {}, ErrorCode::kBadData).find(".txt:2: the line is not valid UTF-8"),
            std::string::npos);
  EXPECT_NE(message("", {}, ErrorCode::kBadData).find("the text has no words"), std::string::npos);
  EXPECT_NE(message(" \n", {.model = TrainedModel::kWordPiece}, ErrorCode::kBadData).find("no words"),
            std::string::npos);
  EXPECT_NE(message("a", {.vocab_size = 100}, ErrorCode::kUsage).find("give --vocab_size of at least 257"),
            std::string::npos);
  EXPECT_NE(error_message([] { train_tokenizer({"no/such.txt"}, {}); }, ErrorCode::kBadData)
                .find("no/such.txt: cannot open"),
            std::string::npos);
}

}  // namespace
}  // namespace plimsoll::text
