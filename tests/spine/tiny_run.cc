#include "tests/spine/tiny_run.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <stdexcept>

#include "base/philox.h"
#include "base/problem_type.h"
#include "device/cpu/cpu_features.h"
#include "device/cuda/cuda_device.h"
#include "exec/quantized_weights.h"
#include "models/architecture.h"

namespace plimsoll::testing {

bool tests_run_on_gpu() {
  return std::getenv("PLIMSOLL_TEST_DEVICE") != nullptr;
}

ModelConfig tiny_model(const TinyCase& test) {
  const Architecture& architecture = architecture_of(test.model_type);
  ModelConfig config;
  // ELECTRA has embeddings of another size than its hidden states. The size is set to half the hidden size
  // here, so that the projection between the two is tested.
  for (const ConfigKey& key : architecture.config_keys) {
    if (key.name == std::string_view("embedding_size")) config.embedding_size = test.hidden / 2;
  }
  static_cast<DecoderSettings&>(config) = test.decoder;
  config.model_type = test.model_type;
  config.hidden_act = test.hidden_act;
  config.vocab_size = 37;
  config.hidden_size = test.hidden;
  config.num_hidden_layers = test.layers;
  config.num_attention_heads = test.heads;
  config.intermediate_size = 3 * test.hidden;
  config.max_position_embeddings = 24;
  config.type_vocab_size = architecture.has_token_types ? 2 : 0;
  config.hidden_dropout_prob = test.dropout;
  config.attention_probs_dropout_prob = test.dropout;
  config.classifier_dropout = test.dropout;
  config.tie_word_embeddings = test.tied;
  // Texts of language models contain every token id, so no id may be the padding token, whose row in the
  // embedding table gets no gradient.
  if (record_of(test.problem_type).head->predicts_tokens) config.pad_token_id = -1;
  config.num_labels = test.problem_type == ProblemType::kRegression ? 1 : 3;
  if (test.adjust != nullptr) test.adjust(config);
  return config;
}

PlanRequest tiny_request(const TinyCase& test, const Bucket& bucket) {
  PlanRequest request;
  request.model.config = tiny_model(test);
  request.model.problem_type = test.problem_type;
  request.model.config.problem_type = test.problem_type;
  request.model.label_smoothing = test.label_smoothing;
  request.model.z_coefficient = test.z_coefficient;
  request.model.label_share = test.label_share;
  request.model.outputs_logits = !record_of(test.problem_type).head->predicts_tokens;
  request.precision.dtype = test.dtype;
  request.precision.activation_dtype = test.activations;
  request.precision.fp8 = test.fp8;
  request.precision.fp8_codes_at_use = test.fp8_codes_at_use;
  request.model.freeze = test.freeze;
  request.model.lora = test.lora;
  request.chunked_loss = test.chunked_loss;
  request.update.optimizer = test.optimizer;
  request.batches.accumulation_steps = test.accumulation;
  request.batches.train = bucket;
  if (test.fp8) request.batches.train.tokens = (bucket.tokens + 15) / 16 * 16;
  request.batches.evaluate = bucket;
  request.device.num_threads = 2;
  request.device.isa = test.activations ? CpuIsa::kAvx512Bf16 : CpuIsa::kAvx512;
  request.device.reference_kernels = test.reference_kernels;
  request.separate_buffers = test.separate_buffers;
  request.recompute = test.recompute;
  request.update.in_backward = test.optimizer_in_backward;
  request.passes.disabled = test.disabled_passes;
  request.passes.stop_after = test.stop_after_pass;
  // If PLIMSOLL_TEST_DEVICE is set (see CMakeLists.txt), the tests run on a GPU. Cases that need the reference
  // kernels still run on the CPU.
  if (tests_run_on_gpu() && !test.reference_kernels && test.dtype != DType::kF64) {
    const std::vector<CudaDeviceInfo> devices = visible_cuda_devices();
    if (devices.empty()) throw std::runtime_error("PLIMSOLL_TEST_DEVICE is set, but no GPU is visible");
    const CudaDeviceInfo& info = devices.front();
    request.device.kind = KernelDevice::kCuda;
    request.device.gpu = gpu_target_of(info.name, info.sm, info.num_multiprocessors, info.total_bytes);
  } else if (test.fp8 || (test.activations == DType::kBF16 && cpu_isa() < CpuIsa::kAvx512)) {
    // The reference kernels are used, because oneDNN has no bf16 products for this CPU and no fp8 products for any CPU.
    request.device.reference_kernels = true;
  }
  return request;
}

TinyBatch tiny_batch(const TinyCase& test, const std::vector<int>& lengths, uint32_t seed) {
  TinyBatch batch;
  batch.cu_seqlens.push_back(0);
  uint64_t element = 0;
  const auto draw = [&](uint32_t limit) {
    return static_cast<int32_t>(philox_element({.seed = seed, .step = 1, .site = 77}, element++) % limit);
  };
  const ModelConfig model = tiny_model(test);
  for (int length : lengths) {
    for (int i = 0; i < length; ++i) {
      batch.ids.push_back(draw(37));
      batch.token_types.push_back(i * 2 < length ? 0 : 1);
    }
    const auto padding_id = static_cast<int32_t>(position_padding_id(model));
    int32_t position = padding_id + 1;
    for (auto id = batch.ids.end() - length; id != batch.ids.end(); ++id)
      batch.positions.push_back(padding_id >= 0 && *id == padding_id ? padding_id : position++);
    batch.cu_seqlens.push_back(static_cast<int32_t>(batch.ids.size()));
    if (test.problem_type == ProblemType::kTokenClassification) {
      // Every token is labelled except the first and the last one, which take the role of [CLS] and [SEP].
      for (int i = 0; i < length; ++i) {
        const bool is_inside = i > 0 && i + 1 < length;
        batch.class_labels.push_back(is_inside ? draw(static_cast<uint32_t>(model.num_labels)) : kNoLabel);
      }
    } else if (test.problem_type == ProblemType::kMaskedLm) {
      // About a third of the tokens are hidden and get a label. Some of them are replaced by the mask token, id
      // 4.
      for (int i = 0; i < length; ++i) {
        int32_t& id = batch.ids[batch.ids.size() - static_cast<size_t>(length - i)];
        batch.class_labels.push_back(i % 3 == 1 ? std::exchange(id, i % 2 == 0 ? id : 4) : kNoLabel);
      }
    } else if (test.problem_type == ProblemType::kCausalLm) {
      const auto first = batch.ids.end() - length;
      batch.class_labels.insert(batch.class_labels.end(), first + (length > 0 ? 1 : 0), batch.ids.end());
      if (length > 0) batch.class_labels.push_back(kNoLabel);
    } else if (test.problem_type == ProblemType::kSingleLabel) {
      batch.class_labels.push_back(draw(static_cast<uint32_t>(model.num_labels)));
    } else {
      for (int64_t k = 0; k < model.num_labels; ++k) {
        batch.real_labels.push_back(test.problem_type == ProblemType::kMultiLabel
                                        ? static_cast<float>(draw(2))
                                        : static_cast<float>(draw(100)) / 25.0f);
      }
    }
  }
  return batch;
}

TensorBatch TinyBatch::tensors(const ProgramPlan& program) const {
  std::map<std::string, const std::vector<int32_t>*> by_name = {{"ids", &ids},
                                                                {"token_types", &token_types},
                                                                {"positions", &positions},
                                                                {"cu_seqlens", &cu_seqlens},
                                                                {"labels", &class_labels}};
  const std::vector<BatchTensorSpec> specs = batch_tensors(program.graph);
  // Makes tensors of the size of this batch and not of the planned size, because some tests pass a batch that
  // is too large for the plan.
  BatchSize size{.tokens = std::ssize(ids), .sequences = num_sequences(), .longest = std::ssize(ids)};
  std::vector<int32_t> label_ends{0};
  std::vector<int32_t> labels;
  if (std::ranges::any_of(specs, [](const BatchTensorSpec& spec) { return spec.per_label > 0; })) {
    for (size_t i = 0; i < class_labels.size(); ++i) {
      if (class_labels[i] == kNoLabel) continue;
      label_ends.push_back(static_cast<int32_t>(i) + 1);
      labels.push_back(class_labels[i]);
    }
    size.labels = std::ssize(labels);
    by_name["labels"] = &labels;
    by_name["label_ends"] = &label_ends;
  }
  TensorBatch batch({.tensors = specs, .capacity = size});
  batch.resize(size);
  for (const BatchTensorSpec& spec : batch.specs()) {
    if (spec.dtype == DType::kI32) {
      std::ranges::copy(*by_name.at(spec.name), batch.ints(spec.name).begin());
    } else {
      std::ranges::copy(real_labels, batch.floats(spec.name).begin());
    }
  }
  return batch;
}

void fill_weights(Executor& executor, double deviation) {
  uint32_t site = 1000;
  for (const WeightSpec& spec : executor.plan().weights) {
    const bool quantized = is_quantized(executor.plan(), spec.name);
    std::vector<std::byte> bytes = bytes_of(executor, spec.name);
    if (quantized) bytes.resize(static_cast<size_t>(spec.elements()) * 4);
    const View view{bytes.data(), quantized ? DType::kF32 : executor.plan().type_of(spec.name).dtype};
    ++site;
    for (int64_t i = 0; i < spec.elements(); ++i) {
      const double uniform = static_cast<double>(philox_element({.seed = 5, .step = 0, .site = site},
                                                                static_cast<uint64_t>(i))) /
                             4294967296.0;
      const double noise = (uniform - 0.5) * 3.46 * deviation;
      view.store(i, spec.initializer == Initializer::kOnes ? 1.0 + noise : noise);
    }
    for (size_t part = 0; quantized && part < spec.parts.size(); ++part) {
      const int64_t offset = 4 * spec.parts[part].first_row * spec.shape[1];
      write_quantized(executor, spec, part, ConstView{bytes.data() + offset, DType::kF32});
    }
    if (!quantized) executor.write(spec.name, 0, bytes);
  }
  executor.zero_states();
}

void stage(Executor& executor, std::string_view program, const TinyBatch& batch, double denominator) {
  executor.stage(program, batch.tensors(executor.plan().programs.at(program)), denominator);
}

double forward_backward(Executor& executor, const TinyBatch& batch, int64_t micro_batch, double denominator) {
  stage(executor, kTrainProgram, batch, denominator);
  executor.set_random(42, micro_batch);
  executor.run(kTrainProgram, Segment::kForward);
  const double loss = executor.loss();
  executor.run(kTrainProgram, Segment::kBackward);
  return loss;
}

std::vector<std::byte> bytes_of(Executor& executor, const std::string& name) {
  const int64_t bytes = executor.elements(name) * dtype_bytes(executor.plan().type_of(name).dtype);
  std::vector<std::byte> copy(static_cast<size_t>(bytes));
  executor.read(name, 0, copy);
  return copy;
}

std::vector<double> values_of(Executor& executor, const std::string& name) {
  const std::vector<std::byte> bytes = bytes_of(executor, name);
  const ConstView view{bytes.data(), executor.plan().type_of(name).dtype};
  std::vector<double> values;
  for (int64_t i = 0; i < executor.elements(name); ++i) values.push_back(view.load(i));
  return values;
}

void set_value(Executor& executor, const std::string& name, int64_t i, double value) {
  const DType dtype = executor.plan().type_of(name).dtype;
  std::vector<std::byte> bytes(static_cast<size_t>(dtype_bytes(dtype)));
  View{bytes.data(), dtype}.store(0, value);
  executor.write(name, i * dtype_bytes(dtype), bytes);
}

}  // namespace plimsoll::testing
