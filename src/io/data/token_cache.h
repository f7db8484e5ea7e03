// Token ids that are kept on disk between runs. The name of a file is the hash of everything that determines
// its content: the bytes of the data file, the used columns and rows, the tokenizer, the maximum length and
// the version of this format. Several processes may use one folder at once, because a file is written under a
// temporary name and then renamed.
//
// An error of the cache never stops a run. A file that is missing, outdated, incomplete or damaged (its hash is checked on every read) is
// written again. If it cannot be written, this is reported and the run continues without it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "io/data/text_encoder.h"
#include "io/data/text_split.h"
#include "io/data/token_set.h"
#include "io/data/tokenize_split.h"

namespace plimsoll {

inline constexpr uint32_t kTokenCacheVersion = 3;

struct TokenCacheKey {
  uint64_t text_hash = 0;
  uint64_t encoder_hash = 0;
  int64_t max_seq_length = 0;
  int64_t num_rows = -1;  // number of rows; -1 for all rows of a file that was not read yet

  uint64_t hash() const;
  // Returns the name of the cache file, such as "tokens-0123456789abcdef.bin".
  std::string file_name() const;
};

enum class CacheOutcome { kHit, kBuilt, kRebuilt, kNotSaved };

struct CachedTokens {
  TokenSet tokens;
  std::vector<int32_t> word_starts;  // as WordTokens::word_starts: the word that each token begins, or -1
  CacheOutcome outcome = CacheOutcome::kBuilt;
  std::string detail;  // the reason, for messages, why a cache file was replaced or not saved
};

enum class CacheUse { kReadAndWrite, kRewrite };

// Tokenizes the split and stores the ids in the folder, which is created if necessary, or reads them from
// there if `use` permits it. Errors: as tokenize_split.
CachedTokens tokenize_cached(const TextSplit& split, const TextEncoder& encoder,
                             const TokenizeOptions& options, const std::string& folder,
                             FileSystem& files = posix_file_system(), CacheUse use = CacheUse::kReadAndWrite);

// Reads a cache file and checks its hash. The tokens are mapped into memory if the file system supports it, and otherwise read. Returns
// nothing if the file is missing or invalid; `why_not` is set only if it is invalid.
std::optional<WordTokens> read_token_cache(FileSystem& files, const std::string& path,
                                           const TokenCacheKey& key, std::string& why_not);
// Writes a cache file. Returns an empty string, or the reason why the file could not be written; an incomplete file is removed.
std::string write_token_cache(FileSystem& files, const std::string& path, const TokenCacheKey& key,
                              const WordTokens& tokens);

// Writes a cache file from tokens that are added in parts, so that they need not fit into memory. The writer keeps 8 bytes per row, and 1
// byte per token if tokens have types. If finish() is not called, no file is left. Not thread-safe. Errors: FileError.
class TokenCacheWriter {
 public:
  // Creates the file under a temporary name, and its folder if necessary. `max_id` is the largest id that may be added.
  TokenCacheWriter(FileSystem& files, std::string path, int64_t max_id);
  ~TokenCacheWriter();
  TokenCacheWriter(const TokenCacheWriter&) = delete;
  TokenCacheWriter& operator=(const TokenCacheWriter&) = delete;

  // Appends the tokens of `part`. Errors: kInternal for an id above max_id.
  void add(const TokenSet& part);
  void finish(const TokenCacheKey& key);
  int64_t held_bytes() const {
    return static_cast<int64_t>(offsets_.capacity() * sizeof(int64_t) + types_.capacity());
  }

 private:
  void write(std::span<const std::byte> bytes);

  FileSystem& files_;
  const std::string path_;
  const std::string temporary_;
  const int64_t max_id_;
  std::unique_ptr<File> file_;
  HashStream64 hash_;
  std::vector<int64_t> offsets_ = {0};
  std::vector<uint8_t> types_;  // token types; empty as long as all of them are 0
  TypeUse type_use_ = TypeUse::kSegments;
  std::vector<uint16_t> narrow_ids_;  // buffer for the ids of the part that is being written
  std::vector<int32_t> wide_ids_;
  TruncationCount truncation_;
};

// Returns the hash of the content of a token set, which is also stored in the header of the set's cache file.
uint64_t content_hash(const TokenSet& tokens, std::span<const int32_t> word_starts = {});

}  // namespace plimsoll
