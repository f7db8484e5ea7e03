// plimsoll_manifest.json: what a checkpoint consists of, with the size and hash of every file. Written last.
//
// Internal to io/ckpt. Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"

namespace plimsoll::internal {

// Behind the name of a whole checkpoint that stands aside while one of its step takes its place.
inline constexpr std::string_view kReplacedSuffix = ".replaced";

struct Manifest {
  int64_t step = 0;
  RunIdentity run;  // empty in checkpoints of earlier versions
  std::vector<WrittenFile> files;

  bool lists(std::string_view name) const;
};

std::string format_manifest(const Manifest& manifest);

// Errors: kBadData for anything but what format_manifest writes, and for a schema version that is not ours.
Manifest parse_manifest(std::string_view text, const std::string& file);

// The manifest of a checkpoint folder. Errors: as above; kBadData if there is none.
Manifest read_manifest(FileSystem& files, const std::string& folder);

}  // namespace plimsoll::internal
