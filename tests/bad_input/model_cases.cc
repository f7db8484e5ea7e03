// Test cases of bad input: weights, configurations and tokenizers that are damaged, malicious or belong to
// another model.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

// Returns the content of a safetensors file with this JSON header, followed by `data_bytes` bytes of data.
std::string safetensors(const std::string& header, size_t data_bytes, uint64_t claimed = 0) {
  const uint64_t length = claimed == 0 ? header.size() : claimed;
  std::string text(sizeof length, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text + header + std::string(data_bytes, '\0');
}

Case weights(std::string name, int exit_code, Words words, std::string text) {
  return {std::move(name), exit_code, std::move(words), [text = std::move(text)](const Ground& ground) {
            return ground.predict(ground.model_with("model.safetensors", text));
          }};
}

// Makes a test case with a copy of the model in which the last numbers of the weight file are NaN. `command` is eval or predict.
Case not_finite(std::string name, std::string command) {
  return {std::move(name),
          5,
          {"the logits of row 1 of", "are not finite", "NaN"},
          [command = std::move(command)](const Ground& ground) {
            std::string text = read_file(ground.model() + "/model.safetensors");
            std::fill(text.end() - 64, text.end(), '\xFF');
            const std::string model = ground.model_with("model.safetensors", text);
            return command == "eval" ? ground.evaluate(model, ground.data(), {}) : ground.predict(model);
          }};
}

Case header(std::string name, int exit_code, Words words, std::string from, std::string to) {
  return {std::move(name), exit_code, std::move(words),
          [from = std::move(from), to = std::move(to)](const Ground& ground) {
            return ground.predict(
                ground.model_with_header([&](std::string& text) { replace_first(text, from, to); }));
          }};
}

enum class Use : uint8_t { kPredict, kTrain };

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Makes a test case with a copy of the model in which all tensors are renamed: the prefix `from` of every name becomes `to`. If `one` is
// not empty, the first occurrence of `one` in the header of the weight file is replaced by `other` before that.
Case renamed(std::string name, int exit_code, Words words, Use use, std::string from, std::string to,
             std::string one = "", std::string other = "") {
  return {std::move(name), exit_code, std::move(words), [=](const Ground& ground) {
            const std::string model = ground.model_with_header([&](std::string& text) {
              if (!one.empty()) replace_first(text, one, other);
              // In the JSON header of the weight file, a tensor name follows either the first brace, or the
              // comma after the previous tensor.
              for (const std::string_view before : {"{", "},"}) {
                const std::string start(before);
                replace_all(text, start + from, start + to);
              }
              // The loop above has also changed these keys of the header, which are not tensor names, so they
              // are changed back.
              for (const std::string_view key : {"dtype", "__metadata__", "format"})
                replace_all(text, to + std::string(key), "\"" + std::string(key));
            });
            if (use == Use::kPredict) return ground.predict(model);
            Words train = ground.train(ground.data());
            train[2] = model;
            return train;
          }};
}

Case config(std::string name, int exit_code, Words words, std::string text) {
  return {std::move(name), exit_code, std::move(words), [text = std::move(text)](const Ground& ground) {
            return ground.plan(ground.model_with("config.json", text));
          }};
}

Case config_value(std::string name, Words words, std::string from, std::string to) {
  return {std::move(name), 4, std::move(words), [from, to](const Ground& ground) {
            return ground.plan(ground.model_replacing("config.json", from, to));
          }};
}

Case tokenizer(std::string name, Words words, std::string file, std::string text) {
  return {std::move(name), 4, std::move(words),
          [file = std::move(file), text = std::move(text)](const Ground& ground) {
            return ground.tokenize(ground.model_with(file, text));
          }};
}

// Returns the text of a tokenizer.json whose vocabulary consists of these entries.
std::string tokenizer_json(const std::string& entries) {
  return "{\"normalizer\": {\"type\": \"BertNormalizer\", \"clean_text\": true, \"handle_chinese_chars\": "
         "true, "
         "\"strip_accents\": null, \"lowercase\": true}, \"pre_tokenizer\": {\"type\": "
         "\"BertPreTokenizer\"}, "
         "\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"continuing_subword_prefix\": "
         "\"##\", "
         "\"max_input_chars_per_word\": 100, \"vocab\": {" +
         entries + "}}}";
}

// Returns a copy of the model with a tokenizer.json that has this template for single texts, and a template for pairs
// in which the second text has the token type 2.
std::string with_template(const Ground& ground, const std::string& single) {
  const std::string model =
      ground.model_with("tokenizer_config.json", "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}");
  std::string json = tokenizer_json("\"[UNK]\": 0, \"word1\": 1");
  json.insert(1, R"("post_processor": {"type": "TemplateProcessing", "special_tokens": {}, "single": )" +
                     single +
                     R"(, "pair": [{"Sequence": {"id": "A", "type_id": 0}},
                                   {"Sequence": {"id": "B", "type_id": 2}}]}, )");
  std::ofstream(model + "/tokenizer.json", std::ios::binary) << json;
  return model;
}

