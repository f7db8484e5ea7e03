#include "io/data/arrow_reader.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/check.h"
#include "io/data/document_reader.h"
#include "io/data/table_reader.h"
#include "io/data/text_file.h"
#include "tests/support/scratch_folder.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

std::string path_of(const std::string& name) {
  return PLIMSOLL_SOURCE_DIR "/src/io/data/fixtures/arrow/" + name;
}

Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "no error");
}

void expect_equal(const Table& table, const Table& wanted, int64_t first_row = 0) {
  for (int64_t row = 0; row < table.num_rows(); ++row) {
    for (int64_t column = 0; column < table.num_columns(); ++column) {
      const int64_t other = wanted.find_column(table.columns()[static_cast<size_t>(column)]);
      ASSERT_GE(other, 0);
      EXPECT_EQ(table.cell(row, column), wanted.cell(first_row + row, other)) << row << " " << column;
      EXPECT_EQ(table.kind(row, column), wanted.kind(first_row + row, other)) << row << " " << column;
    }
    EXPECT_EQ(table.line(row), first_row + row + 1);
  }
}

class ArrowReader : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_arrow()) GTEST_SKIP() << "Plimsoll was built without Apache Arrow";
  }
  const Table wanted_ = read_table(path_of("rows.jsonl"));
};

TEST_F(ArrowReader, CellsAreThoseOfAJsonlFile) {
  for (const char* name : {"rows.parquet", "large.parquet", "rows.arrow", "saved"}) {
    SCOPED_TRACE(name);
    const Table table = read_table(path_of(name));
    EXPECT_TRUE(table.is_typed());
    EXPECT_EQ(table.num_rows(), wanted_.num_rows());
    EXPECT_EQ(table.num_columns(), wanted_.num_columns());
    EXPECT_NE(table.content_hash(), 0u);
    expect_equal(table, wanted_);
    EXPECT_TRUE(is_data_file(path_of(name)));
  }
}

TEST_F(ArrowReader, ReadsChosenColumnsInParts) {
  for (const char* name : {"rows.parquet", "rows.arrow", "saved"}) {
    SCOPED_TRACE(name);
    int64_t num_rows = 0, num_parts = 0;
    read_arrow(path_of(name), {.columns = {"messages", "text", "nothing"}, .part_bytes = 1},
               [&](const Table& part) {
                 EXPECT_EQ(part.num_columns(), 2);
                 expect_equal(part, wanted_, num_rows);
                 num_rows += part.num_rows();
                 ++num_parts;
               });
    EXPECT_EQ(num_rows, wanted_.num_rows());
    EXPECT_GT(num_parts, 1);
    EXPECT_EQ(read_arrow_table(path_of(name), {.max_rows = 19}).num_rows(), 19);
  }
}

TEST_F(ArrowReader, DocumentsConversationsAndIds) {
  const auto rows_of = [](const std::string& name, const DocumentOptions& options) {
    int64_t num_rows = 0;
    std::optional<TextSplit> first;
    const ColumnChoice columns = read_documents(path_of(name), options, [&](const TextSplit& part) {
      num_rows += part.num_rows();
      if (!first) first = part;
    });
    EXPECT_EQ(num_rows, 50);
    return std::pair(columns, *first);
  };
  for (const char* name : {"rows.jsonl", "rows.parquet", "saved"}) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(is_read_in_parts(path_of(name)));
    EXPECT_EQ(rows_of(name, {.column = "text"}).first.first, "text");
    EXPECT_EQ(rows_of(name, {.column = "messages", .reads_chats = true}).second.chat(),
              ChatColumns::kMessages);
    EXPECT_TRUE(rows_of(name, {}).second.has_ids());
    EXPECT_EQ(rows_of(name, {}).second.tokens(100).num_tokens(),
              rows_of("rows.jsonl", {}).second.tokens(100).num_tokens());
  }
}

