#include "io/text/tokenizer_training.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/disguised_file.h"
#include "base/run_on_threads.h"
#include "io/text/byte_level.h"
#include "io/text/tokenizer_impl.h"
#include "io/text/unicode.h"

namespace plimsoll::text {
namespace {

using OrderedJson = nlohmann::ordered_json;

// Text is read in batches of this number of bytes. All threads split one batch into words before the next one is read.
constexpr size_t kBatchBytes = size_t{32} << 20;
constexpr size_t kLinesAtOnce = 256;
// The number of different characters that BERT's trainer keeps in the vocabulary.
constexpr int64_t kWordPieceAlphabet = 1000;
constexpr const char* kEndOfText = "<|endoftext|>";
const std::vector<std::string> kBertTokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

// Returns the fields of a new tokenizer.json that describe its steps: the normalizer, the pre-tokenizer, the post-processor and the
// decoder.
OrderedJson steps_of(const TrainingOptions& options) {
  if (options.model == TrainedModel::kBpe) {
    const OrderedJson byte_level = {
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", true}};
    return {{"normalizer", nullptr},
            {"pre_tokenizer", byte_level},
            {"post_processor", byte_level},
            {"decoder", byte_level}};
  }
  return {{"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", options.lowercase}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
}

// Counts the words of a text on several threads.
class Counter {
 public:
  Counter(const TrainingOptions& options)
      : num_threads_(static_cast<size_t>(std::max(options.num_threads, 1))),
        splitter_(splitter_spec(options)),
        counts_(num_threads_) {}

  void add(const std::vector<std::string>& lines) {
    std::atomic<size_t> next{0};
    run_on_threads(num_threads_, [&](size_t thread) {
      for (size_t begin; (begin = next.fetch_add(kLinesAtOnce)) < lines.size();) {
        const size_t end = std::min(begin + kLinesAtOnce, lines.size());
        for (size_t i = begin; i < end; ++i) splitter_.count_words(lines[i], &counts_[thread]);
      }
    });
  }

  WordCounts finish() {
    WordCounts all;
    for (const WordCounts& counts : counts_) {
      for (const auto& [word, count] : counts) all[word] += count;
    }
    return all;
  }

 private:
  static TokenizerSpec splitter_spec(const TrainingOptions& options) {
    ModelSpec model{{{"[UNK]", 0}}, WordLevelSpec{"[UNK]"}};
    return parse_tokenizer_document(Json::parse(steps_of(options).dump()),
                                    "the steps of training a tokenizer", std::move(model));
  }

  size_t num_threads_;
  TokenizerImpl splitter_;
  std::vector<WordCounts> counts_;  // word counts per thread
};

// Reads the lines of a file with their line breaks. Returns the number of bytes.
int64_t count_file(const std::string& path, Counter* counter) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw_error(ErrorCode::kUsage, "{}: it is a folder; a tokenizer is trained on text files", path);
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw_error(ErrorCode::kBadData, "{}: cannot open the file: {}; check its name and permissions", path,
                std::strerror(errno));
  }
  std::vector<std::string> lines;
  size_t batch_bytes = 0;
  int64_t num_bytes = 0, number = 0;
  const auto flush = [&] {
    counter->add(lines);
    lines.clear();
    batch_bytes = 0;
  };
  for (std::string line; std::getline(file, line);) {
    if (++number == 1) refuse_disguised_text(std::string_view(line).substr(0, kDisguiseBytes), path);
    if (!file.eof()) line += '\n';
    if (!is_valid_utf8(line)) {
      throw_error(ErrorCode::kBadData,
                  "{}:{}: the line is not valid UTF-8; if the text is Latin-1, convert it with iconv -f "
                  "LATIN1 -t UTF-8",
                  path, number);
    }
    num_bytes += narrow<int64_t>(line.size());
    batch_bytes += line.size();
    lines.push_back(std::move(line));
    if (batch_bytes >= kBatchBytes) flush();
  }
  if (file.bad())
    throw_error(ErrorCode::kDevice,
                "{}: reading failed before the end of the file; check the disk, or copy the file again",
                path);
  flush();
  return num_bytes;
}

// Returns the special tokens in the order of their ids, without duplicates.
std::vector<std::string> special_tokens_of(const TrainingOptions& options) {
  std::vector<std::string> tokens =
      options.model == TrainedModel::kBpe ? std::vector<std::string>{kEndOfText} : kBertTokens;
  for (const std::string& token : options.special_tokens) {
    if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) tokens.push_back(token);
  }
  return tokens;
}

BpeTraining training_of(const TrainingOptions& options) {
  BpeTraining training;
  training.vocab_size = options.vocab_size;
  training.min_frequency = options.min_frequency;
  training.special_tokens = special_tokens_of(options);
  if (options.model == TrainedModel::kBpe) {
    for (int byte = 0; byte < 256; ++byte)
      training.initial_alphabet.push_back(byte_character(static_cast<uint8_t>(byte)));
  } else {
    training.limit_alphabet = kWordPieceAlphabet;
    training.continuing_prefix = "##";
  }
  return training;
}

OrderedJson template_of(const OrderedJson& cls, const OrderedJson& sep) {
  const auto token = [](const char* id, int type) -> OrderedJson {
    return {{"SpecialToken", {{"id", id}, {"type_id", type}}}};
  };
  const auto text = [](const char* id, int type) -> OrderedJson {
    return {{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  const auto special = [](const char* id, const OrderedJson& number) -> OrderedJson {
    return {{"id", id}, {"ids", OrderedJson::array({number})}, {"tokens", OrderedJson::array({id})}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", OrderedJson::array({token("[CLS]", 0), text("A", 0), token("[SEP]", 0)})},
          {"pair", OrderedJson::array({token("[CLS]", 0), text("A", 0), token("[SEP]", 0), text("B", 1),
                                       token("[SEP]", 1)})},
          {"special_tokens", {{"[CLS]", special("[CLS]", cls)}, {"[SEP]", special("[SEP]", sep)}}}};
}

std::string tokenizer_json(const TrainingOptions& options, const TrainedBpe& trained) {
  const bool is_bpe = options.model == TrainedModel::kBpe;
  OrderedJson vocab = OrderedJson::object(), merges = OrderedJson::array(), added = OrderedJson::array();
  // Appends the tokens to the vector in which OrderedJson stores the fields of an object. Adding a field in the usual way would compare its
  // name with all earlier names, which takes quadratic time.
  auto& entries = vocab.get_ref<OrderedJson::object_t&>();
  for (size_t id = 0; id < trained.tokens.size(); ++id) {
    static_cast<std::vector<OrderedJson::object_t::value_type>&>(entries).emplace_back(trained.tokens[id],
                                                                                       id);
  }
  for (const auto& [left, right] : trained.merges) {
    merges.push_back(OrderedJson::array(
        {trained.tokens[static_cast<size_t>(left)], trained.tokens[static_cast<size_t>(right)]}));
  }
  const std::vector<std::string> special = special_tokens_of(options);
  for (size_t id = 0; id < special.size(); ++id) {
    added.push_back({{"id", id},
                     {"content", special[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  OrderedJson document = {
      {"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added}};
  document.update(steps_of(options));
  if (is_bpe) {
    document["model"] = {{"type", "BPE"},
                         {"dropout", nullptr},
                         {"unk_token", nullptr},
                         {"continuing_subword_prefix", nullptr},
                         {"end_of_word_suffix", nullptr},
                         {"fuse_unk", false},
                         {"byte_fallback", false},
                         {"ignore_merges", false}};
  } else {
    document["post_processor"] = template_of(2, 3);
    document["model"] = {{"type", "WordPiece"},
                         {"unk_token", "[UNK]"},
                         {"continuing_subword_prefix", "##"},
                         {"max_input_chars_per_word", 100}};
  }
  document["model"]["vocab"] = std::move(vocab);
  if (is_bpe) document["model"]["merges"] = std::move(merges);
  return document.dump() + "\n";
}

std::string tokenizer_config_json(const TrainingOptions& options) {
  OrderedJson config;
  if (options.model == TrainedModel::kBpe) {
    config = {{"add_prefix_space", false},
              {"bos_token", kEndOfText},
              {"eos_token", kEndOfText},
              {"unk_token", kEndOfText},
              {"tokenizer_class", "GPT2Tokenizer"}};
  } else {
    config = {{"do_lower_case", options.lowercase},
              {"strip_accents", nullptr},
              {"tokenize_chinese_chars", true},
              {"pad_token", "[PAD]"},
              {"unk_token", "[UNK]"},
              {"cls_token", "[CLS]"},
              {"sep_token", "[SEP]"},
              {"mask_token", "[MASK]"},
              {"tokenizer_class", "BertTokenizer"}};
  }
  if (!options.special_tokens.empty()) config["extra_special_tokens"] = options.special_tokens;
  return config.dump(2) + "\n";
}

}  // namespace

TrainedTokenizer train_tokenizer(const std::vector<std::string>& paths, const TrainingOptions& options) {
  TrainedTokenizer result;
  Counter counter(options);
  for (const std::string& path : paths) result.num_bytes += count_file(path, &counter);
  const WordCounts words = counter.finish();
  if (words.empty())
    throw_error(ErrorCode::kBadData, "{}: the text has no words; give files that contain text",
                paths.front());
  const TrainedBpe trained = train_bpe(words, training_of(options));
  result.num_words = narrow<int64_t>(words.size());
  result.num_tokens = narrow<int64_t>(trained.tokens.size());
  result.num_merges = narrow<int64_t>(trained.merges.size());
  if (result.num_tokens > options.vocab_size) {
    throw_error(ErrorCode::kUsage,
                "a vocabulary of {} tokens has no room for the {} special tokens and single characters of "
                "the text; give "
                "--vocab_size of at least {}",
                options.vocab_size, result.num_tokens, result.num_tokens);
  }
  result.tokenizer_json = tokenizer_json(options, trained);
  result.tokenizer_config_json = tokenizer_config_json(options);
  return result;
}

}  // namespace plimsoll::text
