// A simulated hub in memory for tests of downloads, and the objects that a client of it needs. Not thread-safe.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file_fault.h"
#include "io/hub/blob_download.h"
#include "io/hub/content_digest.h"
#include "io/hub/snapshot_download.h"

namespace plimsoll::testing {

inline std::string hash_of(const std::string& text, DigestKind kind) {
  ContentDigest digest(kind, std::ssize(text));
  digest.add(std::as_bytes(std::span(text)));
  return digest.finish();
}

// Responds to requests like Hugging Face's hub, with files in memory. Files whose names end with .safetensors are large files, for which
// the hub redirects to another host.
class SimulatedHub final : public HttpClient {
 public:
  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

  std::map<std::string, std::string> contents{{"config.json", "{\"model_type\": \"bert\"}\n"},
                                              {"model.safetensors", "the weights of the model"},
                                              {"sub/notes.txt", "not read"},
                                              {"vocab.txt", ""}};
  // While num_cuts is positive, the connection breaks after `cut` bytes of each response body that is longer. cut = -1 means never.
  int64_t cut = -1;
  int num_cuts = 0;
  int64_t bytes_per_call = 5;
  std::function<bool(const HttpRequest&, HttpResult&)> fault;
  std::vector<std::string> log;
  int64_t num_bytes = 0;

  bool is_large(const std::string& path) const { return path.ends_with(".safetensors"); }

  HttpResult send(const HttpRequest& request, const BodySink& sink,
                  const std::function<bool()>& should_stop) override {
    log.push_back((request.only_head ? "HEAD " : "GET ") + request.url);
    for (const std::string& header : request.headers) log.back() += " " + header;
    HttpResult result;
    if (fault && fault(request, result)) return result;
    const std::string url = request.url;
    if (url == "http://hub/api/models/org/name/revision/main") {
      return send_text(nlohmann::json{{"sha", kCommit}}.dump(), result, sink);
    }
    if (url.starts_with("http://hub/api/models/org/name/tree/")) return send_text(tree(), result, sink);
    const std::string start = std::string("http://hub/org/name/resolve/") + kCommit + "/";
    if (url.starts_with("http://store/"))
      return send_content(contents.at(url.substr(13)), request, result, sink, should_stop);
    const std::string path = url.starts_with(start) ? url.substr(start.size()) : "";
    if (!contents.contains(path)) {
      result.head = {.status = 404, .headers = {{"x-error-code", "EntryNotFound"}}};
      return result;
    }
    result.head.headers["x-repo-commit"] = kCommit;
    result.head.headers["etag"] = '"' + etag(path) + '"';
    if (!is_large(path)) return send_content(contents[path], request, result, sink, should_stop);
    result.head.status = 302;
    result.head.headers["location"] = "http://store/" + path;
    result.head.headers["x-linked-size"] = std::to_string(contents[path].size());
    return result;
  }

  std::string etag(const std::string& path) const {
    return hash_of(contents.at(path), is_large(path) ? DigestKind::kSha256 : DigestKind::kGitBlob);
  }

 private:
  std::string tree() const {
    nlohmann::json entries = nlohmann::json::array();
    for (const auto& [path, text] : contents) {
      nlohmann::json entry{{"type", "file"},
                           {"path", path},
                           {"size", text.size()},
                           {"oid", hash_of(text, DigestKind::kGitBlob)}};
      if (is_large(path)) entry["lfs"] = {{"oid", etag(path)}, {"size", text.size()}};
      entries.push_back(entry);
    }
    return entries.dump();
  }

  static HttpResult send_text(const std::string& text, HttpResult result, const BodySink& sink) {
    result.head.status = 200;
    sink(result.head, std::as_bytes(std::span(text)));
    return result;
  }

