#include <map>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/hash.h"
#include "io/ckpt/checkpoint.h"
#include "plimsoll/training.h"

namespace plimsoll {
namespace {

// Returns a hash of the checkpoint's manifest, which contains the hashes of all its files; nothing if it cannot be
// read.
std::optional<uint64_t> hash_of_manifest(const std::string& folder) {
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  try {
    return hash64(read_text_file(posix_file_system(), join_path(folder, kManifestFile), kMostBytes));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

struct NewCheckpoints::Impl {
  std::string output_dir;
  // the checkpoints that existed at the start: for each path the hash of the manifest, or nothing if it was not readable
  std::map<std::string, std::optional<uint64_t>> before = {};
};

NewCheckpoints::NewCheckpoints(std::string output_dir)
    : impl_(std::make_unique<Impl>(Impl{.output_dir = std::move(output_dir)})) {
  for (const ListedCheckpoint& listed : list_checkpoints(posix_file_system(), impl_->output_dir))
    impl_->before[listed.path] = hash_of_manifest(listed.path);
}

NewCheckpoints::~NewCheckpoints() = default;

std::string NewCheckpoints::newest() const {
  std::vector<ListedCheckpoint> all = list_checkpoints(posix_file_system(), impl_->output_dir);
  for (auto listed = all.rbegin(); listed != all.rend(); ++listed) {
    const auto before = impl_->before.find(listed->path);
    if (before != impl_->before.end() && before->second == hash_of_manifest(listed->path)) continue;
    if (!find_damage(posix_file_system(), listed->path, VerifyDepth::kHashes)) return listed->path;
  }
  return {};
}

}  // namespace plimsoll
