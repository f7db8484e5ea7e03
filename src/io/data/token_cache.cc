#include "io/data/token_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace plimsoll {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the file is written as memory lies, little-endian");

constexpr std::array<char, 8> kMagic = {'P', 'L', 'M', 'T', 'O', 'K', '0', '1'};

// The file: this header, then offsets, ids, types, each as in memory.
struct Header {
  std::array<char, 8> magic{};
  uint32_t version = 0;
  uint32_t id_bytes = 0;  // 2 or 4
  TokenCacheKey key;
  int64_t num_tokens = 0;
  int64_t has_types = 0;
  TruncationCount truncation;
  uint64_t payload_hash = 0;
  uint64_t header_hash = 0;  // of all the above
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 96 && alignof(Header) == 8);

uint64_t hash_header(const Header& header) {
  return XXH3_64bits(&header, offsetof(Header, header_hash));
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

bool read_all(int fd, void* out, size_t size) {
  auto* at = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t count = ::read(fd, at, size);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    at += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

bool write_all(int fd, const void* data, size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t count = ::write(fd, at, size);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return false;
    }
    at += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

// The hash of several pieces is the hash of their hashes, so that none is copied.
template <typename... Spans>
uint64_t hash_pieces(const Spans&... spans) {
  const uint64_t hashes[] = {XXH3_64bits(spans.data(), spans.size_bytes())...};
  return XXH3_64bits(hashes, sizeof(hashes));
}

// Says why the header is not that of the key's file, or nothing.
std::string header_fault(const Header& header, const TokenCacheKey& key, int64_t file_bytes) {
  if (header.magic != kMagic) {
    return "it is not a token cache";
  }
  if (header.version != kTokenCacheVersion) {
    return fmt::format("it is of version {}, this program writes {}", header.version, kTokenCacheVersion);
  }
  if (header.header_hash != hash_header(header)) {
    return "its header is damaged";
  }
  if (header.key.hash() != key.hash()) {
    return "it is of another data file, tokenizer or length";
  }
  const int64_t per_token = static_cast<int64_t>(header.id_bytes) + (header.has_types != 0 ? 1 : 0);
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

std::string last_error(const char* what, const std::filesystem::path& path) {
  return fmt::format("{} {}: {}", what, path.string(), std::strerror(errno));
}

}  // namespace

uint64_t TokenCacheKey::hash() const {
  const uint64_t parts[] = {text_hash, encoder_hash, static_cast<uint64_t>(max_seq_length),
                            static_cast<uint64_t>(num_rows), kTokenCacheVersion};
  return XXH3_64bits(parts, sizeof(parts));
}

std::string TokenCacheKey::file_name() const {
  return fmt::format("tokens-{:016x}.bin", hash());
}

std::optional<TokenSet> read_token_cache(const std::filesystem::path& file, const TokenCacheKey& key,
                                         std::string& why_not) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (descriptor.get() < 0) {
    why_not = errno == ENOENT ? "" : last_error("cannot open", file);
    return std::nullopt;
  }
  struct stat status {};
  Header header;
  if (::fstat(descriptor.get(), &status) != 0 || !read_all(descriptor.get(), &header, sizeof(header))) {
    why_not = "it is shorter than its header";
    return std::nullopt;
  }
  why_not = header_fault(header, key, status.st_size);
  if (!why_not.empty()) {
    return std::nullopt;
  }
  const auto num_tokens = static_cast<size_t>(header.num_tokens);
  std::vector<int64_t> offsets(static_cast<size_t>(header.key.num_rows) + 1);
  std::vector<uint16_t> narrow_ids(header.id_bytes == 2 ? num_tokens : 0);
  std::vector<int32_t> wide_ids(header.id_bytes == 4 ? num_tokens : 0);
  std::vector<uint8_t> types(header.has_types != 0 ? num_tokens : 0);
  const int fd = descriptor.get();
  const bool complete = read_all(fd, offsets.data(), offsets.size() * sizeof(int64_t)) &&
                        read_all(fd, narrow_ids.data(), narrow_ids.size() * sizeof(uint16_t)) &&
                        read_all(fd, wide_ids.data(), wide_ids.size() * sizeof(int32_t)) &&
                        read_all(fd, types.data(), types.size());
  const uint64_t hash =
      hash_pieces(std::span(offsets), std::span(narrow_ids), std::span(wide_ids), std::span(types));
  if (!complete || hash != header.payload_hash || !offsets_are_sane(offsets, header.num_tokens)) {
    why_not = complete ? "its content is damaged" : "it was cut short while it was read";
    return std::nullopt;
  }
  return TokenSet::from_parts(std::move(narrow_ids), std::move(wide_ids), std::move(types),
                              std::move(offsets), header.truncation);
}

std::string write_token_cache(const std::filesystem::path& file, const TokenCacheKey& key,
                              const TokenSet& tokens) {
  PLIMSOLL_CHECK(key.num_rows == tokens.num_rows());
  Header header;
  header.magic = kMagic;
  header.version = kTokenCacheVersion;
  header.id_bytes = tokens.is_narrow() ? 2 : 4;
  header.key = key;
  header.num_tokens = tokens.num_tokens();
  header.has_types = tokens.has_types() ? 1 : 0;
  header.truncation = tokens.truncation();
  header.payload_hash = hash_pieces(tokens.offsets(), tokens.narrow_ids(), tokens.wide_ids(), tokens.types());
  header.header_hash = hash_header(header);

  // A name of its own for each writer, so that two processes never write into one file.
  std::string temporary = file.string() + ".XXXXXX";
  const Descriptor descriptor(::mkostemp(temporary.data(), O_CLOEXEC));
  if (descriptor.get() < 0) {
    return last_error("cannot create", temporary);
  }
  const int fd = descriptor.get();
  const auto write_span = [fd](const auto& span) { return write_all(fd, span.data(), span.size_bytes()); };
  const bool written = write_all(fd, &header, sizeof(header)) && write_span(tokens.offsets()) &&
                       write_span(tokens.narrow_ids()) && write_span(tokens.wide_ids()) &&
                       write_span(tokens.types());
  if (!written || ::fchmod(fd, 0644) != 0 || ::rename(temporary.c_str(), file.c_str()) != 0) {
    const std::string why = last_error("cannot write", file);
    ::unlink(temporary.c_str());
    return why;
  }
  return "";
}

CachedTokens tokenize_cached(const TextSplit& split, const TextEncoder& encoder,
                             const TokenizeOptions& options, const std::filesystem::path& folder) {
  TokenCacheKey key;
  key.text_hash = split.text_hash();
  key.encoder_hash = encoder.content_hash();
  key.max_seq_length = options.max_seq_length;
  key.num_rows = split.num_rows();
  const std::filesystem::path file = folder / key.file_name();
  CachedTokens result;
  std::string why_not;
  if (std::optional<TokenSet> cached = read_token_cache(file, key, why_not); cached.has_value()) {
    result.tokens = std::move(*cached);
    result.outcome = CacheOutcome::kHit;
    return result;
  }
  result.tokens = tokenize_split(split, encoder, options);
  result.outcome = why_not.empty() ? CacheOutcome::kBuilt : CacheOutcome::kRebuilt;
  result.detail = why_not.empty() ? "" : fmt::format("{}: {}", file.string(), why_not);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string not_saved = error ? fmt::format("cannot create {}: {}", folder.string(), error.message())
                                      : write_token_cache(file, key, result.tokens);
  if (!not_saved.empty()) {
    result.outcome = CacheOutcome::kNotSaved;
    result.detail = not_saved;
  }
  return result;
}

}  // namespace plimsoll
