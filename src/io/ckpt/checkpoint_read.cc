// Verifies, selects and opens checkpoints. The functions in this file only read.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/check.h"
#include "base/disguised_file.h"
#include "base/guarded_json.h"
#include "io/ckpt/checkpoint.h"
#include "io/ckpt/manifest.h"

namespace plimsoll {
namespace {

constexpr std::string_view kFolderPrefix = "checkpoint-";

// A folder whose name is that of a checkpoint. It may be damaged.
struct Candidate {
  int64_t step = 0;
  bool replaced = false;
  std::string path;
  std::optional<internal::Manifest> manifest = {};
  std::string reason = {};  // the reason why the manifest cannot be read; otherwise empty
};

std::vector<Candidate> find_candidates(FileSystem& files, const std::string& output_folder) {
  std::vector<Candidate> candidates;
  const auto output = files.status(output_folder);
  if (!output || output->kind != FileKind::kFolder) return candidates;
  for (const FolderEntry& entry : files.list(output_folder)) {
    std::string_view name = entry.name;
    const bool replaced = name.ends_with(internal::kReplacedSuffix);
    if (replaced) name.remove_suffix(internal::kReplacedSuffix.size());
    const auto step = checkpoint_step(name);
    const std::string path = join_path(output_folder, entry.name);
    const auto status = step ? files.status(path) : std::nullopt;
    if (!status || status->kind != FileKind::kFolder) continue;
    candidates.push_back({.step = *step, .replaced = replaced, .path = path});
    try {
      candidates.back().manifest = internal::read_manifest(files, path);
    } catch (const Error& error) {
      candidates.back().reason = error.what();
    }
  }
  return candidates;
}

// Returns true if `a` was written later: by a run that started later, or by the same run at a higher step. If a step was saved twice and
// both folders exist, the one of the second save is newer. Requires: both have manifests.
bool is_newer(const Candidate& a, const Candidate& b) {
  if (a.manifest->run != b.manifest->run) {
    const RunIdentity& x = a.manifest->run;
    const RunIdentity& y = b.manifest->run;
    return x.started != y.started ? x.started > y.started : x.id > y.id;
  }
  return a.step != b.step ? a.step > b.step : a.replaced < b.replaced;
}

Hash128 hash_of_range(const File& file, int64_t begin, int64_t bytes) {
  HashStream128 hash;
  std::vector<std::byte> chunk;
  for (int64_t done = 0; done < bytes; done += std::ssize(chunk)) {
    chunk.resize(narrow<size_t>(std::min(kFileChunkBytes, bytes - done)));
    read_exactly(file, chunk, begin + done, "a byte range of a checkpoint file");
    hash.update(chunk);
  }
  return hash.digest();
}

std::optional<std::string> damage_of_parts(FileSystem& files, const std::string& path,
                                           const std::vector<internal::HashedPart>& parts) {
  const auto file = files.open_read(path);
  int64_t begin = 0;
  for (const internal::HashedPart& part : parts) {
    const Hash128 found = hash_of_range(*file, begin, part.bytes);
    if (found != part.hash) {
      return fmt::format(
          "bytes {} to {} of {} have the hash {}, but the manifest says {}: its content changed", begin,
          begin + part.bytes, file_name(path), to_hex(found), to_hex(part.hash));
    }
    begin += part.bytes;
  }
  return std::nullopt;
}

std::optional<std::string> file_damage(FileSystem& files, const std::string& folder,
                                       const internal::Manifest& manifest, const WrittenFile& listed,
                                       VerifyDepth depth) {
  const std::string path = join_path(folder, listed.name);
  const auto status = files.status(path);
  if (!status || status->kind != FileKind::kFile) return fmt::format("{} is missing", listed.name);
  if (status->size_bytes != listed.size_bytes) {
    if (is_lfs_pointer(start_of_file(files, path))) {
      return fmt::format("{} is a Git LFS pointer instead of the content: run `git lfs pull` in its folder",
                         listed.name);
    }
    return fmt::format("{} has {} bytes, but the manifest says {}", listed.name, status->size_bytes,
                       listed.size_bytes);
  }
  if (depth == VerifyDepth::kSizes) return std::nullopt;
  if (const auto parts = manifest.parts.find(listed.name); parts != manifest.parts.end())
    return damage_of_parts(files, path, parts->second);
  const Hash128 found = hash_file(files, path).hash;
  if (found == listed.hash) return std::nullopt;
  return fmt::format("{} has the hash {}, but the manifest says {}: its content changed", listed.name,
                     to_hex(found), to_hex(listed.hash));
}

// Returns the reason why a run cannot resume from this checkpoint, even if it is complete, or nothing if a run can resume from it.
std::optional<std::string> why_not_resumable(const internal::Manifest& manifest, int64_t step) {
  if (manifest.step != step) {
    return fmt::format("its manifest says step {}: the folder was renamed", manifest.step);
  }
  if (!manifest.lists(kRunStateFile))
    return fmt::format("it contains only the model (no {}), saved with --save_only_model", kRunStateFile);
  return std::nullopt;
}

}  // namespace

std::optional<int64_t> checkpoint_step(std::string_view path) {
  const std::string name = file_name(path);
  if (!name.starts_with(kFolderPrefix)) return std::nullopt;
  const std::string_view digits = std::string_view(name).substr(kFolderPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  // Accepts only the usual spelling of the number. Otherwise "checkpoint-08" and "checkpoint-8" would both be names for step 8.
  if (error != std::errc() || end != digits.data() + digits.size() || fmt::format("{}", step) != digits ||
      step < 0) {
    return std::nullopt;
  }
  return step;
}

std::optional<std::string> find_damage(FileSystem& files, const std::string& folder, VerifyDepth depth) {
  try {
    const internal::Manifest manifest = internal::read_manifest(files, folder);
    for (const WrittenFile& listed : manifest.files) {
      if (auto damage = file_damage(files, folder, manifest, listed, depth)) return damage;
    }
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

NewestCheckpoint find_newest_verified(FileSystem& files, const std::string& output_folder,
                                      VerifyDepth depth) {
  NewestCheckpoint newest;
  std::vector<Candidate> candidates = find_candidates(files, output_folder);
  const auto unread = std::partition(candidates.begin(), candidates.end(),
                                     [](const Candidate& c) { return c.manifest.has_value(); });
  std::ranges::sort(candidates.begin(), unread, is_newer);
  std::vector<const Candidate*> skipped;
  for (auto candidate = candidates.begin(); candidate != unread; ++candidate) {
    auto reason = why_not_resumable(*candidate->manifest, candidate->step);
    if (!reason) reason = find_damage(files, candidate->path, depth);
    if (!reason) {
      newest.path = candidate->path;
      newest.step = candidate->step;
      newest.run = candidate->manifest->run;
      break;
    }
    candidate->reason = *reason;
    skipped.push_back(&*candidate);
  }
  for (auto candidate = unread; candidate != candidates.end(); ++candidate) {
    if (candidate->step > newest.step) skipped.push_back(&*candidate);
  }
  std::ranges::stable_sort(skipped, [](const Candidate* a, const Candidate* b) { return a->step > b->step; });
  for (const Candidate* candidate : skipped) newest.skipped.push_back({candidate->path, candidate->reason});
  return newest;
}

std::vector<ListedCheckpoint> list_checkpoints(FileSystem& files, const std::string& output_folder) {
  std::vector<ListedCheckpoint> list;
  for (const Candidate& candidate : find_candidates(files, output_folder)) {
    if (candidate.replaced) continue;
    ListedCheckpoint& listed = list.emplace_back(
        ListedCheckpoint{.path = candidate.path,
                         .step = candidate.step,
                         .run = {},
                         .has_manifest = files.status(join_path(candidate.path, kManifestFile)).has_value()});
    if (candidate.manifest) listed.run = candidate.manifest->run;
  }
  std::ranges::sort(list, {}, &ListedCheckpoint::step);
  return list;
}

OpenCheckpoint open_checkpoint(FileSystem& files, const std::string& folder) {
  const internal::Manifest manifest = internal::read_manifest(files, folder);
  if (const auto reason = why_not_resumable(manifest, manifest.step)) {
    throw_error(ErrorCode::kBadData,
                "{}: cannot resume from it: {}. Choose another checkpoint, or start a new run from "
                "these weights with --model_name_or_path",
                folder, *reason);
  }
  const std::string state_path = join_path(folder, kRunStateFile);
  const nlohmann::json state = parse_json_object(read_text_file(files, state_path, kMaxRunStateBytes),
                                                 state_path, strict_json(kMaxRunStateBytes));
  const auto version = state.find("schema_version");
  const auto value = state.find("state");
  if (version == state.end() || *version != kCheckpointSchemaVersion || value == state.end()) {
    throw_error(ErrorCode::kBadData,
                "{}: expected schema version {} and a 'state', found version {}{}; resume with the version "
                "of Plimsoll that wrote the "
                "checkpoint",
                state_path, kCheckpointSchemaVersion, version == state.end() ? "none" : version->dump(),
                value == state.end() ? " and no 'state'" : "");
  }
  std::optional<SafetensorsFile> optimizer;
  if (manifest.lists(kOptimizerFile))
    optimizer = SafetensorsFile::open(files, join_path(folder, kOptimizerFile));
  return {folder,       manifest.step, ModelFolder::open(files, folder), std::move(optimizer),
          manifest.run, value->dump()};
}

}  // namespace plimsoll
