// Chooses the files of a repository that are downloaded, and reads and writes the list of files of a commit in the cache
// (trees/<commit>.json, as Hugging Face's tools write it). Thread-safe: pure functions, except for reading and writing files.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/hub/hub_requests.h"

namespace plimsoll {

// The parts of a model that a command reads. kConfiguration and kTokenizer download the same small files, and differ in what has to be
// in the cache.
enum class ModelParts : uint8_t { kConfiguration, kTokenizer, kAll };

// Returns true for a file of the configuration or of the tokenizer that Plimsoll reads, such as config.json and vocab.txt.
bool is_model_setting(std::string_view path);

struct SelectedFiles {
  std::vector<HubFile> files;
  std::vector<std::string> notes;  // sentences about files that are left out
};
// Chooses the files of a request. Errors: kBadData if the repository lacks a file of request.files, or if no file matches the patterns.
SelectedFiles select_files(const DownloadRequest& request, const std::vector<HubFile>& listed,
                           ModelParts parts);

// Formats the list byte for byte as Hugging Face's tools do.
std::string tree_json(const std::vector<HubFile>& files);
// Returns the list of files that a file of the cache contains; nothing if that file is missing or damaged.
std::optional<std::vector<HubFile>> read_tree(FileSystem& files, const std::string& path);

}  // namespace plimsoll
