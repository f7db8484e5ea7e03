// Test cases of bad input: adapters that are damaged or belong to another model or rank, and commands that
// would lose an adapter.
#include <algorithm>
#include <filesystem>

#include "tests/bad_input/ground.h"

namespace plimsoll::testing {
namespace {

namespace fs = std::filesystem;

// Makes a test case that predicts with a copy of the adapter in which one file is changed.
Case changed(std::string name, int exit_code, Words message,
             std::function<void(const Ground&, const std::string&)> change) {
  return {std::move(name), exit_code, std::move(message), [change = std::move(change)](const Ground& ground) {
            const std::string adapter = ground.adapter_copy();
            change(ground, adapter);
            return ground.predict(adapter);
          }};
}

Case config_replacing(std::string name, int exit_code, Words message, std::string from, std::string to) {
  return changed(
      std::move(name), exit_code, std::move(message),
      [from = std::move(from), to = std::move(to)](const Ground& ground, const std::string& adapter) {
        std::string text = read_file(adapter + "/adapter_config.json");
        replace_first(text, from, to);
        ground.file(fs::path(adapter).filename().string() + "/adapter_config.json", text);
      });
}

Case merge(std::string name, int exit_code, Words message, std::function<Words(const Ground&)> more) {
  return {std::move(name), exit_code, std::move(message), [more = std::move(more)](const Ground& ground) {
            Words words = more(ground);
            words.insert(words.begin(), "merge");
            return words;
          }};
}

// Copies the base model and replaces a part of the names of its tensors.
std::string renamed_base(const Ground& ground, std::string_view from, std::string_view to) {
  return ground.model_with_header([&](std::string& text) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  });
}

std::vector<Case> file_cases() {
  return {
      changed("AdapterGood", 0, {"predict"}, [](const Ground&, const std::string&) {}),
      changed("AdapterCut", 4, {"adapter_model.safetensors"},
              [](const Ground&, const std::string& adapter) {
                const std::string file = adapter + "/adapter_model.safetensors";
                fs::resize_file(file, fs::file_size(file) / 2);
              }),
      changed("AdapterWithoutWeights", 4, {"adapter_model.safetensors"},
              [](const Ground&, const std::string& adapter) {
                fs::remove(adapter + "/adapter_model.safetensors");
              }),
      config_replacing("AdapterNoJson", 4, {"adapter_config.json", "not valid JSON"}, "{", "["),
      config_replacing("AdapterOfAnotherKind", 2, {"adapter_config.json", "\"peft_type\"", "\"LORA\""},
                       "\"LORA\"", "\"IA3\""),
      config_replacing("AdapterDora", 2, {"adapter_config.json", "\"use_dora\""}, "\"use_dora\": false",
                       "\"use_dora\": true"),
      config_replacing("AdapterFlagOfText", 4, {"\"use_rslora\" is \"yes\", but true or false is expected"},
                       "\"use_rslora\": false", "\"use_rslora\": \"yes\""),
      config_replacing("AdapterFlagOfNumber", 4, {"\"use_dora\" is 1, but true or false is expected"},
                       "\"use_dora\": false", "\"use_dora\": 1"),
      config_replacing("AdapterRankOfText", 4, {"\"r\" is \"2\", but a number of at least 1 is expected"},
                       "\"r\": 2", "\"r\": \"2\""),
      config_replacing("AdapterEnormousRank", 4, {"an integer from 1 to 65536 is expected"}, "\"r\": 2",
                       "\"r\": 1000000000"),
      config_replacing("AdapterOfTrainedBiases", 2, {"\"bias\" is \"all\""}, "\"bias\": \"none\"",
                       "\"bias\": \"all\""),
      config_replacing("AdapterOfAnotherRank", 4, {"lora_A.weight", "[2, 16]", "[4, 16]", "rank"}, "\"r\": 2",
                       "\"r\": 4"),
      config_replacing("AdapterNegativeRank", 4, {"adapter_config.json", "\"r\" is -2"}, "\"r\": 2",
                       "\"r\": -2"),
      config_replacing("AdapterNegativeAlpha", 4, {"adapter_config.json", "\"lora_alpha\" is -8"},
                       "\"lora_alpha\": 8", "\"lora_alpha\": -8"),
      config_replacing("AdapterOfOtherModules", 4, {"attention.self.key.lora_A.weight", "is missing"},
                       "\"query\"", "\"key\""),
      config_replacing(
          "AdapterOfUnknownModules", 2,
          {"adapter_config.json: \"target_modules\" contains quary", "the nearest names are query"},
          "\"query\"", "\"quary\""),
      config_replacing("AdapterThatSavesTheEmbeddingsHead", 2,
                       {"adapter_config.json: \"modules_to_save\" contains lm_head", "merge_and_unload"},
                       "\"modules_to_save\": [", "\"modules_to_save\": [\"lm_head\", "),
      config_replacing("AdapterForQuestionAnswering", 2,
                       {"adapter_config.json: \"task_type\" is \"QUESTION_ANS\"", "SEQ_CLS, TOKEN_CLS"},
                       "\"SEQ_CLS\"", "\"QUESTION_ANS\""),
      config_replacing("AdapterInitPissa", 0, {"predict"}, "\"init_lora_weights\": true",
                       "\"init_lora_weights\": \"pissa\""),
      config_replacing("AdapterInitPissaOfRandomNumbers", 2,
                       {"adapter_config.json", "\"init_lora_weights\" is \"pissa_niter_16\"",
                        "random numbers", "path_initial_model_for_weight_conversion"},
                       "\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa_niter_16\""),
      config_replacing("AdapterInitCorda", 2, {"\"corda\"", "activations of the training data"},
                       "\"init_lora_weights\": true", "\"init_lora_weights\": \"corda\""),
      config_replacing("AdapterInitLoftq", 2, {"\"loftq\"", "quantized", "save the merged model"},
                       "\"init_lora_weights\": true", "\"init_lora_weights\": \"loftq\""),
      config_replacing("AdapterInitUnknown", 2, {"\"PiSSA\"", "Plimsoll supports true, false, gaussian"},
                       "\"init_lora_weights\": true", "\"init_lora_weights\": \"PiSSA\""),
      config_replacing("AdapterInitNumber", 2, {"\"init_lora_weights\" is 3"}, "\"init_lora_weights\": true",
                       "\"init_lora_weights\": 3"),
      config_replacing("AdapterKasa", 2, {"\"kasa_config\"", "null"}, "\"use_dora\": false",
                       "\"use_dora\": false, \"kasa_config\": {\"beta\": 0.1}"),
      config_replacing("AdapterActivatedByTokens", 2, {"\"alora_invocation_tokens\" is [1,2]"},
                       "\"use_dora\": false", "\"use_dora\": false, \"alora_invocation_tokens\": [1, 2]"),
      config_replacing("AdapterLayersPatternAlone", 2,
                       {"\"layers_pattern\" is [\"layer\"]", "\"layers_to_transform\""},
                       "\"layers_pattern\": null", "\"layers_pattern\": [\"layer\"]"),
      config_replacing("AdapterLayersPatternOfNoLayer", 2, {"layers_pattern", "blocks", "no module is left"},
                       "\"layers_pattern\": null,\n  \"layers_to_transform\": null",
                       "\"layers_pattern\": \"blocks\",\n  \"layers_to_transform\": [0]"),
      config_replacing("AdapterLayersPatternBroken", 2, {"layers_pattern", "not a valid regular expression"},
                       "\"layers_pattern\": null,\n  \"layers_to_transform\": null",
                       "\"layers_pattern\": \"lay(er\",\n  \"layers_to_transform\": [0]"),
      config_replacing("AdapterLayersPatternNumber", 4, {"\"layers_pattern\" is 3"},
                       "\"layers_pattern\": null", "\"layers_pattern\": 3"),
      config_replacing("AdapterLayersPattern", 0, {"predict"},
                       "\"layers_pattern\": null,\n  \"layers_to_transform\": null",
                       "\"layers_pattern\": \"layer\",\n  \"layers_to_transform\": [0, 1]"),
      config_replacing("AdapterWithoutItsBase", 4, {"/nowhere/"}, "\"base_model_name_or_path\": \"",
                       "\"base_model_name_or_path\": \"/nowhere"),
  };
}

}  // namespace

