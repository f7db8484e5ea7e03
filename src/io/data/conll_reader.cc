#include "io/data/table_reader.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/units.h"

namespace plimsoll {
namespace {

using Fields = std::vector<std::string_view>;

Fields split_at_tabs(std::string_view line) {
  Fields fields;
  while (true) {
    const size_t end = std::min(line.find('\t'), line.size());
    fields.push_back(line.substr(0, end));
    if (end == line.size()) return fields;
    line.remove_prefix(end + 1);
  }
}

Fields split_at_blanks(std::string_view line) {
  Fields fields;
  while (true) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return fields;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(" \t"), line.size());
    fields.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::vector<std::string> column_names(size_t count, ConllFormat format) {
  if (format == ConllFormat::kUniversalDependencies) {
    return {"ids", "tokens", "lemmas", "pos_tags", "xpos_tags", "feats", "heads", "deprels", "deps", "misc"};
  }
  if (count == 3) return {"tokens", "pos_tags", "chunk_tags"};
  if (count == 4) return {"tokens", "pos_tags", "chunk_tags", "ner_tags"};
  std::vector<std::string> names = {"tokens"};
  for (size_t i = 2; i < count; ++i) names.push_back(fmt::format("column_{}", i));
  if (count > 1) names.emplace_back("tags");
  return names;
}

class ConllParser {
 public:
  ConllParser(const TextFile& file, ConllFormat format) : file_(file), format_(format) {}

  Table read() && {
    std::string_view rest = file_.bytes;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find_first_of("\r\n"), rest.size());
      ++line_;
      take_line(rest.substr(0, end));
      rest.remove_prefix(end);
      rest.remove_prefix(rest.starts_with("\r\n") ? 2 : rest.empty() ? 0 : 1);
    }
    end_sentence();
    if (table_.num_rows() == 0)
      throw_error(ErrorCode::kBadData, "{}: the file has no words; check that it is complete", file_.name);
    table_.shrink_to_fit();
    return std::move(table_);
  }

 private:
  bool is_universal() const { return format_ == ConllFormat::kUniversalDependencies; }

  Fields split(std::string_view line) const { return tabs_ ? split_at_tabs(line) : split_at_blanks(line); }

  // Returns true if a line that begins with '#' is a comment and not a word, by the rule that table_reader.h documents.
  bool is_certain_comment(const Fields& fields) const {
    if (is_universal()) return true;
    if (num_columns_ > 0 && fields.size() != num_columns_) return true;
    return words_in_sentence() == 0 && fields.size() >= 2 &&
           (fields[1] == "id" || std::ranges::find(fields, "=") != fields.end() ||
            fields.back().find('=') != std::string_view::npos);
  }

  size_t words_in_sentence() const { return cells_.empty() ? 0 : cells_[0].size(); }

  void take_line(std::string_view line) {
    if (line.find_first_not_of(" \t") == std::string_view::npos) return end_sentence();
    if (num_columns_ == 0) tabs_ = line.find('\t') != std::string_view::npos;
    Fields fields = split(line);
    if (fields[0] == "-DOCSTART-") return end_sentence();
    if (line.starts_with('#') && is_certain_comment(fields)) return;
    if (num_columns_ == 0) {
      refuse_other_format(line, fields);
      begin_table(fields);
    }
    if (fields.size() != num_columns_) {
      throw_at_line(
          file_.name, line_,
          "the line '{}' has {}, but line {}, which has the first word, has {}\n  every word needs the "
          "same columns, separated by {}; an empty line ends a sentence{}",
          excerpt(line), counted(fields.size(), "column"), first_line_, num_columns_,
          tabs_ ? "a tab" : "a blank",
          file_.name.ends_with(".txt")
              ? " (a .txt file has one word and its tag per line; --problem_type masked_lm reads plain text)"
              : "");
    }
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].empty()) {
        throw_at_line(file_.name, line_, "column {} is empty: {}", i + 1, excerpt(line));
      }
    }
    if (is_universal() && fields[0].find_first_of("-.") != std::string_view::npos) return;
    if (words_in_sentence() == 0) sentence_line_ = line_;
    for (size_t i = 0; i < fields.size(); ++i) cells_[i].push_back(std::string(fields[i]));
  }

  // Refuses a file that contains another format under the name of a CoNLL file. `line` is its first line with words.
  void refuse_other_format(std::string_view line, const Fields& fields) const {
    if (line.starts_with("{\"") || line.starts_with("{'") || line.starts_with("[{")) {
      throw_at_line(file_.name, line_, "the file contains JSON: {}\n  rename it to {}", excerpt(line),
                    line.front() == '[' ? ".json" : ".jsonl");
    }
    if (!tabs_ || is_universal()) return;
    const auto is_one_of = [](std::string_view field, std::initializer_list<std::string_view> names) {
      return std::ranges::find(names, field) != names.end();
    };
    const bool is_header = is_one_of(fields.front(), {"text", "sentence", "sentence1"}) &&
                           is_one_of(fields.back(), {"label", "labels", "score"});
    const bool is_text = std::ranges::count(fields.front(), ' ') >= 2;
    if (!is_header && !is_text) return;
    throw_at_line(file_.name, line_,
                  "the line '{}' {}, but a {} file has one word and its tags per line; if its rows are texts "
                  "with columns that tabs separate, rename it to .tsv",
                  excerpt(line), is_header ? "looks like the header of a table" : "begins with several words",
                  file_.name.ends_with(".txt") ? ".txt" : ".conll");
  }

  void begin_table(const Fields& fields) {
    if (is_universal() && fields.size() != 10) {
      throw_at_line(
          file_.name, line_,
          "a line of a .conllu file has 10 columns separated by tabs, but this line has {}\n  if the "
          "file has other columns, rename it to .conll",
          fields.size());
    }
    num_columns_ = fields.size();
    first_line_ = line_;
    cells_.assign(num_columns_, nlohmann::json::array());
    table_ = Table(file_.name, file_.content_hash, column_names(num_columns_, format_));
    table_.set_typed();
    table_.set_conll();
  }

  void end_sentence() {
    if (words_in_sentence() == 0) return;
    table_.begin_row(sentence_line_);
    for (nlohmann::json& cell : cells_) {
      table_.add_cell(cell.dump(), CellKind::kList);
      cell.clear();
    }
  }

  const TextFile& file_;
  const ConllFormat format_;
  Table table_;
  std::vector<nlohmann::json> cells_;  // the words and tags of the current sentence: a JSON array per column
  size_t num_columns_ = 0;             // number of columns of the file; 0 until the first word is read
  bool tabs_ = false;
  int64_t line_ = 0;
  int64_t first_line_ = 0;
  int64_t sentence_line_ = 0;
};

}  // namespace

Table read_conll(const TextFile& file, ConllFormat format) {
  return ConllParser(file, format).read();
}

}  // namespace plimsoll
