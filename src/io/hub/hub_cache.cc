#include "io/hub/hub_cache.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace plimsoll {
namespace {

constexpr int64_t kMaxRefBytes = 4096;

bool is_folder(FileSystem& files, const std::string& path) {
  const auto status = files.status(path);
  return status && status->kind == FileKind::kFolder;
}

// Expands "~" at the start of a path like Python's os.path.expanduser, except that "~name" is not expanded. If HOME is not set, "~" is
// not expanded either; if HOME is empty, it means the root.
std::string expand_home(const std::string& path, const HubEnvironment& environment) {
  if ((!path.starts_with("~/") && path != "~") || !environment.home) return path;
  std::string home = *environment.home;
  while (home.ends_with('/')) home.pop_back();
  return path == "~" && home.empty() ? "/" : home + path.substr(1);
}

bool is_set(const std::optional<std::string>& value) {
  return value && !value->empty();
}

// The environment variable that determines where the cache is, its value, and the path below this value at which the cache begins.
struct CacheVariable {
  const char* name;
  std::string value;
  const char* below;
};

CacheVariable deciding_variable(const HubEnvironment& environment) {
  if (is_set(environment.hf_hub_cache)) return {"HF_HUB_CACHE", *environment.hf_hub_cache, ""};
  if (is_set(environment.huggingface_hub_cache))
    return {"HUGGINGFACE_HUB_CACHE", *environment.huggingface_hub_cache, ""};
  if (is_set(environment.hf_home)) return {"HF_HOME", *environment.hf_home, "hub"};
  if (is_set(environment.xdg_cache_home))
    return {"XDG_CACHE_HOME", *environment.xdg_cache_home, "huggingface/hub"};
  return {"HOME", "~/.cache/huggingface", "hub"};
}

// Returns the reason why hub_cache_folder() cannot determine the folder, for messages. Requires: hub_cache_folder() returned an empty
// string.
std::string why_cache_is_unknown(const HubEnvironment& environment) {
  const CacheVariable variable = deciding_variable(environment);
  if (variable.value.starts_with("~/") || variable.value == "~")
    return "the environment has neither HOME nor a full path in HF_HUB_CACHE, HF_HOME or XDG_CACHE_HOME";
  return fmt::format("{} names another user's home directory, '{}'", variable.name, variable.value);
}

bool is_name_part(std::string_view part) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !part.empty() && std::ranges::all_of(part, allowed) && part.front() != '.' && part.front() != '-' &&
         part.back() != '.' && part.back() != '-' && part.find("..") == std::string_view::npos &&
         part.find("--") == std::string_view::npos;
}

// Returns a text for the user about two ways to download a model: into the cache, where it is found by its name, or into any folder.
std::string how_to_get(const std::string& name, const std::string& revision, const FolderArgument& argument) {
  const bool main = revision == "main";
  const std::string folder = file_name(name);
  return fmt::format(
      "Get it into the cache with\n"
      "  plimsoll download {0}{1}\n"
      "or into a folder with\n"
      "  git lfs install && git clone {2}https://huggingface.co/{0} {3}\n"
      "and then use {4} ./{3}",
      name, main ? "" : " --revision " + revision, main ? "" : "--branch " + revision + " ", folder,
      argument.name);
}

}  // namespace

HubEnvironment hub_environment(const std::map<std::string, std::string>& environment) {
  const auto get = [&](const char* name) -> std::optional<std::string> {
    const auto it = environment.find(name);
    return it == environment.end() ? std::nullopt : std::optional(it->second);
  };
  return {.hf_hub_cache = get("HF_HUB_CACHE"),
          .huggingface_hub_cache = get("HUGGINGFACE_HUB_CACHE"),
          .hf_home = get("HF_HOME"),
          .xdg_cache_home = get("XDG_CACHE_HOME"),
          .home = get("HOME")};
}

std::string hub_cache_folder(const HubEnvironment& environment) {
  const CacheVariable variable = deciding_variable(environment);
  const std::string folder = expand_home(variable.value, environment);
  if (folder.starts_with('~')) return {};
  return *variable.below == '\0' ? folder : join_path(folder, variable.below);
}

