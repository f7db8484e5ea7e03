#include "run/corpus.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/problem_type.h"
#include "base/units.h"
#include "io/data/arrow_reader.h"
#include "io/data/blocks.h"
#include "io/data/chat_rows.h"
#include "io/data/data_columns.h"
#include "io/data/document_reader.h"
#include "io/data/memory_rows.h"
#include "io/data/text_encoder.h"
#include "io/data/token_cache.h"
#include "io/data/tokenize_split.h"
#include "models/architecture.h"
#include "run/device_choice.h"
#include "run/model_source.h"
#include "run/ready_tokens.h"
#include "run/tokenizer_source.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

// The length limit for encoding documents. With this value, no document is truncated; documents are divided into blocks later.
constexpr int64_t kAnyLength = std::numeric_limits<int32_t>::max();

// The default of --validation_split_percentage in Hugging Face's script run_clm.
constexpr int64_t kDefaultPercentage = 5;

bool has_language_head(const ModelConfig& config) {
  const Architecture* architecture = find_architecture(config.model_type);
  if (architecture == nullptr) return false;
  return std::ranges::any_of(architecture->heads, [](const Head& head) {
    return head.kind == record_of(ProblemType::kCausalLm).head;
  });
}

const char* describe_model(const ModelConfig& config) {
  return is_masked_language_model(config) ? "a masked language model" : "a causal language model";
}

// Returns the first lines of a file. Returns none if it is compressed or cannot be read.
std::string first_lines(const std::string& path) {
  constexpr size_t kBytes = size_t{1} << 20;
  if (compression_of(path) != Compression::kNone) return {};
  std::ifstream file(path, std::ios::binary);
  std::string head(kBytes, '\0');
  file.read(head.data(), std::ssize(head));
  head.resize(static_cast<size_t>(file.gcount()));
  const size_t last = head.rfind('\n');
  if (head.size() == kBytes && last != std::string::npos) head.resize(last + 1);
  return head;
}

// Returns the documents with the indices from `begin` to `end` - 1.
TokenSet documents_of(const TokenSet& all, int64_t begin, int64_t end) {
  const auto offsets =
      all.offsets().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin) + 1);
  return all.with_rows({offsets.begin(), offsets.end()});
}

// The tokens of documents, and a hash of them that is the same whether they are in memory or in the token cache.
struct Documents {
  TokenSet tokens;
  uint64_t hash = 0;
};

uint64_t hash_of_all(std::initializer_list<uint64_t> parts) {
  return hash64(std::as_bytes(std::span(parts.begin(), parts.size())));
}

class CorpusReading {
 public:
  CorpusReading(const DataSource& source, FileSystem& files, Diagnostics& diagnostics, ReadingMemory& reading,
                DataSets& data)
      : source_(source),
        arguments_(source.arguments),
        config_(source.model.config),
        files_(files),
        diagnostics_(diagnostics),
        reading_(reading),
        data_(data) {}

  void read() {
    data_.labels = {.kind = task_of(config_.problem_type.value()).labels};
    require_one_length();
    if (source_.purpose == RunPurpose::kPredict || arguments_.do_predict) {
      throw_error(ErrorCode::kUsage,
                  "{}: {} predicts the tokens of a text, not a label per row; evaluate it with "
                  "--validation_file",
                  arguments_.test_file.empty() ? "--do_predict" : "--test_file " + arguments_.test_file,
                  describe_model(config_));
    }
    if (source_.parts.data) {
      read_memory(*source_.parts.data);
    } else {
      read_files();
    }
    // Returns the memory of freed texts to the system. Otherwise the allocator would keep it, and the process would need it in addition
    // to the arena.
    malloc_trim(0);
  }

 private:
  bool trains() const { return is_training(source_.purpose); }
  bool wants_eval() const {
    return source_.purpose == RunPurpose::kEvaluate || arguments_.do_eval || arguments_.eval_strategy != "no";
  }