constexpr const char* kPairs = "sentence1,sentence2,label\nword1,word2,0\nword3,word4,1\n";

// Makes a test case that plans or trains on pairs of texts with a model that has only the token type 0.
Case one_type(std::string name, std::string command, Words more) {
  return {
      std::move(name),
      4,
      {"pairs.csv: each row is a pair of texts", "token type 1", "type_vocab_size 1", "--text_column_names"},
      [command = std::move(command), more = std::move(more)](const Ground& ground) {
        Words words = {command,
                       "--config_name",
                       ground.path("scratch"),
                       "--tokenizer_name",
                       ground.path("scratch"),
                       "--config_overrides",
                       "type_vocab_size=1",
                       "--train_file",
                       ground.file("pairs.csv", kPairs),
                       "--output_dir",
                       ground.path("typed")};
        words.insert(words.end(), more.begin(), more.end());
        return words;
      }};
}

// Makes a test case that uses a trained model with a tokenizer that assigns the token type 2, which the model does not have.
Case third_type(std::string name, std::string command, std::string file_argument) {
  return {std::move(name),
          4,
          {"pairs.csv: each row is a pair of texts", "token type 2", "type_vocab_size 2"},
          [command = std::move(command), file_argument = std::move(file_argument)](const Ground& ground) {
            return Words{command,
                         "--model_name_or_path",
                         with_template(ground, R"([{"Sequence": {"id": "A", "type_id": 0}}])"),
                         file_argument,
                         ground.file("pairs.csv", kPairs),
                         "--text_column_names",
                         "sentence1,sentence2",
                         "--output_dir",
                         ground.path("typed")};
          }};
}

// Makes a test case with a model folder whose weights are only in the file `weights`, which Plimsoll does not read.
Case weights_of_another_program(std::string name, std::string first_words, std::string remedy,
                                std::string weights) {
  return {std::move(name),
          4,
          {"it has no model.safetensors", std::move(first_words), std::move(remedy)},
          [weights = std::move(weights)](const Ground& ground) {
            const std::string copy = ground.model_without("model.safetensors");
            std::filesystem::copy_file(ground.data(), copy + "/" + weights);
            return ground.predict(copy);
          }};
}

}  // namespace

