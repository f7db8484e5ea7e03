#include "run/data_sets.h"

#include <malloc.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <utility>

#include "base/hash.h"
#include "base/problem_type.h"
#include "base/units.h"
#include "io/data/data_columns.h"
#include "io/data/dataset.h"
#include "io/data/glue.h"
#include "io/data/table_reader.h"
#include "io/data/text_encoder.h"
#include "io/data/text_file.h"
#include "io/data/text_split.h"
#include "io/data/token_cache.h"
#include "io/data/word_labels.h"
#include "models/architecture.h"
#include "run/corpus.h"
#include "run/device_choice.h"
#include "run/label_choice.h"
#include "run/model_source.h"
#include "run/ready_tokens.h"
#include "run/run_request.h"
#include "run/tokenizer_source.h"
#include "tasks/task.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

class DataReading {
 public:
  DataReading(const DataSource& source, FileSystem& files, Diagnostics& diagnostics)
      : source_(source),
        arguments_(source.arguments),
        config_(source.model.config),
        columns_({.text = arguments_.text_column_names,
                  .label = arguments_.label_column_name,
                  .tagging = is_tagging_task(arguments_.task_name) ? arguments_.task_name : ""}),
        files_(files),
        diagnostics_(diagnostics) {}

  DataSets read() && {
    if (is_language_model(config_) && arguments_.dataset_name != "dummy") {
      read_corpus(source_, files_, diagnostics_, reading_, data_);
      return std::move(data_);
    }
    if (source_.parts.data) {
      read_memory(*source_.parts.data);
      return std::move(data_);
    }
    if (arguments_.dataset_name == "dummy") {
      generate();
    } else {
      read_files();
    }
    data_.label_column = columns_.label;
    const bool is_by_name = arguments_.dataset_name.empty() && !columns_.text.empty();
    if (is_training() && is_by_name) {
      const bool is_set = data_.labels.kind == LabelKind::kClasses && !data_.labels.names.empty();
      data_.columns = {columns_.text, columns_.label, is_set ? data_.labels.delimiter : ""};
    }
    return std::move(data_);
  }

 private:
  void warn(std::string text) { diagnostics_.warn(std::move(text)); }

  // Reads a data file. All files must have the columns of the first one that is read. A GLUE task determines the names of its columns
  // itself.
  TextSplit read_file(const std::string& path, LabelUse use, const GlueTask* task) {
    const bool is_limited = arguments_.memory_limit && source_.device == KernelDevice::kCpu;
    if (path == "-") {
      throw_error(ErrorCode::kUsage,
                  "--{} -: only `plimsoll predict` reads standard input, with --test_file -; give a file",
                  use == LabelUse::kOptional ? "test_file" : "train_file or --validation_file");
    }
    return split_of(
        read_table(path, {.quotes = arguments_.quoting == "none" ? QuoteRule::kNone : QuoteRule::kRfc4180,
                          .max_bytes = is_limited ? *arguments_.memory_limit : 0}),
        use, task);
  }

  // Reads the texts that the calling program passes in memory, as if they were rows of a JSONL file.
  TextSplit read_texts() {
    const TestTexts& texts = source_.parts.texts;
    std::string joined;
    for (const std::string& entry : texts.entries) joined += entry + "\n";
    TextFile file = text_file_from_memory(texts.name, std::move(joined));
    if (texts.form != TestTexts::Form::kJson) file = text_file_from_memory(texts.name, json_lines(texts));
    TextSplit split = split_of(read_jsonl(file), LabelUse::kOptional, nullptr);
    take(split);
    return split;
  }

  // Returns true if the model labels words, so that its data consists of lists of words.
  bool reads_words() const {
    return config_.problem_type && task_of(*config_.problem_type).labels == LabelKind::kClassPerToken;
  }

  // Returns the columns that contain the texts: those stored with the model, or those that Hugging Face's script run_glue uses.
  std::vector<std::string> names_of_texts() const {
    if (!arguments_.text_column_names.empty()) return arguments_.text_column_names;
    std::vector<std::string> names = trained_columns(config_.source.json).text;
    if (!names.empty()) return names;
    return reads_words() ? std::vector<std::string>{"tokens"}
                         : std::vector<std::string>{"sentence1", "sentence2"};
  }