  void read_files() {
    if (trains() && arguments_.train_file.empty()) {
      throw_error(ErrorCode::kUsage,
                  "no training data: give --train_file FILE (.txt, .jsonl, .json, .csv or .tsv)");
    }
    std::optional<Documents> train;
    if (trains()) train = read_file(arguments_.train_file);
    std::optional<Documents> validation;
    if (wants_eval() && !arguments_.validation_file.empty()) {
      validation = read_file(arguments_.validation_file);
    } else if (wants_eval() && train) {
      validation = take_first(*train);
    } else if (wants_eval()) {
      throw_error(ErrorCode::kUsage, "no validation data: give --validation_file FILE");
    }
    if (train) set_train(*train, arguments_.train_file);
    if (validation) {
      const std::string& file =
          arguments_.validation_file.empty() ? arguments_.train_file : arguments_.validation_file;
      data_.evaluate = evaluation_blocks(validation->tokens, file);
    }
    data_.reading_bytes = reading_.peak_bytes();
  }

  void set_train(const Documents& documents, const std::string& name) {
    data_.train = blocks_of(documents.tokens, MaskSchedule::kEachEpoch, arguments_.max_train_samples, name);
    data_.train_hash = hash_of_all({documents.hash, static_cast<uint64_t>(block_size(arguments_, config_)),
                                    static_cast<uint64_t>(block_rule(documents.tokens)),
                                    static_cast<uint64_t>(arguments_.max_train_samples.value_or(-1))});
  }

  // Refuses --max_seq_length and --block_size if they have different values, because for a masked language model both set the length of a
  // row.
  void require_one_length() const {
    if (!is_masked_language_model(config_) || !arguments_.block_size) return;
    if (arguments_.max_seq_length == Arguments().max_seq_length ||
        arguments_.max_seq_length == *arguments_.block_size)
      return;
    throw_error(ErrorCode::kUsage,
                "--block_size {} and --max_seq_length {} both state the length of the rows of a masked "
                "language model; give one of them",
                *arguments_.block_size, arguments_.max_seq_length);
  }

  BlockRule block_rule(const TokenSet& documents) const {
    if (arguments_.packing) return BlockRule::kPack;
    const bool are_separate = separates_documents(arguments_, config_) || is_chat(documents);
    return are_separate ? BlockRule::kSeparate : BlockRule::kConcatenate;
  }

  // Returns the number of tokens to which a document is truncated when it is tokenized.
  int64_t document_length() const {
    return separates_documents(arguments_, config_) ? block_size(arguments_, config_) : kAnyLength;
  }

  static bool is_chat(const TokenSet& documents) { return documents.type_use() == TypeUse::kTrained; }

  ChatTemplate chat_template() const { return find_chat_template(arguments_, source_.tokenizer); }

  // Returns the hash of the chat template for conversations. Returns 0 if there is no template, which is an error only if the file
  // contains conversations.
  uint64_t template_hash() const {
    if (is_masked_language_model(config_) || source_.tokenizer.tokenizer == nullptr) return 0;
    try {
      return chat_template().content_hash();
    } catch (const Error&) {
      return 0;
    }
  }

  std::optional<TokenMasking> masking(MaskSchedule schedule) const {
    if (!is_masked_language_model(config_)) return std::nullopt;
    return masking_of(arguments_, config_, source_.tokenizer, schedule);
  }

  DocumentOptions document_options() const {
    if (arguments_.text_column_names.size() > 1) {
      throw_error(ErrorCode::kUsage, "--text_column_names names {} columns, but {} reads one; give one",
                  arguments_.text_column_names.size(), describe_model(config_));
    }
    const bool is_limited = arguments_.memory_limit && source_.device == KernelDevice::kCpu;
    // For a masked language model, the lines of a text file are read without their line breaks, as in Hugging Face's script run_mlm.
    const bool keeps_breaks = arguments_.keep_linebreaks && !is_masked_language_model(config_);
    DocumentOptions options{.line_breaks = keeps_breaks ? LineBreaks::kKeep : LineBreaks::kDrop,
                            .quotes = arguments_.quoting == "none" ? QuoteRule::kNone : QuoteRule::kRfc4180,
                            .reads_chats = !is_masked_language_model(config_),
                            .max_bytes = is_limited ? *arguments_.memory_limit : 0};
    if (!arguments_.text_column_names.empty()) options.column = arguments_.text_column_names[0];
    return options;
  }

  // Returns the token that is appended to each document, if there is one.
  std::optional<int32_t> end_token() const {
    if (!arguments_.append_eos_token) return std::nullopt;
    const std::optional<int32_t> token = source_.tokenizer.tokenizer->special_ids().eos;
    if (!token) {
      throw_error(ErrorCode::kUsage,
                  "--append_eos_token: {} names no end-of-text token; add \"eos_token\" to its "
                  "tokenizer_config.json, or leave the argument out",
                  source_.tokenizer.folder);
    }
    return token;
  }

