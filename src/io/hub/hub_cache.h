// Finds a model by its hub name ("org/name") in the cache that Hugging Face's own tools maintain on this
// machine.
//
// It does not use the network or read environment variables; the caller passes their values. Thread-safety: pure functions, except for
// reading the file system.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "plimsoll/download.h"

namespace plimsoll {

// The name of a command line argument whose value is a folder, and a sentence for error messages that states what the folder must contain.
struct FolderArgument {
  std::string_view name;
  std::string_view holds;
};
inline constexpr FolderArgument kModelArgument{
    .name = "--model_name_or_path", .holds = "a model is a folder with config.json and model.safetensors"};
inline constexpr FolderArgument kConfigArgument{.name = "--config_name",
                                                .holds = "a configuration is a folder with config.json"};
inline constexpr FolderArgument kTokenizerArgument{
    .name = "--tokenizer_name", .holds = "a tokenizer is a folder with tokenizer.json or vocab.txt"};
inline constexpr FolderArgument kAdapterArgument{
    .name = "--adapter_name_or_path",
    .holds = "an adapter is a folder with adapter_config.json and adapter_model.safetensors"};

// The values of the environment variables that determine where the cache is. An empty variable counts as not set, except for HOME, where
// it means the root, as in Hugging Face's tools.
struct HubEnvironment {
  std::optional<std::string> hf_hub_cache;  // value of HF_HUB_CACHE
  // Value of HUGGINGFACE_HUB_CACHE, the older name of HF_HUB_CACHE.
  std::optional<std::string> huggingface_hub_cache;
  std::optional<std::string> hf_home;         // value of HF_HOME
  std::optional<std::string> xdg_cache_home;  // value of XDG_CACHE_HOME
  std::optional<std::string> home;            // value of HOME, or the home directory in the password database
};

// Returns the variables of HubEnvironment that the environment of a process contains.
HubEnvironment hub_environment(const std::map<std::string, std::string>& environment);

// Returns the folder of the cache, in which each model has a folder models--org--name. It is HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE,
// HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub or HOME/.cache/huggingface/hub; the first of these variables that is set is used. "~/" at
// the start of a value means HOME. Returns an empty string if HOME is needed but not set, or if the value begins with the home directory
// of another user ("~name/").
std::string hub_cache_folder(const HubEnvironment& environment);

// Returns true if the text could be the name of a repository on the hub: one or two parts, separated by '/', of letters, digits, '-', '_'
// and '.'.
bool is_hub_name(std::string_view text);

// Returns true if the text could be the name of a branch or tag or a commit hash. Texts that lead out of a folder, such as "..", are
// refused.
bool is_revision(std::string_view revision);

// Returns the name of the cache folder of a repository: models--org--name or datasets--org--name.
std::string repository_folder(RepositoryKind kind, std::string_view name);

// Returns the commit to which a branch or tag refers in the cache, or the revision itself if the cache has no such branch or tag.
// `repository` is the path of the repository's folder in the cache. Errors: kBadData for a damaged file.
std::string cached_commit(FileSystem& files, const std::string& repository, const std::string& revision);

// Returns the folder of a snapshot, models--org--name/snapshots/<commit>, for a revision that is a branch, a tag or a commit. Errors:
// kBadData if it is not in the cache; the message explains how to download it and where it was searched.
std::string find_in_hub_cache(FileSystem& files, const HubEnvironment& environment, const std::string& name,
                              const std::string& revision = "main",
                              const FolderArgument& argument = kModelArgument);

// Resolves the value of an argument that names a folder: a folder on this machine if it exists, otherwise a hub name.
// Errors: kBadData as for find_in_hub_cache(), and if the text is neither a folder nor a hub name.
std::string resolve_model_folder(FileSystem& files, const HubEnvironment& environment,
                                 const std::string& name_or_path, const std::string& revision = "main",
                                 const FolderArgument& argument = kModelArgument);

}  // namespace plimsoll
