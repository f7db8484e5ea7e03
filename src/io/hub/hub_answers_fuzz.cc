// Fuzzes the code that reads the responses of a hub. The fuzzer reports an error if a download neither completes nor throws an Error for
// invalid data or for the network, or if it writes a path outside of the cache. The first byte of the input selects which response is
// replaced. The rest of the first line is used as the value of the headers, and the other lines as the body.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/file_fault.h"
#include "base/testing/fuzz_answer.h"
#include "io/hub/snapshot_download.h"

namespace plimsoll {
namespace {

enum class FuzzedAnswer : uint8_t { kCommit, kFiles, kState, kContent, kCachedTree };

class FuzzedHub final : public HttpClient {
 public:
  FuzzedHub(FuzzedAnswer fuzzed, std::string_view header, std::string_view body)
      : fuzzed_(fuzzed), header_(header), body_(body) {}

  HttpResult send(const HttpRequest& request, const BodySink& sink, const std::function<bool()>&) override {
    const bool asks_files = request.url.find("/tree/") != std::string::npos;
    const FuzzedAnswer asked = request.url.find("/revision/") != std::string::npos ? FuzzedAnswer::kCommit
                               : asks_files                                        ? FuzzedAnswer::kFiles
                               : request.only_head                                 ? FuzzedAnswer::kState
                                                                                   : FuzzedAnswer::kContent;
    HttpResult result;
    result.head.status = 200;
    std::string body =
        R"([{"type": "file", "path": "config.json", "size": 2, "oid": "9e26dfeeb6e641a33dae4961196235bdb965b21b"}])";
    if (asked == FuzzedAnswer::kCommit) body = R"({"sha": "0123456789abcdef0123456789abcdef01234567"})";
    if (asked == FuzzedAnswer::kContent) body = "{}";
    if (asked == FuzzedAnswer::kState || asked == FuzzedAnswer::kContent)
      result.head.headers["etag"] = "\"9e26dfeeb6e641a33dae4961196235bdb965b21b\"";
    if (asked == fuzzed_) {
      // After 20 replaced responses the list of files has no further page, so that a fuzzed link to a next page or a fuzzed redirect cannot
      // cause an endless loop.
      if (++num_fuzzed_ > 20) body = "[]";
      if (num_fuzzed_ <= 20) {
        for (const char* name :
             {"link", "etag", "content-range", "retry-after", "ratelimit", "location", "content-length"})
          result.head.headers[name] = header_;
        body = body_;
        constexpr int kStatus[] = {200, 206, 302, 416, 429};
        if (!header_.empty()) result.head.status = kStatus[static_cast<unsigned char>(header_.front()) % 5];
      }
    }
    if (!request.only_head) result.was_stopped = !sink(result.head, std::as_bytes(std::span(body)));
    return result;
  }

 private:
  FuzzedAnswer fuzzed_;
  std::string header_;
  std::string body_;
  int num_fuzzed_ = 0;
};

class NoPace final : public DownloadPace {
 public:
  using DownloadPace::DownloadPace;
  void wait_ms(int64_t) override {}
};

void download_fuzzed(FuzzedAnswer fuzzed, std::string_view text) {
  const size_t line = text.find('\n');
  const std::string_view header = line == std::string_view::npos ? std::string_view() : text.substr(0, line);
  const std::string_view body = line == std::string_view::npos ? text : text.substr(line + 1);
  FuzzedHub hub(fuzzed, header, body);
  DownloadCallback callback;
  NoPace pace(callback);
  const HubAccess access{
      .endpoint = "http://hub", .token = {}, .offline_reason = {}, .ca_file = {}, .ca_folder = {}};
  HubRequests requests(hub, access, pace);
  HubEnvironment environment;
  environment.hf_hub_cache = "/cache";
  MemoryFileSystem files;
  if (fuzzed == FuzzedAnswer::kCachedTree) {
    make_folders(files, "/cache/models--m/trees");
    write_synced_file(files, "/cache/models--m/trees/0123456789abcdef0123456789abcdef01234567.json", body);
  }
  const auto check_places = [&] {
    for (const FolderEntry& entry : files.list("/"))
      PLIMSOLL_CHECK(entry.name == "cache", "'{}'", entry.name);
  };
  try {
    SnapshotDownload(files, requests, environment, {.name = "m"}, ModelParts::kAll).run();
  } catch (const Error&) {
    check_places();
    throw;
  }
  check_places();
}

}  // namespace
}  // namespace plimsoll

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  plimsoll::expect_value_or({plimsoll::ErrorCode::kBadData, plimsoll::ErrorCode::kDevice}, [&] {
    plimsoll::download_fuzzed(static_cast<plimsoll::FuzzedAnswer>(data[0] % 5), text);
  });
  return 0;
}
