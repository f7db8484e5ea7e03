// Tests of the blocks that documents are cut into, also in comparison with the blocks of Hugging Face's run_clm
// (fixtures/make_block_fixtures.py).
#include "io/data/blocks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "io/data/batch.h"
#include "io/data/batch_census.h"
#include "io/data/document_reader.h"
#include "io/data/testing/letter_encoder.h"
#include "io/data/tokenize_split.h"

namespace plimsoll {
namespace {

using Lists = std::vector<std::vector<int32_t>>;

// Returns documents with these lengths. Their token ids are 0, 1, 2, ..., continued from each document to the next.
TokenSet documents_of(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets = {0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  std::vector<int32_t> ids(static_cast<size_t>(offsets.back()));
  std::iota(ids.begin(), ids.end(), 0);
  return TokenSet::from_parts({}, std::move(ids), {}, std::move(offsets), {});
}

Lists sequences_of_row(const Dataset& data, int32_t row) {
  Lists lists;
  data.each_sequence(std::vector<int32_t>{row}, [&](int32_t sequence) {
    lists.emplace_back(static_cast<size_t>(data.tokens.length(sequence)));
    data.tokens.copy_ids(sequence, lists.back().data());
  });
  return lists;
}

Lists rows_of(const Dataset& data) {
  Lists rows;
  for (int32_t row = 0; row < data.num_rows(); ++row) {
    rows.emplace_back();
    for (const std::vector<int32_t>& sequence : sequences_of_row(data, row))
      rows.back().insert(rows.back().end(), sequence.begin(), sequence.end());
  }
  return rows;
}

TEST(Blocks, ConcatenateCutsTheDocumentsAndKeepsTheLastTokens) {
  const Dataset data = make_blocks(documents_of({3, 0, 4, 1}), {.block_size = 3});
  EXPECT_EQ(rows_of(data), (Lists{{0, 1, 2}, {3, 4, 5}, {6, 7}}));
  EXPECT_TRUE(data.row_sequences().empty());
  EXPECT_EQ(rows_of(make_blocks(documents_of({6}), {.block_size = 3})), (Lists{{0, 1, 2}, {3, 4, 5}}));
  EXPECT_EQ(make_blocks(documents_of({6, 4}), {.block_size = 3, .max_blocks = 2}).num_rows(), 2);
  EXPECT_EQ(make_blocks(documents_of({6, 4}), {.block_size = 3, .max_blocks = 99}).num_rows(), 4);
  EXPECT_EQ(make_blocks(documents_of({0, 0}), {.block_size = 3}).num_rows(), 0);
}

TEST(Blocks, PackingDividesOnlyDocumentsThatAreLongerThanABlock) {
  // The document of 6 tokens is cut into sequences of 5 tokens and 1 token. The first fills a block. The documents of 3 and 2 tokens fill a
  // second block, and the sequences of 1 token (ids 5 and 11) are in a third one.
  const Dataset data =
      make_blocks(documents_of({6, 3, 0, 2, 1}), {.block_size = 5, .rule = BlockRule::kPack});
  EXPECT_EQ(sequences_of_row(data, 0), (Lists{{0, 1, 2, 3, 4}}));
  EXPECT_EQ(sequences_of_row(data, 1), (Lists{{5}, {11}}));
  EXPECT_EQ(sequences_of_row(data, 2), (Lists{{6, 7, 8}, {9, 10}}));
  EXPECT_EQ(data.num_rows(), 3);
  EXPECT_EQ(data.row_lengths(), (std::vector<int32_t>{5, 2, 5}));
  EXPECT_EQ(data.row_sequences(), (std::vector<int32_t>{1, 2, 2}));
}

TEST(Blocks, BatchesOfPackedRowsCountSequencesAndRestartPositions) {
  const Dataset data =
      make_blocks(documents_of({6, 3, 0, 2, 1}), {.block_size = 5, .rule = BlockRule::kPack});
  const std::vector<int32_t> rows = {2, 1};
  const BatchSize size = size_of_batch(data, rows);
  EXPECT_EQ(size, (BatchSize{.tokens = 7, .sequences = 4, .longest = 3}));
  MicroBatch batch = make_micro_batch({.tensors = {{.name = "cu_seqlens", .per_sequence = 1, .constant = 1},
                                                   {.name = "ids", .per_token = 1},
                                                   {.name = "labels", .per_token = 1},
                                                   {.name = "positions", .per_token = 1}},
                                       .capacity = size});
  assemble_batch(data, rows, batch);
  const auto ints = [&](const char* name) {
    const std::span<const int32_t> values = batch.tensors.ints(name);
    return std::vector<int32_t>(values.begin(), values.end());
  };
  EXPECT_EQ(ints("ids"), (std::vector<int32_t>{6, 7, 8, 9, 10, 5, 11}));
  EXPECT_EQ(ints("labels"), (std::vector<int32_t>{7, 8, kNoLabel, 10, kNoLabel, kNoLabel, kNoLabel}));
  EXPECT_EQ(batch.info.num_labels, 3);
  EXPECT_EQ(ints("positions"), (std::vector<int32_t>{0, 1, 2, 0, 1, 0, 0}));
  EXPECT_EQ(ints("cu_seqlens"), (std::vector<int32_t>{0, 3, 5, 6, 7}));
  const Sampler sampler({.strategy = SamplingStrategy::kSequential, .batch_size = 2}, data.row_lengths(),
                        data.row_sequences());
  const BatchCensus census = count_batches(sampler, 1);
  EXPECT_EQ(census.largest.sequences, 3);
  EXPECT_EQ(census.largest.tokens, 7);
  EXPECT_EQ(census.total_sequences, 5);
  EXPECT_EQ(largest_batch_sequences(sampler), 4);
}

// Checks for documents of random lengths that every token is in exactly one block, that no block is too long, that a document that fits
// into a block is one sequence, and that no two blocks could be merged into one.
TEST(Blocks, PackingLosesNoTokenAndWastesLittle) {
  TestRandom random;
  for (int round = 0; round < 200; ++round) {
    const int64_t block_size = 1 + random.below(round % 2 == 0 ? 12 : 300);
    std::vector<int64_t> lengths(static_cast<size_t>(1 + random.below(120)));
    for (int64_t& length : lengths) length = random.below(1 + 2 * block_size);
    const TokenSet documents = documents_of(lengths);
    for (const BlockRule rule : {BlockRule::kPack, BlockRule::kConcatenate}) {
      const Dataset data = make_blocks(documents, {.block_size = block_size, .rule = rule});
      std::vector<int32_t> seen;
      for (const std::vector<int32_t>& row : rows_of(data)) {
        ASSERT_LE(std::ssize(row), block_size);
        ASSERT_GE(std::ssize(row), 1);
        seen.insert(seen.end(), row.begin(), row.end());
      }
      std::ranges::sort(seen);
      std::vector<int32_t> all(static_cast<size_t>(documents.num_tokens()));
      std::iota(all.begin(), all.end(), 0);
      ASSERT_EQ(seen, all);
      if (rule == BlockRule::kConcatenate) continue;
      std::vector<int32_t> starts(data.tokens.offsets().begin(), data.tokens.offsets().end());
      for (const int64_t start : documents.offsets()) ASSERT_TRUE(std::ranges::binary_search(starts, start));
      const auto num_parts = std::accumulate(
          lengths.begin(), lengths.end(), int64_t{0},
          [&](int64_t sum, int64_t length) { return sum + (length + block_size - 1) / block_size; });
      ASSERT_EQ(std::ssize(starts) - 1, num_parts);
      std::vector<int32_t> sizes = data.row_lengths();
      std::ranges::sort(sizes);
      if (sizes.size() >= 2) {
        ASSERT_GT(sizes[0] + sizes[1], block_size);
      }
    }
  }
}

TEST(Blocks, PackingFillsBlocksWithDocumentsOfMixedLengths) {
  TestRandom random;
  std::vector<int64_t> lengths(20000);
  // The lengths are distributed like those of real texts: most are short, and a few are long.
  for (int64_t& length : lengths) length = 1 + random.below(1 + random.below(1 + random.below(3000)));
  const Dataset data = make_blocks(documents_of(lengths), {.block_size = 1024, .rule = BlockRule::kPack});
  const double full =
      static_cast<double>(data.tokens.num_tokens()) / (1024.0 * static_cast<double>(data.num_rows()));
  EXPECT_GT(full, 0.999);
}

std::string fixture(const std::string& name) {
  return std::string(PLIMSOLL_SOURCE_DIR) + "/src/io/data/fixtures/clm/" + name;
}

TokenSet read_all(const std::string& path, const DocumentOptions& options, const Tokenizer& tokenizer) {
  TokenJoiner joiner;
  read_documents(path, options, [&](const TextSplit& part) {
    joiner.add(tokenize_split(part, TokenizerEncoder(tokenizer),
                              {.max_seq_length = 1 << 30, .num_threads = 2, .empty_rows = EmptyRows::kKeep}));
  });
  return std::move(joiner).finish();
}

TEST(Blocks, AreThoseOfRunClmAndItsRemainder) {
  std::ifstream file(fixture("expected.json"));
  int num_cases = 0;
  for (const nlohmann::json& expected : nlohmann::json::parse(file)) {
    SCOPED_TRACE(expected.at("file").dump() + expected.at("tokenizer").dump());
    ++num_cases;
    const auto tokenizer = Tokenizer::load(fixture(expected.at("tokenizer")));
    const bool keeps = expected.at("keep_linebreaks");
    // Files are read in parts of about part_bytes bytes. This size must not affect the documents that are read.
    for (const int64_t part_bytes : {int64_t{1}, int64_t{100}, int64_t{1} << 20}) {
      const TokenSet documents = read_all(fixture(expected.at("file")),
                                          {.line_breaks = keeps ? LineBreaks::kKeep : LineBreaks::kDrop,
                                           .column = {},
                                           .part_bytes = part_bytes},
                                          *tokenizer);
      if (expected.contains("documents")) {
        Dataset rows;
        rows.tokens = documents;
        ASSERT_EQ(rows_of(rows), expected.at("documents").get<Lists>());
        continue;
      }
      Lists blocks = expected.at("blocks").get<Lists>();
      if (!expected.at("tail").empty()) blocks.push_back(expected.at("tail"));
      ASSERT_EQ(rows_of(make_blocks(documents, {.block_size = expected.at("block_size")})), blocks);
    }
  }
  EXPECT_EQ(num_cases, 40);
}

}  // namespace
}  // namespace plimsoll
