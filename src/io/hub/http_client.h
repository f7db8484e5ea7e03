// One HTTP request and its answer. The client follows no redirects and repeats nothing: that is the work of hub_requests.h, so
// that tests replace only this interface. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace plimsoll {

struct HttpRequest {
  std::string url;
  bool only_head = false;              // HEAD instead of GET
  std::vector<std::string> headers{};  // each in the form "Name: value"
  int64_t idle_timeout_s = 10;         // the transfer fails after this time without a byte
};

// Status and headers of an answer. Names are in lower case.
struct HttpHead {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers = {};
  // Returns the value of a header, or "".
  const std::string& value(std::string_view name) const;
};

// Receives the next bytes of the body. Returns false to end the transfer. It may throw; send() passes the exception on.
using BodySink = std::function<bool(const HttpHead& head, std::span<const std::byte> bytes)>;

struct HttpResult {
  HttpHead head;        // status 0 if there was no answer
  std::string failure;  // a sentence about the failure of the network, or "" if the answer is complete
  // True if the host cannot be found or refuses connections, which rarely changes within seconds.
  bool is_unreachable = false;
  // The transfer ended because the sink or should_stop said so.
  bool was_stopped = false;
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  virtual HttpResult send(const HttpRequest& request, const BodySink& sink,
                          const std::function<bool()>& should_stop) = 0;
};

// The library that sends the requests.
inline constexpr const char* kCurlLibrary = "libcurl.so.4";

struct CurlSettings {
  std::string ca_file = {};    // certificates of authorities, instead of libcurl's own choice
  std::string ca_folder = {};  // folder with certificates of authorities
};

// Opens libcurl.so.4 and returns a client that keeps connections open between requests. Proxies are those of the environment
// variables that libcurl reads (https_proxy, http_proxy, all_proxy, no_proxy). Errors: kDevice if the library is not
// installed.
std::unique_ptr<HttpClient> open_curl(const CurlSettings& settings);

}  // namespace plimsoll
