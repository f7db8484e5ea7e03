#include "models/lora.h"

#include <gtest/gtest.h>

#include <string>

#include "base/check.h"
#include "models/config.h"

namespace plimsoll {
namespace {

std::string message_of(const std::string& json, ErrorCode code) {
  try {
    parse_adapter_config(json, "a/adapter_config.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  return "accepted";
}

std::string with(const std::string& settings) {
  return R"({"peft_type": "LORA", )" + settings + "}";
}

TEST(AdapterConfig, IsReadBackAsItWasWritten) {
  AdapterConfig config;
  config.base_model = "bert-base-uncased";
  config.lora = {
      .r = 4, .alpha = 12.5, .dropout = 0.1, .target_modules = {"key", "query"}, .use_rslora = true};
  const std::string written = adapter_config_json(config, "bert");
  const AdapterConfig again = parse_adapter_config(written, "x");
  EXPECT_EQ(adapter_config_json(again, "bert"), written);
  EXPECT_EQ(again.lora.target_modules, config.lora.target_modules);
  EXPECT_EQ(again.lora.alpha, 12.5);
}

// Tests the forms in which PEFT writes a choice of modules or layers: a list, one string for an expression, and one number for one layer.
TEST(AdapterConfig, KeepsWhatIsLeftOut) {
  AdapterConfig config;
  config.lora = {.r = 2,
                 .target_modules = {"query", "value"},
                 .exclude_modules = {"layer.0.attention.self.query"},
                 .layers_to_transform = {0, 3}};
  const AdapterConfig again = parse_adapter_config(adapter_config_json(config, "bert"), "x");
  EXPECT_EQ(again.lora.target_modules, config.lora.target_modules);
  EXPECT_EQ(again.lora.exclude_modules, config.lora.exclude_modules);
  EXPECT_EQ(again.lora.layers_to_transform, config.lora.layers_to_transform);
  const AdapterConfig one =
      parse_adapter_config(with(R"("layers_to_transform": 5, "exclude_modules": ".*key")"), "x");
  EXPECT_EQ(one.lora.layers_to_transform, std::vector<int64_t>{5});
  EXPECT_NE(adapter_config_json(one, "bert").find(R"("exclude_modules": ".*key")"), std::string::npos);
  EXPECT_NE(adapter_config_json({}, "bert").find(R"("exclude_modules": null)"), std::string::npos);
  EXPECT_NE(message_of(with(R"("layers_to_transform": [-1])"), ErrorCode::kBadData).find("numbers of layers"),
            std::string::npos);
  EXPECT_NE(message_of(with(R"("layers_pattern": "blocks")"), ErrorCode::kUsage).find("layers_pattern"),
            std::string::npos);
}

TEST(AdapterConfig, NamesFileKeyAndBothValues) {
  EXPECT_NE(message_of("[]", ErrorCode::kBadData).find("a/adapter_config.json"), std::string::npos);
  EXPECT_NE(message_of(with(R"("r": 1e300)"), ErrorCode::kBadData).find("\"r\" is 1e+300"),
            std::string::npos);
  EXPECT_NE(message_of(with(R"("r": 2.5)"), ErrorCode::kBadData).find("2.5"), std::string::npos);
  EXPECT_NE(message_of(with(R"("lora_dropout": 1)"), ErrorCode::kBadData).find("below 1"), std::string::npos);
  EXPECT_NE(message_of(with(R"("use_dora": true)"), ErrorCode::kUsage).find("use_dora"), std::string::npos);
  EXPECT_NE(message_of(R"({"peft_type": "IA3"})", ErrorCode::kUsage).find("IA3"), std::string::npos);
}

// PEFT ignores the case of some values of init_lora_weights, and recognizes others by their beginning.
TEST(AdapterConfig, ReadsInitialisationsAsPeft) {
  const auto change_of = [](const std::string& value) {
    return parse_adapter_config(with("\"init_lora_weights\": " + value), "x").lora.base_change;
  };
  for (const char* kept : {"true", "false", "null", R"("gaussian")", R"("eva")", R"("orthogonal")",
                           R"("lora_ga")", R"("mica")", R"("MiCA")"}) {
    EXPECT_EQ(change_of(kept), BaseChange::kNone) << kept;
  }
  EXPECT_EQ(change_of(R"("pissa")"), BaseChange::kPissa);
  EXPECT_EQ(change_of(R"("olora")"), BaseChange::kOlora);
  EXPECT_EQ(change_of(R"("OLoRA")"), BaseChange::kOlora);
  for (const char* refused :
       {R"("pissa_niter_4")", R"("pissa_niter_x")", R"("corda")", R"("corda2")", R"("loftq")", R"("LoftQ")",
        R"("PiSSA")", R"("Gaussian")", R"("")", "1", "[]"}) {
    const std::string message =
        message_of(with(std::string("\"init_lora_weights\": ") + refused), ErrorCode::kUsage);
    EXPECT_NE(message.find(std::string("\"init_lora_weights\" is ") + refused), std::string::npos) << message;
  }
}

TEST(AdapterConfig, KeepsTheInitialisationThatChangedTheBase) {
  AdapterConfig config;
  config.lora.base_change = BaseChange::kOlora;
  const std::string written = adapter_config_json(config, "bert");
  EXPECT_NE(written.find(R"("init_lora_weights": "olora")"), std::string::npos) << written;
  EXPECT_EQ(parse_adapter_config(written, "x").lora.base_change, BaseChange::kOlora);
}

TEST(AdapterConfig, KnowsWhatPeftTrainsOtherwise) {
  EXPECT_EQ(parse_adapter_config(with(R"("init_lora_weights": "mica")"), "x").trained_otherwise,
            "init_lora_weights mica");
  EXPECT_EQ(parse_adapter_config(with(R"("velora_config": {})"), "x").trained_otherwise, "velora_config");
  EXPECT_EQ(parse_adapter_config(with(R"("init_lora_weights": "pissa")"), "x").trained_otherwise, "");
  for (const char* key : {"alora_invocation_tokens", "arrow_config", "kasa_config", "monteclora_config"}) {
    const std::string message = message_of(with(fmt::format("\"{}\": {{}}", key)), ErrorCode::kUsage);
    EXPECT_NE(message.find(key), std::string::npos) << message;
  }
}

TEST(AdapterConfig, RefusesWhatWouldExhaustTheStack) {
  const std::string deep = with(R"("bias": )" + std::string(100000, '[') + std::string(100000, ']'));
  EXPECT_NE(message_of(deep, ErrorCode::kBadData).find("nested deeper than 64"), std::string::npos);
}

TEST(AdapterConfig, WritesHugeFactorsAsTheyAre) {
  const AdapterConfig huge = parse_adapter_config(with(R"("lora_alpha": 1e300)"), "x");
  EXPECT_EQ(parse_adapter_config(adapter_config_json(huge, "bert"), "x").lora.alpha, 1e300);
}

// PEFT trains and saves the whole classifier only for the task types SEQ_CLS and TOKEN_CLS. Without a task type the file may state the
// class of the model.
TEST(AdapterConfig, StatesItsTask) {
  const auto head_of_file = [](const std::string& settings) {
    return parse_adapter_config(with(settings), "x");
  };
  for (const HeadKind* kind : {&kSequenceClassificationHead, &kTokenClassificationHead, &kCausalLmHead}) {
    const std::string task(kind->peft_task_type);
    const AdapterConfig config = head_of_file(R"("task_type": ")" + task + R"(")");
    EXPECT_EQ(config.head.kind, kind) << task;
    EXPECT_EQ(config.head.entry, R"("task_type" is ")" + task + R"(")");
    EXPECT_TRUE(config.lora.saves_head);
  }
  const auto of_class = [&](const std::string& name) {
    return head_of_file(R"("task_type": null, "auto_mapping": {"base_model_class": ")" + name + R"("})");
  };
  EXPECT_EQ(of_class("DistilBertForSequenceClassification").head.kind, &kSequenceClassificationHead);
  EXPECT_EQ(of_class("BertForTokenClassification").head.kind, &kTokenClassificationHead);
  EXPECT_EQ(of_class("BertForMaskedLM").head.kind, &kMaskedLmHead);
  EXPECT_EQ(of_class("LlamaForCausalLM").head.kind, &kCausalLmHead);
  EXPECT_EQ(of_class("GPT2LMHeadModel").head.kind, &kCausalLmHead);
  EXPECT_EQ(of_class("BertModel").head.kind, nullptr);
  for (const char* open : {R"("task_type": null)", R"("auto_mapping": null)", R"("auto_mapping": {})",
                           R"("auto_mapping": 3)", R"("task_type": "FEATURE_EXTRACTION")"}) {
    const AdapterConfig config = head_of_file(open);
    EXPECT_EQ(config.head.kind, nullptr) << open;
    EXPECT_FALSE(config.lora.saves_head) << open;
  }
  for (const char* other : {"QUESTION_ANS", "SEQ_2_SEQ_LM", "seq_cls", ""})
    EXPECT_NE(message_of(with(R"("task_type": ")" + std::string(other) + R"(")"), ErrorCode::kUsage)
                  .find("Plimsoll supports SEQ_CLS, TOKEN_CLS, CAUSAL_LM, FEATURE_EXTRACTION and null"),
              std::string::npos);
}

// An adapter without its classifier must be written without a task type, because PEFT would otherwise expect the classifier in it.
TEST(AdapterConfig, IsWrittenWithoutATaskIfItHasNoClassifier) {
  const AdapterConfig config = parse_adapter_config(with(R"("modules_to_save": ["pooler"])"), "x");
  const std::string written = adapter_config_json(config, "bert");
  EXPECT_NE(written.find(R"("task_type": null)"), std::string::npos) << written;
  EXPECT_NE(written.find("\"modules_to_save\": [\n    \"pooler\"\n  ]"), std::string::npos) << written;
  EXPECT_FALSE(parse_adapter_config(written, "x").lora.saves_head);
  EXPECT_FALSE(is_saved_with_adapter("classifier", config.lora));
  EXPECT_FALSE(is_saved_with_adapter("pre_classifier", config.lora));
  EXPECT_TRUE(is_saved_with_adapter("bert.pooler.dense", config.lora));
  const AdapterConfig none = parse_adapter_config(with(R"("modules_to_save": null)"), "x");
  EXPECT_NE(adapter_config_json(none, "bert").find(R"("modules_to_save": null)"), std::string::npos);
  EXPECT_NE(adapter_config_json(none, "gpt2", kCausalLmHead).find(R"("task_type": "CAUSAL_LM")"),
            std::string::npos);
}

// Returns the modules of bert-base-uncased that a regular expression selects, which may come from an untrusted adapter.
std::vector<LoraTarget> targets_of(const std::string& expression) {
  const std::vector<WeightSpec> specs = model_weights(*find_preset("bert-base-uncased"));
  return lora_targets(specs, "bert", {.target_modules = {expression}});
}

TEST(LoraTargets, ExpressionsFitWholeNames) {
  EXPECT_EQ(targets_of(R"(.*\.(query|value))").size(), 24U);
  EXPECT_EQ(targets_of(R"(bert\.encoder\.layer\.[01]\.attention\.self\.key)").size(), 2U);
}

std::vector<std::string> modules_of(const LoraConfig& config, std::string_view preset = "bert-base-uncased") {
  const ModelConfig model = *find_preset(preset);
  std::vector<std::string> names;
  for (const LoraTarget& target : lora_targets(model_weights(model), model.model_type, config))
    names.push_back(target.module);
  return names;
}

std::string refusal_of(const LoraConfig& config) {
  try {
    const std::vector<WeightSpec> specs = model_weights(*find_preset("bert-base-uncased"));
    check_left_out(specs, config);
    lora_targets(specs, "bert", config);
    for (const WeightSpec& spec : specs) is_held_as_loaded(spec, config);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(LoraTargets, LeaveOutWhatIsExcluded) {
  EXPECT_EQ(modules_of({}).size(), 24U);
  EXPECT_EQ(modules_of({.exclude_modules = {"value"}}).size(), 12U);
  EXPECT_EQ(modules_of({.exclude_modules = {"layer.0.attention.self.query", "value"}}).size(), 11U);
  EXPECT_EQ(modules_of({.exclude_modules = {R"(.*layer\.\d\..*)"}}).size(), 4U);
  const size_t all = modules_of({.target_modules = {"all-linear"}}).size();
  EXPECT_EQ(modules_of({.target_modules = {"all-linear"}, .exclude_modules = {"dense"}}).size(), 36U);
  // In addition to the 36 projections of q, k and v, all-linear selects the pooler and three modules per layer.
  EXPECT_EQ(all, 36U + 1 + 3 * 12);
  // An adapter that another program wrote may exclude modules that this model does not have.
  EXPECT_EQ(modules_of({.exclude_modules = {"lm_head"}}).size(), 24U);
}

TEST(LoraTargets, DefaultsAreThoseOfPeft) {
  EXPECT_EQ(modules_of({}, "electra-small-discriminator").size(), 24U);
  EXPECT_TRUE(default_lora_targets("distilbert").empty());
  EXPECT_EQ(modules_of({}, "roberta-base").size(), 24U);
  EXPECT_EQ(modules_of({}, "xlm-roberta-large").size(), 48U);
  EXPECT_TRUE(default_lora_targets("camembert").empty());
  // By default c_attn gets an adapter in each of the 12 layers. all-linear selects three more modules per layer, but not the head.
  EXPECT_EQ(modules_of({}, "gpt2").size(), 12U);
  EXPECT_EQ(modules_of({.target_modules = {"all-linear"}}, "gpt2").size(), 48U);
  // By default q_proj and v_proj get adapters in each layer. all-linear selects seven modules per layer.
  for (const char* name : {"Llama-3.2-1B", "Mistral-7B-v0.3", "Qwen2.5-0.5B", "Qwen3-0.6B"}) {
    const size_t layers = static_cast<size_t>(find_preset(name)->num_hidden_layers);
    EXPECT_EQ(modules_of({}, name).size(), 2 * layers) << name;
    EXPECT_EQ(modules_of({.target_modules = {"all-linear"}}, name).size(), 7 * layers) << name;
  }
}

TEST(LoraTargets, LieInTheLayersThatAreNamed) {
  const std::vector<std::string> two = modules_of({.layers_to_transform = {1, 11}});
  EXPECT_EQ(two,
            (std::vector<std::string>{
                "bert.encoder.layer.1.attention.self.query", "bert.encoder.layer.1.attention.self.value",
                "bert.encoder.layer.11.attention.self.query", "bert.encoder.layer.11.attention.self.value"}));
  EXPECT_EQ(modules_of({.target_modules = {"q_lin"}, .layers_to_transform = {0}}, "distilbert-base-uncased"),
            std::vector<std::string>{"distilbert.transformer.layer.0.attention.q_lin"});
}

// Tests the choice of layers for a BERT of two layers against PEFT 0.21. The layer number of a module is the first number in its name for
// which layers_pattern matches the part of the name before the number: either this whole part, or the end of it that follows a dot.
TEST(LoraTargets, LieInTheLayersOfAPattern) {
  const std::vector<WeightSpec> specs = model_weights(*find_preset("bert-base-uncased"));
  const auto chosen = [&](std::vector<std::string> patterns) {
    const LoraConfig config{
        .target_modules = {"query"}, .layers_to_transform = {1, 3}, .layers_pattern = std::move(patterns)};
    std::vector<std::string> modules;
    try {
      for (const LoraTarget& target : lora_targets(specs, "bert", config)) modules.push_back(target.module);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
    }
    return modules.size();
  };
  EXPECT_EQ(chosen({}), 2u);
  EXPECT_EQ(chosen({"layer"}), 2u);
  EXPECT_EQ(chosen({"lay.r"}), 2u);
  EXPECT_EQ(chosen({"encoder.layer"}), 2u);
  EXPECT_EQ(chosen({"blocks", "layer"}), 2u);
  EXPECT_EQ(chosen({"layers"}), 0u);
  EXPECT_EQ(chosen({"ayer"}), 0u);
  EXPECT_EQ(chosen({"blocks"}), 0u);
}

// PEFT's modules_to_save match the end of a name, without a dot: "classifier" includes DistilBERT's pre_classifier.
TEST(LoraTargets, ModulesAreSavedByTheEndsOfTheirNames) {
  EXPECT_TRUE(is_saved_with_adapter("classifier", {}));
  EXPECT_TRUE(is_saved_with_adapter("pre_classifier", {}));
  EXPECT_TRUE(is_saved_with_adapter("classifier.dense", {}));
  EXPECT_FALSE(is_saved_with_adapter("bert.pooler.dense", {}));
  EXPECT_TRUE(is_saved_with_adapter("bert.pooler.dense", {.modules_to_save = {"pooler"}}));
  EXPECT_TRUE(is_saved_with_adapter("bert.pooler.dense", {.modules_to_save = {"dense"}}));
  EXPECT_FALSE(is_saved_with_adapter("bert.pooler.dense", {.modules_to_save = {"pool"}}));
}

// A module that is trained in full cannot have an adapter as well. PEFT fails unless such a module is excluded.
TEST(LoraTargets, ExcludeWhatIsSavedByItsEnding) {
  const std::vector<WeightSpec> specs = model_weights(*find_preset("distilbert-base-uncased"));
  const auto excluded = [&](std::vector<std::string> targets, std::vector<std::string> given = {}) {
    LoraConfig config{.target_modules = std::move(targets), .exclude_modules = std::move(given)};
    exclude_saved_targets(specs, config);
    for (const LoraTarget& target : lora_targets(specs, "distilbert", config))
      EXPECT_EQ(target.module.find("classifier"), std::string::npos);
    return config.exclude_modules;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(excluded({"q_lin"}), Names{});
  EXPECT_EQ(excluded({"all-linear"}), Names{"pre_classifier"});
  EXPECT_EQ(excluded({".*lin|.*classifier"}), Names{"pre_classifier"});
  EXPECT_EQ(excluded({"all-linear"}, {"lin1"}), (Names{"lin1", "pre_classifier"}));
  EXPECT_EQ(excluded({"all-linear"}, {".*lin1"}), Names{"(?:.*lin1)|pre_classifier"});
  const std::vector<WeightSpec> bert = model_weights(*find_preset("bert-base-uncased"));
  LoraConfig config{.target_modules = {"all-linear"}};
  exclude_saved_targets(bert, config);
  EXPECT_EQ(config.exclude_modules, Names{});
}

// Query, key and value of a layer are one matrix in memory, so modules_to_save must contain all three or none.
TEST(LoraTargets, FusedWeightsAreSavedTogether) {
  std::vector<WeightSpec> specs = model_weights(*find_preset("bert-base-uncased"));
  const LoraConfig all{.target_modules = {"output.dense"}, .modules_to_save = {"query", "key", "value"}};
  EXPECT_NO_THROW(lora_targets(specs, "bert", all));
  const LoraConfig two{.target_modules = {"output.dense"}, .modules_to_save = {"query", "key"}};
  EXPECT_THROW(lora_targets(specs, "bert", two), Error);
}

TEST(LoraTargets, WhatIsLeftOutIsThereAndLeavesSomething) {
  const auto expect_words = [](const LoraConfig& config, const std::vector<std::string>& words) {
    const std::string said = refusal_of(config);
    for (const std::string& word : words) EXPECT_NE(said.find(word), std::string::npos) << said;
  };
  expect_words({.exclude_modules = {"quary"}}, {"--exclude_modules quary", "the nearest names are query"});
  expect_words({.exclude_modules = {"query", "value"}}, {"--exclude_modules", "no module is left"});
  expect_words({.layers_to_transform = {12}}, {"--layers_to_transform 12", "0 to 11"});
  expect_words({.target_modules = {"pooler.dense"}, .layers_to_transform = {0}}, {"no module is left"});
  expect_words({.target_modules = {"all-linear"}, .layers_to_transform = {0}},
               {"--layers_to_transform 0", "suffixes of module names", "all-linear"});
  expect_words({.as_loaded_modules = {"poler"}}, {"--llm_int8_skip_modules poler", "the nearest names are"});
  expect_words({.as_loaded_modules = {"self.query"}}, {"--llm_int8_skip_modules self.query", "all three"});
  for (const char* name : {"classifier", "score", "pooler", "attention.self", "encoder.layer.3"})
    EXPECT_EQ(refusal_of({.as_loaded_modules = {name}}), "accepted") << name;
}

// A user who reads an adapter gave none of its settings, so messages must name the file and its key instead of an argument.
TEST(LoraTargets, SettingsOfAFileAreNamedByTheirKey) {
  const std::string file = "a/adapter_config.json";
  const auto expect_words = [&](LoraConfig config, const std::vector<std::string>& words) {
    config.source = file;
    const std::string said = refusal_of(config);
    EXPECT_TRUE(said.starts_with(file + ": ")) << said;
    EXPECT_EQ(said.find("--"), std::string::npos) << said;
    for (const std::string& word : words) EXPECT_NE(said.find(word), std::string::npos) << said;
  };
  const std::string merge = "merge it in PEFT (merge_and_unload)";
  expect_words({.target_modules = {"lm_head"}}, {"\"target_modules\" contains lm_head", merge});
  expect_words({.target_modules = {"word_embeddings"}}, {"not a linear module", merge});
  expect_words({.target_modules = {"(query"}}, {"\"target_modules\" (query", "regular expression"});
  expect_words({.target_modules = {".*lm_head"}}, {"\"target_modules\" contains .*lm_head", merge});
  expect_words({.modules_to_save = {"lm_head"}}, {"\"modules_to_save\" contains lm_head", merge});
  expect_words({.target_modules = {"output.dense"}, .modules_to_save = {"query"}},
               {"\"modules_to_save\" contains query", "one matrix", merge});
  expect_words({.exclude_modules = {"query", "value"}}, {"\"exclude_modules\"", "that target_modules"});
  expect_words({.exclude_modules = {"(query"}}, {"\"exclude_modules\" (query"});
  expect_words({.target_modules = {"pooler.dense"}, .layers_to_transform = {0}},
               {"\"layers_to_transform\"", "no module is left"});
  expect_words({.target_modules = {"all-linear"}, .layers_to_transform = {0}},
               {"\"layers_to_transform\" contains 0", "target_modules is all-linear"});
  const ModelConfig distilbert = *find_preset("distilbert-base-uncased");
  try {
    lora_targets(model_weights(distilbert), "distilbert", {.source = file});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("--"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(file), std::string::npos) << error.what();
  }
}

TEST(LoraTargets, HostileExpressionsEndSoon) {
  // Each of these expressions would exhaust the time or the stack of a regular-expression matcher that backtracks.
  for (const std::string& expression :
       {std::string("(.*)*(.*)*(.*)*X"), std::string("(([a-z.]+)+)+!"),
        std::string("(a|a|b)*(a{1000}){1000}"), std::string(100000, '('), R"((.*)\1)" + std::string(),
        "\\" + std::string(19, '1'), "a{" + std::string(19, '9') + "}"}) {
    EXPECT_THROW(targets_of(expression), Error) << expression.substr(0, 40);
  }
}

}  // namespace
}  // namespace plimsoll
