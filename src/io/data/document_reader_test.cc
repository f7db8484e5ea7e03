#include "io/data/document_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "io/data/testing/letter_encoder.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

class Documents : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) { return folder_.write(name, text); }

  // Reads the documents of a file as strings with their line numbers, such as "1:text".
  std::vector<std::string> read(const std::string& path, const DocumentOptions& options = {}) {
    std::vector<std::string> documents;
    num_parts_ = 0;
    note_ = read_documents(path, options, [&](const TextSplit& part) {
              ++num_parts_;
              for (int64_t row = 0; row < part.num_rows(); ++row)
                documents.push_back(std::to_string(part.line(row)) + ":" + std::string(part.first_text(row)));
            }).note;
    return documents;
  }

  test::ScratchFolder folder_;
  int num_parts_ = 0;
  std::string note_;
};

using Texts = std::vector<std::string>;

TEST_F(Documents, OfATextAreItsLines) {
  const std::string path = file("a.txt", "one\n\ntwo\r\nthree\rfour");
  EXPECT_EQ(read(path), (Texts{"1:one\n", "2:\n", "3:two\n", "4:three\n", "5:four"}));
  EXPECT_EQ(read(path, {.line_breaks = LineBreaks::kDrop}),
            (Texts{"1:one", "2:", "3:two", "4:three", "5:four"}));
  EXPECT_EQ(read(file("b.txt", "\xEF\xBB\xBFone\n")), (Texts{"1:one\n"}));
  EXPECT_EQ(read(file("c.TXT", "\n\n")), (Texts{"1:\n", "2:\n"}));
}

// A part of a file of token ids has the columns of the first row of the file. The columns that this row lacks must not be expected in later
// parts, and a later part that has one of them is an error as within one part.
TEST_F(Documents, OfTokenIdsHaveTheColumnsOfTheFirstRow) {
  std::string rows;
  while (rows.size() < size_t{3} << 20) rows += "{\"input_ids\": [5, 6, 7, 8]}\n";
  const auto count = [&](const std::string& path) {
    int64_t num_rows = 0;
    num_parts_ = 0;
    read_documents(path, {.part_bytes = 1000}, [&](const TextSplit& part) {
      ++num_parts_;
      num_rows += part.num_rows();
    });
    return num_rows;
  };
  EXPECT_EQ(count(file("ids.jsonl", rows)), std::ranges::count(rows, '\n'));
  EXPECT_GT(num_parts_, 1);
  for (const std::string name : {"token_type_ids", "attention_mask", "position_ids", "labels"}) {
    const std::string late = rows + "{\"input_ids\": [5], \"" + name + "\": [1]}\n";
    const std::string path = file(name + ".jsonl", late);
    const std::string error = error_of([&] { count(path); });
    EXPECT_NE(error.find(fmt::format(":{}: the row has '{}', but the first row",
                                     std::ranges::count(late, '\n'), name)),
              std::string::npos)
        << error;
  }
}

TEST_F(Documents, ComeInPartsThatDivideNoLine) {
  std::string text;
  Texts expected;
  for (int i = 1; i <= 50; ++i) {
    text += std::string(static_cast<size_t>(i % 7), 'x') + "\xC3\xA9\n";
    expected.push_back(std::to_string(i) + ":" + std::string(static_cast<size_t>(i % 7), 'x') + "\xC3\xA9\n");
  }
  // A file is read 1 MiB at a time, so a test of several parts needs longer texts than that.
  const std::string long_line(size_t{3} << 20, 'y');
  text += long_line;
  expected.push_back("51:" + long_line);
  const std::string path = file("parts.txt", text);
  EXPECT_EQ(read(path), expected);
  EXPECT_EQ(num_parts_, 1);
  EXPECT_EQ(read(path, {.column = {}, .part_bytes = 10}), expected);
  EXPECT_GT(num_parts_, 1);
}