  // Refuses a first line that names columns separated by tabs, as that of a TSV file does, because it would be predicted as a text. Warns if
  // a line contains a tab although the model reads one text per line.
  void check_tabs(const TestTexts& texts, const std::vector<std::string>& names, bool is_pair) const {
    const std::string first = "\t" + texts.entries.front() + "\t";
    const bool has_names = std::ranges::all_of(
        names, [&](const std::string& name) { return first.find("\t" + name + "\t") != std::string::npos; });
    if (has_names && texts.entries.front().find('\t') != std::string::npos) {
      throw_at_line(
          texts.name, 1,
          "the line names the columns of a table ('{}'), but {} per line is expected; write the table into "
          "a .tsv file and give it with --test_file",
          excerpt(texts.entries.front()), is_pair ? "a pair of texts" : "one text");
    }
    if (is_pair) return;
    const auto with_tab = std::ranges::find_if(
        texts.entries, [](const std::string& text) { return text.find('\t') != std::string::npos; });
    if (with_tab == texts.entries.end()) return;
    diagnostics_.warn(fmt::format(
        "{}:{}: the line contains a tab, and the model reads one text per line: the whole line '{}' is "
        "the text; if tabs separate columns, write them into a .tsv file with a header",
        texts.name, with_tab - texts.entries.begin() + 1, excerpt(*with_tab)));
  }

  // Returns the texts as JSON objects, one per row.
  std::string json_lines(const TestTexts& texts) const {
    const std::vector<std::string> names = names_of_texts();
    const bool has_words = reads_words();
    const bool knows_names =
        !arguments_.text_column_names.empty() || !trained_columns(config_.source.json).text.empty();
    const auto has_tab = [](const std::string& text) { return text.find('\t') != std::string::npos; };
    const bool has_tabs = std::all_of(texts.entries.begin(), texts.entries.end(), has_tab);
    // If the model does not state how many texts a row has, a line counts as a pair of texts if every line contains a tab.
    const bool is_pair = !has_words && names.size() == 2 && (knows_names || has_tabs);
    if (!has_words && texts.form == TestTexts::Form::kLines) check_tabs(texts, names, is_pair);
    const bool is_by_two =
        is_pair && !has_tabs && texts.form == TestTexts::Form::kWords && texts.entries.size() % 2 == 0;
    std::string lines;
    for (size_t i = 0; i < texts.entries.size(); i += is_by_two ? 2 : 1) {
      const std::string& text = texts.entries[i];
      nlohmann::ordered_json row;
      if (is_by_two) {
        row = {{names[0], text}, {names[1], texts.entries[i + 1]}};
      } else if (is_pair) {
        const size_t tab = text.find('\t');
        if (tab == std::string::npos) {
          throw_at_line(texts.name, static_cast<int64_t>(i) + 1,
                        "the model reads pairs of texts ('{}' and '{}'), and this row has one; put a tab "
                        "between the texts",
                        names[0], names[1]);
        }
        row = {{names[0], text.substr(0, tab)}, {names[1], text.substr(tab + 1)}};
      } else if (has_words) {
        row[names[0]] = words_of(text);
      } else {
        row[names[0]] = text;
      }
      lines += row.dump() + "\n";
    }
    return lines;
  }

  static std::vector<std::string> words_of(const std::string& text) {
    std::vector<std::string> words;
    std::istringstream stream(text);
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
  }

  // Selects the columns of a table that are read as texts and as labels.
  TextSplit split_of(Table table, LabelUse use, const GlueTask* task) {
    for (const std::string& warning : table.warnings()) warn(warning);
    if (task != nullptr && columns_.text.empty()) {
      const ColumnChoice of_task = glue_columns(*task, table);
      columns_.text = {of_task.first};
      if (of_task.second) columns_.text.push_back(*of_task.second);
      if (arguments_.label_column_name == "label") columns_.label = of_task.label;
    }
    if (use == LabelUse::kOptional) check_first_row(table);
    const bool is_first = !std::exchange(has_read_, true);
    const ColumnChoice columns = task == nullptr && is_first && !is_training()
                                     ? columns_of_model(table)
                                     : choose_columns(table, columns_);
    if (columns.has_words || columns.has_ids) columns_.label = columns.label;
    if (use == LabelUse::kRequired) require_label_column(table, columns_.label);
    if (!columns.note.empty()) diagnostics_.note(columns.note);
    columns_.text = {columns.first};
    if (columns.second) columns_.text.push_back(*columns.second);
    return TextSplit(std::move(table), columns);
  }

