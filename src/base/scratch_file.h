// The scratch files of this machine. FileSystem::create_scratch() (base/file.h) is the interface; only file_posix.cc
// includes this header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"

namespace plimsoll {

// Creates a scratch file as FileSystem::create_scratch() states. The caller owns it.
std::unique_ptr<ScratchFile> create_posix_scratch(const std::string& path, int64_t bytes);

}  // namespace plimsoll
