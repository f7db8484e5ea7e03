#include "io/data/token_cache.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
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
              "a token cache has the byte order of the memory, which must be little-endian");

constexpr std::array<char, 8> kMagic = {'P', 'L', 'M', 'T', 'O', 'K', '0', '1'};

// The header of a cache file, which is stored at its end, because its content is known only when everything else was written. Before the
// header, the file contains the token ids, types, word starts and offsets as in memory. Each of these arrays is padded with zeros to a
// multiple of 8 bytes, so that it is aligned when the file is mapped.
struct Header {
  std::array<char, 8> magic{};
  uint32_t version = 0;
  uint32_t id_bytes = 0;  // bytes per token id: 2 or 4
  TokenCacheKey key;
  int64_t num_rows = 0;
  int64_t num_tokens = 0;
  int32_t types = 0;  // token types: 0 none, 1 segments of a pair of texts, 2 marks of trained tokens
  int32_t has_word_starts = 0;
  TruncationCount truncation;
  uint64_t payload_hash = 0;  // hash of all bytes before the header
  uint64_t header_hash = 0;   // hash of the fields of this header before this one
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 104 && alignof(Header) == 8);
constexpr auto kHeaderBytes = static_cast<int64_t>(sizeof(Header));

constexpr int64_t padded(int64_t bytes) {
  return (bytes + 7) / 8 * 8;
}

// The byte offsets in the file at which the arrays and the header begin. The ids begin at 0.
struct Places {
  int64_t types = 0;
  int64_t word_starts = 0;
  int64_t offsets = 0;
  int64_t header = 0;
};

Places places_of(const Header& header) {
  const int64_t count = header.num_tokens;
  Places places;
  places.types = padded(count * header.id_bytes);
  places.word_starts = places.types + padded(header.types != 0 ? count : 0);
  places.offsets = places.word_starts + padded(header.has_word_starts != 0 ? 4 * count : 0);
  places.header = places.offsets + 8 * (header.num_rows + 1);
  return places;
}

uint64_t hash_header(const Header& header) {
  return hash64(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, header_hash)));
}

void seal(Header& header, const TokenCacheKey& key, uint64_t payload_hash) {
  header.magic = kMagic;
  header.version = kTokenCacheVersion;
  header.key = key;
  header.payload_hash = payload_hash;
  header.header_hash = hash_header(header);
}

int32_t stored_types(bool has_types, TypeUse use) {
  return !has_types ? 0 : use == TypeUse::kTrained ? 2 : 1;
}

// Calls write(bytes) for one array and for the zeros that pad it to a multiple of 8 bytes.
template <typename Write>
void write_padded(std::span<const std::byte> bytes, const Write& write) {
  constexpr std::array<std::byte, 8> kZeros{};
  if (bytes.empty()) return;
  write(bytes);
  const auto size = static_cast<int64_t>(bytes.size());
  if (padded(size) > size) write(std::span(kZeros).first(static_cast<size_t>(padded(size) - size)));
}

// Calls write(bytes) for all arrays of the file in their order, but not for the header.
template <typename Write>
void write_payload(const TokenSet& tokens, std::span<const int32_t> word_starts, const Write& write) {
  write_padded(std::as_bytes(tokens.narrow_ids()), write);
  write_padded(std::as_bytes(tokens.wide_ids()), write);
  write_padded(std::as_bytes(tokens.types()), write);
  write_padded(std::as_bytes(word_starts), write);
  write_padded(std::as_bytes(tokens.offsets()), write);
}