  // Checks that the first row of a file for prediction is a header. It certainly is one if it contains the name of a column that the model
  // was trained on. Otherwise check_header() decides.
  void check_first_row(const Table& table) {
    const TrainedColumns trained = trained_columns(config_.source.json);
    const auto is_here = [&](const std::string& name) { return table.find_column(name) >= 0; };
    if (is_here(trained.label) || std::ranges::any_of(trained.text, is_here)) return;
    if (std::string note = check_header(table, columns_); !note.empty()) diagnostics_.note(std::move(note));
  }

  bool is_training() const { return plimsoll::is_training(source_.purpose); }

  // Returns the columns on which the model was trained. Evaluation and prediction read the same columns, so that they never read a label
  // column as text. If the file lacks these columns, a message names the columns that are read instead.
  ColumnChoice columns_of_model(const Table& table) {
    const TrainedColumns trained = trained_columns(config_.source.json);
    const bool names_label = arguments_.label_column_name != Arguments{}.label_column_name;
    const bool has_trained = table.find_column(trained.label) >= 0;
    const bool has_default = table.find_column(columns_.label) >= 0;
    if (!names_label && !trained.label.empty() && (has_trained || !has_default)) {
      if (has_default && trained.label != columns_.label) {
        diagnostics_.note(
            fmt::format("{}: the labels are those of the column '{}', as in training, not of '{}'",
                        table.file_name(), trained.label, columns_.label));
      }
      columns_.label = trained.label;
    }
    if (!columns_.text.empty()) return choose_columns(table, columns_);
    const auto is_here = [&](const std::string& name) {
      return table.find_column(name) >= 0 && name != columns_.label;
    };
    if (!trained.text.empty() && std::all_of(trained.text.begin(), trained.text.end(), is_here)) {
      columns_.text = trained.text;
      return choose_columns(table, columns_);
    }
    ColumnOptions options = columns_;
    if (!trained.text.empty()) options.num_texts = trained.text.size();
    ColumnChoice choice = choose_columns(table, options);
    if (trained.text.empty()) return choice;
    warn(
        fmt::format("{}: the model was trained on the text of '{}', and the file has {}: the {} read; choose "
                    "others with --text_column_names",
                    table.file_name(), fmt::join(trained.text, "' and '"), table.column_list(),
                    choice.second ? fmt::format("columns '{}' and '{}' are", choice.first, *choice.second)
                                  : fmt::format("column '{}' is", choice.first)));
    choice.note.clear();
    return choice;
  }

  std::optional<TextSplit> read_split(const std::string& path, GlueSplit split, const GlueTask* task) {
    if (!path.empty()) require_file_fits(source_, path);
    std::optional<TextSplit> read;
    const ColumnOptions named{.text = arguments_.text_column_names, .label = arguments_.label_column_name};
    if (task != nullptr && !path.empty() && is_glue_layout(path)) {
      read = read_glue_file(*task, path, split, named);
    } else if (!path.empty()) {
      read = read_file(path, split == GlueSplit::kTest ? LabelUse::kOptional : LabelUse::kRequired, task);
    } else if (task != nullptr && !arguments_.dataset_name.empty()) {
      read = read_glue(*task, arguments_.dataset_name, split, named);
    }
    if (read) take(*read);
    return read;
  }

  void take(const TextSplit& split) {
    reading_.add_table(split);
    warn_of_odd_rows(split);
  }

  // Tokenizes a text and frees its memory, because only the tokens are needed afterwards.
  Dataset tokenize_and_release(std::optional<TextSplit>& text, std::optional<int64_t> max_rows,
                               LabelUse use) {
    Dataset data = tokenize(*text, max_rows, use);
    const bool shows_texts = !arguments_.scores.empty() || !source_.parts.texts.entries.empty();
    if (use == LabelUse::kOptional && shows_texts && !text->has_ids()) data.texts = texts_of(*text);
    reading_.add_data(data);
    reading_.release(*text);
    text.reset();
    return data;
  }

