#include "io/ckpt/model_folder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file_fault.h"
#include "base/philox.h"

namespace plimsoll {
namespace {

std::string read_bytes(FileSystem& files, const std::string& path) {
  const auto file = files.open_read(path);
  std::string bytes(static_cast<size_t>(file->size_bytes()), '\0');
  read_exactly(*file, std::as_writable_bytes(std::span(bytes)), 0, "its bytes");
  return bytes;
}

std::string failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(ErrorCode::kBadData)) << error.what();
    return error.what();
  }
  return "accepted";
}

// Tensors with their own memory.
struct Tensors {
  std::vector<TensorSource> sources;
  std::vector<std::vector<float>> memory;

  void add(const std::string& name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(
          static_cast<float>(philox_element({hash64(name), 0, 0}, static_cast<uint64_t>(i)) >> 8));
    }
    memory.push_back(std::move(values));
    sources.push_back({.name = name, .shape = std::move(shape), .data = memory.back().data()});
  }
};

Tensors some_tensors() {
  Tensors tensors;
  tensors.memory.reserve(16);
  tensors.add("bert.embeddings.word_embeddings.weight", {10, 4});
  tensors.add("bert.encoder.layer.0.attention.self.query.weight", {4, 4});
  tensors.add("bert.encoder.layer.0.attention.self.key.weight", {4, 4});
  tensors.add("embeddings.LayerNorm.gamma", {4});
  tensors.add("cls.predictions.bias", {10});
  tensors.add("bert.embeddings.position_ids", {1, 4});
  tensors.add("classifier.weight", {2, 4});
  return tensors;
}

void write_model(FileSystem& files, const std::string& folder, const Tensors& tensors,
                 int64_t max_shard_bytes = kDefaultMaxShardBytes) {
  save_model_folder(files, folder,
                    {.config_text = "{\"model_type\": \"bert\", \"a\": 1}",
                     .tensors = tensors.sources,
                     .copied_files = {},
                     .max_shard_bytes = max_shard_bytes});
}

std::string names_in(FileSystem& files, const std::string& folder) {
  std::string names;
  for (const FolderEntry& entry : files.list(folder)) names += entry.name + " ";
  return names;
}

