#include "train/merge_adapter.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "models/lora.h"
#include "models/model.h"
#include "run/model_source.h"
#include "run/stored_weights.h"
#include "train/weight_loading.h"

namespace plimsoll {
namespace {

using Located = ModelFolder::Located;

std::vector<double> read_all(const Located& located) {
  std::vector<double> values(static_cast<size_t>(located.tensor->num_elements()));
  located.file->read(*located.tensor, {values.data(), DType::kF64});
  return values;
}

Located find_any(const ModelFolder& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (const Located located = folder.find(name); located.tensor != nullptr) return located;
  }
  return {};
}

// Returns the data type of a stored tensor. Errors: kBadData for a type that this program does not support.
DType type_of(const Located& located) {
  const auto dtype = stored_type_dtype(located.tensor->type);
  if (!dtype || !is_floating(*dtype)) {
    throw_error(
        ErrorCode::kBadData,
        "{}: the tensor '{}' is stored as {}, but numbers of 16, 32 or 64 bits are expected; save it in F32",
        located.file->path(), located.tensor->name, stored_type_name(located.tensor->type));
  }
  return *dtype;
}

// Returns a tensor that can be read piece by piece. The first read calls make(), which computes the whole tensor; its memory is
// freed after the last read. If `is_transposed`, make() computes a matrix of `shape`, and the transpose of this matrix is returned.
template <typename Make>
TensorSource made_source(std::string name, DType dtype, std::vector<int64_t> shape, bool is_transposed,
                         Make make) {
  TensorSource source{.name = std::move(name), .dtype = dtype, .shape = std::move(shape)};
  const int64_t columns = is_transposed ? source.shape[1] : 1;
  const int64_t rows = source.num_elements() / columns;
  if (is_transposed) std::swap(source.shape[0], source.shape[1]);
  const int64_t size = source.size_bytes();
  source.fill = [make = std::move(make), dtype, size, rows, columns,
                 bytes = std::make_shared<std::vector<std::byte>>()](int64_t offset,
                                                                     std::span<std::byte> piece) {
    if (bytes->empty()) {
      bytes->resize(static_cast<size_t>(size));
      const std::vector<double> values = make();
      const View view{bytes->data(), dtype};
      for (int64_t i = 0; i < std::ssize(values); ++i)
        view.store(transposed_index(i, rows, columns), values[static_cast<size_t>(i)]);
    }
    std::memcpy(piece.data(), bytes->data() + offset, piece.size());
    if (offset + std::ssize(piece) == size) std::vector<std::byte>().swap(*bytes);
  };
  return source;
}

class Merge {
 public:
  Merge(ModelFolder base, ModelFolder adapter)
      : base_(std::move(base)),
        adapter_(std::move(adapter)),
        config_(parse_adapter_config(adapter_.adapter_config_text(),
                                     join_path(adapter_.path(), kAdapterConfigFile))) {
    const bool has_config = !adapter_.config_text().empty();
    const ModelFolder& source = has_config ? adapter_ : base_;
    model_ =
        with_adapter_head(parse_model_config(source.config_text(), join_path(source.path(), kConfigFile)),
                          adapter_, config_.head);
    specs_ = model_weights(model_);
    unwrap_model_names(base_, specs_);
    unwrap_adapter_names(adapter_, specs_, model_.model_type, config_.lora);
    targets_ = lora_targets(specs_, model_.model_type, config_.lora);
    add_lora_weights(specs_, model_.model_type, config_.lora);
    std::vector<WeightSpec> of_base = specs_;
    std::erase_if(of_base, [](const WeightSpec& spec) { return spec.in_adapter; });
    check_stored_weights(of_base, base_, RunPurpose::kEvaluate, OtherShapes::kCount, &adapter_);
    check_tensors_of_adapter();
  }

  const ModelFolder& tokenizer_folder() const {
    return adapter_.tokenizer_files().empty() ? base_ : adapter_;
  }

  ModelContents contents(MergeReport& report) const {
    ModelContents contents;
    contents.config_text = model_config_json(model_);
    for (const WeightSpec& spec : specs_) {
      if (!spec.in_model) continue;
      for (const WeightPart& part : spec.parts) {
        contents.tensors.push_back(tensor_of(spec, part, report));
        append_copies(part, TensorSource(contents.tensors.back()), contents.tensors);
      }
    }
    return contents;
  }

 private:
  // Checks that the merged model contains every tensor of the adapter. Errors: kBadData for a tensor that it would lack.
  void check_tensors_of_adapter() const {
    std::set<const StoredTensor*> merged;
    for (const WeightSpec& spec : specs_) {
      if (!spec.in_adapter) continue;
      for (const WeightPart& part : spec.parts) merged.insert(find_saved(part.disk_names).tensor);
    }
    for (const SafetensorsFile& file : adapter_.weight_files()) {
      for (const StoredTensor& tensor : file.tensors()) {
        if (!merged.contains(&tensor)) refuse_unused_tensor(adapter_, tensor.name);
      }
    }
  }

