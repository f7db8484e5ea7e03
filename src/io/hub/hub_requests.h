// The requests to the hub: the commit of a revision, its files, and the bytes of a file. Repeats requests after failures that
// pass, follows redirects, and sends the token only to the hub itself. Not thread-safe.
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

// A file of a commit as the hub lists it.
struct HubFile {
  std::string path;
  int64_t size_bytes = 0;
  std::string git_hash = {};  // the hash of git of the file, or of its pointer if it is a large file
  std::string sha256 = {};    // "" except for large files
  std::string xet_hash = {};  // "" except for large files in Hugging Face's own storage
};

// The facts that the hub states about a file when it is asked for it.
struct HubFileState {
  std::string etag;         // without quotes; the name of the file in blobs/
  int64_t size_bytes = -1;  // -1 if not stated
};

// Waits, and asks the user's program if the download is to stop. Tests replace the clock.
class DownloadPace {
 public:
  explicit DownloadPace(DownloadCallback& callback) : callback_(callback) {}
  virtual ~DownloadPace() = default;
  DownloadCallback& callback() const { return callback_; }
  // Waits in pieces, and returns earlier if the download is to stop.
  virtual void wait_ms(int64_t milliseconds);

 private:
  DownloadCallback& callback_;
};

// Counts the failures since the last success, and waits longer after each.
class Attempts {
 public:
  explicit Attempts(DownloadPace& pace) : pace_(pace) {}
  // Waits before the next attempt: 1, 2, 4 and 8 seconds, or the time that the server asks for. `failure` describes the failure.
  // Returns false after the fifth failure in a row, and if the server asks for more than five minutes.
  bool wait_after(const std::string& failure, const HttpHead& head);
  void reset() { num_failures_ = 0; }
  int64_t count() const { return num_failures_; }

 private:
  DownloadPace& pace_;
  int64_t num_failures_ = 0;
};

// Returns the entity tag of an answer as Hugging Face's tools name files by it, or "".
std::string etag_of(const HttpHead& head);

class HubRequests {
 public:
  HubRequests(HttpClient& client, HubAccess access, DownloadPace& pace)
      : client_(client), access_(std::move(access)), pace_(pace) {}

  const HubAccess& access() const { return access_; }
  DownloadPace& pace() const { return pace_; }
  // Errors of commit_of(), files_of() and state_of(): kBadData if the repository, revision or file does not exist or may not be read, or
  // if the answer is not that of a hub; kDevice if the hub does not answer; kInterrupted.
  std::string commit_of(const HubRepository& repository, const std::string& revision);
  std::vector<HubFile> files_of(const HubRepository& repository, const std::string& commit);
  HubFileState state_of(const HubRepository& repository, const std::string& commit, const std::string& path);

  // The outcome of one attempt to read a file.
  struct BodyOutcome {
    HttpResult result;
    std::string etag;  // entity tag in the hub's own answer; "" if not stated
  };
  // Asks once for the bytes from `offset` on, or for all if it is 0. `sink` receives only bodies with status 200 or 206. Errors:
  // kBadData for answers that no further attempt changes, such as 404.
  BodyOutcome read(const HubRepository& repository, const std::string& commit, const std::string& path,
                   int64_t offset, const BodySink& sink);

  // Throws the error of a status that is not a success. `what` names what was asked for.
  [[noreturn]] void refuse(const HubRepository& repository, const HttpHead& head,
                           const std::string& what) const;
  // Throws kInterrupted if the download is to stop.
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
