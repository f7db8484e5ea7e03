// Recognizes the weights of other programs in a folder that has no weights in safetensors, so that an error message can name them and
// tell how to convert them. No file is loaded: the recognition depends on names only, except that Git LFS pointers are refused.
//
// Thread-safe: functions without state. Errors: kBadData for a Git LFS pointer; FileError from the disk.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"

namespace plimsoll {

// A pattern of the names of files: the name is `begin`, or, if `end` is not empty, it begins with `begin` and ends with `end`.
struct NamePattern {
  std::string_view begin;
  std::string_view end;

  bool matches(std::string_view name) const {
    if (end.empty()) return name == begin;
    return name.size() >= begin.size() + end.size() && name.starts_with(begin) && name.ends_with(end);
  }
};

// Returns true if `path` is a file, and false if it is a folder or does not exist.
bool is_file(FileSystem& files, const std::string& path);

// Refuses a file that is a Git LFS pointer, which means that its content was not downloaded yet. Errors: kBadData.
void refuse_pointer(FileSystem& files, const std::string& path);

// Describes what `folder` contains instead of model.safetensors, and what the user can do, such as "only pytorch_model.bin (a PyTorch
// pickle file), which Plimsoll does not read ... Convert it ...". Recognizes weights of PyTorch, PyTorch Lightning, TensorFlow, Flax, ONNX
// and GGUF, safetensors under another name, and a model in a folder inside `folder`. Returns an empty string if there is none of these.
std::string describe_foreign_weights(FileSystem& files, const std::string& folder);

}  // namespace plimsoll
