// Passes bytes to the reader of documents as a text, JSONL, CSV, TSV or JSON file, and cuts the documents into blocks with every rule.
// The fuzzer reports an error if the result is neither documents nor an Error of invalid data, or if the blocks lose or repeat a token.
// The first byte selects the format and the options, the second the size of a block.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz_answer.h"
#include "io/data/blocks.h"
#include "io/data/document_reader.h"
#include "io/data/tokenize_split.h"

namespace plimsoll {
namespace {

constexpr const char* kExtensions[] = {".txt", ".jsonl", ".csv", ".tsv", ".json"};

// Encodes every byte of a text as one token.
class ByteEncoder : public TextEncoder {
 public:
  std::unique_ptr<Session> new_session() const override { return std::make_unique<Bytes>(); }
  uint64_t content_hash() const override { return 0; }

 private:
  class Bytes : public Session {
   public:
    int64_t encode(std::string_view first, std::optional<std::string_view> /*second*/, int64_t max_length,
                   std::vector<int32_t>& ids, std::vector<int32_t>& types) override {
      const size_t size = std::min(first.size(), static_cast<size_t>(max_length));
      for (const char byte : first.substr(0, size)) ids.push_back(3 + static_cast<unsigned char>(byte));
      types.resize(ids.size(), 0);
      return static_cast<int64_t>(first.size() - size);
    }
    int64_t encode_words(std::span<const std::string_view> /*words*/, int64_t /*max_length*/,
                         std::vector<int32_t>& /*ids*/, std::vector<int32_t>& /*types*/,
                         std::vector<int32_t>& /*word_starts*/) override {
      PLIMSOLL_CHECK(false, "documents must be encoded as texts or token ids, but encode_words() was called");
      return 0;
    }
  };
};

// A temporary file, which is removed when the object is destroyed.
class ScratchFile {
 public:
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::filesystem::path& write(const char* extension, std::string_view bytes) {
    const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                       ("plimsoll_documents_fuzz_" + std::to_string(getpid()) + extension);
    if (path != path_) {
      std::error_code ignored;
      std::filesystem::remove(path_, ignored);
    }
    path_ = path;
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
    return path_;
  }

 private:
  std::filesystem::path path_;
};

// The documents of a file: their texts, their line numbers and their tokens.
struct Documents {
  std::vector<std::string> texts;
  std::vector<int64_t> lines;
  std::vector<int32_t> ids;
  std::vector<int64_t> offsets = {0};
};

void append(const TextSplit& part, Documents* documents) {
  const TokenSet tokens =
      part.has_ids()
          ? part.tokens(1 << 20)
          : tokenize_split(part, ByteEncoder(), {.max_seq_length = 1 << 20, .empty_rows = EmptyRows::kKeep});
  PLIMSOLL_CHECK(tokens.num_rows() == part.num_rows());
  for (int64_t row = 0; row < part.num_rows(); ++row) {
    if (!part.has_ids()) documents->texts.emplace_back(part.first_text(row));
    documents->lines.push_back(part.line(row));
    for (int64_t i = 0; i < tokens.length(row); ++i) documents->ids.push_back(tokens.id(row, i));
    documents->offsets.push_back(std::ssize(documents->ids));
  }
}

// Returns the documents, or nothing if the file is refused as invalid.
std::optional<Documents> read(const std::filesystem::path& path, const DocumentOptions& options) {
  Documents documents;
  try {
    read_documents(path, options, [&](const TextSplit& part) { append(part, &documents); });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kBadData) throw;
    return std::nullopt;
  }
  return documents;
}

// Checks for every packing rule that each token is in one block. The order must be that of the documents, unless documents are packed.
void check_blocks(const Documents& documents, int64_t block_size) {
  if (documents.ids.empty()) return;
  const TokenSet tokens = TokenSet::from_parts({}, documents.ids, {}, documents.offsets, {});
  for (const BlockRule rule : {BlockRule::kConcatenate, BlockRule::kPack, BlockRule::kSeparate}) {
    const Dataset blocks = make_blocks(tokens, {.block_size = block_size, .rule = rule});
    std::vector<int32_t> ids;
    for (int32_t row = 0; row < blocks.num_rows(); ++row) {
      int64_t length = 0;
      blocks.each_sequence(std::span(&row, 1), [&](int32_t sequence) {
        length += blocks.tokens.length(sequence);
        for (int64_t i = 0; i < blocks.tokens.length(sequence); ++i)
          ids.push_back(blocks.tokens.id(sequence, i));
      });
      PLIMSOLL_CHECK(length >= 1 && (rule == BlockRule::kSeparate || length <= block_size), "{} tokens",
                     length);
    }
    std::vector<int32_t> expected = documents.ids;
    if (rule == BlockRule::kPack) {
      std::ranges::sort(ids);
      std::ranges::sort(expected);
    }
    // With kSeparate, a document of one token is left out, because it has no next token to predict, so there may be fewer tokens.
    PLIMSOLL_CHECK(rule == BlockRule::kSeparate ? ids.size() <= expected.size() : ids == expected,
                   "with block rule {}, the blocks differ from the documents: {} tokens instead of {}",
                   static_cast<int>(rule), ids.size(), expected.size());
  }
  const int64_t stride = 1 + block_size / 2;
  // Strides that give very many blocks are skipped, because building each block and joining all of them would be slow.
  if (std::ssize(documents.ids) > 256 * stride) return;
  const Dataset overlapping =
      make_overlapping_blocks(tokens, {.block_size = block_size}, std::min(stride, block_size));
  PLIMSOLL_CHECK(overlapping.num_rows() >= 1 && overlapping.tokens.longest() <= block_size);
}

void fuzz(uint8_t choice, uint8_t size, std::string_view bytes) {
  static ScratchFile file;
  DocumentOptions options;
  options.line_breaks = (choice & 8) != 0 ? LineBreaks::kDrop : LineBreaks::kKeep;
  options.quotes = (choice & 16) != 0 ? QuoteRule::kNone : QuoteRule::kRfc4180;
  if ((choice & 32) != 0) options.column = "text";
  const std::filesystem::path& path = file.write(kExtensions[(choice & 7) % std::size(kExtensions)], bytes);
  const std::optional<Documents> documents = read(path, options);
  if (!documents) return;
  PLIMSOLL_CHECK(!documents->lines.empty());
  check_blocks(*documents, 1 + size);
}

}  // namespace
}  // namespace plimsoll

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  plimsoll::expect_value_or({plimsoll::ErrorCode::kBadData}, [&] {
    plimsoll::fuzz(data[0], data[1], {reinterpret_cast<const char*>(data) + 2, size - 2});
  });
  return 0;
}
