// Test cases of bad input: lines of tables that must be refused with the file and line number, and unusual
// lines that must be accepted.
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
// The suffix s makes a std::string of a literal with its full length, so that it can contain NUL bytes.
using namespace std::string_literals;
namespace {

Case data(std::string name, int exit_code, Words words, std::string file, std::string text, Words more = {}) {
  return {std::move(name), exit_code, std::move(words),
          [file = std::move(file), text = std::move(text), more = std::move(more)](const Ground& ground) {
            return ground.train(ground.file(file, text), more);
          }};
}

// Returns the arguments of a run with a model whose folder has no tokenizer.
Words without_tokenizer(const Ground& ground, const std::string& file) {
  Words words = ground.train(file);
  words[2] = ground.model_without("vocab.txt");
  return words;
}

}  // namespace

std::vector<Case> reader_cases() {
  const std::string rows = "word1 is,good\nword2 is,bad\nword3,good\nword4,bad\n";
  const std::string tab_rows = "word1 is\tgood\nword2 is\tbad\n";
  const std::string json_rows =
      "{\"sentence\": \"word1\", \"label\": \"good\"}\n{\"sentence\": \"word2\", \"label\": \"bad\"}\n";
  return {
      data("CsvGood", 0, {"train 4 rows"}, "good.csv", "sentence,label\n" + rows),
      data("CsvByteOrderMark", 0, {"train 4 rows"}, "bom.csv", "\xef\xbb\xbfsentence,label\n" + rows),
      data("CsvCarriageReturns", 0, {"train 2 rows"}, "crlf.csv",
           "sentence,label\r\nword1,good\r\nword2,bad\r\n"),
      data("CsvNoLastNewline", 0, {"train 2 rows"}, "last.csv", "sentence,label\nword1,good\nword2,bad"),
      data("CsvQuotedNewline", 0, {"train 2 rows"}, "quoted.csv",
           "sentence,label\n\"word1\nis \"\"a\"\"\",good\nword2,bad\n"),
      data("TsvGood", 0, {"train 2 rows"}, "good.tsv", "sentence\tlabel\n" + tab_rows),
      data("TsvByteOrderMark", 0, {"train 2 rows"}, "bom.tsv", "\xef\xbb\xbfsentence\tlabel\n" + tab_rows),
      data("JsonlGood", 0, {"train 2 rows"}, "good.jsonl", json_rows),
      data("JsonlByteOrderMarkAndCarriageReturns", 0, {"train 2 rows"}, "bom.jsonl",
           "\xef\xbb\xbf{\"sentence\": \"word1\", \"label\": \"good\"}\r\n{\"sentence\": \"word2\", "
           "\"label\": "
           "\"bad\"}\r\n"),
      data("JsonArrayGood", 0, {"train 2 rows"}, "array.json",
           "[{\"sentence\": \"word1\", \"label\": 0}, {\"sentence\": \"word2\", \"label\": 1}]"),
      data("CsvRaggedLong", 4, {"ragged.csv:3", "3 fields", "the header has 2", "double quotes"},
           "ragged.csv", "sentence,label\nword1,good\nword2,bad,odd\n"),
      data("CsvRaggedShort", 4, {"short.csv:3", "1 field", "the header has 2", "add the missing"},
           "short.csv", "sentence,label\nword1,good\nword2\n"),
      data("CsvOpenQuote", 4, {"open.csv:3", "quote"}, "open.csv",
           "sentence,label\nword1,good\n\"word2,bad\nword3,good\n"),
      data("CsvNul", 4, {"nul.csv:3"}, "nul.csv", "sentence,label\nword1,good\nwo\0rd2,bad\n"s),
      data("CsvInvalidUtf8", 4, {"utf8.csv:3", "UTF-8"}, "utf8.csv",
           "sentence,label\nword1,good\nw\xff\xfe,bad\n"),
      data("CsvUtf32", 4, {"utf32.csv", "UTF-32"}, "utf32.csv", "\xff\xfe\0\0s\0\0\0"s),
      data("CsvUtf16", 4, {"utf16.csv", "UTF-8"}, "utf16.csv", "\xff\xfes\0e\0n\0"s),
      data("CsvEmpty", 4, {"empty.csv", "the file is empty", "name another"}, "empty.csv", ""),
      data("CsvHeaderOnly", 4, {"header.csv", "no rows"}, "header.csv", "sentence,label\n"),
      data("CsvNoLabelColumn", 4, {"unlabelled.csv", "label", "sentence"}, "unlabelled.csv",
           "sentence,other\nword1,good\n"),
      data("CsvSameColumnTwice", 4, {"twice.csv:1", "sentence"}, "twice.csv",
           "sentence,sentence,label\na,b,good\n"),
      data("CsvOnlyLabels", 4, {"labels.csv", "column"}, "labels.csv", "label\ngood\nbad\n"),
      data("CsvMissingLabel", 4, {"missing.csv:3", "no label", "add it"}, "missing.csv",
           "sentence,label\nword1,good\nword2,\nword3,bad\n"),
      data("CsvOneLabel", 0, {"warning: 100 %", "'good'"}, "one.csv",
           "sentence,label\nword1,good\nword2,good\n"),
      data("CsvEmptyTexts", 0,
           {"warning: ", "empty_texts.csv: 2 texts are empty, the first in line 3", "train 4 rows"},
           "empty_texts.csv", "sentence,label\na,good\n,bad\nb,bad\n,good\n"),
      data("CsvLabelPerRow", 0, {"train 4 rows", "4 labels"}, "many.csv",
           "sentence,label\na,1\nb,2\nc,3\nd,4\n"),
      data("TsvRagged", 4, {"ragged.tsv:3"}, "ragged.tsv", "sentence\tlabel\nword1\tgood\nword2\tbad\todd\n"),
      data("JsonlBadLine", 4, {"bad.jsonl:2"}, "bad.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0}\n{\"sentence\": \n"),
      data("JsonlNoObject", 4, {"list.jsonl:2", "object"}, "list.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0}\n[1, 2]\n"),
      data("JsonlMissingKey", 4, {"key.jsonl:2", "label"}, "key.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0}\n{\"sentence\": \"word2\"}\n"),
      data("JsonlNumberForText", 4, {"number.jsonl:2", "sentence"}, "number.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0}\n{\"sentence\": {\"a\": 7}, \"label\": 1}\n"),
      data("JsonlNaN", 4, {"nan.jsonl:2"}, "nan.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0.5}\n{\"sentence\": \"word2\", \"label\": NaN}\n"),
      data("JsonlDeep", 4, {"deep.jsonl:1:1", "the row begins"}, "deep.jsonl",
           "{\"sentence\": " + std::string(100000, '[') + "\n"),
      data("JsonArrayCutOff", 4, {"cut.json"}, "cut.json",
           "[{\"sentence\": \"word1\", \"label\": 0}, {\"sent"),
      data("JsonEmpty", 4, {"empty.json", "empty"}, "empty.json", ""),
      data("DataOfUnknownKind", 2, {"data.xlsx", ".csv"}, "data.xlsx", "sentence,label\n"),
      data("CsvSemicolons", 4, {"semicolon.csv", "semicolons"}, "semicolon.csv",
           "sentence;label\na;good\nb;bad\n"),
      data("CsvTabs", 4, {"tabs.csv", "tabs", ".tsv"}, "tabs.csv", "sentence\tlabel\na\tgood\nb\tbad\n"),
      data("CsvOldMacintosh", 0, {"train 2 rows"}, "mac.csv", "sentence,label\rword1,good\rword2,bad\r"),
      data("CsvOnlyBlankLines", 4, {"blank.csv"}, "blank.csv", "\n\n\n"),
      data("CsvOnlyByteOrderMark", 4, {"mark.csv", "the file is empty"}, "mark.csv", "\xef\xbb\xbf"),
      data("CsvRegressionNaN", 4, {"targets.csv:3", "nan", "finite"}, "targets.csv",
           "sentence,label\nword1,0.5\nword2,nan\n"),
      data("CsvRegressionInfinite", 4, {"large.csv:3", "1e39", "finite"}, "large.csv",
           "sentence,label\nword1,0.5\nword2,1e39\n"),
      data("JsonlMixedLabels", 4, {"mixed.jsonl:2", "'bad' is text", "line 1"}, "mixed.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0}\n{\"sentence\": \"word2\", \"label\": \"bad\"}\n"),
      data("JsonlValuesThatNobodyReads", 0, {"train 5 rows"}, "unread.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0, \"x\": NaN}\n{\"sentence\": \"word2\", \"label\": 1, "
           "\"x\": 340282366920938463463374607431768211456}\n{\"sentence\": \"a\", \"label\": 1, \"x\": "
           "\"\\ud800\"}\n{\"x\": -Infinity, \"sentence\": \"a\", \"label\": 1}\n{\"x\": 1, \"x\": 2, "
           "\"sentence\": \"a\", \"label\": 1}\n"),
      data("JsonlNaNAsText", 4, {"nan_text.jsonl:2: NaN is not JSON (column 'sentence')", "null"},
           "nan_text.jsonl", "{\"sentence\": \"word1\", \"label\": 0}\n{\"sentence\": NaN, \"label\": 1}\n"),
      data("JsonlNaNAsLabel", 4, {"nan_label.jsonl:2: NaN is not JSON (column 'label')"}, "nan_label.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0}\n{\"sentence\": \"a\", \"label\": NaN}\n"),
      data("JsonlHugeLabel", 4, {"huge.jsonl:2: the label 18446744073709551615 is too large for a class"},
           "huge.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0}\n{\"sentence\": \"a\", \"label\": "
           "18446744073709551615}\n"),
      {"IdsWithoutATokenizer",
       0,
       {"train 2 rows, 5 tokens"},
       [](const Ground& ground) {
         return without_tokenizer(ground, ground.file("ids.jsonl",
                                                      "{\"input_ids\": [2, 5, 3], \"token_type_ids\": [0, 0, "
                                                      "0], \"label\": 0}\n{\"input_ids\": [2, "
                                                      "3], \"token_type_ids\": [0, 0], \"label\": 1}\n"));
       }},
      {"TextsWithoutATokenizer",
       4,
       {"no tokenizer in"},
       [](const Ground& ground) {
         return without_tokenizer(
             ground,
             ground.file("no_ids.jsonl", "{\"sentence\": \"no \\\"input_ids\\\" here\", \"label\": 0}\n"));
       }},
      {"PlanOfACompressedFileWithoutATokenizer",
       4,
       {"packed.jsonl.gz", "cut"},
       [](const Ground& ground) {
         return Words{"plan",
                      "--config_name",
                      ground.model(),
                      "--train_file",
                      ground.file("packed.jsonl.gz", "\x1f\x8b"),
                      "--num_threads",
                      "1"};
       }},
      data("IdsBeyondTheVocabulary", 4,
           {":1: the data has the token id 99999, but the model's vocab_size is"}, "far.jsonl",
           "{\"input_ids\": [2, 99999, 3], \"label\": 0}\n{\"input_ids\": [2, 3], \"label\": 1}\n"),
      {"IdsInCsvWithoutATokenizer",
       4,
       {"ids.csv: the column 'input_ids' has lists of token ids, which a CSV file contains as text"},
       [](const Ground& ground) {
         return Words{"train",
                      "--config_name",
                      ground.model(),
                      "--train_file",
                      ground.file("ids.csv", "input_ids,label\n\"[2, 5]\",1\n"),
                      "--dry_run"};
       }},
      data("IdsThatAreNoIntegers", 4, {"half.jsonl:2: entry 2 of column 'input_ids' is 0.5"}, "half.jsonl",
           "{\"input_ids\": [2, 5, 3], \"label\": 0}\n{\"input_ids\": [2, 0.5, 3], \"label\": 1}\n"),
      data("IdsWithTypesBeyondTheTable", 4,
           {"types.jsonl:2: token_type_ids has the type 9, but the model's type_vocab_size"}, "types.jsonl",
           "{\"input_ids\": [2, 3], \"token_type_ids\": [0, 0], \"label\": 0}\n{\"input_ids\": [2, 3], "
           "\"token_type_ids\": "
           "[0, 9], \"label\": 1}\n"),
      data("IdsWithTypesInALaterRow", 4,
           {"late.jsonl:2: the row has 'token_type_ids', but the first row does not"}, "late.jsonl",
           "{\"input_ids\": [2, 3], \"label\": 0}\n{\"input_ids\": [2, 3], \"token_type_ids\": [0, 1], "
           "\"label\": "
           "1}\n"),
      data("IdsWithAHoleInTheMask", 4,
           {"hole.jsonl:1: entry 2 of column 'attention_mask' is 0 between tokens with 1"}, "hole.jsonl",
           "{\"input_ids\": [2, 5, 3], \"attention_mask\": [1, 0, 1], \"label\": 0}\n"),
      data("IdsWithOtherPositions", 4,
           {"back.jsonl:1: entry 2 of column 'position_ids' is 1, but 3 is expected"}, "back.jsonl",
           "{\"input_ids\": [2, 5, 3], \"position_ids\": [2, 1, 0], \"label\": 0}\n"),
      data("IdsWithPositionsOfAnotherModel", 4,
           {"shifted.jsonl: the positions in the column 'position_ids' begin at 2",
            "positions of this model from 0"},
           "shifted.jsonl", "{\"input_ids\": [2, 5, 3], \"position_ids\": [2, 3, 4], \"label\": 0}\n"),
      data("IdsWithALabelPerToken", 4,
           {"per_token.jsonl:1: the column 'labels' has one label per token of 'input_ids'"},
           "per_token.jsonl", "{\"input_ids\": [2, 5, 3], \"labels\": [0, 1, 0]}\n"),
      data("GzipThatIsText", 4, {"text.csv.gz: the name ends in .gz, but the file is not compressed by gzip"},
           "text.csv.gz", "sentence,label\nword1,good\n"),
      data("GzipThatIsCut", 4,
           {"cut.csv.gz: the compressed data ends too early, after 0 bytes of text: the file is cut"},
           "cut.csv.gz", "\x1f\x8b\x08\0\0"s),
      data("ZstdThatIsText", 4,
           {"text.jsonl.zst: the name ends in .zst, but the file is not compressed by Zstandard"},
           "text.jsonl.zst", json_rows),
      data("CompressedOfUnknownFormat", 2, {"data.gz: data files must be .csv", "has no extension"},
           "data.gz", "x"),
      data("JsonByColumns", 4,
           {"columns.json: the file has an object for each of 'sentence', 'label', but one object per row",
            "DataFrame.to_json(path, orient='records', lines=True)"},
           "columns.json",
           "{\"sentence\": {\"0\": \"word1\", \"1\": \"a\"}, \"label\": {\"0\": 0, \"1\": 1}}"),
      data("JsonByLists", 4, {"lists.json: the file has a list for each of 'sentence', 'label'"},
           "lists.json", "{\"sentence\": [\"word1\", \"word2\"], \"label\": [0, 1]}"),
      data("JsonBySplit", 4, {"every row must be an object", "orient='records'"}, "by_split.json",
           "{\"columns\": [\"sentence\", \"label\"], \"index\": [0], \"data\": [[\"word1\", 1]]}"),
      data("JsonlSameKeyTwice", 4, {"keys.jsonl:2", "'label'", "twice"}, "keys.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0}\n{\"sentence\": \"a\", \"label\": 0, \"label\": 1}\n"),
      data("JsonlLoneSurrogate", 4, {"surrogate.jsonl:2"}, "surrogate.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0}\n{\"sentence\": \"\\ud800\", \"label\": 1}\n"),
      data("JsonlTrailingText", 4, {"trailing.jsonl:2"}, "trailing.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0}\n{\"sentence\": \"a\", \"label\": 1} and more\n"),
      data("CsvTextsAsLabels", 0, {"warning: 20 labels for 20 rows", "--label_column_name"}, "ids.csv",
           [] {
             std::string text = "sentence,label\n";
             for (int i = 0; i < 20; ++i) text += "word,id" + std::to_string(i) + "\n";
             return text;
           }()),
      {"LabelThatTheModelHasNot",
       4,
       {"odd.tsv:3", "'awful' is not one of the model's labels", "'bad', 'good'"},
       [](const Ground& ground) {
         return ground.evaluate(ground.model(),
                                ground.file("odd.tsv", "sentence\tlabel\nword1\tgood\nword2\tawful\n"));
       }},
      data("CsvQuotedWordFirst", 0,
           {"warning: ",
            "quoted.csv:2: a cell begins with a quoted part and is read without these quotes: "
            "word1 word2; if quotes are ordinary characters in this file, use --quoting none"},
           "quoted.csv", "sentence,label\n\"word1\" word2,good\nword2,bad\n"),
      data("CsvBlankAfterAQuote", 0, {"train 2 rows"}, "blank_after.csv",
           "sentence,label\n\"word1\" ,good\n\"word2\" ,bad\n"),
      data("TsvRowsInAQuotedCell", 0,
           {"warning: ",
            "swallow.tsv:2: the quote that opens a cell here is closed in line 4, and the cell looks like 3 "
            "rows; if quotes are ordinary characters in this file, use --quoting none",
            "train 2 rows"},
           "swallow.tsv", "sentence\tlabel\n\" word1\tgood\nword2\tbad\n\"\tgood\nword1\tbad\n"),
      {"TsvWithoutQuoting",
       0,
       {"train 4 rows"},
       [](const Ground& ground) {
         return ground.train(
             ground.file("raw.tsv", "sentence\tlabel\n\" word1\tgood\nword2\tbad\n\"\tgood\nword1\tbad\n"),
             {"--quoting", "none"});
       }},
      {"CsvQuoteNeverClosedAdvice",
       4,
       {"open.csv:2: quote opened at column 1 is never closed", "use --quoting none"},
       [](const Ground& ground) {
         return ground.train(ground.file("open.csv", "sentence,label\n\"word1,good\nword2,bad\n"));
       }},
      data("CsvListsOfTargets", 0, {"train 2 rows", "3 labels"}, "vectors.csv",
           "sentence,label\nword1,\"[1, 0, 1]\"\nword2,\"[0, 0, 1]\"\n"),
      data("CsvListsOfNamesByPython", 0, {"train 2 rows", "3 labels"}, "names.csv",
           "sentence,label\nword1,\"['a', 'b']\"\nword2,\"['c']\"\n"),
      data("CsvListsOfNumPy", 0, {"train 2 rows", "2 labels"}, "numpy.csv",
           "sentence,label\nword1,[1. 0.]\nword2,[0. 1.]\n"),
      data("CsvListWithoutEnd", 4, {"cut.csv:3: the label begins with '[' but is not a list: [0, 1"},
           "cut.csv", "sentence,label\nword1,\"[1, 0]\"\nword2,\"[0, 1\"\n",
           {"--problem_type", "multi_label_classification"}),
      data("CsvSetsOfLabels", 0,
           {"warning: ", "sets.csv:2: the label 'a#b' is read as one class, but looks like several labels",
            "--label_delimiter '#'"},
           "sets.csv", "sentence,label\nword1,a#b\nword2,b#a\n"),
      data("CsvSetsOfLabelsSplit", 0, {"train 3 rows", "3 labels"}, "split.csv",
           "sentence,label\nword1,a#b\nword2,b#c\nword1,a\n", {"--label_delimiter", "#"}),
      data("CsvSetsWithAnEmptyLabel", 4, {"gap.csv:2: an empty label between two '#': a##b"}, "gap.csv",
           "sentence,label\nword1,a##b\nword2,b#c\n", {"--label_delimiter=#"}),
      data("CsvNumbersAndWordsAsLabels", 0,
           {"warning: ", "both.csv:4: the label 'good' is a word, but the label of line 2 is a number ('0')"},
           "both.csv", "sentence,label\nword1,0\nword2,1\nword1,good\n"),
      data("CsvFloatLabels", 0,
           {"note: ",
            "floats.csv:2: the labels are numbers that are not all integers (1.0), so the model "
            "learns a regression; for classes give --problem_type single_label_classification"},
           "floats.csv", "sentence,label\nword1,1.0\nword2,0.0\n"),
      data("CsvFloatLabelsAsClasses", 0, {"train 2 rows", "2 labels"}, "classes.csv",
           "sentence,label\nword1,1.0\nword2,0.0\n", {"--problem_type", "single_label_classification"}),
      data("CsvOfSemicolons", 4,
           {"semi.csv:2: this row has 2 fields, but the header has 1",
            "the fields of the header 'sentence;label' are separated by semicolons"},
           "semi.csv", "sentence;label\nword1, word2;good\n"),
      data("CsvOfVerticalBars", 4,
           {"bars.csv: the fields of the header 'sentence|label' are separated by vertical bars, but those "
            "of a "
            ".csv file by commas"},
           "bars.csv", "sentence|label\nword1|good\n"),
      data("TsvOfCommas", 4, {"commas.tsv: the fields", "separated by commas: rename the file to .csv"},
           "commas.tsv", "sentence,label\nword1,good\n"),
      data("CsvWithoutHeader", 4,
           {"ag.csv: no column is called 'label'",
            "the first row looks like data ('3'), but it must name the 3 columns"},
           "ag.csv", "3,word1,word2\n2,word2,word1\n"),
      data("TokensInCsv", 4, {"tokens.csv: rows of words with tags are needed", "write JSON Lines"},
           "tokens.csv", "tokens,ner_tags\n\"['a']\",\"['O']\"\n"),
      data("TokensAndTagsOfOtherLengths", 4,
           {"tokens.jsonl:1: the row has 2 words in 'tokens', but 1 tag in 'ner_tags'; every word needs one "
            "tag"},
           "tokens.jsonl", "{\"tokens\": [\"word1\", \"word2\"], \"ner_tags\": [\"O\"]}\n"),
      data("ConllWithAMissingTag", 4,
           {"tags.conll:2: the line 'word2' has 1 column, but line 1, which has the first word, has 2"},
           "tags.conll", "word1 O\nword2\n"),
      data("ConllWithoutWords", 4, {"none.conll: the file has no words"}, "none.conll", "-DOCSTART- O\n\n"),
      {"TaskOfTagsWithAFolder",
       2,
       {"--dataset_name glue: --task_name ner reads files of words and tags; give --train_file FILE"},
       [](const Ground& ground) {
         return Words{"train", "--model_name_or_path", ground.model(), "--task_name",
                      "ner",   "--dataset_name",       "glue"};
       }},
      argument("ArgumentQuoting", 2, {"--quoting: 'all' is not one of minimal, none"}, {"--quoting", "all"}),
      {"DataColumnsNamed",
       0,
       {"train 2 rows", "2 labels"},
       [](const Ground& ground) {
         return ground.train(ground.file("named.tsv", "id\ttext\tclass\n1\ta\tx\n2\tb\ty\n"),
                             {"--text_column_names", "text", "--label_column_name", "class"});
       }},
      {"DataColumnNamedIsNotThere",
       4,
       {"named.tsv", "expected a column 'texts'", "'text'"},
       [](const Ground& ground) {
         return ground.train(ground.file("named.tsv", "id\ttext\tclass\n1\ta\tx\n2\tb\ty\n"),
                             {"--text_column_names", "texts", "--label_column_name", "class"});
       }},
      data("CsvIndexColumn", 0,
           {"note: ", "the texts are those of the column 'sentence' ('id' is not text)",
            "--text_column_names"},
           "index.csv", "id,sentence,label\n1,a,good\n2,b,bad\n"),
      {"DataValidationHasOtherColumns",
       4,
       {"other.tsv", "expected a column 'sentence'", "'text', 'more'"},
       [](const Ground& ground) {
         return ground.train(ground.data(), {"--do_eval", "--validation_file",
                                             ground.file("other.tsv", "text\tmore\tlabel\na\tb\tgood\n")});
       }},
      {"DataValidationWithoutLabels",
       4,
       {"nolabels.tsv", "no column is called 'label'", "--label_column_name"},
       [](const Ground& ground) {
         return ground.train(ground.data(), {"--do_eval", "--validation_file",
                                             ground.file("nolabels.tsv", "sentence\nword1\n")});
       }},
      {"DataNotThere",
       4,
       {"nothing.csv"},
       [](const Ground& ground) { return ground.train(ground.path("nothing.csv")); }},
      {"DataIsAFolderOfFiles",
       2,
       {"files: data files must be .csv, .tsv, .tab, .json", "; this is a folder; give a file in it"},
       [](const Ground& ground) {
         std::filesystem::create_directories(ground.path("files"));
         return ground.train(ground.path("files"));
       }},
      {"DataRowOfTooManyFields",
       4,
       {"wide.tsv:2: this row has 4 fields, but the header has 2", "the row's text: \\tb\\tc\\td\n"},
       [](const Ground& ground) {
         return ground.train(ground.file("wide.tsv", "sentence\tlabel\n\tb\tc\td\n"));
       }},
      {"DataLargerThanTheLimit",
       3,
       {"large.tsv: the file is read into memory and has 26 bytes", "--memory_limit is 20 bytes"},
       [](const Ground& ground) {
         return ground.train(ground.file("large.tsv", "sentence\tlabel\nword1\tgood\n"),
                             {"--memory_limit", "20B"});
       }},
      {"DataIsAFolder",
       4,
       {"folder.csv"},
       [](const Ground& ground) {
         std::filesystem::create_directories(ground.path("folder.csv"));
         return ground.train(ground.path("folder.csv"));
       }},
      {"DataLabelUnseenInTraining",
       4,
       {"unseen.tsv:3", "awful", "bad"},
       [](const Ground& ground) {
         return ground.train(ground.data(),
                             {"--do_eval", "--validation_file",
                              ground.file("unseen.tsv", "sentence\tlabel\nword1\tgood\nword2\tawful\n")});
       }},
      {"DataLabelUnknownToModel",
       4,
       {"evaluate.tsv:2", "awful"},
       [](const Ground& ground) {
         return ground.evaluate(ground.model(),
                                ground.file("evaluate.tsv", "sentence\tlabel\nword1\tawful\n"));
       }},
      {"DataPredictWithoutLabels",
       0,
       {"wrote 1 prediction to "},
       [](const Ground& ground) {
         Words words = ground.predict(ground.model());
         words[4] = ground.file("test.csv", "sentence\nword1\n");
         return words;
       }},
      {"DataPredictIgnoresLabels",
       0,
       {"wrote 1 prediction to "},
       [](const Ground& ground) {
         Words words = ground.predict(ground.model());
         words[4] = ground.file("foreign.csv", "sentence,label\nword1,awful\n");
         return words;
       }},
      {"DataLabelsOtherThanTheModels",
       0,
       {"warning: the model was trained with the labels bad, good, but the data has the labels no, yes"},
       [](const Ground& ground) {
         return ground.train(ground.file("yes.csv", "sentence,label\nword1,yes\nword2,no\n"));
       }},
      {"DataPredictWithoutTexts",
       4,
       {"numbers.csv", "column"},
       [](const Ground& ground) {
         Words words = ground.predict(ground.model());
         words[4] = ground.file("numbers.csv", "label\n1\n");
         return words;
       }},
  };
}

}  // namespace plimsoll::testing