TEST(ModelFolder, LoadsWhatIsWantedAndReportsTheRest) {
  MemoryFileSystem files;
  const Tensors tensors = some_tensors();
  for (const int64_t max_shard_bytes : {kDefaultMaxShardBytes, int64_t{150}}) {
    const std::string folder = fmt::format("/m{}", max_shard_bytes);
    write_model(files, folder, tensors, max_shard_bytes);
    const ModelFolder model = ModelFolder::open(files, folder);
    std::vector<float> words(40);
    std::vector<float> fused(3 * 16, -1.0f);
    std::vector<float> norm(4);
    std::vector<float> classifier(12, -1.0f);
    std::vector<WantedTensor> wanted = {
        {{"bert.embeddings.word_embeddings.weight"}, {10, 4}, {words.data(), DType::kF32}},
        {{"bert.encoder.layer.0.attention.self.query.weight"}, {4, 4}, {fused.data(), DType::kF32}, 0},
        {{"bert.encoder.layer.0.attention.self.key.weight"}, {4, 4}, {fused.data(), DType::kF32}, 4},
        {{"bert.encoder.layer.0.attention.self.value.weight"}, {4, 4}, {fused.data(), DType::kF32}, 8},
        {{"bert.embeddings.LayerNorm.weight", "embeddings.LayerNorm.weight",
          "bert.embeddings.LayerNorm.gamma", "embeddings.LayerNorm.gamma"},
         {4},
         {norm.data(), DType::kF32}},
        {{"classifier.weight"}, {3, 4}, {classifier.data(), DType::kF32}},
    };
    const LoadReport report =
        model.load(wanted, {OnShapeMismatch::kTreatAsMissing, {"embeddings.position_ids"}});
    EXPECT_EQ(report.num_loaded, 4);
    EXPECT_EQ(report.unused, (std::vector<std::string>{"cls.predictions.bias"}));
    EXPECT_EQ(report.missing, (std::vector<std::string>{"bert.encoder.layer.0.attention.self.value.weight"}));
    ASSERT_EQ(report.mismatched.size(), 1u);
    EXPECT_EQ(report.mismatched[0].found, (std::vector<int64_t>{2, 4}));
    EXPECT_EQ(words, tensors.memory[0]);
    EXPECT_EQ(std::vector<float>(fused.begin(), fused.begin() + 16), tensors.memory[1]);
    EXPECT_EQ(std::vector<float>(fused.begin() + 16, fused.begin() + 32), tensors.memory[2]);
    EXPECT_EQ(std::vector<float>(fused.begin() + 32, fused.end()), std::vector<float>(16, -1.0f));
    EXPECT_EQ(norm, tensors.memory[3]);
    EXPECT_EQ(classifier, std::vector<float>(12, -1.0f)) << "a mismatched destination is not written";

    const std::string text = describe_load(report, "BertForSequenceClassification", folder);
    EXPECT_NE(
        text.find("were not used when initializing BertForSequenceClassification: ['cls.predictions.bias']"),
        std::string::npos);
    EXPECT_NE(text.find("and are newly initialized: ['bert.encoder.layer.0.attention.self.value.weight']"),
              std::string::npos);
    EXPECT_NE(text.find("- classifier.weight: found shape [2, 4] in the checkpoint and [3, 4] in the model"),
              std::string::npos);
    // If many tensors are missing, the report begins with a summary. If a checkpoint replaces the weights, there is
    // no report.
    LoadReport much;
    much.missing = {"a", "b", "c", "d", "e"};
    much.num_loaded = 7;
    EXPECT_TRUE(describe_load(much, "X", "f")
                    .starts_with("warning: only 7 of the 12 tensors of this model are in f"));
    much.is_replaced = true;
    EXPECT_EQ(describe_load(much, "X", "f"), "");
    EXPECT_EQ(describe_load({}, "X", folder), "");
    // The text is exactly that of transformers 4, so that a web search finds the existing answers.
    LoadReport fresh;
    fresh.unused = {"cls.predictions.bias"};
    fresh.missing = {"classifier.weight", "classifier.bias"};
    EXPECT_EQ(
        describe_load(fresh, "BertForSequenceClassification", "bert-base-uncased"),
        "Some weights of the model checkpoint at bert-base-uncased were not used when initializing "
        "BertForSequenceClassification: ['cls.predictions.bias']\n"
        "- This IS expected if you are initializing BertForSequenceClassification from the checkpoint of "
        "a model trained on another task or with another architecture (e.g. initializing a "
        "BertForSequenceClassification model from a BertForPreTraining model).\n"
        "- This IS NOT expected if you are initializing BertForSequenceClassification from the checkpoint "
        "of a model that you expect to be exactly identical (initializing a BertForSequenceClassification "
        "model from a BertForSequenceClassification model).\n"
        "Some weights of BertForSequenceClassification were not initialized from the model checkpoint at "
        "bert-base-uncased and are newly initialized: ['classifier.bias', 'classifier.weight']\n"
        "You should probably TRAIN this model on a down-stream task to be able to use it for predictions "
        "and inference.\n");
    EXPECT_NE(text.find("in the model instantiated\nYou should probably TRAIN this model"),
              std::string::npos);

    const std::string failure = failure_of([&] { model.load(wanted); });
    EXPECT_NE(failure.find("classifier.weight: [2, 4] in the checkpoint, [3, 4] in the model"),
              std::string::npos)
        << failure;
    EXPECT_NE(failure.find("the shape of 1 tensor differs between the checkpoint and the model"),
              std::string::npos)
        << failure;
    EXPECT_NE(failure.find("--ignore_mismatched_sizes"), std::string::npos);
  }
}

TEST(ModelFolder, WritesConfigAndIndexAsHuggingFaceDoes) {
  MemoryFileSystem files;
  const Tensors tensors = some_tensors();
  write_model(files, "/m", tensors, 150);
  EXPECT_EQ(read_text_file(files, "/m/config.json", 1000), "{\n  \"a\": 1,\n  \"model_type\": \"bert\"\n}\n");
  EXPECT_EQ(names_in(files, "/m"),
            "config.json model-00001-of-00003.safetensors model-00002-of-00003.safetensors "
            "model-00003-of-00003.safetensors model.safetensors.index.json ");
  const std::string index = read_text_file(files, "/m/model.safetensors.index.json", 10000);
  EXPECT_TRUE(
      index.starts_with("{\n  \"metadata\": {\n    \"total_parameters\": 98,\n    \"total_size\": 392\n  },\n"
                        "  \"weight_map\": {\n    \"bert.embeddings.position_ids\": \"model-0000"))
      << index;
  EXPECT_TRUE(index.ends_with("\n  }\n}\n"));
}

