#include "run/caches.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "plimsoll/error.h"
#include "run/model_source.h"

namespace plimsoll {
namespace {

// Size limit for a file with a tuning table. A table has dozens to thousands of entries of about 400 bytes.
constexpr int64_t kMaxTuningBytes = int64_t{16} << 20;

std::string bucket_text(const Bucket& bucket) {
  return fmt::format("{} {} {}", bucket.tokens, bucket.sequences, bucket.longest);
}

// Converts a name such as "NVIDIA H200" to a text that may be part of a file name, such as "nvidia-h200".
std::string file_word(const std::string& name) {
  std::string word;
  for (const char c : name) {
    const bool letter = c >= 'a' && c <= 'z';
    const bool digit = c >= '0' && c <= '9';
    const bool capital = c >= 'A' && c <= 'Z';
    if (letter || digit) word.push_back(c);
    if (capital) word.push_back(static_cast<char>(c - 'A' + 'a'));
    if (!letter && !digit && !capital && !word.empty() && word.back() != '-') word.push_back('-');
  }
  while (!word.empty() && word.back() == '-') word.pop_back();
  return word.empty() ? "gpu" : word;
}

}  // namespace

std::string tuning_cache_folder(const std::string& word, const Environment& environment) {
  if (word == "off") return {};
  return word == "auto" ? cache_folder("tuning", environment) : word;
}

std::string tuning_file_name(const PlanRequest& request) {
  const DType products = request.precision.activation_dtype.value_or(request.precision.dtype);
  // The configuration also contains the names of data columns. They are removed for the hash, because they do not affect matrix products.
  ModelConfig model = request.model.config;
  model.source.json = with_trained_columns(model.source.json, {});
  std::string text = model_config_json(model);
  text += fmt::format(" {} {} {} {}", dtype_name(request.precision.dtype), dtype_name(products),
                      fp32_products_name(request.precision.fp32_products),
                      request.batches.accumulation_steps > 1 ? "adds" : "overwrites");
  if (request.products.workspace_bytes != kCublasLtWorkspaceBytes)
    text += fmt::format(" workspace {}", request.products.workspace_bytes);
  if (request.train) text += " train " + bucket_text(request.batches.train);
  if (request.evaluate) text += " evaluate " + bucket_text(request.batches.evaluate);
  return file_word(request.device.gpu.product.empty() ? request.device.gpu.name
                                                      : request.device.gpu.product) +
         "-" + to_hex(hash64(text)) + ".json";
}

TuningTable read_tuning_table(FileSystem& files, const std::string& path,
                              std::vector<std::string>& warnings) {
  try {
    if (!files.status(path)) return {};
    return parse_tuning_table(read_text_file(files, path, kMaxTuningBytes), path);
  } catch (const Error& error) {
    warnings.push_back(std::string(error.what()) + "; the matrix products are measured again");
    return {};
  }
}

std::string keep_tuning_table(FileSystem& files, const std::string& path, const TuningTable& table) {
  try {
    make_folders(files, parent_folder(path));
    replace_file(files, path, tuning_table_json(table));
    return {};
  } catch (const Error& error) {
    return std::string(error.what()) +
           "; the tuning table is not saved for other runs (choose another folder with --tuning_cache, or "
           "off)";
  }
}

}  // namespace plimsoll
