// Selects the text and label columns of a table. Thread-safe: pure functions.
//
// The rule is that of Hugging Face's run_glue, but it reads no column that cannot be text, and does not guess
// among more than two. Candidates are the columns other than the label that contain a text (not only numbers,
// true and false) and whose name is not that of an index ("id", "idx", "Unnamed: 0"). "sentence1" and
// "sentence2", and the pairs of other GLUE tasks, are a pair. Otherwise one candidate is the text, and two
// candidates are a pair. More candidates are an error that names them.
//
// Token classification. A typed table (JSON, CoNLL) in which the first row has a list of words and a list of
// tags is read as such, with the columns of Hugging Face's run_ner: the words are in "tokens" or "words", or
// otherwise in the first column of lists; the tags are in the label column, in "<task>_tags", "labels" or
// "tags", or otherwise in the next column of lists (CoNLL: the last column).
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
  // One or two names; if empty, the rule at the start of this file applies.
  std::vector<std::string> text = {};
  std::string label = "label";
  // The kind of tags, "ner", "pos" or "chunk": selects the column "ner_tags" and so on, and requests rows of
  // words. If empty, the table decides if its rows are words, and its tags are those of "ner".
  std::string tagging = {};
  // The number of texts per row that the model was trained on, if known: any other number of candidates is an
  // error.
  std::optional<size_t> num_texts = {};
};

// The columns of conversations (chat_rows.h): a list of messages; a prompt and a completion that are such lists; a prompt and a
// completion that are texts.
enum class ChatColumns : uint8_t { kNone, kMessages, kPromptMessages, kPromptText };

// The columns of the first file, identified by name, because the other files of a run must have the same
// columns.
struct ColumnChoice {
  std::string first;
  std::optional<std::string> second;
  std::string label;
  bool has_label = false;
  bool has_words = false;  // `first` has lists of words, and `label` lists of tags
  bool has_ids = false;    // `first` has lists of token ids (input_ids), which need no tokenizer
  bool has_token_labels =
      false;  // `label` has a list with a label for each of these ids, for a language model
  // How the columns contain conversations, if they do: in `first`, and the answers in `second` if it is not empty.
  ChatColumns chat = ChatColumns::kNone;
  std::string note = {};  // what was inferred, if it is not obvious; otherwise empty
};

// Selects the columns. Errors: kBadData if a named column does not exist, if no column can be a text, and if more columns can be texts
// than are needed (the message lists them); kUsage for more than two text columns or a text column that is also the label; kBadData if
// rows of words are requested and the table cannot have them.
ColumnChoice choose_columns(const Table& table, const ColumnOptions& options = {});

// Checks that the first row of a CSV file names its columns, for rows that need no label column: without a header the first
// text would be lost. A label column, a usual name of a text column and selected text columns show that the row is a header.
// Returns a note if the only name could be a text, otherwise an empty string. Errors: kBadData if a name looks like a value.
std::string check_header(const Table& table, const ColumnOptions& options);

// Selects the column of the documents of a corpus: `named`; else "input_ids" if it has lists, with "labels" if that has lists too; else
// "text"; else the first column that has a text, as run_clm takes the first one, with a note if there are others. Errors: kBadData if the
// column does not exist, or if no column has a text; the message lists the columns.
ColumnChoice choose_document_column(const Table& table, const std::optional<std::string>& named);

// Selects the columns of conversations: `named` if it has lists of objects; else, if no column is named, "messages" or
// "conversations" if it has such lists, or "prompt" and "completion" if both have such lists or texts. Returns nothing if the table
// has no conversations. The first row decides.
std::optional<ColumnChoice> choose_chat_columns(const Table& table, const std::optional<std::string>& named);

// Returns true for the name of a column that numbers the rows, such as "id" or "idx".
bool is_index_name(std::string_view column);

// Checks that the label column exists. Errors: kBadData if it does not; the message lists the existing
// columns.
void require_label_column(const Table& table, const std::string& label);

// Selects the columns of words and tags of a table, for data_columns.cc. Thread-safe: pure functions.

// Returns the columns if the rows of the table are lists of words with tags, and nothing if they are texts.
// data_columns.h defines the rule. Errors: kBadData if options.tagging requests words and the table cannot
// have them, and for lists of words that a CSV file contains as text.
std::optional<ColumnChoice> choose_word_columns(const Table& table, const ColumnOptions& options);

}  // namespace plimsoll
