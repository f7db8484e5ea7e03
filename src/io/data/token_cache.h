// Token ids kept on disk between runs. A file's name is the hash of all that its content depends on: the data
// file's bytes, the columns and rows read, the tokenizer, the maximum length and the version of this format.
// Several processes may use one folder at once: a file is written beside its place and renamed into it.
//
// A cache never makes a run fail: a file that is missing, stale, cut short or damaged (its hash is checked on
// every read) is built again, and one that cannot be written is reported as such and done without.
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

inline constexpr uint32_t kTokenCacheVersion = 1;

struct TokenCacheKey {
  uint64_t text_hash = 0;
  uint64_t encoder_hash = 0;
  int64_t max_seq_length = 0;
  int64_t num_rows = 0;

  uint64_t hash() const;
  // "tokens-0123456789abcdef.bin"
  std::string file_name() const;
};

enum class CacheOutcome { kHit, kBuilt, kRebuilt, kNotSaved };

struct CachedTokens {
  TokenSet tokens;
  CacheOutcome outcome = CacheOutcome::kBuilt;
  std::string detail;  // why it was rebuilt, or why it was not saved
};

enum class CacheUse { kReadAndWrite, kRewrite };

// Tokenises the split and keeps the ids in the folder, which is created if missing; or reads them from there,
// unless they are to be written anew. Errors: those of tokenize_split.
CachedTokens tokenize_cached(const TextSplit& split, const TextEncoder& encoder,
                             const TokenizeOptions& options, const std::string& folder,
                             FileSystem& files = posix_file_system(), CacheUse use = CacheUse::kReadAndWrite);

// The parts. read_token_cache returns nothing when the file is not as it should be and says why, or says
// nothing when there is no file.
std::optional<TokenSet> read_token_cache(FileSystem& files, const std::string& path, const TokenCacheKey& key,
                                         std::string& why_not);
// Returns an empty string, or why the file could not be written; nothing of it is left then.
std::string write_token_cache(FileSystem& files, const std::string& path, const TokenCacheKey& key,
                              const TokenSet& tokens);

}  // namespace plimsoll
