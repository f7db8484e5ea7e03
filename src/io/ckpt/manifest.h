// plimsoll_manifest.json lists the files of a checkpoint with their sizes and hashes. It is written last.
//
// Internal to io/ckpt. Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"

namespace plimsoll::internal {

// While a step is saved for the second time, the folder of the first save is renamed: this suffix is appended to its name.
inline constexpr std::string_view kReplacedSuffix = ".replaced";

// The schema version of manifests in which a file has a list of hashed byte ranges ("parts"). Manifests without such lists have
// kCheckpointSchemaVersion, so that earlier versions of Plimsoll can read them.
inline constexpr int kSchemaVersionOfParts = 2;

// A range of bytes of a file, with its hash. If several ranks write ranges of one file, no rank can compute the hash of the whole file.
struct HashedPart {
  int64_t bytes = 0;
  Hash128 hash;
};

struct Manifest {
  int64_t step = 0;
  RunIdentity run;  // the run that saved the checkpoint; empty in checkpoints of earlier versions
  std::vector<WrittenFile> files;
  // For each file that has a list of hashed byte ranges instead of one hash: these ranges, which follow one another from the
  // start of the file to its end.
  std::map<std::string, std::vector<HashedPart>, std::less<>> parts;

  bool lists(std::string_view name) const;
};

std::string format_manifest(const Manifest& manifest);

// Parses a manifest. Errors: kBadData for any text that format_manifest would not write, and for an unknown
// schema version.
Manifest parse_manifest(std::string_view text, const std::string& file);

// Reads the manifest of a checkpoint folder. Errors: those of parse_manifest(), and kBadData if there is no manifest.
Manifest read_manifest(FileSystem& files, const std::string& folder);

}  // namespace plimsoll::internal