std::vector<Case> weight_cases() {
  const std::string bias = "\"classifier.bias\":{";
  return {
      {"WeightsGood",
       0,
       {"wrote 8 predictions"},
       [](const Ground& ground) { return ground.predict(ground.model()); }},
      weights("WeightsEmpty", 4, {"model.safetensors", "0 bytes"}, ""),
      weights("WeightsFiveBytes", 4, {"model.safetensors", "5 bytes"}, "12345"),
      weights("WeightsHeaderOf4GB", 4, {"model.safetensors", "4294967295"},
              safetensors("{}", 100, 4294967295u)),
      weights("WeightsHeaderOf2To63", 4, {"model.safetensors"}, safetensors("{}", 100, uint64_t{1} << 63)),
      weights("WeightsHeaderLongerThanFile", 4, {"model.safetensors", "1008"}, safetensors("{}", 10, 1000)),
      weights("WeightsHeaderOfBinary", 4, {"model.safetensors"}, safetensors(std::string(64, '\xff'), 0)),
      weights("WeightsHeaderNoObject", 4, {"model.safetensors", "object"}, safetensors("[1, 2]", 0)),
      weights("WeightsHeaderDeep", 4, {"model.safetensors", "line 1", "'a'"},
              safetensors("{\"a\": " + std::string(100000, '[') + std::string(100000, ']') + "}", 0)),
      // These weight files are in another format: written by torch.save (a plain pickle or a zip file), or the
      // result of a failed download.
      weights("WeightsPickle", 4, {"model.safetensors", "Python pickle", "convert it"},
              std::string("\x80\x02}q\x01(X\x05\0\0\0alphaq\x02K\x01u.", 20) + std::string(100, 'z')),
      weights("WeightsZip", 4, {"model.safetensors", "zip archive", "convert it"},
              std::string("PK\x03\x04\0\0\x08\x08\0\0archive/data.pkl", 26) + std::string(100, 'z')),
      weights("WeightsWebPage", 4, {"model.safetensors", "web page", "download it again"},
              "<!DOCTYPE html><html><body>404 Not Found</body></html>"),
      weights("WeightsLfsPointer", 4, {"model.safetensors", "Git LFS pointer", "git lfs pull"},
              "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n"),
      {"WeightsTruncated",
       4,
       {"model.safetensors", "tensor 'classifier.weight' takes bytes", "incomplete", "expected size"},
       [](const Ground& ground) {
         std::string text = read_file(ground.model() + "/model.safetensors");
         text.resize(text.size() - 100);
         return ground.predict(ground.model_with("model.safetensors", text));
       }},
      {"WeightsTrailing",
       4,
       {"model.safetensors", "7 more bytes follow"},
       [](const Ground& ground) {
         return ground.predict(ground.model_with(
             "model.safetensors", read_file(ground.model() + "/model.safetensors") + "1234567"));
       }},
      weights("WeightsOverlapping", 4, {"overlap", "'b' begins at data byte 4", "'a' ends at byte 8"},
              safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                          "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}",
                          12)),
      weights("WeightsHole", 4, {"gap", "'b' begins at data byte 8", "'a' ends at byte 4"},
              safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                          "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
                          12)),
      weights("WeightsShapeOverflows", 4, {"overflows", "'a'"},
              safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4611686018427387904],"
                          "\"data_offsets\":[0,4]}}",
                          4)),
      weights("WeightsNegativeShape", 4, {"'a'", "-2"},
              safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8)),
      weights("WeightsEndBeforeBegin", 4, {"'a'", "before its start"},
              safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8)),
      weights("WeightsSameNameTwice", 4, {"'a'", "twice"},
              safetensors("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                          "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                          8)),
      header("WeightsUnknownType", 4, {"F33"}, "\"F32\"", "\"F33\""),
      header("WeightsIntegerType", 4, {"(at byte ", "I32", "save the model"}, "\"F32\"", "\"I32\""),
      header("WeightsWrongSpan", 4, {"classifier.bias", "shape [3]", "12 bytes", "span 8"}, "\"shape\":[2]",
             "\"shape\":[3]"),
      header("WeightsMissingTensor", 4,
             {"1 of the 25 tensors that this model needs are missing: 'classifier.bias'", "random numbers"},
             "classifier.bias", "classifier.gone"),
      renamed("WeightsCompiled", 0, {"'_orig_mod.bert.", "is read as"}, Use::kPredict, "\"", "\"_orig_mod."),
      renamed("WeightsOfDataParallel", 0, {"'module.bert."}, Use::kPredict, "\"", "\"module."),
      renamed("WeightsOfLightning", 0, {"'model.bert."}, Use::kPredict, "\"", "\"model."),
      renamed("WeightsOfFsdp", 0, {"._fsdp_wrapped_module."}, Use::kPredict, "\"bert.encoder.layer.",
              "\"bert.encoder.layer._fsdp_wrapped_module."),
      renamed("WeightsOfSentenceTransformers", 0, {"'0.auto_model.", "is read as 'e"}, Use::kPredict,
              "\"bert.", "\"0.auto_model."),
      renamed("WeightsOfRoberta", 4,
              {"2 of its 25 tensors fit this model, and none of the encoder", "'roberta.",
               "'bert.embeddings.word_embeddings.weight'", "train the model first"},
              Use::kPredict, "\"bert.", "\"roberta."),
      renamed("WeightsOfNothing", 4, {"0 of its 25 tensors fit this model", "the model needs"}, Use::kPredict,
              "\"", "\"thing."),
      renamed("WeightsOfNothingForTraining", 4,
              {"0 of its 25 tensors fit this model", "--config_name", "--tokenizer_name"}, Use::kTrain, "\"",
              "\"thing."),
      renamed("WeightsTwiceUnderAWrapper", 4, {"have the same name", "'model.classifier.bias'"},
              Use::kPredict, "\"bert.", "\"model.bert.", "\"classifier.weight\"",
              "\"model.classifier.bias\""),
      {"WeightsOfHalfAModel",
       4,
       {"16 of the 41 tensors that this model needs are missing",
        "'bert.encoder.layer.1.attention.self.query.weight'"},
       [](const Ground& ground) {
         return ground.predict(
             ground.model_replacing("config.json", "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2"));
       }},
      {"WeightsNoneForEvaluation",
       2,
       {"--config_name", "no trained weights", "--model_name_or_path", "--dataset_name dummy"},
       [](const Ground& ground) {
         Words words = ground.evaluate("", ground.data(), {"--tokenizer_name", ground.path("scratch")});
         words[1] = "--config_name";
         words[2] = ground.path("scratch");
         return words;
       }},
      not_finite("WeightsOfNanForEvaluation", "eval"),
      not_finite("WeightsOfNanForPrediction", "predict"),
      {"WeightsAtRandomForRandomRows",
       0,
       {"eval_loss"},
       [](const Ground& ground) {
         return Words{"eval",
                      "--config_name",
                      ground.path("scratch"),
                      "--dataset_name",
                      "dummy",
                      "--dummy_num_samples",
                      "4",
                      "--output_dir",
                      ground.path("random_rows")};
       }},
      {"WeightsOfAnotherShape",
       4,
       {"intermediate.dense", "[64, 16]", "[32, 16]", "--ignore_mismatched_sizes"},
       [](const Ground& ground) {
         return ground.predict(
             ground.model_replacing("config.json", "\"intermediate_size\": 32", "\"intermediate_size\": 64"));
       }},
      {"WeightsNotThere",
       4,
       {"model.safetensors"},
       [](const Ground& ground) { return ground.predict(ground.model_without("model.safetensors")); }},
      {"WeightsOnlyPickled",
       4,
       {"pytorch_model.bin", "safetensors"},
       [](const Ground& ground) {
         const std::string copy = ground.model_without("model.safetensors");
         std::filesystem::copy_file(ground.data(), copy + "/pytorch_model.bin");
         return ground.predict(copy);
       }},
      weights_of_another_program("WeightsInACheckpointOfLightning", "only last.ckpt", "PyTorch Lightning",
                                 "last.ckpt"),
      weights_of_another_program("WeightsOfPyTorch", "only model.pt (a PyTorch pickle file)",
                                 "weights_only=True", "model.pt"),
      weights_of_another_program("WeightsOfOnnx", "only model.onnx", "from which it was exported",
                                 "model.onnx"),
      weights_of_another_program("WeightsOfLlamaCpp", "only model-q8_0.gguf", "gguf_file", "model-q8_0.gguf"),
      weights_of_another_program("WeightsOfTensorFlow", "only tf_model.h5", "transformers 4", "tf_model.h5"),
      weights_of_another_program("WeightsInAnOtherwiseNamedFile", "only weights.safetensors", "Rename it",
                                 "weights.safetensors"),
      weights_of_another_program("WeightsInShardsWithoutAnIndex", "only model-00001-of-00002.safetensors",
                                 "model.safetensors.index.json", "model-00001-of-00002.safetensors"),
      {"WeightsInAFolderInside",
       4,
       {"only a model in the folder 0_Transformer", "Give this path instead"},
       [](const Ground& ground) {
         const std::string inner = ground.model_with("", "");
         const std::string folder = ground.path("model_inside");
         std::filesystem::create_directories(folder);
         std::filesystem::rename(inner, folder + "/0_Transformer");
         return ground.predict(folder);
       }},
      {"WeightsAndConfigOfAnotherProgram",
       4,
       {"it has no config.json and no model.safetensors, only model.gguf"},
       [](const Ground& ground) {
         std::filesystem::create_directories(ground.path("only_gguf"));
         ground.file("only_gguf/model.gguf", "GGUF");
         return ground.predict(ground.path("only_gguf"));
       }},
      {"WeightsIndexNamesNoFile",
       4,
       {"model-00001-of-00001.safetensors"},
       [](const Ground& ground) {
         const std::string copy =
             ground.model_with("model.safetensors.index.json",
                               "{\"metadata\": {}, \"weight_map\": {\"classifier.bias\": "
                               "\"model-00001-of-00001.safetensors\"}}");
         std::filesystem::remove(copy + "/model.safetensors");
         return ground.predict(copy);
       }},
      {"WeightsIndexLeavesTheFolder",
       4,
       {"../"},
       [](const Ground& ground) {
         const std::string copy =
             ground.model_with("model.safetensors.index.json",
                               "{\"weight_map\": {\"classifier.bias\": \"../model/model.safetensors\"}}");
         std::filesystem::remove(copy + "/model.safetensors");
         return ground.predict(copy);
       }},
  };
}