  TokenizeOptions tokenize_options() const {
    return {.max_seq_length = document_length(),
            .num_threads = num_run_threads(arguments_),
            .empty_rows = EmptyRows::kKeep,
            .end_token = end_token()};
  }

  // Throws the error that occurred when the tokenizer was loaded. It was kept until now, because data that already consists of token ids
  // needs no tokenizer.
  const Tokenizer& require_tokenizer() const {
    if (source_.tokenizer.tokenizer == nullptr) throw source_.tokenizer.missing.value();
    return *source_.tokenizer.tokenizer;
  }

  TokenSet tokens_of(const TextSplit& part) {
    if (part.has_ids()) {
      check_ready_columns(part, config_);
      TokenSet tokens = part.tokens(document_length());
      has_ready_labels_ = has_ready_labels_ || is_chat(tokens);
      // Rows without labels are joined to blocks, in which their padding would have no meaning.
      if (std::string text = left_padding_warning(part, config_); is_chat(tokens) && !text.empty())
        diagnostics_.warn(std::move(text));
      if (is_chat(tokens) && is_masked_language_model(config_)) {
        throw_error(
            ErrorCode::kBadData,
            "{}: the rows have labels, but a masked language model is trained on the tokens that Plimsoll "
            "hides; remove the column 'labels'",
            part.table().file_name());
      }
      if (!is_chat(tokens) && part.first_position() && !arguments_.line_by_line) {
        throw_error(
            ErrorCode::kBadData,
            "{}: the rows have position_ids, but Plimsoll joins rows without labels to blocks and counts "
            "the positions of each block; remove the column 'position_ids'",
            part.table().file_name());
      }
      return tokens;
    }
    const Tokenizer& tokenizer = require_tokenizer();
    if (part.chat() != ChatColumns::kNone) return chat_tokens_of(part, tokenizer);
    check_token_types(tokenizer, TextsPerRow::kOne, part.table().file_name(), config_);
    return tokenize_split(part, TokenizerEncoder(tokenizer), tokenize_options());
  }

  TokenSet chat_tokens_of(const TextSplit& part, const Tokenizer& tokenizer) {
    const ChatEncoder encoder(tokenizer, part.chat(), [&] { return chat_template(); });
    TokenizeOptions options = tokenize_options();
    options.end_token.reset();  // In conversations, the chat template itself adds the end tokens.
    TokenSet tokens = tokenize_split(part, encoder, options);
    tokens.set_type_use(TypeUse::kTrained);
    chat_template_ = encoder.template_name();
    num_left_out_ += encoder.num_left_out();
    return tokens;
  }

  // Warns if the chat template leaves out messages.
  void warn_of_left_out(const std::string& path) {
    if (const int64_t count = std::exchange(num_left_out_, 0); count > 0) {
      diagnostics_.warn(fmt::format("{}: the chat template '{}' leaves out {} whose role it does not render",
                                    path, chat_template_, counted(count, "message")));
    }
  }

  // Returns the documents of a file, from the token cache if there is one.
  Documents read_file(const std::string& path) {
    if (path == "-") {
      throw_error(ErrorCode::kUsage,
                  "--train_file or --validation_file -: only `plimsoll predict` reads standard input; give a "
                  "file");
    }
    std::optional<Documents> documents;
    // The cache is used for regular files only. A pipe can be read only once, so its hash cannot be computed first; a folder is refused
    // when it is read.
    std::error_code ignored;
    if (!arguments_.cache_dir.empty() && std::filesystem::is_regular_file(path, ignored))
      documents = read_cached(path);
    if (!documents) documents = read_into_memory(path);
    require_tokens(documents->tokens, path);
    return std::move(*documents);
  }

  // Reads a file in parts and calls `add` with the tokens of each part.
  template <typename Add>
  void tokenize_file(const std::string& path, const Add& add) {
    if (!is_read_in_parts(path)) require_file_fits(source_, path);
    const ColumnChoice columns = read_documents(path, document_options(), [&](const TextSplit& part) {
      reading_.add_part(part);
      const TokenSet tokens = tokens_of(part);
      // The tokens of this part are counted twice in the estimate of memory: each thread that tokenizes keeps its tokens until those of all
      // threads are joined.
      const int64_t held_bytes = add(tokens);
      reading_.add_tokens(2 * tokens.held_bytes() + held_bytes);
      require_documents_fit(source_, path, part.held_bytes() + held_bytes);
      reading_.release(part);
    });
    if (!columns.note.empty()) diagnostics_.note(columns.note);
    warn_of_left_out(path);
  }