std::vector<Case> adapter_cases() {
  std::vector<Case> cases = file_cases();
  const auto resume = [](const Ground& ground, const Words& more) {
    const std::string adapter = ground.adapter_copy();
    Words words = ground.train_adapter(adapter, more);
    words.insert(words.end(), {"--max_steps", "3", "--resume_from_checkpoint", adapter + "/checkpoint-2"});
    return words;
  };
  const std::vector<Case> runs{
      {"AdapterThatIsAModel",
       4,
       {"--adapter_name_or_path", "adapter_config.json", "--model_name_or_path"},
       [](const Ground& ground) {
         return ground.train(ground.data(), {"--adapter_name_or_path", ground.model()});
       }},
      {"AdapterOfAnotherModelType",
       4,
       {"adapter_copy", "does not belong to the base model", "'distilbert'", "'bert'"},
       [](const Ground& ground) {
         const std::string adapter = ground.adapter_copy();
         std::string text = read_file(adapter + "/config.json");
         replace_first(text, "\"model_type\": \"bert\"", "\"model_type\": \"distilbert\"");
         ground.file(fs::path(adapter).filename().string() + "/config.json", text);
         Words words = ground.predict(ground.model());
         words.insert(words.end(), {"--adapter_name_or_path", adapter});
         return words;
       }},
      {"AdapterForOtherLabels",
       4,
       {"the head of the adapter", "was trained for", "but the data of this run has 4", "--lora_r"},
       [](const Ground& ground) {
         Words words = ground.train_adapter(ground.path("other_labels"),
                                            {"--adapter_name_or_path", ground.adapter(), "--max_steps", "1"});
         std::ranges::replace(
             words, ground.data(),
             ground.file("four.csv", "sentence,label\nword1,x\nword2,y\nword3,z\nword4,w\n"));
         return words;
       }},
      {"AdapterWithAnotherRank",
       2,
       {"--lora_r 4", "the adapter has 2"},
       [](const Ground& ground) {
         return ground.train(ground.data(), {"--adapter_name_or_path", ground.adapter(), "--lora_r", "4"});
       }},
      {"AdapterForAnotherProblemType",
       2,
       {"trained for sequence classification (\"task_type\" is \"SEQ_CLS\" in its adapter_config.json)",
        "this run is for token classification", "leave --problem_type and --task_name out"},
       [](const Ground& ground) {
         return ground.evaluate(
             ground.model(), ground.data(),
             {"--adapter_name_or_path", ground.adapter(), "--problem_type", "token_classification"});
       }},
      {"AdapterForAnotherTaskName",
       2,
       {"trained for sequence classification", "this run is for token classification"},
       [](const Ground& ground) {
         return ground.train(ground.data(),
                             {"--adapter_name_or_path", ground.adapter(), "--task_name", "ner"});
       }},
      {"AdapterMicaTrainedFurther",
       2,
       {"init_lora_weights mica", "not train it further", "Merge it"},
       [](const Ground& ground) {
         const std::string adapter = ground.adapter_copy();
         std::string text = read_file(adapter + "/adapter_config.json");
         replace_first(text, "\"init_lora_weights\": true", "\"init_lora_weights\": \"mica\"");
         ground.file(fs::path(adapter).filename().string() + "/adapter_config.json", text);
         return ground.train(ground.data(), {"--adapter_name_or_path", adapter});
       }},
      {"AdapterWithoutAModuleThatItTrains",
       4,
       {"'base_model.model.classifier.bias' is missing",
        "the adapter was saved without it, as old versions of PEFT did", "modules_to_save"},
       [](const Ground& ground) {
         const std::string adapter = ground.adapter_copy();
         std::string text = read_file(adapter + "/adapter_model.safetensors");
         replace_first(text, "classifier.bias", "classifier.bixs");
         ground.file(fs::path(adapter).filename().string() + "/adapter_model.safetensors", text);
         return ground.evaluate(ground.model(), ground.data(), {"--adapter_name_or_path", adapter});
       }},
      {"AdapterPissaOnAQuantizedBase",
       2,
       {"--load_in_4bit", "initialised with pissa", "like PEFT", "leave the setting out", "plimsoll merge"},
       [](const Ground& ground) {
         const std::string adapter = ground.adapter_copy();
         std::string text = read_file(adapter + "/adapter_config.json");
         replace_first(text, "\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"");
         ground.file(fs::path(adapter).filename().string() + "/adapter_config.json", text);
         return ground.train(ground.data(), {"--adapter_name_or_path", adapter, "--load_in_4bit"});
       }},
      {"AdapterOverItsBase",
       2,
       {"--output_dir", "the folder of the base model", "choose another folder for the adapter"},
       [](const Ground& ground) {
         const std::string base = ground.model_with("", "");
         return Words{"train",
                      "--model_name_or_path",
                      base,
                      "--train_file",
                      ground.data(),
                      "--output_dir",
                      base,
                      "--num_threads",
                      "1",
                      "--lora_r",
                      "2"};
       }},
      {"AdapterResumed",
       0,
       {"checkpoint-2", "wrote"},
       [resume](const Ground& ground) {
         return resume(ground, {"--lora_r", "2"});
       }},
      {"AdapterResumedWithAnotherRank",
       4,
       {"checkpoint-2", "lora_A.weight", "[2, 16]", "[3, 16]"},
       [resume](const Ground& ground) {
         return resume(ground, {"--lora_r", "3"});
       }},
      {"AdapterResumedAsAModel",
       4,
       {"checkpoint-2", "--lora_r"},
       [resume](const Ground& ground) { return resume(ground, {}); }},
      merge("MergeGood", 0, {"2 adapted modules merged", "2 tensors"},
            [](const Ground& ground) {
              return Words{"--adapter", ground.adapter(), "--output_dir", ground.path("new/merged")};
            }),
      merge("MergeWithTensorsOfNoModule", 4,
            {"attention.self.value.lora_A.weight' belongs to no module of this model"},
            [](const Ground& ground) {
              const std::string adapter = ground.adapter_copy();
              std::string text = read_file(adapter + "/adapter_config.json");
              replace_first(text, "\"exclude_modules\": null", "\"exclude_modules\": [\"value\"]");
              ground.file(fs::path(adapter).filename().string() + "/adapter_config.json", text);
              return Words{"--adapter", adapter, "--output_dir", ground.path("merged_part")};
            }),
      merge("MergeOfNoFolder", 4, {"nowhere"},
            [](const Ground& ground) {
              return Words{"--adapter", ground.path("nowhere"), "--output_dir", ground.path("merged")};
            }),
      merge("MergeOfAModel", 4, {"adapter_config.json", "a complete model already"},
            [](const Ground& ground) {
              return Words{"--adapter", ground.model(), "--output_dir", ground.path("merged")};
            }),
      merge("MergeIntoAFile", 2, {"--output_dir", "train.tsv is not a folder", "choose another"},
            [](const Ground& ground) {
              return Words{"--adapter", ground.adapter(), "--output_dir", ground.data()};
            }),
      merge("MergeWithABaseOfWhichNothingFits", 4,
            {"0 of its 25 tensors fit this model", "'thing.embeddings.", "the model needs 'bert.embeddings."},
            [](const Ground& ground) {
              return Words{"--adapter",
                           ground.adapter(),
                           "--model_name_or_path",
                           renamed_base(ground, "\"bert.", "\"thing."),
                           "--output_dir",
                           ground.path("merged")};
            }),
      merge("MergeWithABaseWithoutPooler", 4,
            {"1 of the 23 tensors that this model needs are missing", "'bert.pooler.dense.bias'",
             "adapter does not contain them either", "'bert.pooler.dense' in its modules_to_save"},
            [](const Ground& ground) {
              return Words{"--adapter",
                           ground.adapter(),
                           "--model_name_or_path",
                           renamed_base(ground, "\"bert.pooler.dense.bias", "\"bert.cooler.dense.bias"),
                           "--output_dir",
                           ground.path("merged")};
            }),
      merge("MergeWithAWrappedBase", 0, {"2 adapted modules merged"},
            [](const Ground& ground) {
              return Words{"--adapter",
                           ground.adapter(),
                           "--model_name_or_path",
                           renamed_base(ground, "\"bert.", "\"_orig_mod.bert."),
                           "--output_dir",
                           ground.path("wrapped")};
            }),
      {"AdapterWithABaseWithoutPooler",
       4,
       {"1 of the 23 tensors that this model needs are missing", "'bert.pooler.dense.bias'",
        "adapter does not contain them either", "random numbers",
        "'bert.pooler.dense' in its modules_to_save"},
       [](const Ground& ground) {
         Words predict =
             ground.predict(renamed_base(ground, "\"bert.pooler.dense.bias", "\"bert.cooler.dense.bias"));
         predict.insert(predict.end(), {"--adapter_name_or_path", ground.adapter()});
         return predict;
       }},
      {"AdapterTrainedFurtherWithABaseWithoutPooler",
       4,
       {"1 of the 23 tensors that this model needs are missing", "'bert.pooler.dense.bias'"},
       [](const Ground& ground) {
         Words train = ground.train(ground.data(), {"--adapter_name_or_path", ground.adapter()});
         train[2] = renamed_base(ground, "\"bert.pooler.dense.bias", "\"bert.cooler.dense.bias");
         return train;
       }},
      merge("MergeWithoutFolder", 2, {"--output_dir"},
            [](const Ground& ground) {
              return Words{"--adapter", ground.adapter()};
            }),
      merge("MergeUnknownOption", 2, {"--adaptor", "--adapter"},
            [](const Ground& ground) {
              return Words{"--adaptor", ground.adapter()};
            }),
      merge("MergeOverTheAdapter", 2, {"--output_dir", "the folder of the adapter"},
            [](const Ground& ground) {
              return Words{"--adapter", ground.adapter(), "--output_dir", ground.adapter() + "/"};
            }),
      merge("MergeOverTheBase", 2, {"--output_dir", "the folder of the base model"},
            [](const Ground& ground) {
              return Words{"--adapter", ground.adapter(), "--output_dir", ground.model()};
            }),
      merge("MergeOverAModel", 2,
            {"--output_dir", "it already contains a model (",
             "replace the old one with --overwrite_output_dir"},
            [](const Ground& ground) {
              return Words{"--adapter", ground.adapter(), "--output_dir", ground.model_with("", "")};
            }),
      merge("MergeOverAModelThatMayBeReplaced", 0, {"2 adapted modules merged"},
            [](const Ground& ground) {
              return Words{"--adapter", ground.adapter(), "--overwrite_output_dir", "--output_dir",
                           ground.model_with("", "")};
            }),
      merge("MergeHelp", 0, {"usage: plimsoll merge --adapter DIR", "--overwrite_output_dir "},
            [](const Ground& ground) {
              return Words{"--adapter", ground.adapter(), "--help"};
            }),
      merge("MergeCut", 4, {"adapter_model.safetensors"},
            [](const Ground& ground) {
              const std::string adapter = ground.adapter_copy();
              fs::resize_file(adapter + "/adapter_model.safetensors", 100);
              return Words{"--adapter", adapter, "--output_dir", ground.path("merged")};
            }),
  };
  cases.insert(cases.end(), runs.begin(), runs.end());
  return cases;
}

}  // namespace plimsoll::testing
