#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "base/check.h"
#include "base/file_fault.h"

namespace plimsoll {

// A file or folder. After a crash, a file has the content `synced_data` and a folder has the entries `synced_entries`. An entry
// in synced_entries keeps the name that the file had when the folder was synced, even if it was renamed since.
struct MemoryFileSystem::Node {
  FileKind kind = FileKind::kFile;
  // content of a file, or target of a link; the target of a link is durable as soon as its name is
  std::string data;
  std::string synced_data;
  std::map<std::string, std::shared_ptr<Node>> entries;
  std::map<std::string, std::shared_ptr<Node>> synced_entries;
};

struct MemoryFileSystem::Place {
  std::shared_ptr<Node> folder;  // the folder that contains the name; null for "/" itself
  std::string name;
  std::shared_ptr<Node> node;  // the file or folder with this name; null if it does not exist
};

namespace {

using Node = MemoryFileSystem::Node;

std::shared_ptr<Node> make_node(FileKind kind) {
  auto node = std::make_shared<Node>();
  node->kind = kind;
  return node;
}

class MemoryFile final : public File {
 public:
  MemoryFile(std::shared_ptr<Node> node, std::string path) : node_(std::move(node)), path_(std::move(path)) {}
  int64_t pread(std::span<std::byte> destination, int64_t offset) const override {
    const auto bytes = std::as_bytes(std::span(node_->data));
    if (offset >= std::ssize(bytes)) return 0;
    const auto rest = bytes.subspan(narrow<size_t>(offset));
    const size_t count = std::min(rest.size(), destination.size());
    std::copy_n(rest.begin(), count, destination.begin());
    return narrow<int64_t>(count);
  }
  void write(std::span<const std::byte> bytes) override {
    for (const std::byte byte : bytes) node_->data.push_back(static_cast<char>(byte));
  }
  void write_at(std::span<const std::byte> bytes, int64_t offset) override {
    const auto end = narrow<size_t>(offset) + bytes.size();
    if (node_->data.size() < end) node_->data.resize(end);
    for (size_t i = 0; i < bytes.size(); ++i)
      node_->data[narrow<size_t>(offset) + i] = static_cast<char>(bytes[i]);
  }
  void resize(int64_t bytes) override { node_->data.resize(narrow<size_t>(bytes)); }
  void sync() override { node_->synced_data = node_->data; }
  void close() override {}
  int64_t size_bytes() const override { return std::ssize(node_->data); }
  const std::string& path() const override { return path_; }

 private:
  std::shared_ptr<Node> node_;
  std::string path_;
};

class MemoryScratchFile final : public ScratchFile {
 public:
  MemoryScratchFile(MemoryFileSystem& files, std::shared_ptr<Node> node, std::string path)
      : files_(files), node_(std::move(node)), path_(std::move(path)) {}
  MemoryScratchFile(const MemoryScratchFile&) = delete;
  MemoryScratchFile& operator=(const MemoryScratchFile&) = delete;
  ~MemoryScratchFile() override { files_.remove_file(path_); }

  void read(std::span<std::byte> destination, int64_t offset) const override {
    require(destination.data(), destination.size(), offset);
    std::memcpy(destination.data(), node_->data.data() + offset, destination.size());
  }
  void write(std::span<const std::byte> bytes, int64_t offset) override {
    require(bytes.data(), bytes.size(), offset);
    std::memcpy(node_->data.data() + offset, bytes.data(), bytes.size());
  }
  bool is_direct() const override { return true; }
  const std::string& path() const override { return path_; }

 private:
  void require(const std::byte* data, size_t bytes, int64_t offset) const {
    PLIMSOLL_CHECK(reinterpret_cast<uintptr_t>(data) % kBlockBytes == 0 && bytes % kBlockBytes == 0 &&
                       offset % kBlockBytes == 0 &&
                       offset + narrow<int64_t>(bytes) <= std::ssize(node_->data),
                   "reads and writes of '{}' must cover whole disk blocks within its {} bytes, but {} bytes "
                   "at offset {} do not",
                   path_, node_->data.size(), bytes, offset);
  }

