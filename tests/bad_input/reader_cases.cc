// Tables, line by line: errors with file and line, and unusual input that is accepted.
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
// These literals have a length and can contain NUL bytes.
using namespace std::string_literals;
namespace {

Case data(std::string name, int exit_code, Words words, std::string file, std::string text) {
  return {std::move(name), exit_code, std::move(words),
          [file = std::move(file), text = std::move(text)](const Ground& ground) {
            return ground.train(ground.file(file, text));
          }};
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
      data("CsvTextAfterQuote", 4, {"after.csv:2", "quote"}, "after.csv",
           "sentence,label\n\"word1\"x,good\nword2,bad\n"),
      data("CsvNul", 4, {"nul.csv:3"}, "nul.csv", "sentence,label\nword1,good\nwo\0rd2,bad\n"s),
      data("CsvInvalidUtf8", 4, {"utf8.csv:3", "UTF-8"}, "utf8.csv",
           "sentence,label\nword1,good\nw\xff\xfe,bad\n"),
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
      data("JsonlMixedLabels", 4, {"mixed.jsonl:2", "text here", "line 1"}, "mixed.jsonl",
           "{\"sentence\": \"word1\", \"label\": 0}\n{\"sentence\": \"word2\", \"label\": \"bad\"}\n"),
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
      data("CsvIndexColumn", 0, {"warning: ", "'id'", "--text_column_names"}, "index.csv",
           "id,sentence,label\n1,a,good\n2,b,bad\n"),
      {"DataValidationHasOtherColumns",
       4,
       {"other.tsv", "expected a column 'sentence'", "'text', 'more'"},
       [](const Ground& ground) {
         return ground.train(ground.data(), {"--do_eval", "--validation_file",
                                             ground.file("other.tsv", "text\tmore\tlabel\na\tb\tgood\n")});
       }},
      {"DataValidationWithoutLabels",
       4,
       {"nolabels.tsv", "no column 'label'", "--label_column_name"},
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
       {"files: data files must be .csv, .tsv, .json or .jsonl; this is a folder; give a file in it"},
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
       {"warning: the model was trained with the labels bad, good, the data has no, yes"},
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
