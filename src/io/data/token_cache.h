// Token ids that are kept on disk between runs. The name of a file is the hash of everything that determines
// its content: the bytes of the data file, the used columns and rows, the tokenizer, the maximum length and
// the version of this format. Several processes may use one folder at once, because a file is written under a
// temporary name and then renamed.
//
// The cache never makes a run fail. A file that is missing, outdated, incomplete or damaged (its hash is
// checked on every read) is built again. If it cannot be written, this is reported and the run continues
// without it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"
#include "io/data/text_encoder.h"
#include "io/data/text_split.h"
#include "io/data/token_set.h"
#include "io/data/tokenize_split.h"

namespace plimsoll {

inline constexpr uint32_t kTokenCacheVersion = 2;

struct TokenCacheKey {
  uint64_t text_hash = 0;
  uint64_t encoder_hash = 0;
  int64_t max_seq_length = 0;
  int64_t num_rows = 0;

  uint64_t hash() const;
  // Returns a name such as "tokens-0123456789abcdef.bin".
  std::string file_name() const;
};

enum class CacheOutcome { kHit, kBuilt, kRebuilt, kNotSaved };

struct CachedTokens {
  TokenSet tokens;
  std::vector<int32_t> word_starts;  // as WordTokens; empty unless the rows are words
  CacheOutcome outcome = CacheOutcome::kBuilt;
  std::string detail;  // reason why it was rebuilt or not saved
};

enum class CacheUse { kReadAndWrite, kRewrite };

// Tokenizes the split and stores the ids in the folder, which is created if necessary, or reads them from
// there if `use` permits it. Errors: as tokenize_split.
CachedTokens tokenize_cached(const TextSplit& split, const TextEncoder& encoder,
                             const TokenizeOptions& options, const std::string& folder,
                             FileSystem& files = posix_file_system(), CacheUse use = CacheUse::kReadAndWrite);

// Reads a file. Returns nothing if the file is missing or invalid; `why_not` is set only if it is invalid.
std::optional<WordTokens> read_token_cache(FileSystem& files, const std::string& path,
                                           const TokenCacheKey& key, std::string& why_not);
// Writes a file. Returns an empty string, or the reason why it could not be written; in that case no part of
// it remains.
std::string write_token_cache(FileSystem& files, const std::string& path, const TokenCacheKey& key,
                              const WordTokens& tokens);

}  // namespace plimsoll
