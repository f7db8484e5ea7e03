#include <algorithm>

#include "cli/command.h"
#include "cli/download_progress.h"
#include "plimsoll/download.h"

namespace plimsoll::cli {
namespace {

std::vector<std::string> repeated(const CommandWords& read, const char* option) {
  const auto found = read.values.find(option);
  return found == read.values.end() ? std::vector<std::string>() : found->second;
}

// Converts the command line to a request. The name may be followed by '@' and the revision.
DownloadRequest request_of(const CommandWords& read) {
  if (read.positionals.empty())
    throw Error(ErrorCode::kUsage,
                "download: there is no name; give one as on the hub, such as gpt2 or org/name");
  DownloadRequest request{.name = read.positionals.front(),
                          .kind = read.value("repo_type", "model") == "dataset" ? RepositoryKind::kDataset
                                                                                : RepositoryKind::kModel,
                          .revision = read.value("revision", "main"),
                          .files = {read.positionals.begin() + 1, read.positionals.end()},
                          .include = repeated(read, "include"),
                          .exclude = repeated(read, "exclude"),
                          .cache_dir = read.value("cache_dir"),
                          .token = read.value("token")};
  if (const size_t at = request.name.find('@'); at != std::string::npos) {
    if (read.has("revision")) {
      throw Error(ErrorCode::kUsage, "download: " + request.name + " and --revision " + request.revision +
                                         " both choose a revision; give one of them");
    }
    request.revision = request.name.substr(at + 1);
    request.name.resize(at);
  }
  return request;
}

}  // namespace

int run_download(const std::vector<std::string>& words) {
  const CommandInfo& command = command_named("download");
  const CommandWords read = read_command_words(command, words);
  if (words.empty() || read.help) {
    print(command_screen(command, read.help_topic));
    return words.empty() ? static_cast<int>(ErrorCode::kUsage) : 0;
  }
  Arguments arguments;
  arguments.quiet = read.has("quiet") || read.has("json");
  set_verbosity(arguments);
  DownloadScreen screen(false);
  Download download(request_of(read), program_environment(), &screen);
  const bool is_dry = read.has("dry_run");
  if (!read.has("json")) {
    std::string text = format_download_plan(download.plan());
    text.pop_back();
    if (is_dry) {
      print(text);
    } else {
      print_talk(text);
    }
    flush_output();
  }
  if (!is_dry) {
    download.run();
    screen.end();
  }
  if (read.has("json")) {
    print_part(download_plan_json(download.plan()));
  } else if (!is_dry) {
    print(download.plan().folder);
  }
  return 0;
}

}  // namespace plimsoll::cli