  int64_t max_id() const {
    return source_.tokenizer.tokenizer ? source_.tokenizer.tokenizer->max_id() : config_.vocab_size - 1;
  }

  Documents read_into_memory(const std::string& path) {
    TokenJoiner joiner(max_id());
    tokenize_file(path, [&](const TokenSet& tokens) {
      joiner.add(tokens);
      return joiner.held_bytes();
    });
    if (data_.token_cache.empty()) data_.token_cache = "token cache: none, --cache_dir is not given";
    Documents documents{.tokens = std::move(joiner).finish()};
    documents.hash = content_hash(documents.tokens);
    reading_.hold(documents.tokens.held_bytes());
    return documents;
  }

  TokenCacheKey cache_key(const std::string& path) const {
    // This number makes the keys of token caches different from those of earlier versions, so that their caches are not read: they lack the
    // labels of rows that consist of token ids.
    constexpr uint64_t kLabelsAreRead = 1;
    const DocumentOptions options = document_options();
    const Tokenizer* tokenizer = source_.tokenizer.tokenizer.get();
    return {
        .text_hash =
            hash_of_all({hash_file(files_, path).hash.low, options.line_breaks == LineBreaks::kKeep ? 1u : 0u,
                         options.quotes == QuoteRule::kNone ? 1u : 0u, hash64(options.column.value_or("")),
                         hash64(data_extension(path)), kLabelsAreRead}),
        .encoder_hash = hash_of_all(
            {tokenizer != nullptr ? TokenizerEncoder(*tokenizer).content_hash() : 0,
             static_cast<uint64_t>(tokenizer != nullptr ? end_token().value_or(-1) : -1), template_hash()}),
        .max_seq_length = document_length()};
  }

  // Returns the documents of a file in the token cache, which is written first if it does not contain them. Returns nothing if the cache
  // cannot be written, or if the tokens have token types.
  std::optional<Documents> read_cached(const std::string& path) {
    const TokenCacheKey key = cache_key(path);
    const std::string cached = join_path(arguments_.cache_dir, key.file_name());
    std::string why_not;
    const auto describe = [&](CacheOutcome outcome, const std::string& detail) {
      describe_cache(arguments_, path, outcome, detail, data_.token_cache);
    };
    const auto read = [&]() -> std::optional<Documents> {
      std::optional<WordTokens> rows = read_token_cache(files_, cached, key, why_not);
      if (!rows) return std::nullopt;
      reading_.hold(rows->tokens.held_bytes());
      return Documents{.tokens = std::move(rows->tokens), .hash = rows->content_hash};
    };
    if (!arguments_.overwrite_cache) {
      if (std::optional<Documents> documents = read()) {
        describe(CacheOutcome::kHit, "");
        return documents;
      }
    }
    const std::string fault = why_not.empty() ? "" : fmt::format("{}: {}", cached, why_not);
    if (source_.tokenizer.tokenizer && source_.tokenizer.tokenizer->max_type_id(false) > 0) {
      describe(CacheOutcome::kNotSaved, "its tokens have types");
      return std::nullopt;
    }
    try {
      TokenCacheWriter writer(files_, cached, max_id());
      tokenize_file(path, [&](const TokenSet& tokens) {
        require_known_ids(tokens, path);
        writer.add(tokens);
        return writer.held_bytes();
      });
      writer.finish(key);
    } catch (const FileError& error) {
      describe(CacheOutcome::kNotSaved, error.what());
      return std::nullopt;
    }
    std::optional<Documents> documents = read();
    if (!documents) {
      describe(CacheOutcome::kNotSaved, why_not);
      return std::nullopt;
    }
    describe(fault.empty() ? CacheOutcome::kBuilt : CacheOutcome::kRebuilt, fault);
    return documents;
  }

  void require_known_ids(const TokenSet& tokens, const std::string& name) const {
    if (tokens.max_id() < config_.vocab_size) return;
    throw_error(ErrorCode::kBadData,
                "{}: the data has the token id {}, but the model's vocab_size is {}; use the model whose "
                "tokenizer made these ids",
                name, tokens.max_id(), config_.vocab_size);
  }