  // Returns the texts of all rows, which are shown next to their predictions.
  static std::vector<std::vector<std::string>> texts_of(const TextSplit& split) {
    std::vector<std::vector<std::string>> texts;
    texts.reserve(static_cast<size_t>(split.num_rows()));
    for (int64_t row = 0; row < split.num_rows(); ++row) {
      std::vector<std::string>& of_row = texts.emplace_back();
      if (split.has_words()) {
        std::string words;
        for (int64_t i = 0; i < split.num_words(row); ++i)
          words += (i == 0 ? "" : " ") + std::string(split.word(row, i));
        of_row.push_back(std::move(words));
        continue;
      }
      of_row.emplace_back(split.first_text(row));
      if (const auto second = split.second_text(row)) of_row.emplace_back(*second);
    }
    return texts;
  }

  void warn_of_odd_rows(const TextSplit& split) {
    const std::string& file = split.table().file_name();
    if (split.num_skipped_rows() > 0) {
      warn(fmt::format("{}: {} of {} {} a column that the task needs and {} ignored, the first in line {}",
                       file, split.num_skipped_rows(), counted(split.table().num_rows(), "row"),
                       split.num_skipped_rows() == 1 ? "lacks" : "lack",
                       split.num_skipped_rows() == 1 ? "is" : "are", split.first_skipped_line()));
    }
    if (split.num_empty_texts() > 0) {
      warn(fmt::format("{}: {} {} empty, the first in line {}", file,
                       counted(split.num_empty_texts(), "text"), split.num_empty_texts() == 1 ? "is" : "are",
                       split.first_empty_line()));
    }
  }

  // Returns the length to which texts are truncated, and the setting from which it comes.
  std::string describe_length() const {
    const int64_t positions = max_sequence_length(config_);
    if (arguments_.max_seq_length > positions)
      return fmt::format("the model's {}", counted(positions, "position"));
    return fmt::format("--max_seq_length {}{}", arguments_.max_seq_length,
                       arguments_.max_seq_length == Arguments{}.max_seq_length ? ", the default" : "");
  }

  static void keep_first(TextSplit& split, std::optional<int64_t> max_rows) {
    if (max_rows && *max_rows < split.num_rows()) split.keep_first(*max_rows);
  }

  Dataset tokenize(TextSplit& split, std::optional<int64_t> max_rows, LabelUse use) {
    keep_first(split, max_rows);
    if (split.has_ids()) return take_ready_tokens(split, use);
    if (source_.data_use == DataUse::kReadsRows) return count_rows(split, use);
    require_tokenizer();
    const Tokenizer& tokenizer = *source_.tokenizer.tokenizer;
    check_token_types(tokenizer, split.is_pair() ? TextsPerRow::kTwo : TextsPerRow::kOne,
                      split.table().file_name(), config_);
    const TokenizerEncoder encoder(tokenizer);
    const TokenizeOptions options{.max_seq_length = max_seq_length(arguments_, config_),
                                  .num_threads = num_run_threads(arguments_),
                                  .progress = {}};
    Dataset data;
    if (arguments_.cache_dir.empty()) {
      WordTokens rows = tokenize_rows(split, encoder, options);
      data.tokens = std::move(rows.tokens);
      data.word_starts = std::move(rows.word_starts);
      data_.token_cache = "token cache: none, --cache_dir is not given";
    } else {
      CachedTokens cached =
          tokenize_cached(split, encoder, options, arguments_.cache_dir, files_,
                          arguments_.overwrite_cache ? CacheUse::kRewrite : CacheUse::kReadAndWrite);
      data.tokens = std::move(cached.tokens);
      data.word_starts = std::move(cached.word_starts);
      describe_cache(arguments_, split.table().file_name(), cached.outcome, cached.detail, data_.token_cache);
    }
    warn_of_truncation(split, data);
    // The labels in data for prediction are not encoded, because they are not needed and may be of another kind. Hugging Face's script
    // run_glue drops them too.
    if (split.has_label() && use == LabelUse::kRequired) data.labels = encode(split, data);
    return data;
  }

