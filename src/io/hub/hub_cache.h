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

// Values of the environment variables of the same names; nothing or empty where unset.
struct HubEnvironment {
  std::optional<std::string> hf_hub_cache;           // HF_HUB_CACHE
  std::optional<std::string> huggingface_hub_cache;  // HUGGINGFACE_HUB_CACHE, the older name
  std::optional<std::string> hf_home;                // HF_HOME
  std::optional<std::string> xdg_cache_home;         // XDG_CACHE_HOME
  std::optional<std::string> home;                   // HOME
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
                              const std::string& revision = "main");

// What --model_name_or_path means: a folder on this machine if it is one, else a hub name. Errors: kBadData
// as above, and if the text is neither.
std::string resolve_model_folder(FileSystem& files, const HubEnvironment& environment,
                                 const std::string& name_or_path, const std::string& revision = "main");

}  // namespace plimsoll
