#include "io/hub/blob_download.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/printable.h"
#include "io/hub/content_digest.h"
#include "io/hub/hub_address.h"

namespace plimsoll {
namespace {

// Each time this number of bytes was written, the operating system is asked to start writing them to the disk, so that the sync at the
// end takes less time.
constexpr int64_t kSyncBytes = int64_t{32} << 20;

// The numbers in the header Content-Range, such as "bytes 100-199/200": the first position and the total size. -1 if the header does not
// contain them.
struct ContentRange {
  int64_t begin = -1;
  int64_t total = -1;
};

int64_t leading_number(std::string_view text) {
  int64_t value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

ContentRange content_range(std::string_view text) {
  ContentRange range;
  if (!text.starts_with("bytes ")) return range;
  text.remove_prefix(6);
  range.begin = leading_number(text);
  if (const size_t slash = text.find('/'); slash != std::string_view::npos)
    range.total = leading_number(text.substr(slash + 1));
  return range;
}

// The file of a download that is not complete, and the hash of its bytes so far. Every byte is written at its final position. If two
// processes download the same file on a file system on which locks have no effect, both therefore write the same bytes to the same
// positions.
class IncompleteFile {
 public:
  IncompleteFile(FileSystem& files, std::string path, DigestKind kind, int64_t size_bytes)
      : files_(files), path_(std::move(path)), size_bytes_(size_bytes), digest_(kind, size_bytes) {
    const auto status = files_.status(path_);
    const bool is_usable = status && status->kind == FileKind::kFile && status->size_bytes <= size_bytes_;
    file_ = is_usable ? files_.open_write(path_) : files_.create(path_);
    if (is_usable) hash_present(status->size_bytes);
  }

  int64_t done_bytes() const { return done_bytes_; }
  bool is_full() const { return done_bytes_ == size_bytes_; }

  void add(std::span<const std::byte> bytes) {
    digest_.add(bytes);
    file_->write_at(bytes, done_bytes_);
    done_bytes_ += std::ssize(bytes);
    if (done_bytes_ - start_of_sync_ < kSyncBytes) return;
    file_->start_sync(start_of_sync_, done_bytes_ - start_of_sync_);
    start_of_sync_ = done_bytes_;
  }

  void restart() {
    file_->resize(0);
    digest_.restart();
    done_bytes_ = start_of_sync_ = 0;
  }

  std::string hash() { return digest_.finish(); }

  // Syncs the file and renames it to its final name. After a failed sync the content on the disk is unknown, so the file is removed.
  void finish(const std::string& final_path) {
    try {
      file_->sync();
    } catch (const FileError&) {
      file_.reset();
      files_.remove_file(path_);
      throw;
    }
    file_->close();
    files_.rename(path_, final_path);
    files_.sync_folder(parent_folder(final_path));
  }

  void remove() {
    file_.reset();
    files_.remove_file(path_);
  }

 private:
  void hash_present(int64_t bytes) {
    const auto present = files_.open_read(path_);
    std::vector<std::byte> chunk(static_cast<size_t>(kFileChunkBytes));
    while (done_bytes_ < bytes) {
      const auto wanted = static_cast<size_t>(std::min(kFileChunkBytes, bytes - done_bytes_));
      const int64_t got = present->pread(std::span(chunk).first(wanted), done_bytes_);
      if (got == 0) break;
      digest_.add(std::span(chunk).first(static_cast<size_t>(got)));
      done_bytes_ += got;
    }
    start_of_sync_ = done_bytes_;
  }

  FileSystem& files_;
  std::string path_;
  int64_t size_bytes_;
  ContentDigest digest_;
  std::unique_ptr<File> file_;
  int64_t done_bytes_ = 0;
  int64_t start_of_sync_ = 0;
};

// The download of one file, which repeats requests until the file is complete.
class BlobTransfer {
 public:
  BlobTransfer(HubRequests& requests, FileSystem& files, const BlobRequest& request, const std::string& etag,
               const OnBytes& on_bytes)
      : requests_(requests),
        request_(request),
        etag_(etag),
        on_bytes_(on_bytes),
        file_(files, request.path + std::string(kIncomplete),
              request.file.sha256.empty() ? DigestKind::kGitBlob : DigestKind::kSha256,
              request.file.size_bytes),
        has_earlier_bytes_(file_.done_bytes() > 0) {}

  void run() {
    Attempts attempts(requests_.pace());
    int64_t most_bytes = file_.done_bytes();
    bool is_repeated = false;
    while (true) {
      requests_.require_running();
      const std::string failure = file_.is_full() ? "" : read_once();
      if (file_.is_full()) {
        const std::string hash = file_.hash();
        if (hash == expected_hash()) return file_.finish(request_.path);
        // The hash of the complete file is wrong. If the file consists of bytes from several responses or from an earlier process, these
        // may be damaged or belong to different versions of the file. The file is then downloaded once more, with a single request.
        const bool may_be_mixed = has_earlier_bytes_ || num_parts_ > 1;
        discard();
        if (!may_be_mixed || std::exchange(is_repeated, true)) refuse_hash(hash);
        most_bytes = 0;
        continue;
      }
      requests_.require_running();
      if (file_.done_bytes() > most_bytes) attempts.reset();
      most_bytes = std::max(most_bytes, file_.done_bytes());
      if (attempts.wait_after(request_.file.path + ": " + failure, head_)) continue;
      requests_.require_running();
      throw_error(
          ErrorCode::kDevice,
          "the download of '{}' from {} failed after {} of {} bytes: {}. The bytes are kept: run the command "
          "again to continue",
          request_.file.path, host_of(requests_.access().endpoint), file_.done_bytes(),
          request_.file.size_bytes, failure);
    }
  }

 private:
  const std::string& expected_hash() const {
    return request_.file.sha256.empty() ? request_.file.git_hash : request_.file.sha256;
  }

  [[noreturn]] void refuse_hash(const std::string& hash) {
    file_.remove();
    throw_error(ErrorCode::kBadData,
                "the bytes of '{}' that {} sent have the {} {}, but the hub lists {}; they were removed. Try "
                "again, and "
                "check HF_ENDPOINT and the proxy if it happens again",
                request_.file.path, host_of(requests_.access().endpoint),
                request_.file.sha256.empty() ? "git hash" : "SHA-256", hash, expected_hash());
  }

  void discard() {
    on_bytes_(-file_.done_bytes());
    file_.restart();
    has_earlier_bytes_ = false;
    num_parts_ = 0;
  }

  // Sends one request for the missing bytes. Returns an empty string if the file is then complete, otherwise the reason why it is not.
  std::string read_once() {
    const int64_t offset = file_.done_bytes();
    std::string failure;
    bool is_first = true;
    const BodySink take = [&](const HttpHead& head, std::span<const std::byte> bytes) {
      if (std::exchange(is_first, false)) {
        failure = check_start(head, offset);
        if (!failure.empty()) return false;
        ++num_parts_;
      }
      if (file_.done_bytes() + std::ssize(bytes) > request_.file.size_bytes) {
        failure = fmt::format("the server sent more than the {} bytes that the hub lists",
                              request_.file.size_bytes);
        return false;
      }
      file_.add(bytes);
      on_bytes_(std::ssize(bytes));
      return true;
    };
    const HubRequests::BodyOutcome outcome =
        requests_.read(request_.repository, request_.commit, request_.file.path, offset, take);
    head_ = outcome.result.head;
    if (!outcome.etag.empty() && outcome.etag != etag_) {
      discard();
      file_.remove();
      throw_error(ErrorCode::kBadData,
                  "'{}' changed on {} during the download: its entity tag was '{}' and is '{}'. The bytes "
                  "were removed; run "
                  "the command again",
                  request_.file.path, host_of(requests_.access().endpoint), etag_, printable(outcome.etag));
    }
    if (!failure.empty()) return failure;
    if (!outcome.result.failure.empty()) return outcome.result.failure;
    const int status = head_.status;
    // Status 416 means that the server's file ends before the requested position, so the incomplete file is wrong.
    if (status == 416) discard();
    if (status != 200 && status != 206) return describe_status(head_);
    return fmt::format("the answer ended after {} of {} bytes", file_.done_bytes(), request_.file.size_bytes);
  }

  // Checks status and headers of a response before its body is stored. Returns the reason why the body cannot be used, or an empty
  // string.
  std::string check_start(const HttpHead& head, int64_t offset) {
    ContentRange range = content_range(head.value("content-range"));
    if (head.status == 200) {
      // Status 200 means that the server ignored the requested position and sends the whole file, so the bytes so far are discarded.
      if (offset > 0) discard();
      range = {
          .begin = 0,
          .total = head.value("content-length").empty() ? -1 : leading_number(head.value("content-length"))};
    }
    if (range.begin != file_.done_bytes())
      return fmt::format("the server sent the file from byte {} on instead of from byte {} on", range.begin,
                         file_.done_bytes());
    if (range.total >= 0 && range.total != request_.file.size_bytes)
      return fmt::format("the server states a size of {} bytes, but the hub lists {} bytes", range.total,
                         request_.file.size_bytes);
    return {};
  }

  HubRequests& requests_;
  const BlobRequest& request_;
  const std::string& etag_;
  const OnBytes& on_bytes_;
  IncompleteFile file_;
  bool has_earlier_bytes_;  // the file contains bytes that an earlier process received
  int64_t num_parts_ = 0;   // number of responses with bytes that this process stored in the file
  HttpHead head_ = {};      // status and headers of the last response
};

}  // namespace

void download_blob(HubRequests& requests, FileSystem& files, const BlobRequest& request,
                   const std::string& etag, const OnBytes& on_bytes) {
  BlobTransfer(requests, files, request, etag, on_bytes).run();
}

}  // namespace plimsoll
