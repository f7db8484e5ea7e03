// Downloads models and data sets from the Hugging Face hub into the cache of Hugging Face's own tools, in their layout, so
// that these tools need not download the files again.
//
// A file appears under its final name only after its size and its hash (SHA-256, or the hash of git for small files)
// equal those that the hub states. If a download is interrupted, the received bytes are kept, and the next download
// continues after them. Downloads need libcurl.so.4 and libcrypto.so.3, which are opened when they are used.
//
// Thread-safety: different Download objects may be used by different threads and processes, also for the same repository.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/run_commands.h"
#include "plimsoll/training.h"

namespace plimsoll {

enum class RepositoryKind : uint8_t { kModel, kDataset };

struct DownloadRequest {
  std::string name;  // name of the repository on the hub: "gpt2" or "org/name"
  RepositoryKind kind = RepositoryKind::kModel;
  std::string revision = "main";  // branch, tag or commit of the repository
  // Names of the files to download. If it is empty, the files that match `include` are downloaded; if `include` is empty
  // too, the files of a model that Plimsoll reads, or all files of a data set.
  std::vector<std::string> files = {};
  // Patterns as for fnmatch(3), whose * also matches '/'. Files that match `exclude` are never downloaded, even
  // if `files` or `include` selects them.
  std::vector<std::string> include = {};
  std::vector<std::string> exclude = {};
  std::string cache_dir = {};  // folder of the cache; if empty, the one that the environment names
  std::string token = {};      // access token; if empty, HF_TOKEN or the one that `hf auth login` saved
};

struct DownloadFile {
  std::string name;  // path of the file in the repository
  int64_t size_bytes = 0;
  // Number of bytes that the cache already contains: all of them for a complete file, or those of an interrupted
  // download.
  int64_t present_bytes = 0;
  bool is_complete() const { return present_bytes == size_bytes && has_final_name; }
  bool has_final_name = false;  // true if the complete file is in the cache under its final name
};

// The files of a download and their sizes, known before the first byte is downloaded.
struct DownloadPlan {
  std::string name;
  std::string endpoint;  // address of the hub's server
  std::string revision;
  std::string commit = {};
  std::string folder = {};  // folder of the downloaded commit in the cache, from which the model is read
  std::vector<DownloadFile> files = {};
  int64_t free_bytes = 0;               // free space of the disk with the cache
  std::vector<std::string> notes = {};  // sentences about files that are not downloaded

  int64_t total_bytes() const;
  int64_t missing_bytes() const;
  int64_t num_missing_files() const;
};

// The functions below format the files and sizes of a download: as text for people, and as a JSON object.
std::string format_download_plan(const DownloadPlan& plan);
std::string download_plan_json(const DownloadPlan& plan);

struct DownloadProgress {
  std::string file;            // name of the file that is being downloaded
  int64_t done_bytes = 0;      // bytes of all files in the cache, including those from before this download
  int64_t total_bytes = 0;     // size of all files
  int64_t received_bytes = 0;  // bytes that this download received through the network
  double elapsed_s = 0;
};

// Receives the events of a download. The functions are called by the thread that downloads.
class DownloadCallback {
 public:
  virtual ~DownloadCallback() = default;
  // Called before the first byte, unless there is nothing to download.
  virtual void on_plan(const DownloadPlan&) {}
  // Called a few times per second with the progress of the download.
  virtual void on_progress(const DownloadProgress&) {}
  // Called with a sentence if the download waits, for example for another process, or repeats a request that failed.
  virtual void on_wait(const std::string&) {}
  // Returns true if the download is to stop. It is called at least once per second.
  virtual bool should_stop() { return false; }
};

// Downloads the files of a repository. The constructor determines the files and their sizes, run() transfers them.
class Download {
 public:
  // Asks the hub for the commit and its files, unless both are in the cache. Errors: kUsage for a wrong name, revision or
  // environment variable; kBadData if the repository, the revision or a file does not exist or may not be read; kDevice if the hub
  // cannot be reached, or if HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set.
  explicit Download(const DownloadRequest& request, const Environment& environment = process_environment(),
                    DownloadCallback* callback = nullptr);
  ~Download();
  Download(const Download&) = delete;
  Download& operator=(const Download&) = delete;

  const DownloadPlan& plan() const;
  // Downloads what is missing. Errors: kDevice before the first byte if the disk has too few free bytes, and later if the network or
  // the disk fails; kBadData if bytes differ from what the hub states; kInterrupted if the callback stops it. After an error,
  // complete files and the received bytes of an incomplete one stay in the cache, and the next download continues from them.
  void run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Downloads the files that a run needs and that the cache does not contain, of the models that the arguments name by
// hub names. A plan needs configurations and tokenizers, other commands also weights. If no file is missing, the
// network is not used. It does nothing with --local_files_only, HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE. Trainer and
// Generator only look into the cache, so a program calls this function before it constructs one of them. Errors: as
// Download.
void download_for_run(const Arguments& arguments, RunCommand command,
                      const Environment& environment = process_environment(),
                      DownloadCallback* callback = nullptr);

}  // namespace plimsoll
