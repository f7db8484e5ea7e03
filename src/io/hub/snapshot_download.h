// Downloads files of a commit into the cache of Hugging Face's tools, in their published layout: blobs/<entity tag> with the content,
// snapshots/<commit>/<path> with links to it, refs/<branch> with the commit, trees/<commit>.json with the list of files,
// .no_exist/<commit>/<path> for requested files that do not exist, and .locks/ with a lock file per blob. Not thread-safe; several
// processes may download the same repository.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/file.h"
#include "io/hub/hub_cache.h"
#include "io/hub/hub_files.h"
#include "io/hub/hub_requests.h"
#include "plimsoll/download.h"

namespace plimsoll {

class SnapshotDownload {
 public:
  // Plans the download: finds the commit, its files, and which of them are already in the cache. Writes nothing except for the .no_exist
  // records of files that were requested by name and do not exist. Errors: kUsage for an invalid name or revision, or if the location of
  // the cache cannot be determined; those of HubRequests and select_files().
  SnapshotDownload(FileSystem& files, HubRequests& requests, const HubEnvironment& environment,
                   const DownloadRequest& request, ModelParts parts);

  const DownloadPlan& plan() const { return plan_; }
  // Downloads the missing files. Only at the end is refs/<branch> changed to the new commit, so that an interrupted download leaves the
  // older snapshot usable. Errors: those of Download::run().
  void run();

 private:
  void find_files(const DownloadRequest& request, ModelParts parts);
  void find_present_files();
  void remember_absence(const DownloadRequest& request);
  void require_space() const;
  void prepare_folders();
  void download_file(size_t index);
  void link(const std::string& blob, const HubFile& file);
  bool has_ref();
  void write_ref();
  void add_bytes(size_t index, int64_t change);
  void report(bool now);
  bool has_blob(const std::string& path, const HubFile& file);
  std::string blob_path(const std::string& name) const;
  std::string snapshot_path(const HubFile& file) const;

  FileSystem& files_;
  HubRequests& requests_;
  HubRepository repository_;
  std::string cache_;              // cache folder with the folders of all repositories
  std::string folder_;             // cache folder of this repository
  std::vector<HubFile> listed_;    // all files of the commit
  std::vector<HubFile> selected_;  // files to download, in the same order as in plan_.files
  DownloadPlan plan_;
  DownloadProgress progress_;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_report_;
};

// Returns true if a snapshot in the cache contains all files of a model that a command needs. `folder` is the cache folder of the
// repository.
bool is_snapshot_complete(FileSystem& files, const std::string& folder, const std::string& commit,
                          ModelParts parts);

}  // namespace plimsoll
