#include "io/data/data_columns.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "io/data/table_reader.h"
#include "io/data/testing/letter_encoder.h"
#include "io/data/text_split.h"

namespace plimsoll {
namespace {

Table csv(const std::string& bytes) {
  return read_csv(text_file_from_memory("f.csv", bytes));
}
Table jsonl(const std::string& bytes) {
  return read_jsonl(text_file_from_memory("f.jsonl", bytes));
}

TEST(Columns, ArePickedAsRunGlueDoesUnlessTheyCannotBeText) {
  const struct {
    const char* header;
    const char* row;
    const char* first;
    const char* second;  // the expected second text column; empty if only one text column is expected
    bool has_note;
  } cases[] = {
      {"sentence1,sentence2,label", "x,x,x", "sentence1", "sentence2", false},
      {"idx,label,sentence2,x,sentence1", "1,x,x,x,x", "sentence1", "sentence2", false},
      {"label,text", "x,x", "text", "", false},
      {"text,label", "x,x", "text", "", false},
      {"text", "x", "text", "", false},
      {"premise,label,hypothesis,note", "x,x,x,x", "premise", "hypothesis", false},
      {"index,question,sentence,label,other", "1,x,x,x,x", "question", "sentence", false},
      {"id,qid1,qid2,question1,question2,label", "1,2,3,x,x,x", "question1", "question2", false},
      {"sentence1,label,other", "x,x,x", "sentence1", "other", true},
      {"title,body,label", "x,x,x", "title", "body", true},
      // A column with a usual name of a row index, such as "id", must not be selected as text, whatever its values are.
      {"id,text,label", "x7,x,x", "text", "", true},
      {",text,label", "0,x,x", "text", "", true},
      {"Unnamed: 0.1,Unnamed: 0,text,label", "0,0,x,x", "text", "", true},
      {"text,guid,label", "x,x-1,x", "text", "", true},
      {"PhraseId,SentenceID,Phrase,label", "a1,b1,x,x", "Phrase", "", true},
      {"tweet_id,text,label", "x1,x,x", "text", "", true},
      {"ID,INDEX,text,label", "x,x,x,x", "text", "", true},
      {"__index_level_0__,text,label", "x,x,x", "text", "", true},
      // Columns of numbers, booleans or missing values, which pandas does not read as text, must not be selected.
      {"stars,text,label", "5,x,x", "text", "", true},
      {"text,score,label", "x,0.5,x", "text", "", true},
      {"verified,text,label", "True,x,x", "text", "", true},
      {"text,empty,label", "x,,x", "text", "", true},
      {"text,label,stars,useful", "x,x,4,1", "text", "", true},
      // Columns whose names only resemble those of a row index must be selected as texts.
      {"paid,text,label", "yes,x,x", "paid", "text", true},
      {"digits,label", "7,x", "digits", "", false},
  };
  for (const auto& c : cases) {
    const ColumnChoice choice = choose_columns(csv(fmt::format("{}\n{}\n", c.header, c.row)));
    EXPECT_EQ(choice.first, c.first) << c.header;
    EXPECT_EQ(choice.second.value_or(""), c.second) << c.header;
    EXPECT_EQ(choice.has_label, std::string(c.header).find("label") != std::string::npos) << c.header;
    EXPECT_EQ(!choice.note.empty(), c.has_note) << c.header << ": " << choice.note;
  }
}

// Published data sets contain columns that run_glue would read as a second text: the name of the label next to its number, and metadata.
// Relatives: a coarser form of the label, columns that follow from the label without its name, every kind of metadata that is recognized
// by its cells, and those that are recognized by their names.
TEST(Columns, AreNotFormsOfTheLabelOrMetadata) {
  const struct {
    const char* header;
    std::array<const char*, 4> rows;
    const char* texts;  // the expected columns
    const char* note;   // a part of the note
  } cases[] = {
      {"text,label,label_text",
       {"a b,1,pos", "c d,0,neg", "e f,1,pos", "g h,0,neg"},
       "text",
       "'label_text' is a form of the label"},
      {"text,label,label_text",
       {"a b,1,one", "c d,2,two", "e f,3,three", "g h,4,four"},
       "text",
       "'label_text' is a form of the label"},
      {"body x,label,label_text",
       {"a b,1,po s", "c d,0,ne g", "e f,1,po s", "g h,0,ne g"},
       "body x",
       "'label_text'"},
      {"mood,label,lyrics",
       {"so sad,1,a b", "glad,0,c d", "so sad,1,e f", "glad,0,g h"},
       "lyrics",
       "'mood' is a form of the label"},
      {"coarse,label,lyrics",
       {"x y,1,a b", "x y,1,c d", "z,2,e f", "z,2,g h"},
       "lyrics",
       "'coarse' is a form of the label"},
      {"Label Name,label,Labels,lyrics",
       {"a,1,b,c d", "b,2,c,e f", "c,3,d,g h", "d,4,e,i j"},
       "lyrics",
       "'Label Name', 'Labels' are forms"},
      {"url,lyrics,label",
       {"http://x.y/1,a b,1", "https://x.y/2,c d,0", "www.x.y,e f,1", ",g h,0"},
       "lyrics",
       "'url' is not text"},
      {"a,lyrics,label",
       {"2024-01-01,a b,1", "12:01,c d,0", "1 May 2024 3:00 pm,e f,1", "2024-01-01T00:00:00Z,g h,0"},
       "lyrics",
       "'a' is not text"},
      {"a,lyrics,label",
       {"$1,a b,1", "50%,c d,0", "1\xe2\x82\xac,e f,1", "3 USD,g h,0"},
       "lyrics",
       "'a' is not text"},
      {"a,lyrics,label",
       {"a/1.txt,a b,1", "2.jpg,c d,0", "3.mp4,e f,1", "4.json,g h,0"},
       "lyrics",
       "'a' is not text"},
      {"a,lyrics,label",
       {"cd613e30-d8f1-6adf-91b7-584a2265b1f5,a b,1", "0123456789abcdef0123,c d,0", "a@b.org,e f,1",
        ",g h,0"},
       "lyrics",
       "'a' is not text"},
      {"split,lang,lyrics,label",
       {"train,en,a b,1", "train,de,c d,0", "dev,fr,e f,1", "dev,it,g h,0"},
       "lyrics",
       "'split', 'lang' are not text"},
      {"qid,key,lyrics,label",
       {"q1,a,a b,1", "q2,b,c d,0", "q3,c,e f,1", "q4,d,g h,0"},
       "lyrics",
       "'qid', 'key' are not text"},
      // A column with a usual name of a text is preferred over single words, descriptions and categories.
      {"author,text,label",
       {"bob,a b,1", "al,c d,0", "cy,e f,1", "di,g h,0"},
       "text",
       "'author' is not read"},
      {"Author,Review,label",
       {"Bob X,a b,1", "Al Y,c d,0", "Cy,e f,1", "Di,g h,0"},
       "Review",
       "'Author' is not read"},
      {"flag,wish,text,label",
       {"yes,u,a b,1", "no,v,c d,0", "yes,w,e f,0", "no,x,g h,1"},
       "text",
       "'flag', 'wish' are not read"},
      // Other columns remain pairs, as in run_glue.
      {"title,text,label",
       {"bob,a b,1", "al,c d,0", "cy,e f,1", "di,g h,0"},
       "title text",
       "each text is a pair"},
      {"text,remark,label",
       {"a b,b,1", "c d,c d,0", "e f,d,1", "g h,e,0"},
       "text remark",
       "each text is a pair"},
      {"sentence1,sentence2,label",
       {"a b,yes,1", "c d,no,0", "e f,yes,1", "g h,no,0"},
       "sentence1 sentence2",
       ""},
      // Without another column, metadata is the text, and so is a column called text whose few rows follow from the label.
      {"url,label", {"http://x.y/1,1", "http://x.y/2,0", "http://x.y/3,1", "http://x.y/4,0"}, "url", ""},
      {"id,text,label", {"1,a,1", "2,b,0", "3,a,1", "4,b,0"}, "text", "'id' is not text"},
  };
  for (const auto& c : cases) {
    std::string bytes = fmt::format("{}\n", c.header);
    for (const char* row : c.rows) bytes += fmt::format("{}\n", row);
    ColumnChoice choice;
    EXPECT_EQ(error_of([&] { choice = choose_columns(csv(bytes)); }), "no error") << bytes;
    EXPECT_EQ(choice.first + (choice.second ? " " + *choice.second : ""), c.texts) << bytes;
    EXPECT_NE(choice.note.find(c.note), std::string::npos) << choice.note << "\n" << bytes;
  }
  const auto error = [](const char* bytes) { return error_of([&] { choose_columns(csv(bytes)); }); };
  EXPECT_TRUE(
      error("id,kind,label\n1,a,1\n2,b,0\n3,a,1\n4,b,0\n")
          .starts_with("4: f.csv: expected a text column in addition to the label 'label', found 'id', "
                       "'kind', 'label' ('kind' is a form of the label)"));
  EXPECT_TRUE(error("url,link,label\nwww.a,www.b,1\nwww.c,www.d,0\nwww.e,www.f,2\n")
                  .starts_with("4: f.csv: expected a text column in addition to the label 'label', found "
                               "'url', 'link', 'label'"));
  EXPECT_EQ(choose_document_column(csv("url,date,lyrics\nwww.a,1999,a b\nwww.b,2000,c d\n"), {}).first,
            "lyrics");
}

TEST(Columns, OfJsonWithNumbersAreNotTexts) {
  const ColumnChoice choice = choose_columns(
      jsonl("{\"number\": 7, \"text\": null, \"flag\": true, \"label\": 1}\n{\"number\": 8, \"text\": \"7\", "
            "\"flag\": false, \"label\": 0}\n"));
  EXPECT_EQ(choice.first, "text");
  EXPECT_FALSE(choice.second.has_value());
}

TEST(Columns, AreNotGuessedAmongSeveral) {
  const auto error = [](const std::string& header, std::optional<size_t> num_texts) {
    std::string row = "x";
    for (const char letter : header) row += letter == ',' ? ",x" : "";
    ColumnOptions options;
    options.num_texts = num_texts;
    return error_of([&] { choose_columns(csv(header + "\n" + row + "\n"), options); });
  };
  EXPECT_EQ(
      error("id,title,text,author,label", std::nullopt),
      "4: f.csv: the texts could be in any of the columns 'title', 'text', 'author': select one, or two "
      "for pairs of texts, with --text_column_names");
  EXPECT_EQ(error("title,text,label", 1),
            "4: f.csv: the texts could be in any of the columns 'title', 'text': select one with "
            "--text_column_names");
  EXPECT_EQ(error("sentence1,sentence2,label", 1),
            "4: f.csv: the texts could be in any of the columns 'sentence1', 'sentence2': select one with "
            "--text_column_names");
  EXPECT_EQ(error("a,b,c,label", 2),
            "4: f.csv: the texts could be in any of the columns 'a', 'b', 'c': select two with "
            "--text_column_names");
  EXPECT_EQ(error("id,text,label", 2),
            "4: f.csv: the model reads pairs of texts, but only the column 'text' is text; add the second "
            "text, or read single texts with --text_column_names text");
  EXPECT_EQ(error("id,text,label", 1), "no error");
  EXPECT_EQ(error("id,title,text,label", 2), "no error");
  EXPECT_EQ(error("sentence1,sentence2,note,label", 2), "no error");
  EXPECT_TRUE(
      error("id,label", std::nullopt)
          .starts_with("4: f.csv: expected a text column in addition to the label 'label', found 'id', "
                       "'label'"));
}

TEST(Columns, CanBeNamed) {
  const Table table = csv("id,title,body,topic\n1,a,b,c\n");
  const ColumnChoice pair = choose_columns(table, {{"body", "title"}, "topic"});
  EXPECT_EQ(pair.first, "body");
  EXPECT_EQ(pair.second, "title");
  EXPECT_EQ(pair.label, "topic");
  EXPECT_TRUE(pair.has_label);
  EXPECT_FALSE(choose_columns(table, {{"body"}, "topic"}).second.has_value());
}

TEST(Columns, SayWhatIsExpectedAndFound) {
  const auto error = [](const std::string& bytes, const ColumnOptions& options) {
    return error_of([&] { choose_columns(csv(bytes), options); });
  };
  EXPECT_NE(error("a,b\n1,2\n", {{"c"}, "label"}).find("4: f.csv: expected a column 'c', found 'a', 'b'"),
            std::string::npos);
  EXPECT_NE(error("label\n1\n", {})
                .find("4: f.csv: expected a text column in addition to the label 'label', found 'label'"),
            std::string::npos);
  EXPECT_NE(
      error("a\tlabel\n1\t2\n", {{"a"}, "label"}).find("are separated by tabs: rename the file to .tsv"),
      std::string::npos);
  EXPECT_NE(error("a;label\n1;2\n", {{"a"}, "label"}).find("semicolons"), std::string::npos);
  // The error message must name first the option to use and then the probable cause.
  EXPECT_EQ(
      error_of([&] { require_label_column(csv("a;label\n1;2\n"), "label"); }),
      "4: f.csv: no column is called 'label', from which labels are read; the columns are 'a;label'. Rename "
      "the column with the labels, or select it with --label_column_name\n  the fields of the header "
      "'a;label' are separated by semicolons, but "
      "those of a .csv file by "
      "commas: write it with commas, or with tabs as .tsv");
  EXPECT_TRUE(error("a,b\n1,2\n", {{"a", "b", "a"}, "label"}).starts_with("2: 3 text columns are given"));
  EXPECT_TRUE(error("a,b\n1,2\n", {{"a"}, "a"}).starts_with("2: the column 'a' is given both"));
}

TEST(Columns, NameOtherSeparators) {
  const auto tsv = [](const std::string& bytes) {
    CsvOptions options;
    options.delimiter = '\t';
    return read_csv(text_file_from_memory("f.tsv", bytes), options);
  };
  const struct {
    Table table;
    const char* sentence;
  } cases[] = {
      {csv("id;text;label\n1;a;0\n"), "are separated by semicolons, but those of a .csv file by commas"},
      {csv("text|label\na|0\n"), "are separated by vertical bars, but those of a .csv file by commas"},
      {csv("text\tlabel\na\t0\n"), "are separated by tabs: rename the file to .tsv"},
      {tsv("text,label\na,0\n"), "are separated by commas: rename the file to .csv"},
      {tsv("text;label\na;0\n"),
       "are separated by semicolons, but those of a .tsv file by tabs: write it with"},
      {tsv("text|label\na|0\n"), "are separated by vertical bars, but those of a .tsv file by tabs"},
  };
  for (const auto& c : cases) {
    // A wrong separator must be reported both for training, which needs a label column, and for prediction, which does not.
    const std::string missing = error_of([&] { require_label_column(c.table, "label"); });
    EXPECT_NE(missing.find(c.sentence), std::string::npos) << missing << "\n  expected " << c.sentence;
    const std::string one_text = error_of([&] { choose_columns(c.table); });
    EXPECT_NE(one_text.find(c.sentence), std::string::npos) << one_text << "\n  expected " << c.sentence;
  }
  EXPECT_EQ(choose_columns(csv("text; a note\nno separator here\n")).first, "text; a note");
}

TEST(Columns, NameAFileWithoutHeader) {
  const struct {
    const char* bytes;
    // The value which shows that the first row is data; empty if the first row is a header.
    const char* value;
  } cases[] = {
      {"3,Oil price up,the bank said oil price is up\n2,Cup won,the team won the cup\n", "3"},
      {"0.5,a\n1.5,b\n", "0.5"},
      {"this film was very good,positive\nbad,negative\n", "this film was very good"},
      {"good,positive\nbad,negative\nfine,positive\n", "positive"},
      {"1\n2\n", "1"},
      {"text,kind\ngood,positive\n", ""},
      {"review text,kind\ngood,positive\n", ""},
      // The missing header is named instead of several columns that could be texts.
      {"0,a1,NO_QUERY,some one,is upset\n4,b2,other,b,dived well\n", "0"},
  };
  for (const auto& c : cases) {
    std::string error = error_of([&] { require_label_column(csv(c.bytes), "label"); });
    if (std::string_view(c.bytes).starts_with("0,")) error = error_of([&] { choose_columns(csv(c.bytes)); });
    const std::string hint =
        fmt::format("the first row looks like data ('{}'), but it must name the ", c.value);
    EXPECT_EQ(error.find(hint) != std::string::npos, *c.value != '\0') << error;
  }
}

// A file for prediction has no label column that would identify the header. A missing header must be reported nevertheless, because the
// text in the first row would be lost.
TEST(Columns, OfRowsToPredictAreNamedByAHeader) {
  const auto check = [](const char* bytes, const ColumnOptions& options = {}) {
    std::string note;
    const std::string error = error_of([&] { note = check_header(csv(bytes), options); });
    return note.empty() ? error : note;
  };
  const std::string lost = "4: f.csv: the first row looks like data ('{}'), but it must name the ";
  for (const auto& [bytes, value] : std::initializer_list<std::pair<const char*, const char*>>{
           {"good film,1\nbad film,0\n", "1"},
           {"good film,positive\nbad film,negative\nfine music,positive\n", "positive"},
           {"this film was very good\nbad film\n", "this film was very good"}}) {
    EXPECT_TRUE(check(bytes).starts_with(fmt::format(fmt::runtime(lost), value))) << check(bytes);
    EXPECT_NE(check(bytes).find("--text_column_names"), std::string::npos) << check(bytes);
  }
  EXPECT_TRUE(
      check("good film\nbad film\n").starts_with("f.csv: the first row ('good film') is read as the name"));
  for (const char* bytes : {"0,text\n1,good film\n", "0,sentence1,sentence2\n1,a,b\n", "0,label\n1,2\n",
                            "review,id\ngood film,1\n", "review\ngood film\n"}) {
    EXPECT_EQ(check(bytes), "no error") << bytes;
  }
  EXPECT_EQ(check("good film,1\nbad film,0\n", {.text = {"good film"}}), "no error");
}

TEST(Columns, OfTokenIdsNeedJson) {
  EXPECT_TRUE(
      error_of([] { choose_columns(csv("input_ids,label\n\"[2, 5]\",1\n")); })
          .starts_with(
              "4: f.csv: the column 'input_ids' has lists of token ids, which a CSV file contains as text"));
  EXPECT_EQ(choose_columns(csv("input_ids,label\ngood,1\n")).first, "input_ids");
}

TEST(Columns, AreNotTheRowsOfAFile) {
  const auto error = [](const std::string& bytes) {
    return error_of([&] {
      const TextFile file = text_file_from_memory("f.json", bytes);
      choose_columns(looks_like_jsonl(file) ? read_jsonl(file) : read_json(file));
    });
  };
  const std::string objects =
      "4: f.json: the file has an object for each of 'text', 'label', but one object per row";
  // The test covers the outputs of pandas' DataFrame.to_json with orient "columns" (the default), "index", "split" and "values", and a
  // dictionary of lists.
  EXPECT_TRUE(error(R"({"text":{"0":"a","1":"b"},"label":{"0":1,"1":0}})").starts_with(objects));
  EXPECT_TRUE(error("{\n\"text\": {\"0\": \"a\"}, \"label\": {\"0\": 1}}").starts_with(objects));
  EXPECT_TRUE(error(R"({"0":{"text":"a","label":1},"1":{"text":"b","label":0}})")
                  .starts_with("4: f.json: the file has an object for each of '0', '1'"));
  EXPECT_TRUE(error(R"({"text":["a","b"],"label":[1,0]})")
                  .starts_with("4: f.json: the file has a list for each of 'text', 'label'"));
  for (const char* rows :
       {R"({"columns":["text","label"],"index":[0],"data":[["a",1]]})", R"([["a",1],["b",0]])"}) {
    EXPECT_NE(error(rows).find("every row must be an object"), std::string::npos) << error(rows);
    EXPECT_NE(error(rows).find("orient='records'"), std::string::npos) << error(rows);
  }
  for (const char* splits :
       {R"({"train":[{"text":"a","label":1}],"test":[{"text":"b","label":0}]})",
        R"({"train":[{"text":"a","label":1}],"test":[]})", "{\n\"data \": [{\"text\":\"a\"}]}"}) {
    EXPECT_NE(error(splits).find("the file is one object with lists of rows in '"), std::string::npos)
        << error(splits);
  }
  EXPECT_EQ(error(R"({"tokens":["a","b"],"ner_tags":[1,0]})"), "no error");
  EXPECT_EQ(error(R"({"text":"a","label":[1,0]})"), "no error");
}

TEST(Columns, OfJsonAreThoseOfItsFirstRow) {
  const Table table = jsonl("\n{\"label\": 1}\n{\"text\": \"a\", \"label\": 0}\n");
  const std::string hint = "the keys of the first row are the columns";
  for (const ColumnOptions& options : {ColumnOptions{}, ColumnOptions{{"text"}, "label"}}) {
    const std::string error = error_of([&] { choose_columns(table, options); });
    EXPECT_TRUE(error.starts_with("4: f.jsonl:2: expected a ")) << error;
    EXPECT_NE(error.find(hint), std::string::npos) << error;
  }
  const std::string error = error_of([&] { require_label_column(table, "kind"); });
  EXPECT_TRUE(error.starts_with("4: f.jsonl:2: no column is called 'kind'")) << error;
  EXPECT_NE(error.find(hint), std::string::npos) << error;
}

TEST(TextSplit, GivesTextsLabelsAndLines) {
  Table table = csv("a,b,label\nx,y,1\n\nz,,0\n");
  const ColumnChoice columns = choose_columns(table);
  TextSplit split(std::move(table), columns);
  ASSERT_EQ(split.num_rows(), 2);
  EXPECT_TRUE(split.is_pair());
  EXPECT_EQ(split.first_text(1), "z");
  EXPECT_EQ(split.second_text(0), "y");
  EXPECT_EQ(split.label(1), "0");
  EXPECT_EQ(split.line(1), 4);
  EXPECT_EQ(split.num_empty_texts(), 1);
  const uint64_t all = split.text_hash();
  split.keep_first(1);
  EXPECT_EQ(split.num_rows(), 1);
  EXPECT_NE(split.text_hash(), all);
  split.keep_first(5);
  EXPECT_EQ(split.num_rows(), 1);
}

TEST(TextSplit, RefusesWhatIsNotText) {
  const struct {
    const char* rows;
    const char* message;
  } cases[] = {
      {R"({"text": "a", "label": 1}
{"text": 3, "label": 1})",
       "4: f.jsonl:2: expected text in column 'text', found an integer: 3"},
      {R"({"text": 2.5, "label": 1})", "4: f.jsonl:1: expected text in column 'text', found a float: 2.5"},
      {R"({"text": ["a"], "label": 1})",
       "4: f.jsonl:1: expected text in column 'text', found a list: [\"a\"]"},
      {R"({"text": {"b": 1}, "label": 1})", "4: f.jsonl:1: expected text in column 'text', found an object"},
      {R"({"text": true, "label": 1})", "4: f.jsonl:1: expected text in column 'text', found true or false"},
      {R"({"text": "a", "label": 1}
{"label": 1})",
       "4: f.jsonl:2: the text column 'text' is null or missing in this row"},
  };
  for (const auto& c : cases) {
    const std::string error = error_of([&] {
      Table table = jsonl(c.rows);
      const ColumnChoice columns = choose_columns(table);
      TextSplit(std::move(table), columns);
    });
    EXPECT_TRUE(error.starts_with(c.message)) << error << "\n  expected " << c.message;
  }
}

TEST(TextSplit, ASecondFileMustHaveTheFirstOnesColumns) {
  const ColumnChoice columns = choose_columns(csv("premise,hypothesis,label\nx,y,1\n"));
  const std::string error = error_of([&] { TextSplit(csv("premise,label\nx,1\n"), columns); });
  EXPECT_EQ(error,
            "4: f.csv: column 'hypothesis' is missing: expected 'premise', 'hypothesis', 'label', found "
            "'premise', 'label'");
}

}  // namespace
}  // namespace plimsoll