// Returns the reason why the file with this header cannot be used for the key, or an empty string if it can.
std::string header_fault(const Header& header, const TokenCacheKey& key, int64_t file_bytes) {
  if (header.magic != kMagic) {
    return "it is not a token cache, or its end is missing";
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
  const bool sane = (header.id_bytes == 2 || header.id_bytes == 4) && header.num_tokens >= 0 &&
                    header.num_tokens <= file_bytes && header.num_rows >= 0 && header.num_rows <= file_bytes;
  const int64_t expected = sane ? places_of(header).header + kHeaderBytes : -1;
  if (expected != file_bytes) {
    return fmt::format("it has {} bytes instead of {}", file_bytes, expected);
  }
  return "";
}

bool offsets_are_sane(std::span<const int64_t> offsets, int64_t num_tokens) {
  return offsets.front() == 0 && offsets.back() == num_tokens && std::ranges::is_sorted(offsets);
}

// Compares the hash of everything before the header with the hash in the header. Returns the largest token id in the file, or nothing if
// the hashes differ. Reads the file with read calls instead of through a mapping, so that the pages do not count as memory of this process.
std::optional<int64_t> check_payload(const File& file, const Header& header) {
  std::vector<std::byte> piece(static_cast<size_t>(kFileChunkBytes));
  HashStream64 hash;
  int64_t max_id = 0;
  const int64_t end = places_of(header).header;
  const int64_t end_of_ids = header.num_tokens * header.id_bytes;
  for (int64_t at = 0; at < end;) {
    const auto bytes = std::span(piece).first(static_cast<size_t>(std::min(kFileChunkBytes, end - at)));
    read_exactly(file, bytes, at, "token cache");
    hash.update(bytes);
    const int64_t num_id_bytes = std::clamp<int64_t>(end_of_ids - at, 0, std::ssize(bytes));
    const auto largest_of = [&]<typename Id>(Id largest) {
      for (int64_t i = 0; i < num_id_bytes; i += static_cast<int64_t>(sizeof(Id))) {
        Id id = 0;
        std::memcpy(&id, bytes.data() + i, sizeof(Id));
        largest = std::max(largest, id);
      }
      max_id = std::max<int64_t>(max_id, largest);
    };
    header.id_bytes == 2 ? largest_of(uint16_t{0}) : largest_of(int32_t{0});
    at += std::ssize(bytes);
  }
  if (hash.digest() != header.payload_hash) return std::nullopt;
  return max_id;
}

template <typename T>
std::span<const T> elements_at(std::span<const std::byte> bytes, int64_t begin, int64_t count) {
  const std::span<const std::byte> part =
      bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(count) * sizeof(T));
  return {reinterpret_cast<const T*>(part.data()), static_cast<size_t>(count)};
}

template <typename T>
std::vector<T> read_elements(const File& file, int64_t begin, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  read_exactly(file, std::as_writable_bytes(std::span(values)), begin, "token cache");
  return values;
}

// Returns the content of a file whose hash was verified, or nothing if its offsets are not increasing.
std::optional<WordTokens> rows_of(const File& file, const Header& header, int64_t max_id) {
  const Places at = places_of(header);
  const int64_t num_tokens = header.num_tokens;
  const int64_t num_narrow = header.id_bytes == 2 ? num_tokens : 0;
  const int64_t num_types = header.types != 0 ? num_tokens : 0;
  WordTokens rows;
  rows.word_starts =
      read_elements<int32_t>(file, at.word_starts, header.has_word_starts != 0 ? num_tokens : 0);
  if (std::shared_ptr<const FileMapping> mapping = file.map()) {
    const std::span<const std::byte> bytes = mapping->bytes();
    const TokenArrays arrays{.narrow_ids = elements_at<uint16_t>(bytes, 0, num_narrow),
                             .wide_ids = elements_at<int32_t>(bytes, 0, num_tokens - num_narrow),
                             .types = elements_at<uint8_t>(bytes, at.types, num_types),
                             .offsets = elements_at<int64_t>(bytes, at.offsets, header.num_rows + 1)};
    if (!offsets_are_sane(arrays.offsets, num_tokens)) return std::nullopt;
    rows.tokens = TokenSet::from_mapped({.file = std::move(mapping), .arrays = arrays, .max_id = max_id},
                                        header.truncation);
    if (header.types == 2) rows.tokens.set_type_use(TypeUse::kTrained);
    rows.tokens.release_pages();
    return rows;
  }
  std::vector<int64_t> offsets = read_elements<int64_t>(file, at.offsets, header.num_rows + 1);
  if (!offsets_are_sane(offsets, num_tokens)) return std::nullopt;
  rows.tokens = TokenSet::from_parts(
      read_elements<uint16_t>(file, 0, num_narrow), read_elements<int32_t>(file, 0, num_tokens - num_narrow),
      read_elements<uint8_t>(file, at.types, num_types), std::move(offsets), header.truncation);
  if (header.types == 2) rows.tokens.set_type_use(TypeUse::kTrained);
  return rows;
}

// Removes an unfinished file after an error. A second error is ignored, because the first one is reported.
void remove_unfinished(FileSystem& files, const std::string& path) {
  try {
    files.remove_file(path);
  } catch (const FileError&) {
  }
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
    if (file_bytes < kHeaderBytes) {
      why_not = fmt::format("it has {} bytes, less than its header", file_bytes);
      return std::nullopt;
    }
    read_exactly(*file, std::as_writable_bytes(std::span(&header, 1)), file_bytes - kHeaderBytes,
                 "token cache");
    why_not = header_fault(header, key, file_bytes);
    if (!why_not.empty()) {
      return std::nullopt;
    }
    const std::optional<int64_t> max_id = check_payload(*file, header);
    std::optional<WordTokens> rows = max_id ? rows_of(*file, header, *max_id) : std::nullopt;
    if (!rows) {
      why_not = "its content is damaged";
      return std::nullopt;
    }
    rows->content_hash = header.payload_hash;
    return rows;
  } catch (const Error& error) {
    why_not = error.what();
    return std::nullopt;
  }
}

