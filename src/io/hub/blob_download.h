// Downloads the content of one file into blobs/<entity tag> of a repository in the cache. Not thread-safe; several processes
// may download the same file, and a lock lets one of them do it.
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
  std::string path;  // path of the complete blob; while bytes arrive, the file has the suffix kIncomplete
};

// Called with the number of bytes that have arrived since the last call; it is negative if bytes were discarded.
using OnBytes = std::function<void(int64_t change)>;

// The suffix of the name under which bytes arrive.
inline constexpr std::string_view kIncomplete = ".incomplete";

// Creates `request.path` with verified content. Continues an incomplete file. `etag`: the entity tag that the hub states.
// Requires: the caller has the lock of the file, and the folder exists. Errors: kBadData if the bytes are not those that the hub
// lists; kDevice if the network or the disk fails; kInterrupted. The incomplete file stays, unless its bytes are wrong.
void download_blob(HubRequests& requests, FileSystem& files, const BlobRequest& request,
                   const std::string& etag, const OnBytes& on_bytes);

}  // namespace plimsoll