  void require_tokens(const TokenSet& tokens, const std::string& name) const {
    if (const std::optional<TokenMasking> rule = masking(MaskSchedule::kNever)) {
      require_hideable_token(tokens, *rule, name);
      return;
    }
    if (is_chat(tokens) || tokens.num_tokens() >= 2) return;
    throw_error(
        ErrorCode::kBadData,
        "{}: the data consists of {} with {} in total, but a causal language model needs at least 2 tokens, "
        "because it predicts each token from those before it; add text",
        name, counted(tokens.num_rows(), "document"), tokens.num_tokens() == 0 ? "no token" : "one token");
  }

  static void require_hideable_token(const TokenSet& tokens, const TokenMasking& rule,
                                     const std::string& name) {
    for (int64_t row = 0; row < tokens.num_rows(); ++row) {
      for (int64_t i = 0; i < tokens.length(row); ++i) {
        if (!rule.is_special(tokens.id(row, i))) return;
      }
    }
    throw_error(ErrorCode::kBadData,
                "{}: masked language modelling needs at least one token that is not special, but the data "
                "({}) has none; add text",
                name, counted(tokens.num_rows(), "document"));
  }

  // Moves the first documents of the training data to the validation data, as Hugging Face's script run_clm does.
  Documents take_first(Documents& train) const {
    const int64_t percentage = arguments_.validation_split_percentage.value_or(kDefaultPercentage);
    const int64_t all = train.tokens.num_rows();
    const std::string name = fmt::format("--validation_split_percentage {}{}", percentage,
                                         arguments_.validation_split_percentage ? "" : ", the default");
    if (all < 2) {
      throw_error(ErrorCode::kBadData,
                  "{}: the file is one document, which cannot be split ({}); give --validation_file FILE",
                  arguments_.train_file, name);
    }
    // Rounds to the nearest number of documents, as train[:5%] does in Hugging Face's datasets, but takes at least one document and
    // leaves at least one.
    const int64_t nearest = std::llrint(static_cast<double>(percentage * all) / 100.0);
    const int64_t first = std::clamp<int64_t>(nearest, 1, all - 1);
    Documents validation{.tokens = documents_of(train.tokens, 0, first)};
    // The tokens are copied. If both sets shared tokens in memory, the estimate of memory would count them twice.
    if (train.tokens.mapped_bytes() == 0) validation.tokens = validation.tokens.copied();
    train.tokens = documents_of(train.tokens, first, all);
    train.hash = hash_of_all({train.hash, static_cast<uint64_t>(first)});
    const std::string part =
        fmt::format("{} ({} documents, divided by {})", arguments_.train_file, all, name);
    require_tokens(validation.tokens, part + ", the validation data");
    require_tokens(train.tokens, part + ", the training data");
    return validation;
  }

  Dataset evaluation_blocks(const TokenSet& documents, const std::string& name) {
    if (!arguments_.stride)
      return blocks_of(documents, MaskSchedule::kNever, arguments_.max_eval_samples, name);
    if (data_.labels.kind != LabelKind::kNextToken) {
      throw_error(ErrorCode::kUsage,
                  "--stride {}: only causal language models are evaluated in overlapping blocks; omit it",
                  *arguments_.stride);
    }
    if (is_chat(documents)) {
      throw_error(ErrorCode::kUsage,
                  "--stride {}: {} has {}, and each is evaluated alone, not in overlapping blocks; omit it",
                  *arguments_.stride, name, has_ready_labels_ ? "rows with labels" : "conversations");
    }
    const int64_t size = block_size(arguments_, config_);
    if (*arguments_.stride > size) {
      throw_error(ErrorCode::kUsage,
                  "--stride {} is more than a block, which has {} tokens, so that tokens between two blocks "
                  "would not count; give "
                  "at most {}",
                  *arguments_.stride, size, size);
    }
    require_known_ids(documents, name);
    Dataset data = make_overlapping_blocks(
        documents, {.block_size = size, .max_blocks = arguments_.max_eval_samples}, *arguments_.stride);
    documents.release_pages();
    reading_.hold(data.held_bytes());
    return data;
  }

