#include "run/stored_weights.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "run/run_state.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

bool is_true(const std::string& word) {
  return word == "True" || word == "true" || word == "1";
}

}  // namespace

ResumeChoice choose_checkpoint(FileSystem& files, const Arguments& arguments, VerifyDepth depth) {
  const std::string& wanted = arguments.resume_from_checkpoint;
  ResumeChoice choice;
  if (wanted.empty()) return choice;
  if (!is_true(wanted)) {
    if (!files.status(wanted)) {
      throw_error(ErrorCode::kBadData,
                  "--resume_from_checkpoint {}: the folder does not exist; give True to resume from the "
                  "newest checkpoint in --output_dir",
                  wanted);
    }
    if (const std::string foreign = describe_foreign_checkpoint(files, wanted); !foreign.empty())
      throw_error(ErrorCode::kBadData, "--resume_from_checkpoint {}: {}", wanted, foreign);
    if (const auto damage = find_damage(files, wanted, depth)) {
      // `damage` is a text that usually begins with the path of the damaged file, which contains the folder of the checkpoint. Then the
      // message does not state the folder again.
      throw_error(ErrorCode::kBadData,
                  "{}{}. Resume from another checkpoint, or give --resume_from_checkpoint True to resume "
                  "from the newest undamaged one",
                  damage->starts_with(wanted) ? "" : wanted + ": ", *damage);
    }
    choice.path = wanted;
    return choice;
  }
  const NewestCheckpoint newest = find_newest_verified(files, arguments.output_dir, depth);
  for (const SkippedCheckpoint& skipped : newest.skipped)
    choice.lines.push_back("skipped " + skipped.path + ": " + skipped.reason);
  if (newest.path.empty() && !newest.skipped.empty()) {
    const std::string& first = newest.skipped.front().path;
    if (const std::string foreign = describe_foreign_checkpoint(files, first); !foreign.empty())
      throw_error(ErrorCode::kBadData, "--resume_from_checkpoint {}: {}: {}", wanted, first, foreign);
    // If all checkpoints are damaged, the run is refused, because starting from the beginning would overwrite checkpoints that the
    // user may be able to repair.
    throw_error(ErrorCode::kBadData,
                "{}: all {} checkpoints in this folder are damaged; the newest, {}: {}. Restore one from a "
                "copy, or leave --resume_from_checkpoint out to start from the beginning",
                arguments.output_dir, newest.skipped.size(), newest.skipped.front().path,
                newest.skipped.front().reason);
  }
  if (newest.path.empty()) {
    choice.lines.push_back("no checkpoint to resume from in " + arguments.output_dir +
                           ": starting from the beginning");
  }
  choice.path = newest.path;
  return choice;
}

std::string resumable_checkpoint(FileSystem& files, const Arguments& arguments) {
  try {
    return choose_checkpoint(files, arguments, VerifyDepth::kSizes).path;
  } catch (const Error&) {
    // A plan does not need a checkpoint, so errors are ignored. A run calls choose_checkpoint() itself, which reports them.
    return {};
  }
}

void check_resume(FileSystem& files, const Arguments& arguments) {
  const std::string path = choose_checkpoint(files, arguments, VerifyDepth::kSizes).path;
  if (path.empty()) return;
  static_cast<void>(
      parse_run_state(open_checkpoint(files, path).run_state_json, join_path(path, kRunStateFile)));
}

void check_output_dir(const std::string& output_dir) {
  // The run will create the folders of the path that are missing, so the permissions of the nearest existing folder are checked.
  fs::path there = fs::absolute(output_dir).lexically_normal();
  std::error_code ignored;
  while (!fs::exists(there, ignored) && there.has_relative_path()) {
    if (fs::is_symlink(there, ignored)) {
      throw_error(ErrorCode::kUsage,
                  "--output_dir {}: {} is a link to '{}', which does not exist; create that folder, or "
                  "choose another",
                  output_dir, there.string(), fs::read_symlink(there, ignored).string());
    }
    there = there.parent_path();
  }
  if (!fs::is_directory(there, ignored)) {
    throw_error(ErrorCode::kUsage,
                "--output_dir {}: {} is not a folder; choose another path, or move that file", output_dir,
                there.string());
  }
  if (access(there.c_str(), W_OK | X_OK) == 0) return;
  throw_error(ErrorCode::kDevice,
              "--output_dir {}: cannot write into {} ({}); choose another folder, or change its permissions",
              output_dir, there.string(), std::strerror(errno));
}

}  // namespace plimsoll
