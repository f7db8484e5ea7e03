// Finds a model by its hub name ("org/name") in the cache that Hugging Face's own tools keep on this machine.
//
// What it is not: no network and no reading of the environment; the caller passes the values of the
// variables. Thread-safety: pure apart from reading the file system.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace plimsoll {

// The argument whose value is looked for, and what its folder holds, in words for messages.
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

// Values of the environment variables of the same names; nothing where unset. An empty one counts as unset,
// but for HOME, which then is the root, as in Hugging Face's tools.
struct HubEnvironment {
  std::optional<std::string> hf_hub_cache;           // HF_HUB_CACHE
  std::optional<std::string> huggingface_hub_cache;  // HUGGINGFACE_HUB_CACHE, the older name
  std::optional<std::string> hf_home;                // HF_HOME
  std::optional<std::string> xdg_cache_home;         // XDG_CACHE_HOME
  std::optional<std::string> home;                   // HOME, or what the password database has in its place
};

// Those of a process, by name.
HubEnvironment hub_environment(const std::map<std::string, std::string>& environment);

// The folder with the models--org--name folders: HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else HF_HOME/hub,
// else XDG_CACHE_HOME/huggingface/hub, else HOME/.cache/huggingface/hub. "~/" at the start of a value is
// HOME.
std::string hub_cache_folder(const HubEnvironment& environment);

// True if the text can be the name of a hub repository: one or two parts of letters, digits, '-', '_' and
// '.'.
bool is_hub_name(std::string_view text);

// The folder of a snapshot: models--org--name/snapshots/<commit>, where the revision is a branch, a tag or a
// commit. Errors: kBadData if it is not in the cache; the message says how to get it and where it was looked
// for.
std::string find_in_hub_cache(FileSystem& files, const HubEnvironment& environment, const std::string& name,
                              const std::string& revision = "main",
                              const FolderArgument& argument = kModelArgument);

// What the value of such an argument means: a folder on this machine if it is one, else a hub name. Errors:
// kBadData as above, and if the text is neither.
std::string resolve_model_folder(FileSystem& files, const HubEnvironment& environment,
                                 const std::string& name_or_path, const std::string& revision = "main",
                                 const FolderArgument& argument = kModelArgument);

}  // namespace plimsoll
