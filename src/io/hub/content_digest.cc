#include "io/hub/content_digest.h"

#include <dlfcn.h>
#include <openssl/evp.h>

#include <string_view>

#include "base/check.h"
#include "base/opened_library.h"

namespace plimsoll {
// Pointers to the functions of libcrypto that are used.
struct CryptoLibrary {
  decltype(&::EVP_MD_CTX_new) context_new = nullptr;
  decltype(&::EVP_MD_CTX_free) context_free = nullptr;
  decltype(&::EVP_DigestInit_ex) init = nullptr;
  decltype(&::EVP_DigestUpdate) update = nullptr;
  decltype(&::EVP_DigestFinal_ex) final = nullptr;
  decltype(&::EVP_sha256) sha256 = nullptr;
  decltype(&::EVP_sha1) sha1 = nullptr;
};

namespace {

// Opens the library and finds its functions. The library is never closed.
CryptoLibrary load_crypto() {
  void* library = dlopen(kCryptoLibrary, RTLD_NOW | RTLD_LOCAL);
  CryptoLibrary crypto;
  const bool has_all = library != nullptr &&
                       find_library_function(library, "EVP_MD_CTX_new", crypto.context_new) &&
                       find_library_function(library, "EVP_MD_CTX_free", crypto.context_free) &&
                       find_library_function(library, "EVP_DigestInit_ex", crypto.init) &&
                       find_library_function(library, "EVP_DigestUpdate", crypto.update) &&
                       find_library_function(library, "EVP_DigestFinal_ex", crypto.final) &&
                       find_library_function(library, "EVP_sha256", crypto.sha256) &&
                       find_library_function(library, "EVP_sha1", crypto.sha1);
  if (!has_all) {
    throw_error(ErrorCode::kDevice,
                "downloads need {}, which cannot be opened{}{}. Install OpenSSL 3 (on Debian and Ubuntu: "
                "apt-get install libssl3), or download with another program",
                kCryptoLibrary, library == nullptr ? ": " : "", library == nullptr ? dlerror() : "");
  }
  return crypto;
}

const CryptoLibrary& crypto_library() {
  static const CryptoLibrary library = load_crypto();
  return library;
}

void require_success(bool success) {
  if (!success)
    throw_error(ErrorCode::kDevice, "{} cannot compute a hash; check its installation", kCryptoLibrary);
}

}  // namespace

struct ContentDigest::Context {
  const CryptoLibrary& crypto = crypto_library();
  EVP_MD_CTX* state = crypto.context_new();
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { crypto.context_free(state); }
};

ContentDigest::ContentDigest(DigestKind kind, int64_t size_bytes)
    : context_(std::make_unique<Context>()), kind_(kind), size_bytes_(size_bytes) {
  require_success(context_->state != nullptr);
  restart();
}

ContentDigest::~ContentDigest() = default;

void ContentDigest::restart() {
  const CryptoLibrary& crypto = context_->crypto;
  const EVP_MD* algorithm = kind_ == DigestKind::kSha256 ? crypto.sha256() : crypto.sha1();
  require_success(crypto.init(context_->state, algorithm, nullptr) == 1);
  if (kind_ != DigestKind::kGitBlob) return;
  const std::string start = fmt::format("blob {}", size_bytes_);
  add(std::as_bytes(std::span(start.c_str(), start.size() + 1)));
}

void ContentDigest::add(std::span<const std::byte> bytes) {
  require_success(context_->crypto.update(context_->state, bytes.data(), bytes.size()) == 1);
}

std::string ContentDigest::finish() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  require_success(context_->crypto.final(context_->state, bytes, &size) == 1);
  restart();
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

}  // namespace plimsoll