namespace {

// Makes a test case with a model whose configuration names an unknown architecture (t5). `weights` is the name of
// its weight file; if it is empty, the model has no weights.
Case foreign_model(std::string name, std::string command, std::string weights) {
  return {std::move(name),
          2,
          {"config.json: model_type is 't5'; this version trains"},
          [command = std::move(command), weights = std::move(weights)](const Ground& ground) {
            const std::string copy =
                ground.model_replacing("config.json", "\"model_type\": \"bert\"", "\"model_type\": \"t5\"");
            std::filesystem::remove(copy + "/model.safetensors");
            if (!weights.empty()) std::filesystem::copy_file(ground.data(), copy + "/" + weights);
            Words words =
                command == "predict" ? ground.predict(copy) : Words{command, "--model_name_or_path", copy};
            if (command == "train")
              words.insert(words.end(), {"--train_file", ground.data(), "--output_dir", ground.path("t5")});
            if (command == "generate") words.insert(words.end(), {"--prompt_file", ground.data()});
            return words;
          }};
}

}  // namespace

std::vector<Case> config_cases() {
  return {
      {"ConfigGood", 0, {"weights"}, [](const Ground& ground) { return ground.plan(ground.model()); }},
      config("ConfigEmpty", 4, {"config.json"}, ""),
      config("ConfigNoObject", 4, {"config.json", "object"}, "[]"),
      config("ConfigCutOff", 4, {"config.json", "line 2"}, "{\"model_type\": \"bert\",\n\"hidden_size\": "),
      config("ConfigDeep", 4, {"config.json", "line 1, column 2"}, std::string(200000, '{')),
      config(
          "ConfigDeepArrays", 4, {"config.json", "nest"},
          "{\"model_type\": \"bert\", \"x\": " + std::string(100000, '[') + std::string(100000, ']') + "}"),
      config("ConfigNaN", 4, {"config.json"}, "{\"model_type\": \"bert\", \"layer_norm_eps\": NaN}"),
      foreign_model("ConfigOfT5WithoutWeights", "predict", ""),
      foreign_model("ConfigOfT5WithAPickle", "train", "pytorch_model.bin"),
      foreign_model("ConfigOfT5ToGenerate", "generate", "pytorch_model.bin"),
      config("ConfigWithoutType", 2, {"config.json", "model_type"}, "{\"hidden_size\": 16}"),
      {"ConfigUnknownType",
       2,
       {"gpt7", "this version trains bert, camembert, distilbert"},
       [](const Ground& ground) {
         return ground.plan(ground.model_replacing("config.json", "\"bert\"", "\"gpt7\""));
       }},
      config_value("ConfigTextForNumber", {"config.json", "hidden_size"}, "\"hidden_size\": 16",
                   "\"hidden_size\": \"16\""),
      config_value("ConfigFractionForNumber", {"config.json", "hidden_size"}, "\"hidden_size\": 16",
                   "\"hidden_size\": 16.5"),
      config_value("ConfigNegative", {"config.json", "vocab_size", "-112"}, "\"vocab_size\": 112",
                   "\"vocab_size\": -112"),
      config_value("ConfigZeroLayers", {"config.json", "num_hidden_layers"}, "\"num_hidden_layers\": 1",
                   "\"num_hidden_layers\": 0"),
      config_value("ConfigEnormous", {"config.json", "hidden_size"}, "\"hidden_size\": 16",
                   "\"hidden_size\": 9223372036854775806"),
      config_value("ConfigEnormousProduct", {"config.json", "intermediate_size"}, "\"intermediate_size\": 32",
                   "\"intermediate_size\": 4611686018427387904"),
      config_value("ConfigBeyond64Bits", {"config.json", "vocab_size"}, "\"vocab_size\": 112",
                   "\"vocab_size\": 184467440737095516160"),
      config_value("ConfigHeadsDoNotDivide", {"16", "3", "num_attention_heads"}, "\"num_attention_heads\": 2",
                   "\"num_attention_heads\": 3"),
      {"ConfigUnknownActivation",
       2,
       {"config.json", "'swish9'", "gelu_new"},
       [](const Ground& ground) {
         return ground.plan(
             ground.model_replacing("config.json", "\"hidden_act\": \"gelu\"", "\"hidden_act\": \"swish9\""));
       }},
      {"ConfigDecoder",
       2,
       {"config.json", "is_decoder is true", "as an encoder"},
       [](const Ground& ground) {
         return ground.plan(ground.model_replacing("config.json", "\"model_type\": \"bert\"",
                                                   "\"model_type\": \"bert\", \"is_decoder\": true"));
       }},
      config("ConfigRobertaWithoutPadding", 4, {"config.json", "pad_token_id is null", "'roberta'"},
             R"({"model_type": "roberta", "pad_token_id": null})"),
      config("ConfigRobertaWithoutPositions", 4,
             {"config.json", "max_position_embeddings is 2", "pad_token_id + 1 = 2", "no position"},
             R"({"model_type": "roberta", "max_position_embeddings": 2})"),
      config("ConfigXlmRobertaPaddingOutside", 4, {"config.json", "pad_token_id is 40000"},
             R"({"model_type": "xlm-roberta", "pad_token_id": 40000})"),
      config("ConfigCamembertDecoder", 2, {"config.json", "is_decoder is true"},
             R"({"model_type": "camembert", "is_decoder": true})"),
      config("ConfigRobertaRelativePositions", 2, {"config.json", "position_embedding_type"},
             R"({"model_type": "roberta", "position_embedding_type": "relative_key_query"})"),
      config("ConfigXlmRobertaXl", 2, {"model_type is 'xlm-roberta-xl'", "this version trains"},
             R"({"model_type": "xlm-roberta-xl"})"),
      {"ConfigRelativePositions",
       2,
       {"config.json", "position_embedding_type is 'relative_key'", "'absolute'"},
       [](const Ground& ground) {
         return ground.plan(ground.model_replacing(
             "config.json", "\"model_type\": \"bert\"",
             "\"model_type\": \"bert\", \"position_embedding_type\": \"relative_key\""));
       }},
      config_value("ConfigDropoutAboveOne", {"config.json", "hidden dropout is 1.5"},
                   "\"hidden_dropout_prob\": 0.1", "\"hidden_dropout_prob\": 1.5"),
      config_value("ConfigNegativeRange", {"config.json", "initializer_range is -1"},
                   "\"initializer_range\": 0.02", "\"initializer_range\": -1"),
      {"ConfigPrunedHeads",
       2,
       {"config.json", "pruned_heads names attention heads"},
       [](const Ground& ground) {
         return ground.plan(
             ground.model_replacing("config.json", "\"hidden_dropout_prob\": 0.1",
                                    "\"hidden_dropout_prob\": 0.1, \"pruned_heads\": {\"0\": [1]}"));
       }},
      config_value("ConfigSameKeyTwice", {"config.json", "'hidden_size' occurs twice"}, "\"hidden_size\": 16",
                   "\"hidden_size\": 16, \"hidden_size\": 16"),
      {"ConfigNotThere",
       4,
       {"config.json"},
       [](const Ground& ground) { return ground.plan(ground.model_without("config.json")); }},
      {"ConfigInvalidUtf8",
       4,
       {"config.json"},
       [](const Ground& ground) {
         return ground.plan(
             ground.model_replacing("config.json", "\"model_type\"", "\"\xff\xfe\": 1, \"model_type\""));
       }},
  };
}