TEST(ModelFolder, StaleWeightsGoWhenTheFormChanges) {
  MemoryFileSystem files;
  const Tensors tensors = some_tensors();
  write_model(files, "/m", tensors);
  write_model(files, "/m", tensors, 150);
  EXPECT_FALSE(files.status("/m/model.safetensors")) << "readers would prefer it to the shards";
  EXPECT_EQ(ModelFolder::open(files, "/m").weight_files().size(), 3u);
  write_model(files, "/m", tensors, 300);
  EXPECT_EQ(ModelFolder::open(files, "/m").weight_files().size(), 2u);
  write_model(files, "/m", tensors);
  EXPECT_EQ(names_in(files, "/m"), "config.json model.safetensors ");
}

TEST(ModelFolder, TokenizerFilesAreFoundAndCopiedByteForByte) {
  MemoryFileSystem files;
  const Tensors tensors = some_tensors();
  write_model(files, "/from", tensors);
  const std::string odd("\xef\xbb\xbf[PAD]\r\n\xff\0end", 16);
  write_synced_file(files, "/from/vocab.txt", odd);
  write_synced_file(files, "/from/tokenizer_config.json", "{ }");
  write_synced_file(files, "/from/notes.txt", "no tokenizer file");
  const ModelFolder model = ModelFolder::open(files, "/from");
  EXPECT_EQ(model.tokenizer_files(), (std::vector<std::string>{"tokenizer_config.json", "vocab.txt"}));
  ModelContents contents{.config_text = model.config_text(), .tensors = tensors.sources, .copied_files = {}};
  for (const std::string& name : model.tokenizer_files())
    contents.copied_files.push_back({join_path("/from", name)});
  save_model_folder(files, "/to", contents);
  EXPECT_EQ(read_text_file(files, "/to/vocab.txt", 100), odd);
  EXPECT_EQ(ModelFolder::open(files, "/to").tokenizer_files(), model.tokenizer_files());
  // If CopiedFile::text has a value, this text is written instead of a copy of the file.
  contents.copied_files.front().text = "{\"tokenizer_class\": \"BertTokenizer\"}";
  save_model_folder(files, "/changed", contents);
  EXPECT_EQ(read_text_file(files, "/changed/tokenizer_config.json", 100),
            *contents.copied_files.front().text);
  EXPECT_EQ(read_text_file(files, "/changed/vocab.txt", 100), odd);
  contents.copied_files.front().text.reset();
  // Saving into the folder from which the files come leaves them unchanged.
  save_model_folder(files, "/from", contents);
  EXPECT_EQ(read_text_file(files, "/from/vocab.txt", 100), odd);
}

TEST(ModelFolder, FoldersWithoutUsableWeightsSayWhatToDo) {
  MemoryFileSystem files;
  EXPECT_NE(failure_of([&] { ModelFolder::open(files, "/none"); }).find("/none: the folder does not exist"),
            std::string::npos);
  files.make_folder("/m");
  EXPECT_NE(failure_of([&] { ModelFolder::open(files, "/m"); }).find("/m: it has no config.json"),
            std::string::npos);
  write_synced_file(files, "/m/config.json", "[1]");
  EXPECT_NE(
      failure_of([&] { ModelFolder::open(files, "/m"); }).find("/m/config.json: expected a JSON object"),
      std::string::npos);
  write_synced_file(files, "/m/config.json", "{\"a\": NaN}");
  EXPECT_NE(failure_of([&] { ModelFolder::open(files, "/m"); }).find("/m/config.json: line 1, column 7"),
            std::string::npos);
  write_synced_file(files, "/m/config.json", "{}");
  EXPECT_NE(failure_of([&] { ModelFolder::open(files, "/m"); }).find("neither model.safetensors nor"),
            std::string::npos);
  EXPECT_FALSE(ModelFolder::open(files, "/m", WeightsNeeded::kNo).has_weights());
  EXPECT_NE(failure_of([&] { ModelFolder::open(files, "/m/config.json"); }).find("it is not a folder"),
            std::string::npos);
  write_synced_file(files, "/m/tf_model.h5", "x");
  EXPECT_NE(failure_of([&] { ModelFolder::open(files, "/m"); }).find("TensorFlow weights"),
            std::string::npos);
  write_synced_file(files, "/m/pytorch_model.bin", "x");
  const std::string failure = failure_of([&] { ModelFolder::open(files, "/m"); });
  EXPECT_NE(failure.find("only pytorch_model.bin (a PyTorch pickle file), which Plimsoll does not read"),
            std::string::npos)
      << failure;
  EXPECT_NE(failure.find("metadata={'format': 'pt'})"), std::string::npos) << failure;
  write_synced_file(files, "/m/pytorch_model.bin",
                    "version https://git-lfs.github.com/spec/v1\noid sha256:00\n");
  EXPECT_NE(failure_of([&] { ModelFolder::open(files, "/m"); })
                .find("/m/pytorch_model.bin: the file is a Git LFS pointer instead of the content: run `git "
                      "lfs pull`"),
            std::string::npos);
}

