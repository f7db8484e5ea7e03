#include "io/data/token_cache.h"

#include <array>
#include <bit>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/hash.h"

namespace plimsoll {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the file is written as memory lies, little-endian");

constexpr std::array<char, 8> kMagic = {'P', 'L', 'M', 'T', 'O', 'K', '0', '1'};

// A file consists of this header followed by the offsets, ids, types and word starts in their memory representation.
struct Header {
  std::array<char, 8> magic{};
  uint32_t version = 0;
  uint32_t id_bytes = 0;  // 2 or 4
  TokenCacheKey key;
  int64_t num_tokens = 0;
  int32_t has_types = 0;
  int32_t has_word_starts = 0;
  TruncationCount truncation;
  uint64_t payload_hash = 0;
  uint64_t header_hash = 0;  // hash of all fields above
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 96 && alignof(Header) == 8);

uint64_t hash_header(const Header& header) {
  return hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_hash)));
}

// Returns the hash of several pieces as the hash of their hashes, so that nothing is copied.
template <typename... Spans>
uint64_t hash_pieces(const Spans&... spans) {
  const uint64_t hashes[] = {hash64(std::as_bytes(spans))...};
  return hash64(std::as_bytes(std::span(hashes)));
}

// Returns the reason why the header does not belong to the key's file, or an empty string.
std::string header_fault(const Header& header, const TokenCacheKey& key, int64_t file_bytes) {
  if (header.magic != kMagic) {
    return "it is not a token cache";
  }
  if (header.version != kTokenCacheVersion) {
    return fmt::format("it has version {}, but this program writes {}", header.version, kTokenCacheVersion);
  }
  if (header.header_hash != hash_header(header)) {
    return "its header is damaged";
  }
  if (header.key.hash() != key.hash()) {
    return "it belongs to another data file, tokenizer or length";
  }
  const int64_t per_token = static_cast<int64_t>(header.id_bytes) + (header.has_types != 0 ? 1 : 0) +
                            (header.has_word_starts != 0 ? 4 : 0);
  const bool sane = (header.id_bytes == 2 || header.id_bytes == 4) && header.num_tokens >= 0 &&
                    header.num_tokens <= file_bytes && header.key.num_rows >= 0 &&
                    header.key.num_rows <= file_bytes;
  const int64_t expected = !sane ? -1
                                 : static_cast<int64_t>(sizeof(Header)) + (header.key.num_rows + 1) * 8 +
                                       header.num_tokens * per_token;
  if (expected != file_bytes) {
    return fmt::format("it has {} bytes instead of {}", file_bytes, expected);
  }
  return "";
}

bool offsets_are_sane(const std::vector<int64_t>& offsets, int64_t num_tokens) {
  if (offsets.front() != 0 || offsets.back() != num_tokens) {
    return false;
  }
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      return false;
    }
  }
  return true;
}

template <typename T>
std::span<std::byte> bytes_of(std::vector<T>& values) {
  return std::as_writable_bytes(std::span<T>(values));
}

}  // namespace

uint64_t TokenCacheKey::hash() const {
  const uint64_t parts[] = {text_hash, encoder_hash, static_cast<uint64_t>(max_seq_length),
                            static_cast<uint64_t>(num_rows), kTokenCacheVersion};
  return hash64(std::as_bytes(std::span(parts)));
}

std::string TokenCacheKey::file_name() const {
  return fmt::format("tokens-{:016x}.bin", hash());
}