  MemoryFileSystem& files_;
  std::shared_ptr<Node> node_;
  std::string path_;
};

class MemoryLock final : public FileLock {
 public:
  MemoryLock(std::shared_ptr<std::set<std::string>> locked, std::string path)
      : locked_(std::move(locked)), path_(std::move(path)) {}
  MemoryLock(const MemoryLock&) = delete;
  MemoryLock& operator=(const MemoryLock&) = delete;
  ~MemoryLock() override { locked_->erase(path_); }

 private:
  std::shared_ptr<std::set<std::string>> locked_;
  std::string path_;
};

bool holds_folders(const Node& node) {
  const auto is_folder = [](const auto& entry) { return entry.second->kind == FileKind::kFolder; };
  return std::ranges::any_of(node.entries, is_folder) || std::ranges::any_of(node.synced_entries, is_folder);
}

// Sets a node and all nodes below it to their state after a crash.
void crash_node(Node& node, AfterCrash policy) {
  if (node.kind == FileKind::kFile) {
    switch (policy) {
      case AfterCrash::kKeepAll:
      case AfterCrash::kInnerFirst:
        break;
      case AfterCrash::kLoseUnsynced:
      case AfterCrash::kKeepNamesOnly:
        node.data = node.synced_data;
        break;
      case AfterCrash::kTornData:
        if (node.data.size() > node.synced_data.size()) {
          node.data.resize(node.synced_data.size() + (node.data.size() - node.synced_data.size()) / 2);
        }
        break;
    }
    node.synced_data = node.data;
    return;
  }
  if (policy == AfterCrash::kLoseUnsynced || (policy == AfterCrash::kInnerFirst && holds_folders(node))) {
    node.entries = node.synced_entries;
  }
  for (auto& [name, child] : node.entries) crash_node(*child, policy);
  node.synced_entries = node.entries;
}

// Copies a node and all nodes below it. A node can be reachable both through `entries` and through `synced_entries`; it is then
// copied only once.
std::shared_ptr<Node> clone_node(const std::shared_ptr<Node>& node,
                                 std::map<const Node*, std::shared_ptr<Node>>& copies) {
  auto& copy = copies[node.get()];
  if (copy) return copy;
  copy = std::make_shared<Node>();
  // a copy of the pointer, because the calls below add entries to the map into which `copy` refers
  std::shared_ptr<Node> result = copy;
  result->kind = node->kind;
  result->data = node->data;
  result->synced_data = node->synced_data;
  for (const auto& [name, child] : node->entries) result->entries[name] = clone_node(child, copies);
  for (const auto& [name, child] : node->synced_entries) {
    result->synced_entries[name] = clone_node(child, copies);
  }
  return result;
}

std::deque<std::string> split(const std::string& path) {
  std::deque<std::string> parts;
  std::string part;
  for (const char c : path + "/") {
    if (c != '/') {
      part.push_back(c);
    } else if (!part.empty()) {
      parts.push_back(std::exchange(part, {}));
    }
  }
  return parts;
}

}  // namespace

MemoryFileSystem::MemoryFileSystem() : root_(make_node(FileKind::kFolder)) {}
MemoryFileSystem::~MemoryFileSystem() = default;

void MemoryFileSystem::crash(AfterCrash policy) {
  crash_node(*root_, policy);
  locked_ = std::make_shared<std::set<std::string>>();
}

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::clone() const {
  auto copy = std::make_unique<MemoryFileSystem>();
  std::map<const Node*, std::shared_ptr<Node>> copies;
  copy->root_ = clone_node(root_, copies);
  return copy;
}

void MemoryFileSystem::damage(const std::string& path, int64_t byte) {
  const Place place = locate(path, FileOperation::kOpenRead, true);
  PLIMSOLL_CHECK(place.node && byte < std::ssize(place.node->data), "byte {} does not exist in {}", byte,
                 path);
  char& damaged = place.node->data[narrow<size_t>(byte)];
  damaged = static_cast<char>(damaged ^ 1);
  place.node->synced_data = place.node->data;
}

MemoryFileSystem::Place MemoryFileSystem::locate(const std::string& path, FileOperation operation,
                                                 bool follow_last, int depth) const {
  if (depth > 40) throw FileError(operation, path, ELOOP);
  std::vector<Place> walked = {{nullptr, "/", root_}};
  std::string here = "/";
  std::deque<std::string> parts = split(path);
  while (!parts.empty()) {
    const std::string part = parts.front();
    parts.pop_front();
    const std::shared_ptr<Node> folder = walked.back().node;
    if (!folder) throw FileError(operation, path, ENOENT);
    if (folder->kind != FileKind::kFolder) throw FileError(operation, path, ENOTDIR);
    if (part == ".") continue;
    if (part == "..") {
      if (walked.size() > 1) walked.pop_back();
      here = parent_folder(here);
      continue;
    }
    const auto found = folder->entries.find(part);
    const auto node = found == folder->entries.end() ? nullptr : found->second;
    if (node && node->kind == FileKind::kLink && (!parts.empty() || follow_last)) {
      std::string rest = node->data.starts_with('/') ? node->data : join_path(here, node->data);
      for (const std::string& later : parts) rest = join_path(rest, later);
      return locate(rest, operation, follow_last, depth + 1);
    }
    walked.push_back({folder, part, node});
    here = join_path(here, part);
  }
  return walked.back();
}

std::unique_ptr<File> MemoryFileSystem::open_read(const std::string& path) {
  const Place place = locate(path, FileOperation::kOpenRead, true);
  if (!place.node) throw FileError(FileOperation::kOpenRead, path, ENOENT);
  if (place.node->kind != FileKind::kFile) throw FileError(FileOperation::kOpenRead, path, EISDIR);
  return std::make_unique<MemoryFile>(place.node, path);
}

std::unique_ptr<File> MemoryFileSystem::create(const std::string& path) {
  auto file = open_append(path);
  locate(path, FileOperation::kCreate, true).node->data.clear();
  return file;
}

std::unique_ptr<File> MemoryFileSystem::open_append(const std::string& path) {
  const Place place = locate(path, FileOperation::kCreate, true);
  if (place.node && place.node->kind != FileKind::kFile)
    throw FileError(FileOperation::kCreate, path, EISDIR);
  std::shared_ptr<Node> node = place.node;
  if (!node) {
    node = make_node(FileKind::kFile);
    place.folder->entries[place.name] = node;
  }
  return std::make_unique<MemoryFile>(node, path);
}

std::unique_ptr<File> MemoryFileSystem::open_write(const std::string& path) {
  const Place place = locate(path, FileOperation::kOpenWrite, true);
  if (!place.node || place.node->kind != FileKind::kFile)
    throw FileError(FileOperation::kOpenWrite, path, place.node ? EISDIR : ENOENT);
  return std::make_unique<MemoryFile>(place.node, path);
}

std::optional<FileStatus> MemoryFileSystem::status(const std::string& path) {
  try {
    const Place place = locate(path, FileOperation::kStatus, true);
    if (!place.node) return std::nullopt;
    return FileStatus{place.node->kind, std::ssize(place.node->data)};
  } catch (const FileError& error) {
    if (error.error_number() == ENOENT || error.error_number() == ENOTDIR) return std::nullopt;
    throw;
  }
}

std::vector<FolderEntry> MemoryFileSystem::list(const std::string& folder) {
  const Place place = locate(folder, FileOperation::kList, true);
  if (!place.node) throw FileError(FileOperation::kList, folder, ENOENT);
  if (place.node->kind != FileKind::kFolder) throw FileError(FileOperation::kList, folder, ENOTDIR);
  std::vector<FolderEntry> entries;
  for (const auto& [name, node] : place.node->entries) entries.push_back({name, node->kind});
  return entries;
}

void MemoryFileSystem::make_folder(const std::string& path) {
  const Place place = locate(path, FileOperation::kMakeFolder, true);
  if (place.node && place.node->kind == FileKind::kFolder) return;
  if (place.node) throw FileError(FileOperation::kMakeFolder, path, EEXIST);
  place.folder->entries[place.name] = make_node(FileKind::kFolder);
}

void MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  const Place source = locate(from, FileOperation::kRename, false);
  const Place target = locate(to, FileOperation::kRename, false);
  if (!source.node || !source.folder) throw FileError(FileOperation::kRename, from, ENOENT);
  if (!target.folder) throw FileError(FileOperation::kRename, to, EEXIST);
  if (source.node == target.node) return;
  if (target.node) {
    const bool source_is_folder = source.node->kind == FileKind::kFolder;
    const bool target_is_folder = target.node->kind == FileKind::kFolder;
    if (source_is_folder && !target_is_folder) throw FileError(FileOperation::kRename, to, ENOTDIR);
    if (!source_is_folder && target_is_folder) throw FileError(FileOperation::kRename, to, EISDIR);
    if (target_is_folder && !target.node->entries.empty()) {
      throw FileError(FileOperation::kRename, to, ENOTEMPTY);
    }
  }
  source.folder->entries.erase(source.name);
  target.folder->entries[target.name] = source.node;
}