  // For a plan without a tokenizer: returns rows that have the greatest length but no token ids. Labels of words are left out, because each
  // of them would have to belong to a token.
  Dataset count_rows(const TextSplit& split, LabelUse use) const {
    constexpr int64_t kMostNarrowIds = 65536;
    Dataset data;
    data.tokens =
        TokenSet::of_length(split.num_rows(), max_seq_length(arguments_, config_),
                            config_.vocab_size <= kMostNarrowIds ? sizeof(uint16_t) : sizeof(int32_t));
    if (split.has_label() && !split.has_words() && use == LabelUse::kRequired)
      data.labels = encode_labels(split, data_.labels, LabelUse::kRequired);
    return data;
  }

  void warn_of_truncation(const TextSplit& split, const Dataset& data) {
    warn_of_truncation(split.table().file_name(), split.has_ids() ? "row" : "text", data);
  }

  void warn_of_truncation(const std::string& where, const char* unit, const Dataset& data) {
    const TruncationCount& cut = data.tokens.truncation();
    if (cut.rows == 0) return;
    warn(fmt::format("{}: {} of {} {} longer than {}: {} cut off", where, cut.rows,
                     counted(data.num_rows(), unit), cut.rows == 1 ? "was" : "were", describe_length(),
                     counted(cut.tokens, "token")));
  }

  // Reads the data sets that the calling program passes in memory. If it does not pass a set that the run needs, the set stays empty,
  // because the program then passes single batches.
  void read_memory(const MemoryData& memory) {
    require_no_files();
    const bool trains = is_training();
    const bool wants_eval =
        source_.purpose == RunPurpose::kEvaluate || arguments_.do_eval || arguments_.eval_strategy != "no";
    const bool predicts = source_.purpose == RunPurpose::kPredict || arguments_.do_predict;
    const auto rows_of = [&](bool is_wanted, const std::shared_ptr<const DataRows>& set, const char* name,
                             std::optional<int64_t> max_rows) {
      return is_wanted && set ? read_rows(*set, name, max_rows) : std::vector<DataRow>();
    };
    const std::vector<DataRow> train = rows_of(trains, memory.train, "train", arguments_.max_train_samples);
    const std::vector<DataRow> validation =
        rows_of(wants_eval || trains, memory.validation, "validation", arguments_.max_eval_samples);
    const std::vector<DataRow> test =
        rows_of(predicts || trains, memory.test, "test", arguments_.max_predict_samples);
    require_wanted_sets(memory, wants_eval, predicts);
    const std::vector<DataRow>* first = !train.empty() ? &train : !validation.empty() ? &validation : nullptr;
    RowLabels shown{.names = memory.label_names};
    if (first != nullptr) {
      const RowInput input = input_of_rows(*first, first == &train ? "train" : "validation");
      shown.kind = label_kind_of(*first, input, !memory.label_names.empty());
      shown.num_labels = num_labels_of(*first);
    } else if (!test.empty() && input_of_rows(test, "test") == RowInput::kWords) {
      shown.kind = LabelKind::kClassPerToken;
    }
    data_.labels = choose_row_labels(arguments_, source_.model, source_.purpose, shown);
    data_.train = take_rows(train, "train", LabelUse::kRequired);
    data_.evaluate = take_rows(validation, "validation", LabelUse::kRequired);
    data_.predict = take_rows(test, "test", LabelUse::kOptional);
    if (data_.train) data_.train_hash = hash_of(*data_.train);
  }

  std::optional<Dataset> take_rows(const std::vector<DataRow>& rows, const char* name, LabelUse use) {
    if (rows.empty()) return std::nullopt;
    RowRules rules = row_rules(arguments_, config_, source_.tokenizer, data_.labels, name);
    rules.label_use = use;
    Dataset data = make_dataset(rows, rules);
    warn_of_truncation(fmt::format("the {} rows", name), "row", data);
    return data;
  }

  static uint64_t hash_of(const Dataset& data) {
    const auto hash = [](const auto& values) { return hash64(std::as_bytes(std::span(values))); };
    const uint64_t parts[] = {hash(data.tokens.narrow_ids()), hash(data.tokens.wide_ids()),
                              hash(data.tokens.types()), hash(data.tokens.offsets())};
    return hash64(std::as_bytes(std::span(parts)));
  }

  void require_no_files() const {
    const std::pair<const char*, const std::string*> named[] = {
        {"train_file", &arguments_.train_file},
        {"validation_file", &arguments_.validation_file},
        {"test_file", &arguments_.test_file},
        {"dataset_name", &arguments_.dataset_name},
        {"task_name", &arguments_.task_name}};
    for (const auto& [name, value] : named) {
      if (value->empty()) continue;
      throw_error(ErrorCode::kUsage,
                  "--{} {} and rows from memory (TrainerParts::data): give only one of them", name, *value);
    }
  }

