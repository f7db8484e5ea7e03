// The hashes with which the hub identifies the content of files: SHA-256 for large files, and the hash of git for small ones, which
// is the SHA-1 of "blob <size>", a zero byte and the content. Not thread-safe.
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
  // Opens libcrypto.so.3. `size_bytes`: the size of the complete content. Errors: kDevice if the library is not installed.
  ContentDigest(DigestKind kind, int64_t size_bytes);
  ~ContentDigest();
  ContentDigest(const ContentDigest&) = delete;
  ContentDigest& operator=(const ContentDigest&) = delete;

  void add(std::span<const std::byte> bytes);
  // Returns the hash in hexadecimal digits of lower case, and begins a new one.
  std::string finish();
  // Starts a new hash, without the bytes that were added before.
  void restart();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
  DigestKind kind_;
  int64_t size_bytes_;
};

}  // namespace plimsoll
