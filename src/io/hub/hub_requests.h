// The requests to Hugging Face's hub: the commit of a revision, the list of its files, and the bytes of a file. Requests are repeated
// after temporary failures, redirects are followed, and the token is sent only to the hub itself. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "io/hub/http_client.h"
#include "io/hub/hub_access.h"
#include "plimsoll/download.h"

namespace plimsoll {

struct HubRepository {
  RepositoryKind kind = RepositoryKind::kModel;
  std::string name;
};

// A file of a commit, as in the hub's list of files.
struct HubFile {
  std::string path;
  int64_t size_bytes = 0;
  std::string git_hash = {};  // git's blob hash of the file or, for a large file, of its LFS pointer
  std::string sha256 = {};    // SHA-256 of a large file; empty for other files
  std::string xet_hash = {};  // hash of a large file in Hugging Face's Xet storage; empty for other files
};

// The entity tag and the size of a file, which the hub returns for a HEAD request.
struct HubFileState {
  std::string etag;         // entity tag without quotes, which is the name of the file in blobs/
  int64_t size_bytes = -1;  // size of the file; -1 if the hub does not return it
};

// Waits between two attempts of a request. During the wait it asks the user's callback whether to stop the download. Tests override the
// wait.
class DownloadPace {
 public:
  explicit DownloadPace(DownloadCallback& callback) : callback_(callback) {}
  virtual ~DownloadPace() = default;
  DownloadCallback& callback() const { return callback_; }
  // Waits in short intervals, and returns early if the callback stops the download.
  virtual void wait_ms(int64_t milliseconds);

 private:
  DownloadCallback& callback_;
};

// Counts consecutive failures of a request, and waits longer after each of them.
class Attempts {
 public:
  explicit Attempts(DownloadPace& pace) : pace_(pace) {}
  // Waits before the next attempt: 1, 2, 4 and 8 seconds, or the time that the server asks for. `failure` is a description for the user.
  // Returns false, without waiting, after the fifth failure in a row, and if the server asks for more than five minutes.
  bool wait_after(const std::string& failure, const HttpHead& head);
  void reset() { num_failures_ = 0; }
  int64_t count() const { return num_failures_; }

 private:
  DownloadPace& pace_;
  int64_t num_failures_ = 0;
};

// Returns "status 429" or, if the server asks for a longer wait than Attempts accepts, "status 429 (it asks to wait 3600 s)".
std::string describe_status(const HttpHead& head);

// Returns the entity tag of a response without quotes, in the form that Hugging Face's tools use for the names of files in the cache.
// Returns an empty string if the response has none.
std::string etag_of(const HttpHead& head);

class HubRequests {
 public:
  HubRequests(HttpClient& client, HubAccess access, DownloadPace& pace)
      : client_(client), access_(std::move(access)), pace_(pace) {}

  const HubAccess& access() const { return access_; }
  DownloadPace& pace() const { return pace_; }
  // The next three functions return the commit of a branch or tag, the files of a commit, and the entity tag and size of a file. Errors:
  // kBadData if the repository, revision or file does not exist or the user may not read it, or if the response is not that of a hub;
  // kDevice if the hub does not respond; kInterrupted.
  std::string commit_of(const HubRepository& repository, const std::string& revision);
  std::vector<HubFile> files_of(const HubRepository& repository, const std::string& commit);
  HubFileState state_of(const HubRepository& repository, const std::string& commit, const std::string& path);

  // The result of one request for the content of a file.
  struct BodyOutcome {
    HttpResult result;
    std::string etag;  // entity tag in the response of the hub itself; empty if there is none
  };
  // Sends one request for the bytes of a file from `offset` to its end. `sink` receives the bytes only if the status is 200 or 206. Errors:
  // kBadData for a status such as 404, after which a repeated request would fail as well.
  BodyOutcome read(const HubRepository& repository, const std::string& commit, const std::string& path,
                   int64_t offset, const BodySink& sink);

  // Throws the error for a response whose status is not a success. `what` is the name of the requested thing in the error message.
  [[noreturn]] void refuse(const HubRepository& repository, const HttpHead& head,
                           const std::string& what) const;
  // Throws kInterrupted if the callback stops the download.
  void require_running() const;

 private:
  struct Answer {
    HttpResult result = {};
    std::string body = {};
  };
  HttpResult follow(HttpRequest request, const BodySink& sink, HttpHead* own_answer) const;
  Answer ask(const HubRepository& repository, const std::string& url, bool only_head,
             const std::string& what);
  std::string api_address(const HubRepository& repository) const;
  std::string file_address(const HubRepository& repository, const std::string& commit,
                           const std::string& path) const;

  HttpClient& client_;
  HubAccess access_;
  DownloadPace& pace_;
};

}  // namespace plimsoll
