// Data files: what is refused with file and line, and what is accepted although it looks odd.
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

Case data(std::string name, int exit_code, Words words, std::string file, std::string text) {
  return {std::move(name), exit_code, std::move(words),
          [file, text](const Ground& ground) { return ground.train(ground.file(file, text)); }};
}

}  // namespace

std::vector<Case> data_cases() {
  const std::string rows = "word1 is,good\nword2 is,bad\nword3,good\nword4,bad\n";
  const std::string tab_rows = "word1 is\tgood\nword2 is\tbad\n";
  const std::string json_rows =
      "{\"sentence\": \"word1\", \"label\": \"good\"}\n{\"sentence\": \"word2\", \"label\": \"bad\"}\n";
  return {
      data("CsvGood", 0, {"4"}, "good.csv", "sentence,label\n" + rows),
      data("CsvByteOrderMark", 0, {"4"}, "bom.csv", "\xef\xbb\xbfsentence,label\n" + rows),
      data("CsvCarriageReturns", 0, {"2"}, "crlf.csv", "sentence,label\r\nword1,good\r\nword2,bad\r\n"),
      data("CsvNoLastNewline", 0, {"2"}, "last.csv", "sentence,label\nword1,good\nword2,bad"),
      data("CsvQuotedNewline", 0, {"2"}, "quoted.csv",
           "sentence,label\n\"word1\nis \"\"a\"\"\",good\nword2,bad\n"),
      data("TsvGood", 0, {"2"}, "good.tsv", "sentence\tlabel\n" + tab_rows),
      data("TsvByteOrderMark", 0, {"2"}, "bom.tsv", "\xef\xbb\xbfsentence\tlabel\n" + tab_rows),
      data("JsonlGood", 0, {"2"}, "good.jsonl", json_rows),
      data("JsonlByteOrderMarkAndCarriageReturns", 0, {"2"}, "bom.jsonl",
           "\xef\xbb\xbf{\"sentence\": \"word1\", \"label\": \"good\"}\r\n{\"sentence\": \"word2\", "
           "\"label\": "
           "\"bad\"}\r\n"),
      data("JsonArrayGood", 0, {"2"}, "array.json",
           "[{\"sentence\": \"word1\", \"label\": 0}, {\"sentence\": \"word2\", \"label\": 1}]"),
      data("CsvRaggedLong", 4, {"ragged.csv:3", "3", "2"}, "ragged.csv",
           "sentence,label\nword1,good\nword2,bad,odd\n"),
      data("CsvRaggedShort", 4, {"short.csv:3", "1", "2"}, "short.csv",
           "sentence,label\nword1,good\nword2\n"),
      data("CsvOpenQuote", 4, {"open.csv:3", "quote"}, "open.csv",
           "sentence,label\nword1,good\n\"word2,bad\nword3,good\n"),
      data("CsvTextAfterQuote", 4, {"after.csv:2", "quote"}, "after.csv",
           "sentence,label\n\"word1\"x,good\nword2,bad\n"),
      data("CsvNul", 4, {"nul.csv:3"}, "nul.csv",
           std::string("sentence,label\nword1,good\nwo\0rd2,bad\n", 40)),
      data("CsvInvalidUtf8", 4, {"utf8.csv:3", "UTF-8"}, "utf8.csv",
           "sentence,label\nword1,good\nw\xff\xfe,bad\n"),
      data("CsvUtf16", 4, {"utf16.csv", "UTF-8"}, "utf16.csv", std::string("\xff\xfes\0e\0n\0", 8)),
      data("CsvEmpty", 4, {"empty.csv", "empty"}, "empty.csv", ""),
      data("CsvHeaderOnly", 4, {"header.csv", "no rows"}, "header.csv", "sentence,label\n"),
      data("CsvNoLabelColumn", 4, {"unlabelled.csv", "label", "sentence"}, "unlabelled.csv",
           "sentence,other\nword1,good\n"),
      data("CsvSameColumnTwice", 4, {"twice.csv:1", "sentence"}, "twice.csv",
           "sentence,sentence,label\na,b,good\n"),
      data("CsvOnlyLabels", 4, {"labels.csv", "column"}, "labels.csv", "label\ngood\nbad\n"),
      data("CsvMissingLabel", 4, {"missing.csv:3", "label"}, "missing.csv",
           "sentence,label\nword1,good\nword2,\nword3,bad\n"),
      data("CsvOneLabel", 0, {"warning: 100 %", "'good'"}, "one.csv",
           "sentence,label\nword1,good\nword2,good\n"),
      data("CsvLabelPerRow", 0, {"4"}, "many.csv", "sentence,label\na,1\nb,2\nc,3\nd,4\n"),
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
      {"DataNotThere",
       4,
       {"nothing.csv"},
       [](const Ground& ground) { return ground.train(ground.path("nothing.csv")); }},
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
         return Words{"eval",
                      "--model_name_or_path",
                      ground.model(),
                      "--output_dir",
                      ground.path("out"),
                      "--validation_file",
                      ground.file("evaluate.tsv", "sentence\tlabel\nword1\tawful\n")};
       }},
      {"DataPredictWithoutLabels",
       0,
       {"wrote 1 predictions"},
       [](const Ground& ground) {
         Words words = ground.predict(ground.model());
         words[4] = ground.file("test.csv", "sentence\nword1\n");
         return words;
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