TEST_F(Documents, OfRowsAreTheTextsOfAColumn) {
  const std::string rows = "{\"id\": 1, \"text\": \"a\"}\n\n{\"text\": \"b\\nc\", \"id\": 2}\n";
  EXPECT_EQ(read(file("a.jsonl", rows)), (Texts{"1:a", "3:b\nc"}));
  EXPECT_EQ(note_, "");
  EXPECT_EQ(read(file("a.json",
                      "["
                      "{\"id\": 1, \"text\": \"a\"}, {\"id\": 2, \"text\": \"b\"}]")),
            (Texts{"1:a", "1:b"}));
  EXPECT_EQ(read(file("a.csv", "text,label\n\"a, b\",0\nc,1\n")), (Texts{"2:a, b", "3:c"}));
  EXPECT_EQ(read(file("a.tsv", "n\tbody\n1\tx\n")), (Texts{"2:x"}));
  EXPECT_NE(note_.find("the documents are the texts of the column 'body'"), std::string::npos) << note_;
  EXPECT_EQ(read(file("b.tsv", "n\tbody\ttext\n1\tx\ty\n"), {.column = "body"}), (Texts{"2:x"}));
}

// In a later part of the file, the first row may have other columns before the one with the documents. The column must still be found by
// its name.
TEST_F(Documents, OfLaterPartsHaveTheColumnOfTheFirst) {
  std::string rows = "{\"text\": \"a\", \"n\": 1}\n";
  rows += "{\"padding\": \"" + std::string(size_t{2} << 20, 'p') + "\", \"text\": \"b\"}\n";
  rows += "{\"other\": \"no\", \"text\": \"c\"}\n";
  EXPECT_EQ(read(file("a.jsonl", rows), {.column = {}, .part_bytes = 10}), (Texts{"1:a", "2:b", "3:c"}));
  EXPECT_GT(num_parts_, 1);
}

TEST_F(Documents, NameTheLineOfAFaultInAnyPart) {
  const std::string rows = "{\"text\": \"a\"}\n{\"text\": \"" + std::string(size_t{2} << 20, 'p') + "\"}\n";
  const auto fault = [&](const std::string& name, const std::string& text) {
    const std::string path = file(name, text);
    return error_of([&] { read(path, {.column = {}, .part_bytes = 10}); });
  };
  EXPECT_NE(fault("a.jsonl", rows + "{\"text\": 3}\n").find("a.jsonl:3: expected text in column 'text'"),
            std::string::npos);
  EXPECT_NE(fault("b.jsonl", rows + "{\"text\": \"\n").find("b.jsonl:3:"), std::string::npos);
  EXPECT_NE(
      fault("c.jsonl", rows + "\n{\"other\": \"x\"}\n").find("c.jsonl:4: the text column 'text' is null"),
      std::string::npos);
  const std::string lines = "a\n" + std::string(size_t{2} << 20, 'p') + "\n";
  EXPECT_NE(fault("d.txt", lines + "caf\xE9\n").find("d.txt:3:4: byte 0xE9 is not valid UTF-8"),
            std::string::npos);
  EXPECT_NE(fault("e.txt", lines + std::string("x\0y\n", 4)).find("e.txt:3:2: NUL byte"), std::string::npos);
  EXPECT_NE(fault("f.txt", "").find("the file is empty"), std::string::npos);
  EXPECT_NE(fault("g.jsonl", "\n \n").find("no documents"), std::string::npos);
  EXPECT_NE(fault("h.jsonl", "{\"a\": 1, \"b\": [2]}\n").find("found 'a', 'b'"), std::string::npos);
}

TEST_F(Documents, OfUnknownFormatsAreRefused) {
  // The formats of Arrow are tested in arrow_reader_test.cc.
  const auto fault = [&](const std::string& path) { return error_of([&] { read(path); }); };
  EXPECT_NE(fault(file("a.docx", "PK")).find("this file is '.docx'"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll
