// Reads sentences with one word per line (CoNLL) into a Table. Thread-safe: pure functions.
//
// A line has a word and its tags, separated by tabs if the first line has a tab, otherwise by blanks. An
// empty line ends a sentence. Lines that begin with -DOCSTART- separate documents and are skipped. Lines that
// begin with '#' are comments if they have another number of columns than the words, or if they begin a
// sentence and contain "id" or "=" as their second part ("# id 17", "# sent_id = 17"); otherwise '#' is a
// word.
//
// The table is typed: its cells are lists, and the row of a sentence has the line of its first word. The
// columns have the names of the data sets on Hugging Face's hub: "tokens" and "tags"; "tokens", "pos_tags",
// "chunk_tags" (CoNLL-2000); the same and "ner_tags" (CoNLL-2003). With another number of columns, those
// between the first and the last are "column_2" and so on, and the last is "tags". A .conllu file (Universal
// Dependencies) has its ten columns as "tokens", "lemmas", "pos_tags" (UPOS), "xpos_tags" and so on; its
// multi-word tokens (1-2) and empty nodes (1.1) are skipped.
#pragma once

#include "io/data/data_table.h"
#include "io/data/text_file.h"

namespace plimsoll {

enum class ConllFormat { kColumns, kUniversalDependencies };

// Parses the text. Errors: kBadData with file:line for a line with another number of columns than the first
// (the message states both), an empty column, and a file without words.
Table read_conll(const TextFile& file, ConllFormat format = ConllFormat::kColumns);

}  // namespace plimsoll
