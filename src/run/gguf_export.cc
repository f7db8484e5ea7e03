#include "run/gguf_export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/problem_type.h"
#include "io/gguf/gguf_file.h"
#include "io/gguf/gguf_vocabulary.h"
#include "models/architecture.h"
#include "models/gguf_form.h"
#include "models/model.h"
#include "run/run_purpose.h"
#include "run/stored_weights.h"

namespace plimsoll {
namespace {

using Stored = ModelFolder::Located;

// The element types for matrices by their names in --outtype, with the corresponding values of the GGUF key general.file_type.
struct OutType {
  std::string_view name;
  GgufType type;
  uint32_t file_type;
};
constexpr OutType kOutTypes[] = {{"f32", GgufType::kF32, 0},
                                 {"f16", GgufType::kF16, 1},
                                 {"q8_0", GgufType::kQ8_0, 7},
                                 {"bf16", GgufType::kBF16, 32}};
// Version of the GGUF block formats for quantized tensors, which is written to every file.
constexpr uint32_t kQuantizationVersion = 2;

const OutType& out_type_named(std::string_view name) {
  const auto* found = std::ranges::find(kOutTypes, name, &OutType::name);
  if (found != std::end(kOutTypes)) return *found;
  std::vector<std::string_view> names{"auto"};
  for (const OutType& type : kOutTypes) names.push_back(type.name);
  throw_error(ErrorCode::kUsage, "--outtype is '{}', but one of {} is expected", name,
              fmt::join(names, ", "));
}

bool stores_bf16(const ModelFolder& folder) {
  for (const SafetensorsFile& file : folder.weight_files()) {
    for (const StoredTensor& tensor : file.tensors())
      if (tensor.shape.size() > 1) return tensor.type == StoredType::kBF16;
  }
  return false;
}

// Returns how GGUF describes the architecture of the model. Errors: kUsage if GGUF has no description for it.
const GgufForm& form_of(const ModelConfig& config, const ModelFolder& folder) {
  const Architecture& architecture = architecture_of(config.model_type);
  const bool is_decoder = config.problem_type && record_of(*config.problem_type).head == &kCausalLmHead;
  if (architecture.gguf != nullptr && is_decoder) return *architecture.gguf;
  constexpr const char* kInstead =
      "transformers, sentence-transformers and ONNX's exporter read the folder as it is "
      "(docs/AFTER_TRAINING.md)";
  if (architecture.gguf != nullptr) {
    ModelConfig decoder = config;
    decoder.problem_type = ProblemType::kCausalLm;
    throw_error(
        ErrorCode::kUsage,
        "{}: config.json does not state the class {}, and only language models are exported to GGUF; {}",
        folder.path(), hugging_face_class(decoder), kInstead);
  }
  std::vector<std::string_view> exported;
  for (const Architecture* other : architectures()) {
    if (other->gguf != nullptr) exported.push_back(other->model_type);
  }
  throw_error(ErrorCode::kUsage,
              "{}: the model has the type '{}', and only decoders are exported to GGUF ({}); {}",
              folder.path(), config.model_type, fmt::join(exported, ", "), kInstead);
}

// Returns the size of the vocabulary and the ids of special tokens from config.json. If it lists several end tokens, the first one is
// used.
GgufTokenDefaults token_defaults(const ModelConfig& config, const ModelFolder& folder) {
  const auto json = parse_json(folder.config_text(), folder.path() + "/config.json");
  const auto id = [&](const char* key) -> int64_t {
    const auto found = json.find(key);
    if (found == json.end()) return -1;
    const nlohmann::json& value = found->is_array() && !found->empty() ? found->front() : *found;
    return value.is_number_integer() ? value.get<int64_t>() : -1;
  };
  return {.vocab_size = config.vocab_size,
          .bos_id = id("bos_token_id"),
          .eos_id = id("eos_token_id"),
          .pad_id = id("pad_token_id")};
}

// Reorders the rows of each attention head for GGUF's rotary embedding, which rotates neighbouring elements: the elements i and width / 2
// + i become neighbours.
void interleave_heads(std::span<float> values, int64_t columns, int64_t width) {
  std::vector<float> head(static_cast<size_t>(columns * width));
  for (size_t begin = 0; begin < values.size(); begin += head.size()) {
    std::copy_n(values.begin() + static_cast<ptrdiff_t>(begin), head.size(), head.begin());
    for (int64_t row = 0; row < width; ++row) {
      const int64_t source = row % 2 * (width / 2) + row / 2;
      std::copy_n(head.begin() + source * columns, columns,
                  values.begin() + static_cast<ptrdiff_t>(begin) + row * columns);
    }
  }
}

// Reads rows of a stored matrix as fp32.
void read_stored_rows(const Stored& stored, int64_t first_row, int64_t columns, std::span<float> values) {
  const View view{values.data(), DType::kF32};
  if (stored.tensor->shape.size() < 2) return stored.file->read(*stored.tensor, view);
  stored.file->read_rows(*stored.tensor, {first_row, std::ssize(values) / columns}, view);
}

class GgufModel {
 public:
  GgufModel(ModelFolder folder, std::string_view out_type)
      : folder_(std::move(folder)),
        where_(join_path(folder_.path(), kConfigFile)),
        config_(parse_model_config(folder_.config_text(), where_)),
        form_(form_of(config_, folder_)),
        out_type_(out_type_named(out_type != "auto"     ? out_type
                                 : stores_bf16(folder_) ? "bf16"
                                                        : "f16")) {
    form_.refuse_variants(config_, where_);
    specs_ = model_weights(config_);
    unwrap_model_names(folder_, specs_);
    check_stored_weights(specs_, folder_, RunPurpose::kEvaluate, OtherShapes::kCount);
  }

