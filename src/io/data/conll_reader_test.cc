#include "io/data/table_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/data/testing/letter_encoder.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

Table conll(const std::string& bytes, ConllFormat format = ConllFormat::kColumns) {
  return read_conll(text_file_from_memory("f.conll", bytes), format);
}

std::vector<std::string> cells_of(const Table& table, const std::string& column) {
  std::vector<std::string> cells;
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    cells.emplace_back(table.cell(row, table.find_column(column)));
  }
  return cells;
}

using Cells = std::vector<std::string>;

TEST(ConllReader, ReadsSentencesOfTheCommonLayouts) {
  const struct {
    const char* name;
    std::string bytes;
    Cells columns;
    Cells words;
    Cells tags;  // the expected cells of the last column, which contains tags
  } cases[] = {
      {"CoNLL-2003",
       "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n-DOCSTART- -X- -X- O\n\nPeter NNP "
       "B-NP B-PER\n",
       {"tokens", "pos_tags", "chunk_tags", "ner_tags"},
       {R"(["EU","rejects"])", R"(["Peter"])"},
       {R"(["B-ORG","O"])", R"(["B-PER"])"}},
      {"CoNLL-2000",
       "He PRP B-NP\nreckons VBZ B-VP\n\n",
       {"tokens", "pos_tags", "chunk_tags"},
       {R"(["He","reckons"])"},
       {R"(["B-NP","B-VP"])"}},
      {"tabs, words with blanks",
       "New York\tB-LOC\nis\tO\n\n\n\nhere\tO",
       {"tokens", "tags"},
       {R"(["New York","is"])", R"(["here"])"},
       {R"(["B-LOC","O"])", R"(["O"])"}},
      {"CRLF, a blank at the end of lines, blanks in an empty line",
       "a O \r\n  \r\nb B-X\r\n",
       {"tokens", "tags"},
       {R"(["a"])", R"(["b"])"},
       {R"(["O"])", R"(["B-X"])"}},
      {"byte-order mark and quotes",
       "\xEF\xBB\xBF\" O\n\\ O\n\xC3\xA4 B-X\n",
       {"tokens", "tags"},
       {"[\"\\\"\",\"\\\\\",\"\xC3\xA4\"]"},
       {R"(["O","O","B-X"])"}},
      {"five columns",
       "Haus Haus NN B-NP O\n",
       {"tokens", "column_2", "column_3", "column_4", "tags"},
       {R"(["Haus"])"},
       {R"(["O"])"}},
      {"comments of MultiCoNER",
       "# id 52-39\tdomain=en\nthe _ _ O\n# _ _ O\n\n# id 52-40\tdomain=en\nx _ _ B-CW\n",
       {"tokens", "pos_tags", "chunk_tags", "ner_tags"},
       {R"(["the","#"])", R"(["x"])"},
       {R"(["O","O"])", R"(["B-CW"])"}},
      {"a word #",
       "a\tO\n#\tO\n\n#\tB-X\n",
       {"tokens", "tags"},
       {R"(["a","#"])", R"(["#"])"},
       {R"(["O","O"])", R"(["B-X"])"}},
      {"words only", "a\nb\n\nc\n", {"tokens"}, {R"(["a","b"])", R"(["c"])"}, {R"(["a","b"])", R"(["c"])"}},
  };
  for (const auto& c : cases) {
    const Table table = conll(c.bytes);
    EXPECT_EQ(table.columns(), c.columns) << c.name;
    EXPECT_EQ(cells_of(table, "tokens"), c.words) << c.name;
    EXPECT_EQ(cells_of(table, c.columns.back()), c.tags) << c.name;
    EXPECT_TRUE(table.is_typed() && table.is_conll()) << c.name;
  }
}

TEST(ConllReader, ReadsUniversalDependencies) {
  const Table table = conll(
      "# sent_id = 1\n# text = vom Haus\n1-2\tvom\t_\t_\t_\t_\t_\t_\t_\t_\n1\tvon\tvon\tADP\tAPPR\t_\t3\tcase"
      "\t_\t_\n2\tdem\tder\tDET\tART\t_\t3\tdet\t_\t_\n2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n",
      ConllFormat::kUniversalDependencies);
  EXPECT_EQ(cells_of(table, "tokens"), Cells{R"(["von","dem"])"});
  EXPECT_EQ(cells_of(table, "pos_tags"), Cells{R"(["ADP","DET"])"});
  EXPECT_EQ(table.line(0), 4);
}

TEST(ConllReader, KnowsTheLineOfEachSentence) {
  const Table table = conll("-DOCSTART- O\n\n\na O\nb O\n\nc O\n");
  EXPECT_EQ(table.line(0), 4);
  EXPECT_EQ(table.line(1), 7);
}

TEST(ConllReader, SaysWhatIsWrongAndWhere) {
  const struct {
    const char* name;
    std::string bytes;
    const char* message;
  } cases[] = {
      {"a column is missing", "a O\n\nb\n",
       "4: f.conll:3: the line 'b' has 1 column, but line 1, which has the first word, has 2\n"},
      {"a column too many", "a O\nb c O\n",
       "4: f.conll:2: the line 'b c O' has 3 columns, but line 1, which has the first word, has 2\n"},
      {"blanks instead of tabs", "a\tO\nb O\n",
       "4: f.conll:2: the line 'b O' has 1 column, but line 1, which has the first word, has 2\n"},
      {"an empty word", "a\tO\n\tO\n", "4: f.conll:2: column 1 is empty: \\tO"},
      {"an empty tag", "a\tO\nb\t\n", "4: f.conll:2: column 2 is empty: b\\t"},
      {"no words", "-DOCSTART- O\n\n", "4: f.conll: the file has no words"},
  };
  for (const auto& c : cases) {
    const std::string error = error_of([&] { conll(c.bytes); });
    EXPECT_TRUE(error.starts_with(c.message)) << c.name << ": " << error << "\n  expected " << c.message;
  }
  EXPECT_TRUE(error_of([&] {
                conll("a\tO\n", ConllFormat::kUniversalDependencies);
              }).starts_with("4: f.conll:1: a line of a .conllu file has 10 columns"));
}

TEST(ConllReader, IsChosenByExtension) {
  const test::ScratchFolder folder;
  for (const char* name : {"a.conll", "a.txt", "a.CONLL"}) {
    EXPECT_EQ(read_table(folder.write(name, "a O\nb O\n\nc O\n")).num_rows(), 2) << name;
  }
  EXPECT_NE(error_of([&] {
              read_table(folder.write("b.txt", "one text\nanother longer text\n"));
            }).find("(a .txt file has one word and its tag per line; --problem_type masked_lm"),
            std::string::npos);
  const std::pair<const char*, const char*> others[] = {
      {"text\tlabel\ngood\t1\n", "looks like the header of a table, but a .txt file has one word"},
      {"a great film\t1\na bad one\t0\n", "begins with several words, but a .txt file has one word"},
      {"{\"text\": \"a\", \"label\": 0}\n", "the file contains JSON"}};
  for (const auto& other : others) {
    const std::string error = error_of([&] { read_table(folder.write("c.txt", other.first)); });
    EXPECT_NE(error.find(other.second), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace plimsoll
