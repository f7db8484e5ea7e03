// The interface of an HTTP client that sends one request. It neither follows redirects nor repeats requests after failures;
// hub_requests.h does that, so that tests need to replace only this interface. Not thread-safe.
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
  bool only_head = false;              // true for the method HEAD, false for GET
  std::vector<std::string> headers{};  // headers to send, each in the form "Name: value"
  int64_t idle_timeout_s = 10;         // the request fails if no byte arrives for this number of seconds
};

// Status and headers of a response. The names of headers are in lower case.
struct HttpHead {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers = {};
  // Returns the value of a header, or an empty string if the response does not contain it.
  const std::string& value(std::string_view name) const;
};

// Receives the next bytes of the body of a response. Returns false to stop the transfer. If it throws an exception, send() throws it as
// well.
using BodySink = std::function<bool(const HttpHead& head, std::span<const std::byte> bytes)>;

struct HttpResult {
  HttpHead head;        // status and headers of the response; the status is 0 if there was none
  std::string failure;  // a sentence about the network error; empty if the response is complete
  // True if the name of the host cannot be resolved or the host refuses connections. Repeating the request within seconds is then
  // pointless.
  bool is_unreachable = false;
  // True if the transfer was stopped because the sink returned false or should_stop() returned true.
  bool was_stopped = false;
  // The address that sent the response, after redirects; empty for a single request.
  std::string address = {};
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  virtual HttpResult send(const HttpRequest& request, const BodySink& sink,
                          const std::function<bool()>& should_stop) = 0;
};

// The name of the library that sends the requests.
inline constexpr const char* kCurlLibrary = "libcurl.so.4";

struct CurlSettings {
  std::string ca_file = {};    // file with CA certificates; empty for libcurl's default
  std::string ca_folder = {};  // folder with CA certificates; empty for libcurl's default
};

// Opens libcurl.so.4 and returns a client that keeps connections open between requests. Proxies are configured by the environment
// variables that libcurl reads (https_proxy, http_proxy, all_proxy, no_proxy). Errors: kDevice if the library is not installed.
std::unique_ptr<HttpClient> open_curl(const CurlSettings& settings);

}  // namespace plimsoll