bool is_revision(std::string_view revision) {
  return !revision.empty() && revision.front() != '/' && revision.find("..") == std::string_view::npos &&
         revision.find('\0') == std::string_view::npos;
}

std::string repository_folder(RepositoryKind kind, std::string_view name) {
  std::string folder = kind == RepositoryKind::kModel ? "models--" : "datasets--";
  for (const char c : name) {
    if (c == '/') {
      folder += "--";
    } else {
      folder.push_back(c);
    }
  }
  return folder;
}

std::string cached_commit(FileSystem& files, const std::string& repository, const std::string& revision) {
  const std::string ref = join_path(join_path(repository, "refs"), revision);
  const auto status = files.status(ref);
  if (!status || status->kind != FileKind::kFile) return revision;
  std::string commit = read_text_file(files, ref, kMaxRefBytes);
  while (!commit.empty() && (commit.back() == '\n' || commit.back() == '\r' || commit.back() == ' '))
    commit.pop_back();
  if (commit.empty() || commit.find('/') != std::string::npos || !is_revision(commit)) {
    throw_error(ErrorCode::kBadData,
                "{}: expected a commit hash, found '{}'. Remove the folder '{}' and download it again", ref,
                commit, repository);
  }
  return commit;
}

bool is_hub_name(std::string_view text) {
  if (text.size() > 96) return false;
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return is_name_part(text);
  return is_name_part(text.substr(0, slash)) && is_name_part(text.substr(slash + 1));
}

std::string find_in_hub_cache(FileSystem& files, const HubEnvironment& environment, const std::string& name,
                              const std::string& revision, const FolderArgument& argument) {
  PLIMSOLL_CHECK(is_hub_name(name), "'{}' is not a hub name", name);
  if (!is_revision(revision)) {
    throw_error(ErrorCode::kUsage,
                "--model_revision '{}' is not a branch, tag or commit; give one of these, or leave it out",
                revision);
  }
  const std::string cache = hub_cache_folder(environment);
  if (cache.empty()) {
    throw_error(ErrorCode::kBadData,
                "'{}' is not a folder, and it cannot be looked up in Hugging Face's cache, because the "
                "location of the "
                "cache is unknown: {}. Use "
                "--cache_dir FOLDER, or set HF_HUB_CACHE to a full path",
                name, why_cache_is_unknown(environment));
  }
  const std::string repository = join_path(cache, repository_folder(RepositoryKind::kModel, name));
  if (!is_folder(files, repository)) {
    throw_error(ErrorCode::kBadData,
                "'{}' is neither a folder nor in Hugging Face's cache (searched '{}'). {}", name, repository,
                how_to_get(name, revision, argument));
  }
  const std::string snapshots = join_path(repository, "snapshots");
  std::string snapshot = join_path(snapshots, cached_commit(files, repository, revision));
  if (!is_folder(files, snapshot)) {
    throw_error(ErrorCode::kBadData,
                "'{}' is in Hugging Face's cache, but not its revision '{}' (searched '{}'). {}", name,
                revision, snapshot, how_to_get(name, revision, argument));
  }
  return snapshot;
}

std::string resolve_model_folder(FileSystem& files, const HubEnvironment& environment,
                                 const std::string& name_or_path, const std::string& revision,
                                 const FolderArgument& argument) {
  const auto status = name_or_path.empty() ? std::nullopt : files.status(name_or_path);
  if (status && status->kind == FileKind::kFolder) return name_or_path;
  if (status) {
    throw_error(ErrorCode::kBadData, "{} '{}' is a file; {}. Use '{}'?", argument.name, name_or_path,
                argument.holds, parent_folder(name_or_path));
  }
  if (!is_hub_name(name_or_path)) {
    throw_error(ErrorCode::kBadData,
                "{} '{}' is neither a folder on this machine nor a name on the Hugging Face hub (org/name). "
                "Check the path; {}",
                argument.name, name_or_path, argument.holds);
  }
  return find_in_hub_cache(files, environment, name_or_path, revision, argument);
}

}  // namespace plimsoll