  Dataset blocks_of(const TokenSet& documents, MaskSchedule schedule, std::optional<int64_t> max_blocks,
                    const std::string& name) {
    const BlockOptions options{.block_size = block_size(arguments_, config_),
                               .rule = block_rule(documents),
                               .max_blocks = max_blocks,
                               .masking = masking(schedule)};
    require_known_ids(documents, name);
    Dataset data = make_blocks(documents, options);
    if (const TruncationCount& cut = documents.truncation(); cut.rows > 0) {
      diagnostics_.warn(fmt::format("{}: {} of {} were cut to {}, which leaves out {}", name, cut.rows,
                                    counted(documents.num_rows(), "row"),
                                    counted(options.block_size, "token"), counted(cut.tokens, "token")));
    }
    if (is_chat(documents)) check_conversations(documents, data, options, name);
    documents.release_pages();
    reading_.hold(data.held_bytes());
    return data;
  }

  // Warns if conversations were truncated. Refuses a data set in which no token to be trained is left.
  void check_conversations(const TokenSet& documents, const Dataset& data, const BlockOptions& options,
                           const std::string& name) {
    TruncationCount cut;
    for (int64_t row = 0; row < documents.num_rows(); ++row) {
      const int64_t excess = documents.length(row) - options.block_size;
      cut.rows += excess > 0 ? 1 : 0;
      cut.tokens += std::max<int64_t>(0, excess);
    }
    const std::string size = counted(options.block_size, "token");
    const char* what = has_ready_labels_ ? "row" : "conversation";
    if (data.num_rows() == 0) {
      throw_error(ErrorCode::kBadData, "{}: no {} within the first {} of its {}; use a larger --block_size{}",
                  name, has_ready_labels_ ? "token has a label" : "answer of the assistant begins", size,
                  what, has_ready_labels_ ? ", or give labels other than -100" : "");
    }
    if (cut.rows == 0) return;
    const int64_t num_left_out =
        options.max_blocks ? 0 : documents.num_rows() - std::ssize(data.packed.sequences);
    diagnostics_.warn(fmt::format("{}: {} of {} {} cut to {} (--block_size), which leaves out {}{}", name,
                                  cut.rows, counted(documents.num_rows(), what),
                                  cut.rows == 1 ? "was" : "were", size, counted(cut.tokens, "token"),
                                  num_left_out == 0 ? ""
                                                    : fmt::format("; {} in which no {} is left are not used",
                                                                  counted(num_left_out, what),
                                                                  has_ready_labels_ ? "label" : "answer")));
  }

  // Reads the documents that the calling program passes in memory.
  void read_memory(const MemoryData& memory) {
    const auto documents = [&](const std::shared_ptr<const DataRows>& set,
                               const char* name) -> std::optional<Documents> {
      if (!set) return std::nullopt;
      RowRules rules = row_rules(arguments_, config_, source_.tokenizer, data_.labels, name);
      rules.max_seq_length = document_length();
      rules.end_token = source_.tokenizer.tokenizer ? end_token() : std::nullopt;
      Documents read{.tokens = make_dataset(read_rows(*set, name, std::nullopt), rules).tokens};
      read.hash = content_hash(read.tokens);
      require_tokens(read.tokens, fmt::format("the {} rows", name));
      return read;
    };
    if (const auto train = trains() ? documents(memory.train, "train") : std::nullopt)
      set_train(*train, "the train rows");
    if (const auto rows =
            wants_eval() || trains() ? documents(memory.validation, "validation") : std::nullopt)
      data_.evaluate = evaluation_blocks(rows->tokens, "the validation rows");
  }

  const DataSource& source_;
  const Arguments& arguments_;
  const ModelConfig& config_;
  FileSystem& files_;
  Diagnostics& diagnostics_;
  ReadingMemory& reading_;
  DataSets& data_;
  std::string chat_template_;  // name of the chat template that was used
  // True if a file has rows of token ids with labels, which are treated like conversations.
  bool has_ready_labels_ = false;
  int64_t num_left_out_ = 0;  // number of messages of the current file that the chat template left out
};

}  // namespace

bool separates_documents(const Arguments& arguments, const ModelConfig& config) {
  return arguments.line_by_line && is_masked_language_model(config);
}

