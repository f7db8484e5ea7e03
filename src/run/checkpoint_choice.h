// Checks the folders of a run before its data is read: the checkpoint that it resumes from and the folder that it writes
// into. Writes nothing; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "plimsoll/arguments.h"

namespace plimsoll {

// The checkpoint that --resume_from_checkpoint selects, "" for none, and lines for people about checkpoints that were
// skipped.
struct ResumeChoice {
  std::string path = {};
  std::vector<std::string> lines = {};
};

// Chooses it and verifies checkpoints to this depth. Errors: kBadData if the named checkpoint is missing or damaged, and
// if --output_dir has checkpoints but none of them verifies.
ResumeChoice choose_checkpoint(FileSystem& files, const Arguments& arguments, VerifyDepth depth);

// Returns the checkpoint that the run would resume from, verified only by the sizes of its files; "" if there is none, or
// if choose_checkpoint() would throw.
std::string resumable_checkpoint(FileSystem& files, const Arguments& arguments);

// Checks that the run can resume from the checkpoint that it will choose. The hashes of large files are verified later,
// when they are read. Errors: as choose_checkpoint(); kBadData for a checkpoint that contains no state of a run.
void check_resume(FileSystem& files, const Arguments& arguments);

// Checks that --output_dir is a folder that can be written into, or that it can be created. Errors: kUsage if a file has
// its name; kDevice if the system does not permit writing.
void check_output_dir(const std::string& output_dir);

}  // namespace plimsoll