  const OutType& out_type() const { return out_type_; }

  // Returns the metadata of the GGUF file. Adds sentences for the user to `notes`.
  GgufMetadata metadata(std::string_view name, std::vector<std::string>& notes) const {
    GgufMetadata metadata;
    const std::string architecture(form_.architecture);
    metadata.add("general.architecture", architecture);
    metadata.add("general.type", std::string("model"));
    metadata.add("general.name", std::string(name));
    metadata.add("general.file_type", out_type_.file_type);
    metadata.add("general.quantization_version", kQuantizationVersion);
    form_.add_metadata(metadata, config_, architecture + ".");
    if (form_.note != nullptr) notes.push_back(form_.note(config_));
    const auto more =
        add_gguf_vocabulary(metadata, folder_.path(), config_.model_type, token_defaults(config_, folder_));
    notes.insert(notes.end(), more.begin(), more.end());
    std::erase(notes, "");
    return metadata;
  }

  // Returns the tensors to write. Their read functions use this object, which must exist until they have been called.
  std::vector<GgufTensor> tensors() const {
    std::vector<GgufTensor> tensors;
    for (const WeightSpec& spec : specs_) {
      for (const WeightPart& part : spec.parts) tensors.push_back(tensor_of(spec, part));
    }
    if (form_.rope_divisors == nullptr) return tensors;
    std::vector<float> divisors = form_.rope_divisors(config_);
    if (divisors.empty()) return tensors;
    tensors.push_back({.name = "rope_freqs.weight",
                       .shape = {std::ssize(divisors)},
                       .read = [divisors](int64_t, std::span<float> values) {
                         std::ranges::copy(divisors, values.begin());
                       }});
    return tensors;
  }

 private:
  GgufTensor tensor_of(const WeightSpec& spec, const WeightPart& part) const {
    const std::string& disk_name = part.disk_names.front();
    const auto name = gguf_name_of(form_, disk_name);
    PLIMSOLL_CHECK(name.has_value(), "the GGUF names of '{}' lack '{}'", form_.architecture, disk_name);
    Stored stored;
    for (const std::string& spelling : part.disk_names) {
      stored = folder_.find(spelling);
      if (stored.tensor != nullptr) break;
    }
    GgufTensor tensor{.name = name->name, .shape = spec.shape};
    tensor.shape[0] = part.num_rows;
    const int64_t columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
    tensor.type = type_of(tensor);
    if (name->rows == GgufRows::kAsStored) {
      tensor.read = [stored, columns](int64_t first_row, std::span<float> values) {
        read_stored_rows(stored, first_row, columns, values);
      };
      return tensor;
    }
    const int64_t width = config_.head_width();
    if (tensor.shape.size() > 1) tensor.rows_per_unit = width;
    tensor.read = [stored, columns, width](int64_t first_row, std::span<float> values) {
      read_stored_rows(stored, first_row, columns, values);
      interleave_heads(values, columns, width);
    };
    return tensor;
  }

  GgufType type_of(const GgufTensor& tensor) const {
    const bool is_vector = tensor.shape.size() < 2 || tensor.name == form_.table_in_f32;
    if (is_vector) return GgufType::kF32;
    const bool has_blocks = tensor.columns() % kGgufBlock == 0;
    return out_type_.type == GgufType::kQ8_0 && !has_blocks ? GgufType::kF16 : out_type_.type;
  }

  ModelFolder folder_;
  std::string where_;
  ModelConfig config_;
  const GgufForm& form_;
  const OutType& out_type_;
  std::vector<WeightSpec> specs_;
};

}  // namespace

GgufReport export_gguf(FileSystem& files, ModelFolder folder, const GgufExport& options,
                       const std::string& path) {
  GgufReport report;
  const GgufModel model(std::move(folder), options.out_type);
  const GgufMetadata metadata = model.metadata(options.name, report.notes);
  const std::vector<GgufTensor> tensors = model.tensors();
  report.num_tensors = std::ssize(tensors);
  report.type_name = model.out_type().name;
  report.size_bytes = write_gguf(files, path, metadata, tensors);
  return report;
}

}  // namespace plimsoll