TokenMasking masking_of(const Arguments& arguments, const ModelConfig& config,
                        const TokenizerSource& tokenizer, MaskSchedule schedule) {
  if (tokenizer.tokenizer == nullptr) throw tokenizer.missing.value();
  const SpecialTokenIds& ids = tokenizer.tokenizer->special_ids();
  if (!ids.mask) {
    throw_error(ErrorCode::kUsage,
                "--problem_type masked_lm: the tokenizer in {} has no mask token; add \"mask_token\" to its "
                "tokenizer_config.json, or give --tokenizer_name of a masked language model",
                tokenizer.folder);
  }
  const auto id = [](const std::optional<int32_t>& token) { return token.value_or(-1); };
  return {.probability = arguments.mlm_probability,
          .mask_id = *ids.mask,
          .num_ids = static_cast<int32_t>(
              std::min<int64_t>(int64_t{tokenizer.tokenizer->max_id()} + 1, config.vocab_size)),
          .seed = static_cast<uint64_t>(arguments.data_seed.value_or(arguments.seed)),
          .schedule = schedule,
          .special_ids = {id(ids.cls), id(ids.sep), id(ids.bos), id(ids.eos), id(ids.pad), *ids.mask}};
}

namespace {

// Returns the first rows of a CSV, TSV, JSONL or Arrow file. Errors: those of the readers of these files.
Table first_rows(const std::string& path) {
  const std::string extension = data_extension(path);
  if (is_arrow_data(path)) return read_arrow_table(path, {.max_rows = 1});
  TextFile head = text_file_from_memory(path, first_lines(path));
  if (extension == ".jsonl" || extension == ".ndjson") return read_jsonl(head);
  return read_csv(std::move(head), {.delimiter = extension == ".csv" ? ',' : '\t'});
}

}  // namespace

bool has_labelled_rows(const Arguments& arguments) {
  const std::string& path = arguments.train_file;
  const std::string extension = data_extension(path);
  if (extension == ".conll" || extension == ".conllu") return true;
  if (path.empty() || !is_data_file(path) || is_plain_text(path) || extension == ".json") return false;
  try {
    const Table table = first_rows(path);
    return table.find_column(arguments.label_column_name) >= 0 ||
           choose_word_columns(table, {.text = arguments.text_column_names}).has_value();
  } catch (const Error&) {
    return false;
  }
}

namespace {

// Returns true if a file is plain text, and false if it has one word with its tags per line.
bool is_running_text(const std::string& path) {
  if (!is_plain_text(path)) return false;
  try {
    const std::string head = first_lines(path);
    return head.empty() || read_conll(text_file_from_memory(path, head)).num_columns() < 2;
  } catch (const Error&) {
    return true;
  }
}

// Returns true if the rows of a JSONL or Arrow file are conversations of messages.
bool has_conversations(const std::string& path) {
  const std::string extension = data_extension(path);
  if (extension != ".jsonl" && extension != ".ndjson" && !is_arrow_data(path)) return false;
  try {
    const std::optional<ColumnChoice> columns = choose_chat_columns(first_rows(path), std::nullopt);
    return columns && columns->chat != ChatColumns::kPromptText;
  } catch (const Error&) {
    return false;
  }
}

// Returns true if the rows of a JSONL or Arrow file contain token ids and a label for each id.
bool has_labelled_ids(const std::string& path) {
  const std::string extension = data_extension(path);
  if (extension != ".jsonl" && extension != ".ndjson" && !is_arrow_data(path)) return false;
  try {
    return choose_document_column(first_rows(path), std::nullopt).has_token_labels;
  } catch (const Error&) {
    return false;
  }
}

// Decides whether a checkpoint of a masked language model is used as one, or (the usual case) becomes the base of a classifier. It remains
// a masked language model in two cases: if the run evaluates or predicts, or if no --task_name is given and the data is running text.
// An existing adapter of a classifier has already changed the problem type of the configuration.
TaskChoice choose_for_masked_model(const Arguments& arguments, RunPurpose purpose) {
  const std::string& file = is_training(purpose) ? arguments.train_file : arguments.validation_file;
  const bool is_evaluated = purpose == RunPurpose::kEvaluate || purpose == RunPurpose::kPredict;
  if (is_evaluated) return {.problem_type = ProblemType::kMaskedLm};
  if (!arguments.task_name.empty() || !is_running_text(file)) return {};
  return {.problem_type = ProblemType::kMaskedLm,
          .note = fmt::format("{} is plain text and the checkpoint is a masked language model, so the run "
                              "masks tokens; --problem_type token_classification reads one word with its tag "
                              "per line",
                              file)};
}

}  // namespace