std::string write_token_cache(FileSystem& files, const std::string& path, const TokenCacheKey& key,
                              const WordTokens& rows) {
  const TokenSet& tokens = rows.tokens;
  PLIMSOLL_CHECK(key.num_rows == tokens.num_rows());
  Header header{.id_bytes = tokens.is_narrow() ? 2u : 4u,
                .key = {},
                .num_rows = tokens.num_rows(),
                .num_tokens = tokens.num_tokens(),
                .types = stored_types(tokens.has_types(), tokens.type_use()),
                .has_word_starts = rows.word_starts.empty() ? 0 : 1,
                .truncation = tokens.truncation()};
  seal(header, key, content_hash(tokens, rows.word_starts));
  const std::string temporary = temporary_path(path);
  try {
    make_folders(files, parent_folder(path));
    // The file is not synced: if a crash leaves it incomplete, its hash does not match and the file is written again.
    const std::unique_ptr<File> file = files.create(temporary);
    write_payload(tokens, rows.word_starts, [&](std::span<const std::byte> bytes) { file->write(bytes); });
    file->write(std::as_bytes(std::span(&header, 1)));
    file->close();
    files.rename(temporary, path);
    return "";
  } catch (const FileError& error) {
    remove_unfinished(files, temporary);
    return error.what();
  }
}

uint64_t content_hash(const TokenSet& tokens, std::span<const int32_t> word_starts) {
  HashStream64 hash;
  write_payload(tokens, word_starts, [&](std::span<const std::byte> bytes) { hash.update(bytes); });
  return hash.digest();
}

TokenCacheWriter::TokenCacheWriter(FileSystem& files, std::string path, int64_t max_id)
    : files_(files), path_(std::move(path)), temporary_(temporary_path(path_)), max_id_(max_id) {
  make_folders(files_, parent_folder(path_));
  file_ = files_.create(temporary_);
}

TokenCacheWriter::~TokenCacheWriter() {
  if (!file_) return;
  file_.reset();
  remove_unfinished(files_, temporary_);
}

void TokenCacheWriter::write(std::span<const std::byte> bytes) {
  hash_.update(bytes);
  file_->write(bytes);
}

void TokenCacheWriter::add(const TokenSet& part) {
  PLIMSOLL_CHECK(part.max_id() <= max_id_,
                 "the token id {} is larger than {}, the largest that this token file can store",
                 part.max_id(), max_id_);
  type_use_ = part.type_use();
  if (part.has_types()) types_.resize(static_cast<size_t>(offsets_.back()), 0);
  types_.insert(types_.end(), part.types().begin(), part.types().end());
  // All ids of a file have 2 bytes, or all have 4. If the ids of `part` have the other size in memory, they are converted.
  if (max_id_ <= 0xFFFF && part.is_narrow()) {
    write(std::as_bytes(part.narrow_ids()));
  } else if (max_id_ <= 0xFFFF) {
    narrow_ids_.assign(part.wide_ids().begin(), part.wide_ids().end());
    write(std::as_bytes(std::span<const uint16_t>(narrow_ids_)));
  } else {
    wide_ids_.assign(part.narrow_ids().begin(), part.narrow_ids().end());
    wide_ids_.insert(wide_ids_.end(), part.wide_ids().begin(), part.wide_ids().end());
    write(std::as_bytes(std::span<const int32_t>(wide_ids_)));
  }
  const int64_t begin = offsets_.back();
  for (const int64_t offset : part.offsets().subspan(1)) offsets_.push_back(begin + offset);
  if (!types_.empty()) types_.resize(static_cast<size_t>(offsets_.back()), 0);
  truncation_.rows += part.truncation().rows;
  truncation_.tokens += part.truncation().tokens;
}

void TokenCacheWriter::finish(const TokenCacheKey& key) {
  Header header{.id_bytes = max_id_ <= 0xFFFF ? 2u : 4u,
                .key = {},
                .num_rows = std::ssize(offsets_) - 1,
                .num_tokens = offsets_.back(),
                .types = stored_types(!types_.empty(), type_use_),
                .truncation = truncation_};
  constexpr std::array<std::byte, 8> kZeros{};
  const int64_t id_bytes = header.num_tokens * header.id_bytes;
  write(std::span(kZeros).first(static_cast<size_t>(padded(id_bytes) - id_bytes)));
  write_padded(std::as_bytes(std::span<const uint8_t>(types_)),
               [&](std::span<const std::byte> bytes) { write(bytes); });
  write(std::as_bytes(std::span<const int64_t>(offsets_)));
  seal(header, key, hash_.digest());
  file_->write(std::as_bytes(std::span(&header, 1)));
  file_->close();
  files_.rename(temporary_, path_);
  file_.reset();
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