  // Checks that the calling program has passed the data sets that the arguments ask to evaluate or predict. Errors: kUsage if it has not.
  void require_wanted_sets(const MemoryData& memory, bool wants_eval, bool predicts) const {
    if (wants_eval && source_.purpose != RunPurpose::kEvaluate && !memory.validation) {
      throw_error(ErrorCode::kUsage, "{} needs validation rows: set MemoryData::validation",
                  arguments_.do_eval ? "--do_eval" : "--eval_strategy " + arguments_.eval_strategy);
    }
    if (predicts && source_.purpose != RunPurpose::kPredict && !memory.test)
      throw_error(ErrorCode::kUsage, "--do_predict needs test rows: set MemoryData::test");
  }

  // Throws the error that occurred when the tokenizer was loaded. It was kept until now, because data that already consists of token ids
  // needs no tokenizer.
  void require_tokenizer() const {
    if (source_.tokenizer.tokenizer == nullptr) throw source_.tokenizer.missing.value();
  }

  // Reads token ids from the file instead of tokenizing texts.
  Dataset take_ready_tokens(const TextSplit& split, LabelUse use) {
    check_ready_columns(split, config_);
    if (std::string text = left_padding_warning(split, config_); !text.empty()) warn(std::move(text));
    Dataset data;
    data.tokens = split.tokens(max_seq_length(arguments_, config_));
    check_ready_ids(split, data.tokens, config_);
    warn_of_truncation(split, data);
    if (split.has_label() && use == LabelUse::kRequired) data.labels = encode(split, data);
    return data;
  }

  // Encodes the labels of a split of the data (training, validation or test) whose tokens have been read already.
  Labels encode(const TextSplit& split, const Dataset& data) const {
    if (!split.has_words()) return encode_labels(split, data_.labels, LabelUse::kRequired);
    return token_labels(encode_word_labels(split, data_.labels), data.tokens, data.word_starts);
  }

  void read_files() {
    const bool is_glue = !arguments_.task_name.empty() && !is_tagging_task(arguments_.task_name);
    const GlueTask* task = is_glue ? &find_glue_task(arguments_.task_name) : nullptr;
    const bool train = is_training();
    std::optional<TextSplit> train_text =
        train ? read_split(arguments_.train_file, GlueSplit::kTrain, task) : std::nullopt;
    const bool predicts = source_.purpose == RunPurpose::kPredict || arguments_.do_predict;
    const bool wants_eval = source_.purpose == RunPurpose::kEvaluate ||
                            (train && (arguments_.do_eval || arguments_.eval_strategy != "no"));
    std::optional<TextSplit> eval_text =
        wants_eval ? read_split(arguments_.validation_file, GlueSplit::kValidation, task) : std::nullopt;
    std::optional<TextSplit> test_text;
    if (predicts) {
      test_text = source_.parts.texts.entries.empty()
                      ? read_split(arguments_.test_file, GlueSplit::kTest, task)
                      : read_texts();
    }
    if (task != nullptr && ((train && !train_text) || (wants_eval && !eval_text))) {
      throw_error(ErrorCode::kUsage,
                  "--task_name {}: no data: give --dataset_name FOLDER, a folder with GLUE's train.tsv, "
                  "dev.tsv and test.tsv, or --train_file and --validation_file",
                  arguments_.task_name);
    }
    if (train && !train_text)
      throw_error(ErrorCode::kUsage,
                  "no training data: give --train_file FILE (.csv, .tsv, .json, .jsonl, .conll)");
    if (wants_eval && !eval_text)
      throw_error(ErrorCode::kUsage, "no validation data: give --validation_file FILE");
    if (predicts && !test_text)
      throw_error(ErrorCode::kUsage,
                  "no data to predict: give --test_file FILE; plimsoll predict also reads --test_file - "
                  "(standard input) and a text");
    data_.labels =
        choose_labels(arguments_, source_.model, train_text ? &*train_text : nullptr, task, diagnostics_);
    for (const std::optional<TextSplit>* text : {&train_text, &eval_text, &test_text}) {
      if (*text) require_matching_rows(**text, data_.labels.kind);
    }
    if (train_text) {
      keep_first(*train_text, arguments_.max_train_samples);
      data_.train_hash = train_text->text_hash();
      data_.train = tokenize_and_release(train_text, arguments_.max_train_samples, LabelUse::kRequired);
    }
    if (eval_text)
      data_.evaluate = tokenize_and_release(eval_text, arguments_.max_eval_samples, LabelUse::kRequired);
    if (test_text)
      data_.predict = tokenize_and_release(test_text, arguments_.max_predict_samples, LabelUse::kOptional);
    if (task != nullptr && task->name == "mnli") read_mismatched(*task, wants_eval);
    if (task != nullptr) {
      for (std::string_view metric : task->metrics) data_.metric_names.emplace_back(metric);
    }
    data_.reading_bytes = reading_.peak_bytes();
    // Returns the memory of freed texts to the system. Otherwise the allocator would keep it, and the process would need it in addition
    // to the arena.
    malloc_trim(0);
  }