TEST(ModelFolder, BadIndexesAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"{}", "no weight_map"},
      {"[]", "a JSON object"},
      {R"({"weight_map": {}})", "no weight_map"},
      {R"({"weight_map": ["a"]})", "no weight_map"},
      {R"({"weight_map": {"a": 1}})", "tensor 'a' to number '1', but a file name is expected"},
      {R"({"weight_map": {"a": "/etc/passwd"}})", "'/etc/passwd', an absolute path"},
      {R"({"weight_map": {"a": "../x.safetensors"}})",
       "'../x.safetensors', a path that leads out of the folder"},
      {R"({"weight_map": {"a": "b/../../x"}})", "leads out of the folder"},
      {R"({"weight_map": {"a": "b/.."}})", "leads out of the folder"},
      {R"({"weight_map": {"a": "..\\x"}})", "a name with a backslash"},
      {R"({"weight_map": {"a": "x\u0000y"}})", "a name with a NUL byte"},
      {R"({"weight_map": {"a": ""}})", "an empty name"},
      {R"({"weight_map": {"a": "x", "a": "y"}})", "key 'a' occurs twice"},
      {R"({"weight_map": {"a": "x")", "not valid JSON"},
  };
  for (const auto& [json, message] : cases) {
    const std::string failure = failure_of([&, text = json] { parse_weight_index(text, "i.json"); });
    EXPECT_TRUE(failure.starts_with("i.json: ")) << failure;
    EXPECT_NE(failure.find(message), std::string::npos) << failure;
  }
  EXPECT_EQ(parse_weight_index(R"({"weight_map": {"a": "x..y.safetensors"}})", "i").at("a"),
            "x..y.safetensors");
}

TEST(ModelFolder, IndexAndShardsMustAgree) {
  const Tensors tensors = some_tensors();
  const auto with_index = [&](const std::function<void(nlohmann::json&)>& change) {
    MemoryFileSystem files;
    write_model(files, "/m", tensors, 150);
    auto index = nlohmann::json::parse(read_text_file(files, "/m/model.safetensors.index.json", 10000));
    change(index["weight_map"]);
    write_synced_file(files, "/m/model.safetensors.index.json", index.dump());
    return failure_of([&] { ModelFolder::open(files, "/m"); });
  };
  EXPECT_EQ(with_index([](auto&) {}), "accepted");
  EXPECT_NE(
      with_index([](auto& map) {
        map["new"] = "model-00001-of-00003.safetensors";
      }).find("tensor 'new' is in 'model-00001-of-00003.safetensors', but that file does not contain it"),
      std::string::npos);
  EXPECT_NE(with_index([](auto& map) {
              map.erase("classifier.weight");
            }).find("contains tensor 'classifier.weight', which weight_map does not list"),
            std::string::npos);
  EXPECT_NE(
      with_index([](auto& map) {
        map["new"] = "model-00009-of-00003.safetensors";
      }).find("needs the file 'model-00009-of-00003.safetensors' (for tensor 'new'), which does not exist"),
      std::string::npos);
}

// A disk that is full or fails at any call before the renames leaves the earlier save unchanged, and the
// message says so.
TEST(ModelFolder, FailuresWhileSavingLeaveTheEarlierSave) {
  const Tensors tensors = some_tensors();
  int64_t num_failures = 0;
  for (int64_t call = 0;; ++call) {
    MemoryFileSystem disk;
    write_model(disk, "/m", tensors);
    const std::string before = read_bytes(disk, "/m/model.safetensors");
    FaultyFileSystem files(disk);
    files.fail_from(call, ENOSPC);
    bool renaming = false;
    try {
      write_model(files, "/m", tensors, 150);
      break;
    } catch (const FileError& error) {
      renaming =
          error.operation() == FileOperation::kRename || error.operation() == FileOperation::kSyncFolder;
      EXPECT_TRUE(renaming) << error.what();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kDevice);
      EXPECT_NE(std::string(error.what()).find("the model was not saved to '/m': cannot "),
                std::string::npos);
    }
    ++num_failures;
    EXPECT_NO_THROW(ModelFolder::open(disk, "/m"));
    if (disk.status("/m/model.safetensors")) {
      EXPECT_EQ(read_bytes(disk, "/m/model.safetensors"), before);
    }
    if (!renaming) {
      EXPECT_EQ(names_in(disk, "/m"), "config.json model.safetensors ") << "temporary files are removed";
    }
  }
  EXPECT_GT(num_failures, 20);
}

}  // namespace
}  // namespace plimsoll