// A split that consists of several numbered files is read as one table, which contains the rows of file 0, then those of file 1, and so on.
TEST_F(ArrowReader, ReadsTheFilesOfASplit) {
  const test::ScratchFolder folder;
  const auto copy = [&](const char* from, const std::string& to) {
    fs::create_directories(fs::path(folder.path() + "/" + to).parent_path());
    fs::copy_file(path_of(from), folder.path() + "/" + to);
  };
  copy("rows.parquet", "hub/data/train-00000-of-00002.parquet");
  copy("large.parquet", "hub/data/train-00001-of-00002.parquet");
  copy("rows.parquet", "plain/part-a.parquet");
  copy("rows.parquet", "plain/part-b.parquet");
  const std::string hub = folder.path() + "/hub";
  for (const std::string& name : {hub, hub + "/data", hub + "/data/train-*.parquet",
                                  hub + "/data/*0000*.parquet", folder.path() + "/plain"}) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(is_arrow_data(name));
    EXPECT_TRUE(is_data_file(name));
    const Table table = read_table(name);
    ASSERT_EQ(table.num_rows(), 2 * wanted_.num_rows());
    EXPECT_NE(table.content_hash(), 0u);
    for (int64_t row = 0; row < table.num_rows(); ++row) {
      EXPECT_EQ(table.line(row), row + 1);
      EXPECT_EQ(table.cell(row, table.find_column("text")),
                wanted_.cell(row % wanted_.num_rows(), wanted_.find_column("text")));
    }
    int64_t num_rows = 0;
    read_arrow(name, {.columns = {"text"}, .part_bytes = 1},
               [&](const Table& part) { num_rows += part.num_rows(); });
    EXPECT_EQ(num_rows, 2 * wanted_.num_rows());
    EXPECT_EQ(read_arrow_table(name, {.max_rows = 51}).num_rows(), 51);
  }
  EXPECT_EQ(read_table(hub + "/data/train-00001*.parquet").num_rows(), wanted_.num_rows())
      << "a pattern may leave files out";
  const auto fault = [&](const std::string& name) {
    const Error error = error_of([&] { read_table(folder.path() + "/" + name); });
    return std::to_string(static_cast<int>(error.code())) + " " + error.what();
  };
  copy("rows.parquet", "hub/data/test-00000-of-00001.parquet");
  EXPECT_NE(fault("hub").find("several splits (test, train); name those to read, such as '"),
            std::string::npos)
      << fault("hub");
  EXPECT_EQ(read_table(hub + "/data/train-*.parquet").num_rows(), 2 * wanted_.num_rows());
  copy("rows.parquet", "missing/train-00000-of-00003.parquet");
  copy("rows.parquet", "missing/train-00001-of-00003.parquet");
  EXPECT_NE(
      fault("missing").find("has 2 of the 3 files of the data set, without train-00002-of-00003.parquet"),
      std::string::npos)
      << fault("missing");
  copy("rows.parquet", "gap/train-00001-of-00002.parquet");
  EXPECT_NE(fault("gap").find("has 1 of the 2 files of the data set, without train-00000-of-00002.parquet"),
            std::string::npos)
      << fault("gap");
  copy("rows.parquet", "two/train-00000-of-00001.parquet");
  copy("rows.parquet", "two/train-00000-of-00002.parquet");
  EXPECT_NE(fault("two").find("belong to different data sets: they state 1 and 2 files"), std::string::npos)
      << fault("two");
  copy("rows.parquet", "columns/a.parquet");
  copy("other.parquet", "columns/b.parquet");
  EXPECT_NE(fault("columns").find("b.parquet: the file has the columns"), std::string::npos)
      << fault("columns");
  EXPECT_NE(fault("nothing/train-*.parquet").find("no file has such a name"), std::string::npos);
  copy("rows.parquet", "cut/a.parquet");
  copy("cut.parquet", "cut/b.parquet");
  EXPECT_NE(fault("cut").find("b.parquet: the file is damaged, cut short"), std::string::npos)
      << fault("cut");
}

TEST_F(ArrowReader, RefusesWhatIsDamagedOrUnreadable) {
  const auto fault = [](const std::string& name) {
    const Error error = error_of([&] { read_table(path_of(name)); });
    EXPECT_EQ(error.code(), ErrorCode::kBadData) << name << ": " << error.what();
    return std::string(error.what());
  };
  EXPECT_NE(fault("cut.parquet").find("cut.parquet: the file is damaged, cut short"), std::string::npos);
  EXPECT_NE(fault("damaged.parquet").find("damaged.parquet: the file is damaged"), std::string::npos);
  EXPECT_NE(fault("empty.parquet").find("the file has no rows"), std::string::npos);
  EXPECT_NE(fault("missing.parquet").find("cannot open the file"), std::string::npos);
  const Error splits = error_of([&] { read_table(path_of("splits")); });
  EXPECT_EQ(splits.code(), ErrorCode::kUsage);
  EXPECT_NE(std::string(splits.what()).find("the splits train, test"), std::string::npos) << splits.what();
  // A column of a type that cannot be read, such as binary, must not prevent reading the other columns.
  const Table other = read_table(path_of("other.parquet"));
  EXPECT_EQ(other.cell(0, 0), "2024-02-29");
  EXPECT_EQ(other.kind(0, 1), CellKind::kInvalid);
  EXPECT_EQ(other.kind(0, 2), CellKind::kInvalid);
  EXPECT_EQ(other.cell(0, 3), "x");
}

TEST(ArrowReaderWithoutArrow, SaysHowToConvertTheFile) {
  if (has_arrow()) GTEST_SKIP() << "Plimsoll was built with Apache Arrow";
  for (const auto& [name, python] :
       {std::pair("rows.parquet", "pandas.read_parquet("),
        std::pair("*.parquet", "datasets.load_dataset('parquet', data_files="),
        std::pair(".", "pandas.read_parquet("), std::pair("rows.arrow", "datasets.Dataset.from_file("),
        std::pair("saved", "datasets.load_from_disk(")}) {
    const Error error = error_of([&, path = path_of(name)] { read_table(path); });
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_NE(std::string(error.what()).find(python), std::string::npos) << error.what();
    EXPECT_FALSE(is_read_in_parts(path_of(name)));
  }
}

}  // namespace
}  // namespace plimsoll