std::vector<Case> tokenizer_cases() {
  return {
      {"TokenizerGood", 0, {"\"ids\""}, [](const Ground& ground) { return ground.tokenize(ground.model()); }},
      {"TokenizedLineIsNotUtf8",
       4,
       {"{\"ids\": [", "latin.txt:2: byte 0xE9 at byte 3 of the line is not valid UTF-8", "iconv -f LATIN1"},
       [](const Ground& ground) {
         return Words{"tokenize", "--tokenizer_name", ground.model(),
                      ground.file("latin.txt", "word1\ncaf\xe9 word2\nword3\n")};
       }},
      {"TokenizerNotThere",
       4,
       {"vocab.txt", "tokenizer.json"},
       [](const Ground& ground) { return ground.tokenize(ground.model_without("vocab.txt")); }},
      {"TokenizerNameIsAFile",
       4,
       {"--tokenizer_name '",
        "vocab.txt' is a file; a tokenizer is a folder with tokenizer.json or vocab.txt", "/model'?"},
       [](const Ground& ground) { return ground.tokenize(ground.model() + "/vocab.txt"); }},
      {"TokenizerNameNowhere",
       4,
       {"plimsoll download nodir", "use --tokenizer_name ./nodir"},
       [](const Ground& ground) { return ground.tokenize("nodir"); }},
      tokenizer("TokenizerEmptyVocabulary", {"vocab.txt"}, "vocab.txt", ""),
      tokenizer("TokenizerWithoutUnknown", {"vocab.txt", "[UNK]"}, "vocab.txt",
                "[PAD]\n[CLS]\n[SEP]\nword\n"),
      tokenizer("TokenizerBadUtf8", {"vocab.txt:6"}, "vocab.txt",
                "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nab\xff\xfe\n"),
      tokenizer("TokenizerJsonCutOff", {"tokenizer.json"}, "tokenizer.json", "{\"model\": {\"type\": "),
      tokenizer("TokenizerJsonDeep", {"tokenizer.json", "nested deeper than 256 levels"}, "tokenizer.json",
                std::string(100000, '[')),
      tokenizer("TokenizerJsonOtherModel", {"tokenizer.json", "'Charm'", "WordPiece, BPE, Unigram"},
                "tokenizer.json", "{\"model\": {\"type\": \"Charm\", \"vocab\": {}, \"merges\": []}}"),
      tokenizer("TokenizerJsonNoTokens", {"tokenizer.json", "model.vocab has no tokens"}, "tokenizer.json",
                "{\"model\": {\"type\": \"BPE\", \"vocab\": {}, \"merges\": []}}"),
      tokenizer("TokenizerJsonMergeWithoutPart", {"tokenizer.json", "model.merges[1]", "does not have 'c'"},
                "tokenizer.json",
                "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": "
                "[\"a b\", \"ab c\"]}}"),
      tokenizer("TokenizerJsonScoreIsText",
                {"tokenizer.json", "model.vocab[1]", "the score of 'a' should be a number"}, "tokenizer.json",
                "{\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<unk>\", 0.0], [\"a\", "
                "\"-1\"]]}}"),
      {"TokenizerMergesLine",
       4,
       {"merges.txt:3: the line 'a' should be two tokens with one space between them"},
       [](const Ground& ground) {
         const std::string model =
             ground.model_with("tokenizer_config.json", "{\"tokenizer_class\": \"GPT2Tokenizer\"}");
         std::ofstream(model + "/vocab.json") << "{\"a\": 0, \"b\": 1, \"ab\": 2}";
         std::ofstream(model + "/merges.txt") << "#version: 0.2\na b\na\n";
         return ground.tokenize(model);
       }},
      tokenizer("TokenizerJsonDeepClosed", {"tokenizer.json"}, "tokenizer.json",
                std::string(100000, '[') + std::string(100000, ']')),
      tokenizer("TokenizerJsonDuplicateIds", {"tokenizer.json", "'b'", "id 1"}, "tokenizer.json",
                tokenizer_json("\"[UNK]\": 0, \"a\": 1, \"b\": 1")),
      tokenizer("TokenizerJsonNegativeId", {"tokenizer.json", "-1"}, "tokenizer.json",
                tokenizer_json("\"[UNK]\": 0, \"a\": -1")),
      tokenizer("TokenizerJsonFractionalId", {"tokenizer.json", "model.vocab.a", "integer"}, "tokenizer.json",
                tokenizer_json("\"[UNK]\": 0, \"a\": 1.5")),
      tokenizer("TokenizerJsonNumberBeyondTypes",
                {"tokenizer.json: line ", "expected a number of at most 1.8e308, got '1E606'"},
                "tokenizer.json", tokenizer_json("\"[UNK]\": 0, \"a\": 1E606")),
      tokenizer("TokenizerConfigCutOff", {"tokenizer_config.json"}, "tokenizer_config.json", "{\"do_lower"),
      tokenizer("TokenizerConfigWrongType", {"tokenizer_config.json", "do_lower_case"},
                "tokenizer_config.json", "{\"do_lower_case\": 7}"),
      tokenizer("TokenizerConfigForeignClass",
                {"tokenizer_config.json: tokenizer_class is 'BertJapaneseTokenizer'",
                 "vocab.txt is a vocabulary for BERT's WordPiece"},
                "tokenizer_config.json", "{\"tokenizer_class\": \"BertJapaneseTokenizer\"}"),
      {"ConfigForeignTokenizerClass",
       4,
       {"config.json: tokenizer_class is 'BertweetTokenizer'",
        "vocab.txt is a vocabulary for BERT's WordPiece"},
       [](const Ground& ground) {
         const std::string model =
             ground.model_replacing("config.json", "{", "{\"tokenizer_class\": \"BertweetTokenizer\",");
         std::filesystem::remove(model + "/tokenizer_config.json");
         return ground.predict(model);
       }},
      {"TokenizerJsonForeignClass",
       4,
       {"tokenizer_class is 'HerbertTokenizer'", "splits texts in its own way", "PreTrainedTokenizerFast"},
       [](const Ground& ground) {
         const std::string model =
             ground.model_with("tokenizer_config.json", "{\"tokenizer_class\": \"HerbertTokenizer\"}");
         std::ofstream(model + "/tokenizer.json") << tokenizer_json("\"[UNK]\": 0");
         return ground.tokenize(model);
       }},
      one_type("TypesBeyondTableTrain", "train", {}),
      one_type("TypesBeyondTableDryRun", "train", {"--dry_run"}),
      one_type("TypesBeyondTablePlan", "plan", {}),
      third_type("TypesBeyondTableEval", "eval", "--validation_file"),
      third_type("TypesBeyondTablePredict", "predict", "--test_file"),
      {"TypeBeyondTableSingle",
       4,
       {"the tokenizer encodes a text with the token type 2", "type_vocab_size 2"},
       [](const Ground& ground) {
         return ground.predict(with_template(ground, R"([{"Sequence": {"id": "A", "type_id": 2}}])"));
       }},
      {"TypeBeyondBytes",
       4,
       {"post_processor.single.Sequence.type_id is 300", "0 to 255"},
       [](const Ground& ground) {
         return ground.predict(with_template(ground, R"([{"Sequence": {"id": "A", "type_id": 300}}])"));
       }},
      {"TemplateRepeatsText",
       4,
       {"train.tsv:2: ", "more than once", "post_processor"},
       [](const Ground& ground) {
         Words words = ground.predict(with_template(
             ground,
             R"([{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 1}}])"));
         words.insert(words.end(), {"--max_seq_length", "1"});
         return words;
       }},
      {"TextWithoutTokens",
       4,
       {"blank.csv:3: the text gives no token", "remove the row"},
       [](const Ground& ground) {
         return Words{"predict",
                      "--model_name_or_path",
                      with_template(ground, R"([{"Sequence": {"id": "A", "type_id": 0}}])"),
                      "--test_file",
                      ground.file("blank.csv", "text\nword1\n\"\"\n"),
                      "--output_dir",
                      ground.path("blank")};
       }},
      {"TokenizerLargerThanModel",
       4,
       {"the id 112", "vocab_size is 112", "Take the tokenizer"},
       [](const Ground& ground) {
         return ground.predict(ground.model_with(
             "vocab.txt", read_file(ground.model() + "/vocab.txt") + "x1\nx2\nx3\nx4\nx5\nx6\n"));
       }},
  };
}

}  // namespace plimsoll::testing
