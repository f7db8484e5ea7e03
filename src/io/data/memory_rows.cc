#include "io/data/memory_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/units.h"
#include "base/utf8.h"
#include "io/data/dataset.h"
#include "io/data/tokenize_split.h"
#include "io/data/word_labels.h"

namespace plimsoll {
namespace {

class RowsInVector final : public DataRows {
 public:
  explicit RowsInVector(std::vector<DataRow> rows) : rows_(std::move(rows)) {}
  int64_t num_rows() const override { return std::ssize(rows_); }
  DataRow row(int64_t index) const override { return rows_.at(static_cast<size_t>(index)); }

 private:
  std::vector<DataRow> rows_;
};

std::string name_of_row(const std::string& rows, int64_t index) {
  return fmt::format("row {} (from 0) of the {} rows", index, rows);
}

template <typename... Args>
[[noreturn]] void fail(const std::string& rows, int64_t index, fmt::format_string<Args...> format,
                       Args&&... args) {
  throw_error(ErrorCode::kBadData, "{}: {}", name_of_row(rows, index),
              fmt::format(format, std::forward<Args>(args)...));
}

const char* describe(RowInput input) {
  switch (input) {
    case RowInput::kText:
      return "a text";
    case RowInput::kPair:
      return "a pair of texts";
    case RowInput::kWords:
      return "a list of words";
    case RowInput::kIds:
      return "token ids";
  }
  return "?";
}

RowInput input_of_row(const DataRow& row, const std::string& name, int64_t index) {
  const int inputs = (row.text ? 1 : 0) + (row.words.empty() ? 0 : 1) + (row.ids.empty() ? 0 : 1);
  if (inputs == 0) fail(name, index, "it has no input: fill text, words or ids");
  if (inputs > 1) fail(name, index, "it has several inputs: fill only one of text, words and ids");
  if (row.text_pair && !row.text) fail(name, index, "text_pair needs text");
  if (!row.token_types.empty() && row.ids.empty())
    fail(name, index, "token_types needs ids: a tokenizer gives texts and words their types");
  if (row.text) return row.text_pair ? RowInput::kPair : RowInput::kText;
  return row.words.empty() ? RowInput::kIds : RowInput::kWords;
}

// Builds a data set from rows that all have the same kind of input.
class Building {
 public:
  Building(const std::vector<DataRow>& rows, const RowRules& rules)
      : rows_(rows), rules_(rules), input_(input_of_rows(rows, rules.name)) {}

