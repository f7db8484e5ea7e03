// Finds a model by its hub name ("org/name") in the cache that Hugging Face's own tools maintain on this
// machine.
//
// It uses no network and does not read the environment; the caller passes the values of the variables.
// Thread-safety: pure except for reading the file system.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "plimsoll/download.h"

namespace plimsoll {

// An argument that names a folder, and a description of the folder's content for messages.
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

// Values of the environment variables with the same names; no value if unset. An empty variable counts as
// unset, except for HOME, where it means the root, as in Hugging Face's tools.
struct HubEnvironment {
  std::optional<std::string> hf_hub_cache;           // HF_HUB_CACHE
  std::optional<std::string> huggingface_hub_cache;  // HUGGINGFACE_HUB_CACHE, the older name
  std::optional<std::string> hf_home;                // HF_HOME
  std::optional<std::string> xdg_cache_home;         // XDG_CACHE_HOME
  std::optional<std::string> home;                   // HOME, or the home directory in the password database
};

// Extracts the variables of HubEnvironment from the environment of a process.
HubEnvironment hub_environment(const std::map<std::string, std::string>& environment);

// Returns the folder that contains the models--org--name folders: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
// XDG_CACHE_HOME/huggingface/hub or HOME/.cache/huggingface/hub; the first variable that is set decides. "~/" at the
// start of a value means HOME. Returns "" if HOME is not set, or if the value begins with the home directory of
// another user ("~name/").
std::string hub_cache_folder(const HubEnvironment& environment);

// Returns true if the text has the form of a hub repository's name: one or two parts of letters, digits, '-',
// '_' and '.'.
bool is_hub_name(std::string_view text);

// Returns true if the text has the form of a branch, tag or commit and contains no path that leads out of a folder.
bool is_revision(std::string_view revision);

// Returns the name of a repository's folder in the cache: models--org--name or datasets--org--name.
std::string repository_folder(RepositoryKind kind, std::string_view name);

// Returns the commit of a branch or tag in the cache, or the revision itself if the cache has no such name. `repository`: the path of the
// repository's folder in the cache. Errors: kBadData for a damaged file.
std::string cached_commit(FileSystem& files, const std::string& repository, const std::string& revision);

// Returns the folder of a snapshot, models--org--name/snapshots/<commit>, for a revision that is a branch, a
// tag or a commit. Errors: kBadData if it is not in the cache; the message explains how to get it and where
// it was searched.
std::string find_in_hub_cache(FileSystem& files, const HubEnvironment& environment, const std::string& name,
                              const std::string& revision = "main",
                              const FolderArgument& argument = kModelArgument);

// Resolves the value of an argument that names a folder: a folder on this machine if it exists, otherwise a hub name.
// Errors: kBadData as for find_in_hub_cache(), and if the text is neither a folder nor a hub name.
std::string resolve_model_folder(FileSystem& files, const HubEnvironment& environment,
                                 const std::string& name_or_path, const std::string& revision = "main",
                                 const FolderArgument& argument = kModelArgument);

}  // namespace plimsoll