  // Finds a tensor of the adapter. The pointers in the result are null if there is none.
  Located find_saved(std::vector<std::string> names) const {
    for (std::string& name : names) name.insert(0, kAdapterPrefix);
    return find_any(adapter_, names);
  }

  Located of_adapter(const std::vector<std::string>& names, const std::vector<int64_t>& shape) const {
    const std::string& name = names.front();
    const Located located = find_saved(names);
    if (located.tensor == nullptr) {
      throw_error(ErrorCode::kBadData, "{}: the tensor '{}{}' is missing: {} (the base is {})",
                  adapter_.path(), kAdapterPrefix, name, describe_missing_tensor(name), base_.path());
    }
    check_shape(adapter_, located, shape);
    return located;
  }

  void check_shape(const ModelFolder& folder, const Located& located,
                   const std::vector<int64_t>& shape) const {
    if (located.tensor->shape == shape) return;
    throw_error(ErrorCode::kBadData,
                "{}: the tensor '{}' has the shape {}, but {} is expected: the adapter {} does not belong to "
                "the base {}",
                folder.path(), located.tensor->name, format_shape(located.tensor->shape), format_shape(shape),
                adapter_.path(), base_.path());
  }

  // Returns the data type for tensors that the base model does not contain: the type of its other tensors.
  DType usual_type() const {
    for (const SafetensorsFile& file : base_.weight_files()) {
      for (const StoredTensor& tensor : file.tensors()) {
        const auto dtype = stored_type_dtype(tensor.type);
        if (dtype && is_floating(*dtype)) return *dtype;
      }
    }
    return DType::kF32;
  }

  TensorSource tensor_of(const WeightSpec& spec, const WeightPart& part, MergeReport& report) const {
    const std::string& name = part.disk_names.front();
    std::vector<int64_t> shape = spec.shape;
    shape[0] = part.num_rows;
    const Located stored = find_any(base_, part.disk_names);
    if (spec.in_adapter) {
      ++report.num_saved;
      const Located saved = of_adapter(part.disk_names, shape);
      const DType dtype = stored.tensor != nullptr ? type_of(stored) : usual_type();
      return made_source(name, dtype, shape, spec.transposed, [saved] { return read_all(saved); });
    }
    check_shape(base_, stored, shape);
    const auto target = std::find_if(targets_.begin(), targets_.end(), [&](const LoraTarget& candidate) {
      return candidate.module + ".weight" == name;
    });
    if (target == targets_.end()) {
      return made_source(name, type_of(stored), shape, spec.transposed,
                         [stored] { return read_all(stored); });
    }
    ++report.num_merged;
    const int64_t r = target->r;
    const Located a = of_adapter({target->a()}, {r, target->in});
    const Located b = of_adapter({target->b()}, {target->out, r});
    return made_source(name, type_of(stored), shape, spec.transposed, [stored, a, b, r, lora = config_.lora] {
      return merged(read_changed_base(stored, lora), read_all(a), read_all(b), r, lora.scale());
    });
  }

  // Returns w_NK + scale * (b_NR a_RK), the weight W of the base model plus the product of the adapter's matrices.
  static std::vector<double> merged(std::vector<double> w, const std::vector<double>& a,
                                    const std::vector<double>& b, int64_t r, double scale) {
    const int64_t columns = std::ssize(a) / r;
    const int64_t rows = std::ssize(b) / r;
    for (int64_t n = 0; n < rows; ++n) {
      double* row = w.data() + n * columns;
      for (int64_t i = 0; i < r; ++i) {
        const double factor = scale * b[static_cast<size_t>(n * r + i)];
        const double* from = a.data() + i * columns;
        for (int64_t k = 0; k < columns; ++k) row[k] += factor * from[k];
      }
    }
    return w;
  }

  ModelFolder base_;
  ModelFolder adapter_;
  AdapterConfig config_;
  ModelConfig model_;
  std::vector<WeightSpec> specs_;
  std::vector<LoraTarget> targets_;
};

}  // namespace

MergeReport merge_adapter(FileSystem& files, ModelFolder base, ModelFolder adapter,
                          const std::string& output) {
  MergeReport report;
  const Merge merge(std::move(base), std::move(adapter));
  ModelContents contents = merge.contents(report);
  const ModelFolder& tokenizer = merge.tokenizer_folder();
  for (const std::string& name : tokenizer.tokenizer_files()) {
    contents.copied_files.push_back({join_path(tokenizer.path(), name)});
  }
  save_model_folder(files, output, contents);
  return report;
}

}  // namespace plimsoll
