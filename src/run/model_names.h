// Names of models that are neither a folder nor in the hub's cache: what can be said about them before a download is
// advised. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"
#include "io/hub/hub_cache.h"

namespace plimsoll {

// Returns the architecture that a hub name mentions ("RoBERTa" for "xlm-roberta-base"), if this version does not train it,
// otherwise "".
std::string_view foreign_architecture(std::string_view name);

// Returns the presets that a shortened or misspelled name means, the usual one first: "bert-large-uncased" for
// "bert-large".
std::vector<std::string> similar_presets(std::string_view name);

// Resolves the name or path of a model as resolve_model_folder() does. Errors: kUsage for a name that is not found and that
// mentions an architecture which this version does not train, and for a part of a preset's name, instead of advice to
// download it; otherwise as resolve_model_folder().
std::string resolve_model(FileSystem& files, const HubEnvironment& hub, const std::string& name,
                          const std::string& revision, const FolderArgument& argument);

}  // namespace plimsoll