TaskChoice choose_problem_type(const Arguments& arguments, RunPurpose purpose, const ModelConfig& config,
                               const AdapterSource& adapter) {
  const bool is_lm = config.predicts_tokens();
  if (!arguments.problem_type.empty()) {
    const std::optional<ProblemType> asked = find_problem_type(arguments.problem_type);
    if (asked && adapter.folder) check_adapter_head(adapter.head, adapter.folder->path(), *asked);
    const bool asks_for_lm = asked && record_of(*asked).head->predicts_tokens;
    const bool is_open = adapter.folder && !config.problem_type;
    return {.problem_type = is_lm || asks_for_lm || is_open ? asked : config.problem_type};
  }
  if (!arguments.task_name.empty() && adapter.folder) {
    const bool has_tags = is_tagging_task(arguments.task_name);
    check_adapter_head(adapter.head, adapter.folder->path(),
                       has_tags ? ProblemType::kTokenClassification : ProblemType::kSingleLabel);
  }
  if (adapter.head.kind != nullptr) {
    TaskChoice choice{.problem_type = config.problem_type};
    if (is_lm && is_training(purpose) && has_labelled_rows(arguments)) {
      choice.note =
          fmt::format("{} has labels, which the run does not read, because the adapter was trained for {}",
                      arguments.train_file, adapter.head.kind->description);
    }
    return choice;
  }
  if (is_masked_language_model(config)) return choose_for_masked_model(arguments, purpose);
  if (is_lm && !arguments.task_name.empty()) return {};
  if (is_lm && is_training(purpose) && has_labelled_rows(arguments)) {
    return {.problem_type = {},
            .note = fmt::format("{} has labels, so the run trains a classifier; --problem_type causal_lm "
                                "trains a language model",
                                arguments.train_file)};
  }
  if (is_lm || config.problem_type || !arguments.task_name.empty() || !is_training(purpose))
    return {.problem_type = config.problem_type};
  if (is_plain_text(arguments.train_file) && has_language_head(config)) {
    return {.problem_type = ProblemType::kCausalLm,
            .note = fmt::format("{} is plain text, so the run trains a causal language model; --problem_type "
                                "token_classification reads one word with its tag per line",
                                arguments.train_file)};
  }
  if (has_language_head(config) && has_conversations(arguments.train_file)) {
    return {.problem_type = ProblemType::kCausalLm,
            .note = fmt::format("{} has conversations, so the run trains a causal language model",
                                arguments.train_file)};
  }
  if (has_language_head(config) && has_labelled_ids(arguments.train_file)) {
    return {.problem_type = ProblemType::kCausalLm,
            .note = fmt::format("{} has a label for each token, so the run trains a causal language model",
                                arguments.train_file)};
  }
  return {};
}

void read_corpus(const DataSource& source, FileSystem& files, Diagnostics& diagnostics,
                 ReadingMemory& reading, DataSets& data) {
  CorpusReading(source, files, diagnostics, reading, data).read();
}

void note_arguments_of_other_tasks(const Arguments& arguments, const ModelConfig& config,
                                   Diagnostics& diagnostics) {
  const Arguments defaults;
  const auto note = [&](bool is_set, const char* name, const char* why) {
    if (is_set) diagnostics.note(fmt::format("--{} has no effect {}", name, why));
  };
  const bool is_masked = is_masked_language_model(config);
  if (!is_masked) {
    const char* const why = "without --problem_type masked_lm";
    note(arguments.mlm_probability != defaults.mlm_probability, "mlm_probability", why);
    note(arguments.line_by_line, "line_by_line", why);
  }
  if (is_language_model(config)) {
    const char* const why = is_masked ? "on a masked language model" : "on a causal language model";
    note(!is_masked && arguments.max_seq_length != defaults.max_seq_length, "max_seq_length",
         "on a causal language model; use --block_size");
    note(is_masked && !arguments.chat_template.empty(), "chat_template", why);
    note(arguments.label_column_name != defaults.label_column_name, "label_column_name", why);
    note(!arguments.label_delimiter.empty(), "label_delimiter", why);
    return;
  }
  const char* const why = "without --problem_type causal_lm or masked_lm";
  note(arguments.block_size.has_value(), "block_size",
       "without --problem_type causal_lm or masked_lm; use --max_seq_length");
  note(arguments.packing, "packing", why);
  note(arguments.stride.has_value(), "stride", why);
  note(arguments.append_eos_token, "append_eos_token", why);
  note(!arguments.chat_template.empty(), "chat_template", why);
  note(arguments.validation_split_percentage.has_value(), "validation_split_percentage", why);
  note(!arguments.keep_linebreaks, "keep_linebreaks", why);
}

}  // namespace plimsoll
