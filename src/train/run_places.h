// Where a run goes on from and where it writes: what can be said of these folders before its data is read.
// Reads only.
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

// Errors: kBadData where a named checkpoint is not there or damaged, as deep as was looked, and where none of
// those in --output_dir verifies.
ResumeChoice choose_checkpoint(FileSystem& files, const Arguments& arguments, VerifyDepth depth);

// The one that the run goes on from as far as sizes tell, if nothing is wrong with it; "" for none.
std::string resumable_checkpoint(FileSystem& files, const Arguments& arguments);

// That the run can go on from the checkpoint which it will choose, but for the contents of large files: their
// hashes are verified where they are read. Errors: as choose_checkpoint(); kBadData for a checkpoint that
// keeps no state of a run.
void check_resume(FileSystem& files, const Arguments& arguments);

// That --output_dir is a folder that can be written into, or can be made. Errors: kUsage where a file is in
// the way; kDevice where the system lets nobody write.
void check_output_dir(const std::string& output_dir);

}  // namespace plimsoll