  // Reads the second validation and test sets of MNLI (mismatched), whose genres do not occur in the training data.
  void read_mismatched(const GlueTask& task, bool wants_eval) {
    if (wants_eval && arguments_.validation_file.empty()) {
      std::optional<TextSplit> mismatched =
          read_glue(task, arguments_.dataset_name, GlueSplit::kValidationMismatched);
      take(*mismatched);
      data_.evaluate_mismatched =
          tokenize_and_release(mismatched, arguments_.max_eval_samples, LabelUse::kRequired);
    }
    if (data_.predict && arguments_.test_file.empty()) {
      std::optional<TextSplit> mismatched =
          read_glue(task, arguments_.dataset_name, GlueSplit::kTestMismatched);
      take(*mismatched);
      data_.predict_mismatched =
          tokenize_and_release(mismatched, arguments_.max_predict_samples, LabelUse::kOptional);
    }
  }

  void generate() {
    // The limit for the size of random data: the ids of this number of tokens take 4 GiB. A larger number is probably a typing error, and
    // would exhaust the memory of the machine.
    constexpr int64_t kMostTokens = int64_t{1} << 31;
    if (arguments_.dummy_num_samples > kMostTokens / max_seq_length(arguments_, config_)) {
      throw_error(ErrorCode::kUsage,
                  "--dummy_num_samples {} sequences of {} tokens are more than the {} tokens that random "
                  "data may have; "
                  "give fewer",
                  arguments_.dummy_num_samples, max_seq_length(arguments_, config_), kMostTokens);
    }
    const DummyOptions options = dummy_options(arguments_, config_);
    if (is_training()) data_.train = make_dummy_dataset(options);
    if (!is_training() || arguments_.do_eval || arguments_.eval_strategy != "no") {
      data_.evaluate = make_dummy_dataset(options);
    }
    if (source_.purpose == RunPurpose::kPredict || arguments_.do_predict)
      data_.predict = make_dummy_dataset(options);
    data_.labels = given_labels({});
    if (is_language_model(config_)) {
      data_.labels.kind = task_of(*config_.problem_type).labels;
      return;
    }
    data_.labels.num_labels = options.num_labels;
    for (int i = 0; i < options.num_labels; ++i) data_.labels.names.push_back("LABEL_" + std::to_string(i));
  }

  const DataSource& source_;
  const Arguments& arguments_;
  const ModelConfig& config_;
  ColumnOptions columns_;
  bool has_read_ = false;  // true once a file has been read; all other files must have its columns
  FileSystem& files_;
  Diagnostics& diagnostics_;
  ReadingMemory reading_;
  DataSets data_;
};

}  // namespace

RowRules row_rules(const Arguments& arguments, const ModelConfig& config, const TokenizerSource& tokenizer,
                   const LabelScheme& labels, const std::string& name) {
  const auto encoder =
      tokenizer.tokenizer ? std::make_shared<const TokenizerEncoder>(*tokenizer.tokenizer) : nullptr;
  return {.name = name,
          .max_seq_length = max_seq_length(arguments, config),
          .num_threads = num_run_threads(arguments),
          .vocab_size = config.vocab_size,
          .type_vocab_size = num_token_types(config),
          .refuses_types = architecture_of(config.model_type).types_are_words,
          .label_kind = labels.kind,
          .num_labels = labels.num_labels,
          .encoder = [encoder, &config, &tokenizer, name](RowInput input) -> const TextEncoder& {
            if (!encoder) throw tokenizer.missing.value();
            check_token_types(*tokenizer.tokenizer,
                              input == RowInput::kPair ? TextsPerRow::kTwo : TextsPerRow::kOne,
                              fmt::format("the {} rows", name), config);
            return *encoder;
          }};
}