  HttpResult send_content(const std::string& text, const HttpRequest& request, HttpResult result,
                          const BodySink& sink, const std::function<bool()>& should_stop) {
    size_t begin = 0;
    for (const std::string& header : request.headers) {
      if (header.starts_with("Range: bytes=")) begin = std::stoul(header.substr(13));
    }
    result.head.status = begin > 0 ? 206 : 200;
    result.head.headers["content-length"] = std::to_string(text.size() - begin);
    if (begin > 0) {
      result.head.headers["content-range"] =
          fmt::format("bytes {}-{}/{}", begin, text.size() - 1, text.size());
    }
    if (request.only_head) return result;
    const bool is_cut = cut >= 0 && num_cuts > 0;
    const size_t end = is_cut ? std::min(begin + static_cast<size_t>(cut), text.size()) : text.size();
    while (begin < end) {
      const size_t count = std::min(static_cast<size_t>(bytes_per_call), end - begin);
      if (should_stop() || !sink(result.head, std::as_bytes(std::span(text).subspan(begin, count)))) {
        result.was_stopped = true;
        return result;
      }
      begin += count;
      num_bytes += static_cast<int64_t>(count);
    }
    if (is_cut && end < text.size()) {
      --num_cuts;
      result.failure = "the connection was closed";
    }
    return result;
  }
};

// Replaces the waiting between attempts in tests: it returns at once, and adds up the milliseconds for which it was asked to wait.
class SimulatedPace final : public DownloadPace {
 public:
  using DownloadPace::DownloadPace;
  void wait_ms(int64_t milliseconds) override { waited_ms += milliseconds; }
  int64_t waited_ms = 0;
};

// A callback that asks to stop the download after `calls_left` calls.
class StoppingCallback final : public DownloadCallback {
 public:
  bool should_stop() override {
    if (calls_left > 0) --calls_left;
    return calls_left == 0;
  }
  void on_wait(const std::string& text) override { waits.push_back(text); }
  int calls_left = -1;
  std::vector<std::string> waits;
};

inline const HubEnvironment kEnvironment{
    .hf_hub_cache = "/cache", .huggingface_hub_cache = {}, .hf_home = {}, .xdg_cache_home = {}, .home = {}};
inline constexpr const char* kFolder = "/cache/models--org--name";

// A simulated hub, the objects that a client of it needs, and a request for a download.
struct World {
  SimulatedHub hub;
  StoppingCallback callback;
  SimulatedPace pace{callback};
  HubAccess access{
      .endpoint = "http://hub", .token = "secret", .offline_reason = {}, .ca_file = {}, .ca_folder = {}};
  HubRequests requests{hub, access, pace};
  DownloadRequest request{.name = "org/name"};
  ModelParts parts = ModelParts::kAll;

  void download(FileSystem& files) { SnapshotDownload(files, requests, kEnvironment, request, parts).run(); }
  std::string failure(FileSystem& files, ErrorCode code) {
    try {
      download(files);
    } catch (const Error& error) {
      EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
      return error.what();
    }
    return "no failure";
  }
};

inline std::string snapshot_file(const std::string& path) {
  return std::string(kFolder) + "/snapshots/" + SimulatedHub::kCommit + "/" + path;
}

// Checks that every file with a final name has the same content as on the hub.
inline void expect_only_right_files(MemoryFileSystem& files, const SimulatedHub& hub,
                                    const std::string& where) {
  const std::string blobs = std::string(kFolder) + "/blobs";
  if (!files.status(blobs)) return;
  std::map<std::string, std::string> by_name;
  for (const auto& [path, text] : hub.contents) by_name[hub.etag(path)] = text;
  for (const FolderEntry& entry : files.list(blobs)) {
    if (entry.name.ends_with(kIncomplete)) continue;
    ASSERT_TRUE(by_name.contains(entry.name)) << where << ": " << entry.name;
    EXPECT_EQ(read_text_file(files, blobs + "/" + entry.name, 1000), by_name[entry.name]) << where;
  }
}

inline void expect_complete(MemoryFileSystem& files, const SimulatedHub& hub, const std::string& where) {
  for (const char* path : {"config.json", "model.safetensors", "vocab.txt"}) {
    ASSERT_TRUE(files.status(snapshot_file(path))) << where << ": " << path;
    EXPECT_EQ(read_text_file(files, snapshot_file(path), 1000), hub.contents.at(path))
        << where << ": " << path;
    EXPECT_EQ(files.read_link(snapshot_file(path)), "../../blobs/" + hub.etag(path)) << where;
  }
  EXPECT_EQ(read_text_file(files, std::string(kFolder) + "/refs/main", 100), SimulatedHub::kCommit) << where;
  for (const FolderEntry& entry : files.list(std::string(kFolder) + "/blobs"))
    EXPECT_FALSE(entry.name.ends_with(kIncomplete)) << where << ": " << entry.name;
}

}  // namespace plimsoll::testing
