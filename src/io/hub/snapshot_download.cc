#include "io/hub/snapshot_download.h"

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/guarded_json.h"
#include "io/hub/blob_download.h"
#include "io/hub/hub_address.h"

namespace plimsoll {
namespace {

constexpr int64_t kLockPollMs = 200;
constexpr std::chrono::milliseconds kReportInterval(200);
// The content of a file CACHEDIR.TAG. The first line is the signature that the Cache Directory Tagging Specification requires.
constexpr std::string_view kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file marks a cache directory, which backups may omit. It was created by plimsoll download.\n"
    "# For information about cache directory tags, see https://bford.info/cachedir/\n";

bool is_commit(std::string_view text) {
  return text.size() == 40 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Returns the size of a file, or -1 if it does not exist.
int64_t file_bytes(FileSystem& files, const std::string& path) {
  const auto status = files.status(path);
  return status && status->kind == FileKind::kFile ? status->size_bytes : -1;
}

std::string tree_path(const std::string& folder, const std::string& commit) {
  return join_path(join_path(folder, "trees"), commit + ".json");
}

// Returns the entity tag that the hub usually returns for a file. It is also the name of the file's blob in the cache.
const std::string& usual_etag(const HubFile& file) {
  return file.sha256.empty() ? file.git_hash : file.sha256;
}

// Returns true if a snapshot contains the weights of a model or of an adapter. If the cache has no list of the commit's files, the caller
// uses this test to decide if the snapshot is complete.
bool has_weights(FileSystem& files, const std::string& snapshot) {
  for (const char* name : {"model.safetensors", "adapter_model.safetensors"}) {
    if (file_bytes(files, join_path(snapshot, name)) >= 0) return true;
  }
  constexpr int64_t kMaxIndexBytes = int64_t{64} << 20;
  const std::string index = join_path(snapshot, "model.safetensors.index.json");
  if (file_bytes(files, index) < 0) return false;
  const nlohmann::json content = parse_json(read_text_file(files, index, kMaxIndexBytes), index);
  const auto map = content.is_object() ? content.find("weight_map") : content.end();
  if (map == content.end() || !map->is_object()) return false;
  return std::ranges::all_of(*map, [&](const nlohmann::json& part) {
    return part.is_string() && file_bytes(files, join_path(snapshot, part.get<std::string>())) >= 0;
  });
}

}  // namespace

bool is_snapshot_complete(FileSystem& files, const std::string& folder, const std::string& commit,
                          ModelParts parts) {
  const std::string snapshot = join_path(join_path(folder, "snapshots"), commit);
  const auto has = [&](const std::string& name) { return file_bytes(files, join_path(snapshot, name)) >= 0; };
  if (const auto listed = read_tree(files, tree_path(folder, commit)); listed && !listed->empty()) {
    const DownloadRequest request{.name = file_name(folder), .revision = commit};
    try {
      const SelectedFiles wanted = select_files(request, *listed, parts);
      return std::ranges::all_of(wanted.files, [&](const HubFile& file) { return has(file.path); });
    } catch (const Error&) {
      return false;
    }
  }
  const bool has_tokenizer = has("tokenizer.json") || has("vocab.txt") || has("vocab.json");
  if (parts == ModelParts::kConfiguration) return has("config.json") || has("adapter_config.json");
  if (parts == ModelParts::kTokenizer) return has_tokenizer;
  return (has("adapter_config.json") || (has("config.json") && has_tokenizer)) &&
         has_weights(files, snapshot);
}

SnapshotDownload::SnapshotDownload(FileSystem& files, HubRequests& requests,
                                   const HubEnvironment& environment, const DownloadRequest& request,
                                   ModelParts parts)
    : files_(files),
      requests_(requests),
      repository_{.kind = request.kind, .name = request.name},
      cache_(hub_cache_folder(environment)) {
  if (!is_hub_name(request.name))
    throw_error(ErrorCode::kUsage, "'{}' is not a name on the Hugging Face hub, such as gpt2 or org/name",
                request.name);
  if (!is_revision(request.revision))
    throw_error(ErrorCode::kUsage, "'{}' is not a branch, tag or commit; give one of these as the revision",
                request.revision);
  if (cache_.empty()) {
    throw_error(ErrorCode::kUsage,
                "the folder of Hugging Face's cache is unknown, because HOME is not set; set HF_HUB_CACHE to "
                "a full path");
  }
  folder_ = join_path(cache_, repository_folder(request.kind, request.name));
  plan_ = {.name = request.name, .endpoint = requests.access().endpoint, .revision = request.revision};
  find_files(request, parts);
  plan_.folder = join_path(join_path(folder_, "snapshots"), plan_.commit);
  find_present_files();
  std::string existing = folder_;
  while (!files_.status(existing) && existing != "/" && existing != ".") existing = parent_folder(existing);
  plan_.free_bytes = files_.space_of(existing).free_bytes;
}

void SnapshotDownload::find_files(const DownloadRequest& request, ModelParts parts) {
  plan_.commit =
      is_commit(request.revision) ? request.revision : requests_.commit_of(repository_, request.revision);
  // The list of the files of a commit never changes, so a list in the cache can be used.
  if (auto cached = read_tree(files_, tree_path(folder_, plan_.commit)); cached && !cached->empty()) {
    listed_ = std::move(*cached);
  } else {
    listed_ = requests_.files_of(repository_, plan_.commit);
  }
  try {
    SelectedFiles selected = select_files(request, listed_, parts);
    selected_ = std::move(selected.files);
    plan_.notes = std::move(selected.notes);
  } catch (const Error&) {
    remember_absence(request);
    throw;
  }
}

// Creates empty files in the cache's folder .no_exist for requested files that do not exist in the commit. Hugging Face's tools find these
// records and do not request the files again.
void SnapshotDownload::remember_absence(const DownloadRequest& request) {
  for (const std::string& name : request.files) {
    const bool is_listed = std::ranges::find(listed_, name, &HubFile::path) != listed_.end();
    if (is_listed || !is_path_below(name)) continue;
    const std::string path = join_path(join_path(join_path(folder_, ".no_exist"), plan_.commit), name);
    try {
      make_folders(files_, parent_folder(path));
      if (!files_.status(path)) write_synced_file(files_, path, "");
    } catch (const FileError&) {
      // The error is ignored: the record only saves later requests, and the caller reports that the requested file does not exist.
      return;
    }
  }
}

bool SnapshotDownload::has_blob(const std::string& path, const HubFile& file) {
  return file_bytes(files_, path) == file.size_bytes;
}

std::string SnapshotDownload::blob_path(const std::string& name) const {
  return join_path(join_path(folder_, "blobs"), name);
}

std::string SnapshotDownload::snapshot_path(const HubFile& file) const {
  return join_path(plan_.folder, file.path);
}

void SnapshotDownload::find_present_files() {
  for (const HubFile& file : selected_) {
    DownloadFile planned{.name = file.path, .size_bytes = file.size_bytes};
    const std::string blob = blob_path(usual_etag(file));
    planned.has_final_name = has_blob(snapshot_path(file), file) || has_blob(blob, file);
    const int64_t partial = file_bytes(files_, blob + std::string(kIncomplete));
    if (planned.has_final_name) {
      planned.present_bytes = file.size_bytes;
    } else if (partial > 0 && partial <= file.size_bytes) {
      planned.present_bytes = partial;
    }
    progress_.done_bytes += planned.present_bytes;
    plan_.files.push_back(std::move(planned));
  }
  progress_.total_bytes = plan_.total_bytes();
}

void SnapshotDownload::require_space() const {
  if (plan_.missing_bytes() <= plan_.free_bytes) return;
  throw_error(ErrorCode::kDevice,
              "'{}' needs {} more bytes in {}, and its disk has {} free bytes. Free space, or choose a "
              "folder on another disk "
              "with --cache_dir or HF_HUB_CACHE",
              plan_.name, plan_.missing_bytes(), cache_, plan_.free_bytes);
}

void SnapshotDownload::prepare_folders() {
  make_folders(files_, join_path(folder_, "blobs"));
  make_folders(files_, plan_.folder);
  const std::string tag = join_path(cache_, "CACHEDIR.TAG");
  if (!files_.status(tag)) replace_file(files_, tag, kCacheTag);
  const std::string tree = tree_path(folder_, plan_.commit);
  if (!files_.status(tree)) {
    make_folders(files_, parent_folder(tree));
    replace_file(files_, tree, tree_json(listed_));
  }
}

void SnapshotDownload::run() {
  require_space();
  const bool is_linked = std::ranges::all_of(
      selected_, [&](const HubFile& file) { return has_blob(snapshot_path(file), file); });
  // If the snapshot is complete, there is nothing to write. The cache may then be read-only, so the function must not prepare folders
  // first.
  if (is_linked && has_ref()) return;
  start_ = std::chrono::steady_clock::now();
  prepare_folders();
  for (size_t i = 0; i < selected_.size(); ++i) download_file(i);
  write_ref();
  progress_.done_bytes = progress_.total_bytes;
  report(true);
}

void SnapshotDownload::add_bytes(size_t index, int64_t change) {
  plan_.files[index].present_bytes += change;
  progress_.done_bytes += change;
  progress_.received_bytes += std::max(change, int64_t{0});
  report(false);
}

void SnapshotDownload::report(bool now) {
  const auto time = std::chrono::steady_clock::now();
  if (!now && time - last_report_ < kReportInterval) return;
  last_report_ = time;
  progress_.elapsed_s = std::chrono::duration<double>(time - start_).count();
  requests_.pace().callback().on_progress(progress_);
}

void SnapshotDownload::download_file(size_t index) {
  const HubFile& file = selected_[index];
  if (has_blob(snapshot_path(file), file)) return;
  progress_.file = file.path;
  report(true);
  std::string etag = usual_etag(file);
  if (!has_blob(blob_path(etag), file)) {
    const HubFileState state = requests_.state_of(repository_, plan_.commit, file.path);
    if (state.size_bytes >= 0 && state.size_bytes != file.size_bytes) {
      throw_error(
          ErrorCode::kBadData,
          "'{}': {} states a size of {} bytes, but its list of files has {}; check HF_ENDPOINT and the proxy",
          file.path, host_of(plan_.endpoint), state.size_bytes, file.size_bytes);
    }
    // If the entity tag is a hash, it must be the hash in the list of files. Otherwise the content would be stored under the hash of other
    // content, and other programs would then read it instead of the content that has this hash.
    const bool is_hash = (state.etag.size() == 40 || state.etag.size() == 64) &&
                         state.etag.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (is_hash && state.etag != etag) {
      throw_error(
          ErrorCode::kBadData,
          "'{}': {} states the hash {}, but its list of files has {}; check HF_ENDPOINT and the proxy",
          file.path, host_of(plan_.endpoint), state.etag, etag);
    }
    etag = state.etag;
  }
  const std::string locks = join_path(join_path(cache_, ".locks"), file_name(folder_));
  make_folders(files_, locks);
  const std::string lock_path = join_path(locks, etag + ".lock");
  std::unique_ptr<FileLock> lock = files_.try_lock(lock_path);
  if (!lock) {
    requests_.pace().callback().on_wait(
        fmt::format("another process downloads {}; waiting for it (lock {})", file.path, lock_path));
  }
  while (!lock) {
    requests_.require_running();
    requests_.pace().wait_ms(kLockPollMs);
    lock = files_.try_lock(lock_path);
  }
  const std::string blob = blob_path(etag);
  if (!has_blob(blob, file)) {
    // The size of the incomplete file may differ from that in the plan, because another process may have continued the download, or
    // because the hub returned another entity tag. Corrects the number of downloaded bytes.
    const int64_t partial = std::max(file_bytes(files_, blob + std::string(kIncomplete)), int64_t{0});
    const int64_t usable = partial <= file.size_bytes ? partial : 0;
    progress_.done_bytes += usable - plan_.files[index].present_bytes;
    plan_.files[index].present_bytes = usable;
    download_blob(requests_, files_,
                  {.repository = repository_, .commit = plan_.commit, .file = file, .path = blob}, etag,
                  [&](int64_t change) { add_bytes(index, change); });
  }
  link(blob, file);
  plan_.files[index].has_final_name = true;
  plan_.files[index].present_bytes = file.size_bytes;
}

// Creates a symbolic link in the snapshot, with the name of the file, that points to the blob with its content.
void SnapshotDownload::link(const std::string& blob, const HubFile& file) {
  const std::string path = snapshot_path(file);
  std::string target = "../../";
  for (const char c : file.path) {
    if (c == '/') target += "../";
  }
  target += "blobs/" + file_name(blob);
  if (has_blob(path, file)) return;
  make_folders(files_, parent_folder(path));
  try {
    if (!files_.status(path) && !files_.read_link(path)) {
      files_.make_link(target, path);
    } else {
      // The snapshot already has a damaged file of this name. The link is created under a temporary name, and a rename replaces the file.
      const std::string temporary = temporary_path(path);
      files_.make_link(target, temporary);
      files_.rename(temporary, path);
    }
  } catch (const FileError& error) {
    const bool has_no_links = error.operation() == FileOperation::kMakeLink &&
                              (error.error_number() == EPERM || error.error_number() == EOPNOTSUPP);
    if (!has_no_links) throw;
    // If the file system does not support symbolic links, the file itself is moved into the snapshot, as Hugging Face's tools do.
    files_.rename(blob, path);
  }
  files_.sync_folder(parent_folder(path));
}

// Returns true if refs/<revision> in the cache already contains the commit.
bool SnapshotDownload::has_ref() {
  const std::string path = join_path(join_path(folder_, "refs"), plan_.revision);
  return plan_.revision == plan_.commit ||
         (file_bytes(files_, path) == std::ssize(plan_.commit) &&
          read_text_file(files_, path, std::ssize(plan_.commit)) == plan_.commit);
}

void SnapshotDownload::write_ref() {
  if (has_ref()) return;
  const std::string path = join_path(join_path(folder_, "refs"), plan_.revision);
  make_folders(files_, parent_folder(path));
  replace_file(files_, path, plan_.commit);
}

}  // namespace plimsoll
