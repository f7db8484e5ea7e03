#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <string_view>

#include "base/check.h"
#include "base/opened_library.h"
#include "io/hub/http_client.h"

namespace plimsoll {
namespace {

// Pointers to the functions of libcurl that are used.
struct CurlLibrary {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_setopt) easy_setopt = nullptr;
  decltype(&::curl_easy_perform) easy_perform = nullptr;
  decltype(&::curl_easy_reset) easy_reset = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_strerror) easy_strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

// Opens the library and finds its functions. The library is never closed.
CurlLibrary load_curl() {
  void* library = dlopen(kCurlLibrary, RTLD_NOW | RTLD_LOCAL);
  CurlLibrary curl;
  const bool has_all = library != nullptr &&
                       find_library_function(library, "curl_global_init", curl.global_init) &&
                       find_library_function(library, "curl_easy_init", curl.easy_init) &&
                       find_library_function(library, "curl_easy_setopt", curl.easy_setopt) &&
                       find_library_function(library, "curl_easy_perform", curl.easy_perform) &&
                       find_library_function(library, "curl_easy_reset", curl.easy_reset) &&
                       find_library_function(library, "curl_easy_cleanup", curl.easy_cleanup) &&
                       find_library_function(library, "curl_easy_strerror", curl.easy_strerror) &&
                       find_library_function(library, "curl_slist_append", curl.slist_append) &&
                       find_library_function(library, "curl_slist_free_all", curl.slist_free_all);
  if (!has_all) {
    throw_error(
        ErrorCode::kDevice,
        "downloads need {}, which cannot be opened{}{}. Install it (on Debian and Ubuntu: apt-get install "
        "libcurl4), or download with another program",
        kCurlLibrary, library == nullptr ? ": " : "", library == nullptr ? dlerror() : "");
  }
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    throw_error(ErrorCode::kDevice, "{} cannot be initialized; check its installation", kCurlLibrary);
  return curl;
}

const CurlLibrary& curl_library() {
  static const CurlLibrary library = load_curl();
  return library;
}

// The state of one request, which the callbacks of libcurl receive. Exceptions must not propagate through the C code of libcurl, so they
// are stored here.
struct Transfer {
  const BodySink& sink;
  const std::function<bool()>& should_stop;
  HttpHead head = {};
  bool was_stopped = false;
  std::exception_ptr exception = nullptr;
};

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

size_t take_header(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    const std::string_view line(data, size * count);
    // libcurl also passes the headers of earlier responses to the callback, such as that of a proxy or "100 Continue". Each status line
    // begins a new response and discards the headers before it.
    if (line.starts_with("HTTP/")) {
      transfer.head = {};
      const size_t space = line.find(' ');
      for (size_t i = space; i < line.size() && i < space + 4; ++i) {
        if (line[i] >= '0' && line[i] <= '9')
          transfer.head.status = transfer.head.status * 10 + (line[i] - '0');
      }
    } else if (const size_t colon = line.find(':'); colon != std::string_view::npos) {
      std::string name(line.substr(0, colon));
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      transfer.head.headers[std::move(name)] = trimmed(line.substr(colon + 1));
    }
    return size * count;
  } catch (...) {
    transfer.exception = std::current_exception();
    return 0;
  }
}

size_t take_body(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    if (transfer.sink(transfer.head, std::as_bytes(std::span(data, size * count)))) return size * count;
    transfer.was_stopped = true;
  } catch (...) {
    transfer.exception = std::current_exception();
  }
  return 0;
}

int check_stop(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(user);
  try {
    if (!transfer.should_stop || !transfer.should_stop()) return 0;
    transfer.was_stopped = true;
  } catch (...) {
    transfer.exception = std::current_exception();
  }
  return 1;
}

class CurlClient final : public HttpClient {
 public:
  explicit CurlClient(CurlSettings settings)
      : curl_(curl_library()), settings_(std::move(settings)), handle_(curl_.easy_init()) {
    if (handle_ == nullptr)
      throw_error(ErrorCode::kDevice, "libcurl cannot start a transfer; close other programs to free memory");
  }
  ~CurlClient() override { curl_.easy_cleanup(handle_); }
  CurlClient(const CurlClient&) = delete;
  CurlClient& operator=(const CurlClient&) = delete;

