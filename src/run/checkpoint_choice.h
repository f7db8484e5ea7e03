// Checks the folders of a run before its data is read: the checkpoint that it resumes from and the folder
// that it writes into. Reads only.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "io/ckpt/checkpoint.h"
#include "plimsoll/arguments.h"

namespace plimsoll {

// The checkpoint that --resume_from_checkpoint means, "" for none, and lines for people: which others were
// skipped and why.
struct ResumeChoice {
  std::string path = {};
  std::vector<std::string> lines = {};
};

// Chooses it, verifying checkpoints to this depth. Errors: kBadData where the named checkpoint is missing or
// damaged, and where none of those in --output_dir verifies.
ResumeChoice choose_checkpoint(FileSystem& files, const Arguments& arguments, VerifyDepth depth);

// The checkpoint that the run would go on from, judged by the sizes of files alone; "" where there is none,
// or where choose_checkpoint() would throw.
std::string resumable_checkpoint(FileSystem& files, const Arguments& arguments);

// Checks that the run can resume from the checkpoint that it will choose. The contents of large files are not
// checked here: their hashes are verified when they are read. Errors: as choose_checkpoint(); kBadData for a
// checkpoint that keeps no state of a run.
void check_resume(FileSystem& files, const Arguments& arguments);

// Checks that --output_dir is a folder that can be written into, or that can be made. Errors: kUsage where a
// file is in the way; kDevice where the system lets nobody write.
void check_output_dir(const std::string& output_dir);

}  // namespace plimsoll