void MemoryFileSystem::sync_folder(const std::string& path) {
  const Place place = locate(path, FileOperation::kSyncFolder, true);
  if (!place.node) throw FileError(FileOperation::kSyncFolder, path, ENOENT);
  if (place.node->kind != FileKind::kFolder) throw FileError(FileOperation::kSyncFolder, path, ENOTDIR);
  place.node->synced_entries = place.node->entries;
}

void MemoryFileSystem::remove_file(const std::string& path) {
  const Place place = locate(path, FileOperation::kRemoveFile, false);
  if (!place.node) throw FileError(FileOperation::kRemoveFile, path, ENOENT);
  if (place.node->kind == FileKind::kFolder) throw FileError(FileOperation::kRemoveFile, path, EISDIR);
  place.folder->entries.erase(place.name);
}

void MemoryFileSystem::remove_folder(const std::string& path) {
  const Place place = locate(path, FileOperation::kRemoveFolder, false);
  if (!place.node) throw FileError(FileOperation::kRemoveFolder, path, ENOENT);
  if (place.node->kind != FileKind::kFolder) throw FileError(FileOperation::kRemoveFolder, path, ENOTDIR);
  if (!place.node->entries.empty()) throw FileError(FileOperation::kRemoveFolder, path, ENOTEMPTY);
  place.folder->entries.erase(place.name);
}

