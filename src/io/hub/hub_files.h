// Selects the files of a repository to download, and reads and writes the list of files of a commit in the cache (trees/<commit>.json, as
// Hugging Face's tools write it). Thread-safe: pure functions, except for reading and writing files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/hub/hub_requests.h"

namespace plimsoll {

// The parts of a model that a command needs: its configuration, its tokenizer, or also its weights. A download for kConfiguration or for
// kTokenizer fetches the same small files. The difference is which files must be in the cache so that no download is needed.
enum class ModelParts : uint8_t { kConfiguration, kTokenizer, kAll };

// Returns true for a file of the configuration or of the tokenizer that Plimsoll reads, such as config.json and vocab.txt.
bool is_model_setting(std::string_view path);

struct SelectedFiles {
  std::vector<HubFile> files;
  std::vector<std::string> notes;  // sentences for the user about files that are not downloaded
};
// Selects the files to download for a request. Errors: kBadData if a file in request.files is not in the repository, or if no file
// matches the patterns.
SelectedFiles select_files(const DownloadRequest& request, const std::vector<HubFile>& listed,
                           ModelParts parts);

// Formats the list of files as JSON, with the same bytes as Hugging Face's tools.
std::string tree_json(const std::vector<HubFile>& files);
// Reads a file of the cache that contains a list of files as tree_json() formats it. Returns nothing if the file is missing or damaged.
std::optional<std::vector<HubFile>> read_tree(FileSystem& files, const std::string& path);

}  // namespace plimsoll