  HttpResult send(const HttpRequest& request, const BodySink& sink,
                  const std::function<bool()>& should_stop) override {
    Transfer transfer{.sink = sink, .should_stop = should_stop};
    char text[CURL_ERROR_SIZE] = "";
    const auto free_list = [&](curl_slist* list) { curl_.slist_free_all(list); };
    std::unique_ptr<curl_slist, decltype(free_list)> headers(nullptr, free_list);
    for (const std::string& header : request.headers) {
      curl_slist* longer = curl_.slist_append(headers.get(), header.c_str());
      if (longer == nullptr) throw_error(ErrorCode::kDevice, "libcurl has no memory for a request");
      static_cast<void>(headers.release());
      headers.reset(longer);
    }
    set_options(request, transfer, headers.get(), text);
    const CURLcode code = curl_.easy_perform(handle_);
    if (transfer.exception) std::rethrow_exception(transfer.exception);
    HttpResult result{.head = std::move(transfer.head), .failure = {}, .was_stopped = transfer.was_stopped};
    if (code == CURLE_OK || result.was_stopped) return result;
    result.failure = *text != '\0' ? text : curl_.easy_strerror(code);
    result.is_unreachable = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
                            code == CURLE_COULDNT_CONNECT || code == CURLE_PEER_FAILED_VERIFICATION ||
                            code == CURLE_SSL_CACERT_BADFILE || code == CURLE_UNSUPPORTED_PROTOCOL ||
                            (code == CURLE_OPERATION_TIMEDOUT && result.head.status == 0);
    return result;
  }

 private:
  template <typename Value>
  void set(CURLoption option, Value value) {
    const CURLcode code = curl_.easy_setopt(handle_, option, value);
    if (code != CURLE_OK)
      throw_error(ErrorCode::kDevice, "libcurl refuses a setting ({}): {}; install a newer libcurl4",
                  static_cast<int>(option), curl_.easy_strerror(code));
  }

  void set_options(const HttpRequest& request, Transfer& transfer, curl_slist* headers, char* text) {
    constexpr long kConnectSeconds = 10;
    constexpr long kBufferBytes = 512L << 10;
    // Resets the options of the previous request. Open connections are kept.
    curl_.easy_reset(handle_);
    set(CURLOPT_URL, request.url.c_str());
    // The return value is ignored, because libcurl before 7.85 does not know the option CURLOPT_PROTOCOLS_STR. With such a version the
    // restriction to http and https has no effect, but HubRequests checks the scheme of every address to which a hub redirects.
    curl_.easy_setopt(handle_, CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOBODY, request.only_head ? 1L : 0L);
    set(CURLOPT_HTTPHEADER, headers);
    set(CURLOPT_ERRORBUFFER, text);
    set(CURLOPT_FOLLOWLOCATION, 0L);
    // libcurl must not use signals, because the process that uses Plimsoll may use them for its own purposes.
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.idle_timeout_s));
    set(CURLOPT_BUFFERSIZE, kBufferBytes);
    set(CURLOPT_HEADERFUNCTION, &take_header);
    set(CURLOPT_HEADERDATA, &transfer);
    set(CURLOPT_WRITEFUNCTION, &take_body);
    set(CURLOPT_WRITEDATA, &transfer);
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &check_stop);
    set(CURLOPT_XFERINFODATA, &transfer);
    if (!settings_.ca_file.empty()) set(CURLOPT_CAINFO, settings_.ca_file.c_str());
    if (!settings_.ca_folder.empty()) set(CURLOPT_CAPATH, settings_.ca_folder.c_str());
  }

  const CurlLibrary& curl_;
  CurlSettings settings_;
  CURL* handle_;
};

}  // namespace

const std::string& HttpHead::value(std::string_view name) const {
  static const std::string kNone;
  const auto found = headers.find(name);
  return found == headers.end() ? kNone : found->second;
}

std::unique_ptr<HttpClient> open_curl(const CurlSettings& settings) {
  return std::make_unique<CurlClient>(settings);
}

}  // namespace plimsoll
