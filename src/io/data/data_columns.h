// Selects the text and label columns of a table. Thread-safe: pure functions.
//
// The rule is similar to that of Hugging Face's run_glue, but columns that cannot be text are ignored (text_columns.h), and more than two
// possible text columns are an error. "sentence1" and "sentence2", and the column names of other GLUE tasks with two texts per row, are
// selected as a pair. Otherwise one candidate is the text. If there are more, and one of them is called "text", "sentence", "review" or
// similar while the others have single words, few values or names of metadata, this one is the text. Otherwise two candidates are a pair.
// If there are more candidates, the error message lists them.
//
// Token classification. A typed table (JSON, CoNLL) in which the first row has a list of words and a list of tags is read as data for token
// classification, with the columns of Hugging Face's run_ner: the words are in "tokens" or "words", or otherwise in the first column of
// lists; the tags are in the label column, in "<task>_tags", "labels" or "tags", or otherwise in the next column of lists (CoNLL: the last
// column).
//
// Rows of token ids. A typed table with a column "input_ids" of lists is read without a tokenizer, with the
// columns "token_type_ids" and "attention_mask" if it has them, unless other columns are selected as texts.
// The label is in the label column, or in "labels".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/data/data_table.h"

namespace plimsoll {

struct ColumnOptions {
  // The names of one or two text columns. If empty, the rule at the start of this file selects them.
  std::vector<std::string> text = {};
  std::string label = "label";
  // For token classification, the kind of tags: "ner", "pos" or "chunk". The tags are then in the column "ner_tags", "pos_tags" or
  // "chunk_tags", and each row must be a list of words. If empty, the content of the table determines if its rows are lists of words, and
  // if they are, the kind is "ner".
  std::string tagging = {};
  // The number of texts per row that the model was trained on, if known. A different number of candidate columns is then an error.
  std::optional<size_t> num_texts = {};
};

// How a table stores conversations (chat_rows.h): as one list of messages (kMessages); as a prompt and a completion that are both lists
// of messages (kPromptMessages); or as a prompt and a completion that are texts (kPromptText).
enum class ChatColumns : uint8_t { kNone, kMessages, kPromptMessages, kPromptText };

// The columns that were selected in the first data file. They are stored by name, because the other files of a run must have columns with
// the same names.
struct ColumnChoice {
  std::string first;
  std::optional<std::string> second;
  std::string label;
  bool has_label = false;
  bool has_words = false;  // true if `first` contains lists of words, and `label` lists of tags
  bool has_ids = false;    // true if `first` contains lists of token ids (input_ids)
  // for a language model: true if `label` contains lists with a label per token id
  bool has_token_labels = false;
  // for a language model: true if `first` contains lists of token ids, so that lists in a column "labels" would be labels of tokens
  bool may_have_token_labels = false;
  // The form of the conversations, if the table contains any. They are in the column `first`; the answers are in `second` unless it is
  // empty.
  ChatColumns chat = ChatColumns::kNone;
  std::string note = {};  // a note for the user about how the columns were selected; empty if it is obvious
};

// Returns the names of all columns that belong to rows of token ids: input_ids and the columns that describe the ids.
std::vector<std::string> token_id_columns(const ColumnChoice& columns);

// Selects the columns. Errors: kBadData if a named column does not exist, if no column can be a text, and if more columns can be texts
// than are needed (the message lists them); kUsage for more than two text columns or a text column that is also the label; kBadData if
// options.tagging requests lists of words and the table cannot have them.
ColumnChoice choose_columns(const Table& table, const ColumnOptions& options = {});

// Checks that the first row of a CSV file is a header, if no label column is required. If the header is missing, the first text would be
// read as a column name and lost. The row is accepted as a header if it contains the name of the label column or a usual name of a text
// column, or if `options` name the text columns. Returns a note for the user if the table has only one column, whose name contains a blank
// and could therefore be a text, and otherwise an empty string. Errors: kBadData if a name of a column looks like a value.
std::string check_header(const Table& table, const ColumnOptions& options);

// Selects the column of the documents of a corpus. This is the column `named` if given; otherwise "input_ids" if it contains lists,
// together with "labels" if that contains lists too; otherwise "text"; otherwise the first column that has a text, as in Hugging Face's
// run_clm, with a note if there are others. Errors: kBadData if the column does not exist, or if no column has a text; the message lists
// the columns.
ColumnChoice choose_document_column(const Table& table, const std::optional<std::string>& named);

// Selects the columns of conversations. If `named` is given, the column of this name is selected if it contains lists of objects. Otherwise
// "messages" or "conversations" is selected if it contains such lists, or "prompt" and "completion" are selected if both contain such lists
// or both contain texts. Returns nothing if none of these columns contains conversations. Only the first row is examined.
std::optional<ColumnChoice> choose_chat_columns(const Table& table, const std::optional<std::string>& named);

// Checks that the label column exists. Errors: kBadData if it does not; the message lists the existing
// columns.
void require_label_column(const Table& table, const std::string& label);

// The function below selects the columns of words and tags of a table. It is used by data_columns.cc only. Thread-safe: a pure function.

// Returns the columns if the rows of the table are lists of words with tags, and nothing if they are texts. The start of this file states
// the rule for the choice. Errors: kBadData if options.tagging requests words and the table cannot have them, and for a CSV file, which can
// contain lists only as text.
std::optional<ColumnChoice> choose_word_columns(const Table& table, const ColumnOptions& options);

}  // namespace plimsoll
