// Downloads the content of one file into blobs/<entity tag> in the cache folder of its repository. Not thread-safe. Several processes may
// download the same file; a lock lets one of them do it at a time.
#pragma once

#include <functional>
#include <string>

#include "base/file.h"
#include "io/hub/hub_requests.h"

namespace plimsoll {

struct BlobRequest {
  const HubRepository& repository;
  const std::string& commit;
  const HubFile& file;
  // Path of the complete blob; an incomplete file has this path with the suffix kIncomplete.
  std::string path;
};

// A function that is called with the number of bytes that were received since the last call. The number is negative if received bytes
// were discarded.
using OnBytes = std::function<void(int64_t change)>;

// The suffix of the name of a file that is not completely downloaded.
inline constexpr std::string_view kIncomplete = ".incomplete";

// Downloads a file to `request.path` and verifies its hash. If an incomplete file exists, only the missing bytes are downloaded. `etag`
// is the entity tag that the hub returned for the file. Requires: the caller holds the lock of the file, and the folder exists. Errors:
// kBadData if the content does not have the hash that the hub lists; kDevice if the network or the disk fails; kInterrupted. After an
// error the incomplete file is kept for the next attempt, unless its content is wrong.
void download_blob(HubRequests& requests, FileSystem& files, const BlobRequest& request,
                   const std::string& etag, const OnBytes& on_bytes);

}  // namespace plimsoll