std::optional<WordTokens> read_token_cache(FileSystem& files, const std::string& path,
                                           const TokenCacheKey& key, std::string& why_not) {
  why_not.clear();
  try {
    if (!files.status(path).has_value()) {
      return std::nullopt;
    }
    const std::unique_ptr<File> file = files.open_read(path);
    Header header;
    const int64_t file_bytes = file->size_bytes();
    if (file_bytes < static_cast<int64_t>(sizeof(header))) {
      why_not = fmt::format("it has {} bytes, less than its header", file_bytes);
      return std::nullopt;
    }
    read_exactly(*file, std::as_writable_bytes(std::span(&header, 1)), 0, "token cache");
    why_not = header_fault(header, key, file_bytes);
    if (!why_not.empty()) {
      return std::nullopt;
    }
    const auto num_tokens = static_cast<size_t>(header.num_tokens);
    std::vector<int64_t> offsets(static_cast<size_t>(header.key.num_rows) + 1);
    std::vector<uint16_t> narrow_ids(header.id_bytes == 2 ? num_tokens : 0);
    std::vector<int32_t> wide_ids(header.id_bytes == 4 ? num_tokens : 0);
    std::vector<uint8_t> types(header.has_types != 0 ? num_tokens : 0);
    std::vector<int32_t> word_starts(header.has_word_starts != 0 ? num_tokens : 0);
    int64_t at = sizeof(header);
    for (const std::span<std::byte> piece : {bytes_of(offsets), bytes_of(narrow_ids), bytes_of(wide_ids),
                                             bytes_of(types), bytes_of(word_starts)}) {
      read_exactly(*file, piece, at, "token cache");
      at += static_cast<int64_t>(piece.size());
    }
    const uint64_t hash = hash_pieces(std::span(offsets), std::span(narrow_ids), std::span(wide_ids),
                                      std::span(types), std::span(word_starts));
    if (hash != header.payload_hash || !offsets_are_sane(offsets, header.num_tokens)) {
      why_not = "its content is damaged";
      return std::nullopt;
    }
    return WordTokens{.tokens = TokenSet::from_parts(std::move(narrow_ids), std::move(wide_ids),
                                                     std::move(types), std::move(offsets), header.truncation),
                      .word_starts = std::move(word_starts)};
  } catch (const Error& error) {
    why_not = error.what();
    return std::nullopt;
  }
}

std::string write_token_cache(FileSystem& files, const std::string& path, const TokenCacheKey& key,
                              const WordTokens& rows) {
  const TokenSet& tokens = rows.tokens;
  PLIMSOLL_CHECK(key.num_rows == tokens.num_rows());
  Header header;
  header.magic = kMagic;
  header.version = kTokenCacheVersion;
  header.id_bytes = tokens.is_narrow() ? 2 : 4;
  header.key = key;
  header.num_tokens = tokens.num_tokens();
  header.has_types = tokens.has_types() ? 1 : 0;
  header.has_word_starts = rows.word_starts.empty() ? 0 : 1;
  header.truncation = tokens.truncation();
  header.payload_hash = hash_pieces(tokens.offsets(), tokens.narrow_ids(), tokens.wide_ids(), tokens.types(),
                                    std::span(rows.word_starts));
  header.header_hash = hash_header(header);
  const std::string temporary = temporary_path(path);
  try {
    make_folders(files, parent_folder(path));
    // The file is not synced: if a crash leaves it incomplete, its hash does not match and it is built again.
    const std::unique_ptr<File> file = files.create(temporary);
    file->write(std::as_bytes(std::span(&header, 1)));
    file->write(std::as_bytes(tokens.offsets()));
    file->write(std::as_bytes(tokens.narrow_ids()));
    file->write(std::as_bytes(tokens.wide_ids()));
    file->write(std::as_bytes(tokens.types()));
    file->write(std::as_bytes(std::span(rows.word_starts)));
    file->close();
    files.rename(temporary, path);
    return "";
  } catch (const FileError& error) {
    try {
      files.remove_file(temporary);
    } catch (const FileError&) {
      // The temporary file was not created, or the disk failed again. The first error is reported.
    }
    return error.what();
  }
}

CachedTokens tokenize_cached(const TextSplit& split, const TextEncoder& encoder,
                             const TokenizeOptions& options, const std::string& folder, FileSystem& files,
                             CacheUse use) {
  TokenCacheKey key;
  key.text_hash = split.text_hash();
  key.encoder_hash = encoder.content_hash();
  key.max_seq_length = options.max_seq_length;
  key.num_rows = split.num_rows();
  const std::string path = join_path(folder, key.file_name());
  CachedTokens result;
  std::string why_not;
  if (use == CacheUse::kReadAndWrite) {
    if (std::optional<WordTokens> cached = read_token_cache(files, path, key, why_not); cached.has_value()) {
      result.tokens = std::move(cached->tokens);
      result.word_starts = std::move(cached->word_starts);
      result.outcome = CacheOutcome::kHit;
      return result;
    }
  }
  WordTokens rows = tokenize_rows(split, encoder, options);
  result.outcome = why_not.empty() ? CacheOutcome::kBuilt : CacheOutcome::kRebuilt;
  result.detail = why_not.empty() ? "" : fmt::format("{}: {}", path, why_not);
  if (const std::string not_saved = write_token_cache(files, path, key, rows); !not_saved.empty()) {
    result.outcome = CacheOutcome::kNotSaved;
    result.detail = not_saved;
  }
  result.tokens = std::move(rows.tokens);
  result.word_starts = std::move(rows.word_starts);
  return result;
}

}  // namespace plimsoll