DummyOptions dummy_options(const Arguments& arguments, const ModelConfig& config) {
  // Random token ids need no tokenizer. The smallest one is the id after that of the mask token.
  constexpr int32_t kMaskId = 99;
  std::optional<TokenMasking> masking;
  if (is_masked_language_model(config)) {
    masking = {.probability = arguments.mlm_probability,
               .mask_id = kMaskId,
               .num_ids = static_cast<int32_t>(config.vocab_size),
               .seed = static_cast<uint64_t>(arguments.data_seed.value_or(arguments.seed))};
  }
  return {
      .num_rows = arguments.dummy_num_samples,
      .length = max_seq_length(arguments, config),
      .end_id = static_cast<int32_t>(std::min<int64_t>(30000, config.vocab_size)),
      .num_labels = is_language_model(config) ? 0 : static_cast<int32_t>(arguments.num_labels.value_or(2)),
      .masking = masking,
      .seed = static_cast<uint64_t>(arguments.seed)};
}

void require_file_fits(const DataSource& source, const std::string& path) {
  std::error_code unknown;
  const auto size = fs::file_size(path, unknown);
  const std::optional<int64_t>& limit = source.arguments.memory_limit;
  if (!limit || unknown || static_cast<int64_t>(size) <= *limit) return;
  if (source.device != KernelDevice::kCpu) return;
  throw_error(ErrorCode::kWillNotFit,
              "{}: the file is read into memory and has {} bytes, but --memory_limit is {} bytes; raise "
              "the limit, or split the file",
              path, size, *limit);
}

void require_documents_fit(const DataSource& source, const std::string& path, int64_t held_bytes) {
  const std::optional<int64_t>& limit = source.arguments.memory_limit;
  if (!limit || held_bytes <= *limit || source.device != KernelDevice::kCpu) return;
  throw_error(
      ErrorCode::kWillNotFit,
      "{}: the part of the file that was read takes {} bytes, but --memory_limit is {} bytes; raise the "
      "limit, "
      "split the file{}",
      path, held_bytes, *limit,
      source.arguments.cache_dir.empty() ? ", or keep the tokens in a file with --cache_dir FOLDER" : "");
}

void describe_cache(const Arguments& arguments, const std::string& file, CacheOutcome outcome,
                    const std::string& detail, std::string& line) {
  line += line.empty() ? fmt::format("token cache {}: ", arguments.cache_dir) : "; ";
  line += file;
  switch (outcome) {
    case CacheOutcome::kHit:
      line += " read from it";
      break;
    case CacheOutcome::kBuilt:
      line += arguments.overwrite_cache ? " written anew" : " written";
      break;
    case CacheOutcome::kRebuilt:
      line += fmt::format(" written anew ({})", detail);
      break;
    case CacheOutcome::kNotSaved:
      line += fmt::format(" not kept ({})", detail);
      break;
  }
}

void check_data_against_model(const DataSets& data, const ModelConfig& config) {
  for (const std::optional<Dataset>* set :
       {&data.train, &data.evaluate, &data.evaluate_mismatched, &data.predict, &data.predict_mismatched}) {
    if (!*set) continue;
    if ((*set)->num_rows() == 0)
      throw_error(ErrorCode::kBadData, "a data file has a header but no rows; add rows");
    if ((*set)->tokens.max_id() >= config.vocab_size) {
      throw_error(ErrorCode::kBadData,
                  "the data has the token id {}, but the model's vocab_size is {}; use the tokenizer that "
                  "came with the model",
                  (*set)->tokens.max_id(), config.vocab_size);
    }
  }
}

DataSets read_data(const DataSource& source, FileSystem& files, Diagnostics& diagnostics) {
  return DataReading(source, files, diagnostics).read();
}

}  // namespace plimsoll