void MemoryFileSystem::make_link(const std::string& target, const std::string& path) {
  const Place place = locate(path, FileOperation::kMakeLink, false);
  if (place.node) throw FileError(FileOperation::kMakeLink, path, EEXIST);
  auto link = make_node(FileKind::kLink);
  link->data = target;
  place.folder->entries[place.name] = std::move(link);
}

std::optional<std::string> MemoryFileSystem::read_link(const std::string& path) {
  const Place place = locate(path, FileOperation::kReadLink, false);
  if (!place.node || place.node->kind != FileKind::kLink) return std::nullopt;
  return place.node->data;
}

std::unique_ptr<ScratchFile> MemoryFileSystem::create_scratch(const std::string& path, int64_t bytes) {
  create(path);
  const std::shared_ptr<Node> node = locate(path, FileOperation::kCreate, false).node;
  node->data.assign(narrow<size_t>(bytes), '\0');
  return std::make_unique<MemoryScratchFile>(*this, node, path);
}

std::unique_ptr<FileLock> MemoryFileSystem::try_lock(const std::string& path) {
  open_append(path);
  if (!locked_->insert(path).second) return nullptr;
  return std::make_unique<MemoryLock>(locked_, path);
}

FolderSpace MemoryFileSystem::space_of(const std::string& folder) {
  const Place place = locate(folder, FileOperation::kStatus, true);
  if (!place.node) throw FileError(FileOperation::kStatus, folder, ENOENT);
  return space_;
}

}  // namespace plimsoll
