// Computes the hashes with which Hugging Face's hub identifies the content of files: SHA-256 for large files, and git's blob hash for
// small ones, which is the SHA-1 of "blob <size>", a zero byte and the content. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace plimsoll {

// The library that computes the hashes.
inline constexpr const char* kCryptoLibrary = "libcrypto.so.3";

enum class DigestKind : uint8_t { kSha256, kGitBlob };

class ContentDigest {
 public:
  // Opens libcrypto.so.3 and begins a hash. `size_bytes` is the size of the complete content. Errors: kDevice if the library is not
  // installed.
  ContentDigest(DigestKind kind, int64_t size_bytes);
  ~ContentDigest();
  ContentDigest(const ContentDigest&) = delete;
  ContentDigest& operator=(const ContentDigest&) = delete;

  void add(std::span<const std::byte> bytes);
  // Returns the hash in lower-case hexadecimal digits, and begins a new one.
  std::string finish();
  // Discards the bytes that were added so far and begins a new hash.
  void restart();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
  DigestKind kind_;
  int64_t size_bytes_;
};

}  // namespace plimsoll