  Dataset build() && {
    require_input_of_task();
    if (input_ == RowInput::kIds) {
      take_ids();
    } else {
      tokenize();
    }
    add_labels();
    return std::move(data_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void fail(int64_t index, fmt::format_string<Args...> format, Args&&... args) const {
    plimsoll::fail(rules_.name, index, format, std::forward<Args>(args)...);
  }

  const DataRow& row(int64_t index) const { return rows_[static_cast<size_t>(index)]; }
  int64_t num_rows() const { return std::ssize(rows_); }
  bool is_per_token() const { return rules_.label_kind == LabelKind::kClassPerToken; }

  void require_input_of_task() const {
    const bool is_text = input_ == RowInput::kText || input_ == RowInput::kPair;
    if (is_per_token() && is_text)
      fail(0, "it has {}, but token classification needs words or ids", describe(input_));
    if (!is_per_token() && input_ == RowInput::kWords)
      fail(0, "it has a list of words, which only token classification reads: fill text");
  }

  // Checks that a text which the program passed in memory is valid UTF-8, because a tokenizer silently replaces invalid bytes. Texts in
  // files are checked when the file is read.
  void require_utf8(int64_t index, std::string_view text, std::string_view field) const {
    const size_t at = find_invalid_utf8(text);
    if (at == text.size()) return;
    fail(index, "byte {} (from 0) of {} is 0x{:02X}, which is not valid UTF-8", at, field,
         static_cast<unsigned char>(text[at]));
  }

  void require_utf8_texts() const {
    for (int64_t index = 0; index < num_rows(); ++index) {
      if (row(index).text) require_utf8(index, *row(index).text, "text");
      if (row(index).text_pair) require_utf8(index, *row(index).text_pair, "text_pair");
      for (size_t i = 0; i < row(index).words.size(); ++i)
        require_utf8(index, row(index).words[i], fmt::format("words[{}]", i));
    }
  }

  void tokenize() {
    require_utf8_texts();
    const TextEncoder& encoder = rules_.encoder(input_);
    const TokenizeOptions options{.max_seq_length = rules_.max_seq_length,
                                  .num_threads = rules_.num_threads,
                                  .end_token = rules_.end_token};
    const auto where = [&](int64_t index) { return name_of_row(rules_.name, index); };
    if (input_ == RowInput::kWords) {
      const auto words = [&](int64_t index, std::vector<std::string_view>& list) {
        list.insert(list.end(), row(index).words.begin(), row(index).words.end());
      };
      WordTokens tokens =
          tokenize_words({.num_rows = num_rows(), .words = words, .where = where}, encoder, options);
      data_.tokens = std::move(tokens.tokens);
      data_.word_starts = std::move(tokens.word_starts);
      return;
    }
    const auto second = [&](int64_t index) -> std::optional<std::string_view> {
      return row(index).text_pair;
    };
    data_.tokens = tokenize_texts({.num_rows = num_rows(),
                                   .first = [&](int64_t index) { return std::string_view(*row(index).text); },
                                   .second = second,
                                   .where = where},
                                  encoder, options);
  }

  void check_ids(int64_t index) const {
    const DataRow& of = row(index);
    const auto bad_id =
        std::ranges::find_if(of.ids, [&](int32_t id) { return id < 0 || id >= rules_.vocab_size; });
    if (bad_id != of.ids.end()) {
      fail(index, "ids[{}] is {}, but the model's vocab_size is {}: an id is from 0 to {}",
           bad_id - of.ids.begin(), *bad_id, rules_.vocab_size, rules_.vocab_size - 1);
    }
    if (!of.token_types.empty() && of.token_types.size() != of.ids.size()) {
      fail(index, "it has {}, but {} in token_types", counted(of.ids.size(), "id"),
           counted(of.token_types.size(), "value"));
    }
    if (rules_.refuses_types && !of.token_types.empty()) {
      fail(index,
           "it has token_types, whose word embeddings transformers adds to those of the tokens in this "
           "model, but "
           "Plimsoll does not compute this; remove them");
    }
    constexpr int64_t kMostTypes = 256;
    const int64_t num_types =
        rules_.type_vocab_size > 0 ? std::min(rules_.type_vocab_size, kMostTypes) : kMostTypes;
    const auto bad_type =
        std::ranges::find_if(of.token_types, [&](int32_t type) { return type < 0 || type >= num_types; });
    if (bad_type != of.token_types.end()) {
      fail(index, "token_types[{}] is {}, but a type is from 0 to {} here", bad_type - of.token_types.begin(),
           *bad_type, num_types - 1);
    }
    if (rules_.long_ids == LongIds::kRefuse && std::ssize(of.ids) > rules_.max_seq_length) {
      fail(index,
           "it has {}, but the plan was made for at most {}: raise max_seq_length, up to the model's "
           "positions, "
           "or cut the row",
           counted(of.ids.size(), "id"), rules_.max_seq_length);
    }
  }

  void take_ids() {
    const bool any_types =
        std::ranges::any_of(rows_, [](const DataRow& of) { return !of.token_types.empty(); });
    TokenRows all;
    for (int64_t index = 0; index < num_rows(); ++index) {
      check_ids(index);
      const DataRow& of = row(index);
      all.ids.insert(all.ids.end(), of.ids.begin(), of.ids.end());
      if (any_types) {
        for (const int32_t type : of.token_types) all.types.push_back(static_cast<uint8_t>(type));
        all.types.resize(all.ids.size(), 0);
      }
      all.offsets.push_back(static_cast<int64_t>(all.ids.size()));
    }
    std::vector<int64_t> wanted(rows_.size());
    std::iota(wanted.begin(), wanted.end(), 0);
    data_.tokens = take_tokens(all, wanted, rules_.max_seq_length);
  }

  void add_labels() {
    const auto has_label = [](const DataRow& of) { return !of.classes.empty() || !of.values.empty(); };
    if (are_tokens(rules_.label_kind)) {
      const auto labelled = std::ranges::find_if(rows_, has_label);
      if (labelled != rows_.end()) {
        fail(labelled - rows_.begin(),
             "the row has a label, but a language model takes its labels from the tokens themselves: leave "
             "classes and values empty");
      }
      data_.labels.masking = rules_.masking;
      data_.labels.is_next_token = rules_.label_kind == LabelKind::kNextToken;
      return;
    }
    const auto first_without = std::ranges::find_if_not(rows_, has_label);
    if (first_without != rows_.end()) {
      const int64_t index = first_without - rows_.begin();
      if (rules_.label_use == LabelUse::kRequired)
        fail(index, "the row has no label: fill {}", label_field());
      if (std::ranges::any_of(rows_, has_label)) fail(index, "the row has no label, but other rows have one");
      return;
    }
    for (int64_t index = 0; index < num_rows(); ++index) check_label(index);
    switch (rules_.label_kind) {
      case LabelKind::kClass:
        for (const DataRow& of : rows_) data_.labels.classes.push_back(of.classes.front());
        break;
      case LabelKind::kClasses:
      case LabelKind::kNumbers:
        data_.labels.width = rules_.num_labels;
        for (const DataRow& of : rows_)
          data_.labels.values.insert(data_.labels.values.end(), of.values.begin(), of.values.end());
        break;
      case LabelKind::kClassPerToken:
        add_token_labels();
        break;
      case LabelKind::kNextToken:
      case LabelKind::kMaskedToken:
        break;  // no labels are stored, because the tokens are the labels
    }
  }

  const char* label_field() const {
    return rules_.label_kind == LabelKind::kClass || is_per_token() ? "classes" : "values";
  }

  void check_label(int64_t index) const {
    const DataRow& of = row(index);
    const bool is_class = rules_.label_kind == LabelKind::kClass || is_per_token();
    if (!(is_class ? of.values : std::vector<float>(of.classes.begin(), of.classes.end())).empty())
      fail(index, "the label of the row is in {}, but the task reads {}", is_class ? "values" : "classes",
           label_field());
    const int64_t count = is_class ? std::ssize(of.classes) : std::ssize(of.values);
    const int64_t expected = rules_.label_kind == LabelKind::kClass ? 1
                             : !is_per_token()                      ? rules_.num_labels
                             : input_ == RowInput::kWords           ? std::ssize(of.words)
                                                                    : std::ssize(of.ids);
    if (count != expected) {
      fail(index, "it has {} in {}, but {} expected{}", counted(count, "label"), label_field(),
           expected == 1 ? "1 is" : fmt::format("{} are", expected),
           is_per_token() ? input_ == RowInput::kWords ? ", one per word" : ", one per id" : "");
    }
    for (size_t i = 0; i < of.classes.size(); ++i) {
      const int32_t label = of.classes[i];
      if (label >= 0 && label < rules_.num_labels) continue;
      if (is_per_token() && label == kNoLabel) continue;
      fail(index, "classes[{}] is {}, but the model has {}: a class is from 0 to {}{}", i, label,
           counted(rules_.num_labels, "label"), rules_.num_labels - 1,
           is_per_token() ? fmt::format(", or {} for none", kNoLabel) : "");
    }
    for (size_t i = 0; i < of.values.size(); ++i) {
      const float value = of.values[i];
      if (!std::isfinite(value)) fail(index, "values[{}] is {}, which is not finite", i, value);
      if (rules_.label_kind == LabelKind::kClasses && value != 0.0f && value != 1.0f)
        fail(index, "values[{}] is {}, but each label of a multi-label row is 0 or 1", i, value);
    }
  }

  // Assigns classes to tokens. If rows consist of words, the class of a word is assigned to its first token. If rows consist of ids,
  // there is a class per id; when a row is truncated, its last id and the class of that id are kept.
  void add_token_labels() {
    WordClasses classes;
    for (const DataRow& of : rows_) {
      classes.classes.insert(classes.classes.end(), of.classes.begin(), of.classes.end());
      classes.offsets.push_back(static_cast<int64_t>(classes.classes.size()));
    }
    if (input_ == RowInput::kWords) {
      data_.labels = token_labels(classes, data_.tokens, data_.word_starts);
      return;
    }
    data_.labels.is_per_token = true;
    for (int64_t index = 0; index < num_rows(); ++index) {
      const std::span<const int32_t> labels = classes.row(index);
      const auto kept = static_cast<size_t>(data_.tokens.length(index));
      data_.labels.classes.insert(data_.labels.classes.end(), labels.begin(),
                                  labels.begin() + static_cast<std::ptrdiff_t>(kept));
      data_.labels.classes.back() = labels.back();
    }
  }

  const std::vector<DataRow>& rows_;
  const RowRules& rules_;
  const RowInput input_;
  Dataset data_;
};

}  // namespace

std::shared_ptr<const DataRows> rows_in_memory(std::vector<DataRow> rows) {
  return std::make_shared<RowsInVector>(std::move(rows));
}

std::vector<DataRow> read_rows(const DataRows& source, const std::string& name,
                               std::optional<int64_t> max_rows) {
  int64_t count = source.num_rows();
  if (count <= 0) throw_error(ErrorCode::kBadData, "there are no {} rows: num_rows() is {}", name, count);
  if (count > std::numeric_limits<int32_t>::max()) {
    throw_error(ErrorCode::kBadData, "there are {} {} rows; a data set has at most {}", count, name,
                std::numeric_limits<int32_t>::max());
  }
  count = std::min(count, max_rows.value_or(count));
  std::vector<DataRow> rows;
  rows.reserve(static_cast<size_t>(count));
  for (int64_t index = 0; index < count; ++index) rows.push_back(source.row(index));
  return rows;
}

RowInput input_of_rows(const std::vector<DataRow>& rows, const std::string& name) {
  PLIMSOLL_CHECK(!rows.empty());
  const RowInput first = input_of_row(rows.front(), name, 0);
  for (size_t i = 1; i < rows.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const RowInput input = input_of_row(rows[i], name, index);
    if (input != first) fail(name, index, "it has {}, but row 0 has {}", describe(input), describe(first));
  }
  return first;
}

Dataset make_dataset(const std::vector<DataRow>& rows, const RowRules& rules) {
  return Building(rows, rules).build();
}

LabelKind label_kind_of(const std::vector<DataRow>& rows, RowInput input, bool has_label_names) {
  if (input == RowInput::kWords) return LabelKind::kClassPerToken;
  for (const DataRow& row : rows) {
    if (!row.values.empty()) return has_label_names ? LabelKind::kClasses : LabelKind::kNumbers;
    if (row.classes.size() > 1) return LabelKind::kClassPerToken;
  }
  return LabelKind::kClass;
}

int64_t num_labels_of(const std::vector<DataRow>& rows) {
  int64_t num_labels = 0;
  for (const DataRow& row : rows) {
    for (const int32_t label : row.classes) num_labels = std::max<int64_t>(num_labels, int64_t{label} + 1);
    num_labels = std::max<int64_t>(num_labels, std::ssize(row.values));
  }
  return num_labels;
}

}  // namespace plimsoll
