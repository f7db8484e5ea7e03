// Tests tokenizers whose folder consists of several files, including contradictory and invalid ones.
#include <gtest/gtest.h>

#include <filesystem>

#include "io/text/testing/tokenizer_fixtures.h"

namespace plimsoll::text {
namespace {

constexpr const char* kVocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\n##lo\nhel\n";

TokenizerFiles vocab_files() {
  TokenizerFiles files;
  files.folder = "folder";
  files.vocab_txt = kVocab;
  return files;
}

TokenizerFiles json_files(const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json document = nlohmann::json::parse(read_fixture("bert/tokenizer.json"));
  change(document);
  TokenizerFiles files;
  files.folder = "folder";
  files.tokenizer_json = document.dump();
  return files;
}

std::string message_of(const TokenizerFiles& files) {
  return error_message([&] { Tokenizer(parse_tokenizer_files(files)).encode("hello"); }, ErrorCode::kBadData);
}

TEST(VocabTxtTest, IdsAreLineNumbersAndTrailingSpaceIsCut) {
  const auto vocab = parse_vocab_txt("a\r\nb \t\n\n\u3000c\u3000\u00A0\na", "vocab.txt");
  const std::vector<std::pair<std::string, int32_t>> want = {{"b", 1}, {"", 2}, {"\u3000c", 3}, {"a", 4}};
  EXPECT_EQ(vocab, want);
}

TEST(TokenizerFolderTest, VocabTxtAloneIsUncasedBert) {
  const Tokenizer tokenizer(parse_tokenizer_files(vocab_files()));
  EXPECT_EQ(tokenizer.encode_pair("HELLO", "[MASK] hello").ids, (std::vector<int32_t>{2, 5, 3, 4, 5, 3}));
  EXPECT_EQ(tokenizer.encode_pair("a", "b").type_ids, (std::vector<int32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(tokenizer.vocab_size(), 8);
  EXPECT_EQ(tokenizer.model_max_length(), std::nullopt);
  EXPECT_TRUE(tokenizer.lowercase());
}

// Returns the files of a tokenizer whose tokens are [UNK], a, b, X and Y, and which splits texts at blanks.
TokenizerFiles word_files(const char* padding, const char* config) {
  TokenizerFiles files;
  files.folder = "folder";
  files.tokenizer_json =
      std::string(R"({"version": "1.0", "added_tokens": [], "normalizer": null, "padding": )") + padding +
      R"(, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null, "model": {
      "type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 2, "X": 3, "Y": 4}, "unk_token": "[UNK]"}})";
  files.tokenizer_config = std::string(R"({"tokenizer_class": "PreTrainedTokenizerFast", )") + config + "}";
  return files;
}

// The expected values are those of transformers 5.24. A token to which a file gives a special role is found within words, and is left out
// of decoded texts if special tokens are.
TEST(TokenizerFolderTest, TokensWithOtherRolesAreSpecial) {
  constexpr const char* kPadding = R"({"strategy": "BatchLongest", "direction": "Right", "pad_id": 3,
      "pad_type_id": 0, "pad_to_multiple_of": null, "pad_token": "X"})";
  const std::pair<const char*, const char*> cases[] = {
      {kPadding, R"("bos_token": null)"},
      {"null", R"("image_token": "X")"},
      {"null", R"("model_specific_special_tokens": {"image_token": "X"})"},
      {"null", R"("additional_special_tokens": ["X"])"},
      {"null", R"("additional_special_tokens": ["Y"], "extra_special_tokens": ["X"])"}};
  for (const auto& [padding, config] : cases) {
    const Tokenizer tokenizer(parse_tokenizer_files(word_files(padding, config)));
    EXPECT_EQ(tokenizer.encode("aXb aYb").ids, (std::vector<int32_t>{1, 3, 2, 0})) << config;
    EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{1, 3, 2}, {.skip_special_tokens = true}), "a b")
        << config;
    EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{1, 4, 2}, {.skip_special_tokens = true}), "a Y b")
        << config;
  }
  // A token that the vocabulary lacks gets the next id.
  const Tokenizer added(parse_tokenizer_files(word_files("null", R"("image_token": "<img>")")));
  EXPECT_EQ(added.encode("a <img> b").ids, (std::vector<int32_t>{1, 5, 2}));
}

// Creates the tokenizer files of one case in folders.json, in the same way as make_folder_fixtures.py.
TokenizerFiles files_of_case(const nlohmann::json& c) {
  TokenizerFiles files = json_files([&](nlohmann::json& document) {
    document["normalizer"].update(c.at("normalizer"));
    if (c.contains("change")) document.update(c["change"]);
    if (c.contains("change_model")) document["model"].update(c["change_model"]);
    nlohmann::json& vocab = document["model"]["vocab"];
    for (const auto& token : c.value("without", nlohmann::json::array())) {
      const auto free = vocab.at(token.get<std::string>());
      vocab.erase(token.get<std::string>());
      auto last = vocab.begin();
      for (auto entry = vocab.begin(); entry != vocab.end(); ++entry) {
        if (entry->get<int>() > last->get<int>()) last = entry;
      }
      *last = free;
    }
  });
  const auto file = [&](const char* key) {
    return c.contains(key) && !c[key].is_null() ? std::optional(c[key].dump()) : std::nullopt;
  };
  files.tokenizer_config = file("config");
  files.model_config = file("model");
  files.special_tokens_map = file("special_tokens_map");
  files.added_tokens = file("added_tokens");
  return files;
}

// For a case in which transformers 4.57 and 5.24 give different results, returns the version that Plimsoll must equal. Returns "" for all
// other cases.
std::string version_where_they_differ(const std::string& name) {
  // In these cases Plimsoll must equal 5.24: 4.57 does not set the option clean_text, and does not replace the three tokenizer classes in
  // the list below by a generic class, as 5.24 does.
  if (name.starts_with("no_clean.") && name.find(".generic") == std::string::npos) return "5.24";
  for (const char* generic : {"ConvBert", "RetriBert", "Realm"}) {
    if (name.find(generic) != std::string::npos) return "5.24";
  }
  // An additional special token that tokenizer.json marks as not special: 4.57 splits it, 5.24 does not.
  if (name == "generic.split_plain_extra") return "5.24";
  // In these cases transformers 5.24 replaces the model's options or the template in tokenizer.json by its own. Plimsoll uses what the file
  // contains, as transformers 4.57 does.
  for (const char* rebuilt :
       {"bert.cls_role", "bert.sep_role", "bert.long_words", "bert.unk_role", "bert.unk_in_model"}) {
    if (name == rebuilt) return "4.57";
  }
  return {};
}

// Compares the tokenizer with the recorded results of one version of transformers for the same folder.
void expect_results(const std::string& name, const Tokenizer& tokenizer, const nlohmann::json& want,
                    const std::vector<std::string>& texts) {
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(tokenizer.encode(texts[i]).ids, want.at("ids")[i].get<std::vector<int32_t>>())
        << name << ": " << texts[i];
  }
  EXPECT_EQ(tokenizer.vocab_size(), want.at("size").get<int64_t>()) << name;
  EXPECT_EQ(tokenizer.model_max_length().value_or(1000000000000), want.at("model_max_length").get<int64_t>())
      << name;
  EXPECT_EQ(tokenizer.padding_side() == TextSide::kLeft, want.at("padding_side") == "left") << name;
  EXPECT_EQ(tokenizer.truncation_side() == TextSide::kLeft, want.at("truncation_side") == "left") << name;
  const SpecialTokenIds& ids = tokenizer.special_ids();
  const std::map<std::string, std::optional<int32_t>> roles = {{"pad_token", ids.pad},
                                                               {"unk_token", ids.unk},
                                                               {"cls_token", ids.cls},
                                                               {"sep_token", ids.sep},
                                                               {"mask_token", ids.mask}};
  for (const auto& [role, id] : roles) {
    const nlohmann::json& expected = want.at("roles").at(role);
    if (!expected.is_null()) {
      EXPECT_EQ(id, expected.get<int32_t>()) << name << ": " << role;
    }
  }
}

TEST(TokenizerFolderTest, FilesThatDisagreeAsInBothVersionsOfTransformers) {
  const nlohmann::json fixture = read_json_fixture("folders.json");
  const auto texts = fixture.at("texts").get<std::vector<std::string>>();
  size_t num_equal = 0, num_flags = 0, num_without_types = 0;
  for (const auto& [name, c] : fixture.at("cases").items()) {
    const nlohmann::json &older = c.at("results").at("4.57"), &newer = c.at("results").at("5.24");
    const bool differ = !older.contains("error") && !newer.contains("error") &&
                        (older["ids"] != newer["ids"] || older["size"] != newer["size"]);
    const std::string version = version_where_they_differ(name);
    EXPECT_EQ(differ, !version.empty()) << name;
    const Tokenizer tokenizer(parse_tokenizer_files(files_of_case(c)));
    for (const auto& [number, want] : c.at("results").items()) {
      if (want.contains("error") || (differ && number != version)) continue;
      expect_results(name, tokenizer, want, texts);
    }
    // The generic classes of transformers 5.24 return no token types. If transformers 4.57 returns none either, all of Plimsoll's must be
    // zero.
    const bool no_types =
        older.value("pair", nlohmann::json()).is_null() && newer.value("pair", nlohmann::json()).is_null();
    const auto types = tokenizer.encode_pair(texts[4], texts[0]).type_ids;
    if (!older.contains("error") && name != "model_type.distilbert") {
      const auto expected = older["pair"].is_null() ? std::vector<int32_t>(types.size(), 0)
                                                    : older["pair"].get<std::vector<int32_t>>();
      if (!differ || version == "4.57") {
        EXPECT_EQ(types, expected) << name;
      }
      num_without_types += no_types;
    }
    num_equal += !differ;
    num_flags += c.size() == 4;
  }
  EXPECT_GT(num_equal, 150u);
  EXPECT_GT(num_flags, 66u);
  EXPECT_GT(num_without_types, 3u);
}

// When Plimsoll saves a model, it writes the class of the tokenizer into tokenizer_config.json. This test checks that the files give the
// same tokenizer with this class as without it.
TEST(TokenizerFolderTest, TheStatedClassKeepsTheTokenizer) {
  const nlohmann::json fixture = read_json_fixture("folders.json");
  for (const auto& [name, c] : fixture.at("cases").items()) {
    TokenizerFiles files = files_of_case(c);
    const Tokenizer tokenizer(parse_tokenizer_files(files));
    nlohmann::json config = c.at("config").is_null() ? nlohmann::json::object() : c.at("config");
    config["tokenizer_class"] = tokenizer.transformers_class();
    files.tokenizer_config = config.dump();
    for (const char* model : {R"({"model_type": "bert"})", R"({"model_type": "distilbert"})", "{}"}) {
      files.model_config = model;
      EXPECT_EQ(Tokenizer(parse_tokenizer_files(files)).content_hash(), tokenizer.content_hash())
          << name << model;
    }
  }
}

TEST(TokenizerFolderTest, AFolderWithoutConfigJsonTakesTheClassOfItsModel) {
  TokenizerFiles files =
      json_files([](nlohmann::json& document) { document["normalizer"]["lowercase"] = false; });
  EXPECT_FALSE(Tokenizer(parse_tokenizer_files(files)).lowercase());
  files.model_type = "bert";
  EXPECT_TRUE(Tokenizer(parse_tokenizer_files(files)).lowercase());
  files.model_type = "not a model of BERT's";
  EXPECT_FALSE(Tokenizer(parse_tokenizer_files(files)).lowercase());
}

TEST(TokenizerFolderTest, EveryClassOfTheFamilyReadsVocabTxt) {
  for (const char* name :
       {"Bert", "DistilBert", "Electra", "MobileBert", "SqueezeBert", "Lxmert", "LayoutLM", "ConvBert",
        "RetriBert", "Realm", "DPRContextEncoder", "DPRQuestionEncoder", "DPRReader"}) {
    for (const char* end : {"Tokenizer", "TokenizerFast"}) {
      TokenizerFiles files = vocab_files();
      files.tokenizer_config = fmt::format(R"({{"tokenizer_class": "{}{}"}})", name, end);
      EXPECT_EQ(Tokenizer(parse_tokenizer_files(files)).encode("HELLO").ids, (std::vector<int32_t>{2, 5, 3}))
          << name;
    }
  }
}

// The expected texts were made with BertTokenizer of transformers 5.24 and this vocab.txt. A TokenStream must return the same
// texts piece by piece.
TEST(TokenizerFolderTest, VocabTxtDecodesAsTransformersDo) {
  TokenizerFiles files;
  files.folder = "f";
  files.vocab_txt =
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n##ing\nrun\n##s\n.\n!\n?\ndon\n'\nt\n##n\nit\ns\n,"
      "\n##.\n##r\n"
      "we\n##ve\n";
  struct Case {
    std::vector<int32_t> ids;
    std::string whole;
    std::string without_special;
  };
  const std::vector<Case> cases = {
      {{2, 5, 6, 3}, "[CLS] hello world [SEP]", "hello world"},
      {{8, 16, 7}, "running", "running"},
      {{7, 5}, "##ing hello", "##ing hello"},
      {{7, 7}, "##inging", "##inging"},
      {{5, 19, 6, 10}, "hello, world.", "hello, world."},
      {{13, 14, 15, 8}, "don ' t run", "don ' t run"},
      {{17, 14, 18, 12}, "it ' s?", "it ' s?"},
      {{22, 14, 23, 11}, "we 've!", "we 've!"},
      {{5, 20, 21}, "hello.r", "hello.r"},
      {{2, 3}, "[CLS] [SEP]", ""},
      {{1, 5}, "[UNK] hello", "hello"},
      {{10, 11, 5, 4, 6}, ".! hello [MASK] world", ".! hello world"},
      {{0, 8, 9, 0}, "[PAD] runs [PAD]", "runs"},
  };
  for (const char* type : {"bert", "distilbert", "electra"}) {
    files.model_type = type;
    const Tokenizer tokenizer(parse_tokenizer_files(files));
    for (const Case& each : cases) {
      EXPECT_EQ(tokenizer.decode(each.ids, {.skip_special_tokens = false}), each.whole) << type;
      EXPECT_EQ(tokenizer.decode(each.ids, {.skip_special_tokens = true}), each.without_special) << type;
      // Divides the ids into a context and the ids that are pushed, at every position. The text of the context and the results
      // must together be the text of all ids.
      for (size_t begin = 0; begin <= each.ids.size(); ++begin) {
        const std::span<const int32_t> context(each.ids.data(), begin);
        TokenStream stream(tokenizer, {.skip_special_tokens = true}, context);
        std::string text = tokenizer.decode(context, {.skip_special_tokens = true});
        for (size_t i = begin; i < each.ids.size(); ++i) text += stream.push(each.ids[i]);
        EXPECT_EQ(text + stream.finish(), each.without_special) << type << " after " << begin;
      }
    }
  }
}

TEST(TokenizerFolderTest, RefusesAClassThatSplitsInItsOwnWay) {
  for (const char* name :
       {"BertJapaneseTokenizer", "HerbertTokenizerFast", "BertweetTokenizer", "RobertaTokenizer",
        "XLMRobertaTokenizerFast", "CanineTokenizer", "BertTokenizerLegacy"}) {
    for (const char* file : {"config.json", "tokenizer_config.json"}) {
      for (const bool vocab_txt : {false, true}) {
        TokenizerFiles files = vocab_txt ? vocab_files() : json_files([](nlohmann::json&) {});
        const std::string text = fmt::format(R"({{"model_type": "bert", "tokenizer_class": "{}"}})", name);
        (std::string(file) == "config.json" ? files.model_config : files.tokenizer_config) = text;
        const std::string message = message_of(files);
        EXPECT_NE(message.find(fmt::format("folder/{}: tokenizer_class is '{}'", file, name)),
                  std::string::npos)
            << message;
      }
    }
  }
}

TEST(TokenizerFolderTest, ConfigWinsOverTokenizerJson) {
  TokenizerFiles files = json_files([](nlohmann::json&) {});
  files.tokenizer_config =
      R"({"tokenizer_class": "BertTokenizer", "do_lower_case": false, "model_max_length": 1000000000000000019884624838656, "truncation_side": "left",
          "padding_side": "left", "additional_special_tokens": ["<new>"]})";
  const Tokenizer tokenizer(parse_tokenizer_files(files));
  EXPECT_FALSE(tokenizer.lowercase());
  EXPECT_EQ(tokenizer.model_max_length(), std::nullopt);
  EXPECT_EQ(tokenizer.truncation_side(), TextSide::kLeft);
  EXPECT_EQ(tokenizer.padding_side(), TextSide::kLeft);
  EXPECT_EQ(tokenizer.id("<new>"), tokenizer.max_id());
  EXPECT_EQ(tokenizer.encode("a<new>b", {.special_tokens = SpecialTokens::kOmit}).ids[1], tokenizer.max_id());
}

TEST(TokenizerFolderTest, OlderFilesCountWhereTheNewerFieldIsMissing) {
  TokenizerFiles files = vocab_files();
  *files.vocab_txt += "<s>\n</s>\n";
  files.special_tokens_map = R"({"cls_token": {"content": "<s>", "lstrip": true}, "sep_token": "</s>"})";
  files.added_tokens = R"({"extra word": 10})";
  const Tokenizer tokenizer(parse_tokenizer_files(files));
  EXPECT_EQ(tokenizer.special_ids().cls, 8);
  EXPECT_EQ(tokenizer.encode("Extra Word").ids, (std::vector<int32_t>{8, 10, 9}));
  ASSERT_EQ(tokenizer.added_tokens().back().content, "extra word");
  EXPECT_TRUE(tokenizer.added_tokens().back().normalized);
  files.tokenizer_config = R"({"added_tokens_decoder": {}})";
  EXPECT_EQ(Tokenizer(parse_tokenizer_files(files)).special_ids().cls, 2);
}

TEST(TokenizerFolderTest, SplitSpecialTokensLeavesThemInTheText) {
  TokenizerFiles files = vocab_files();
  files.tokenizer_config = R"({"split_special_tokens": true})";
  EXPECT_EQ(Tokenizer(parse_tokenizer_files(files)).encode("[SEP]").ids,
            (std::vector<int32_t>{2, 1, 1, 1, 3}));
}

TEST(TokenizerFolderTest, TruncationFieldsAreADefaultOnly) {
  const auto files = json_files([](nlohmann::json& document) {
    document["truncation"] = {
        {"max_length", 4}, {"strategy", "OnlyFirst"}, {"stride", 0}, {"direction", "Left"}};
  });
  const Tokenizer tokenizer(parse_tokenizer_files(files));
  ASSERT_TRUE(tokenizer.truncation_default());
  EXPECT_EQ(tokenizer.truncation_default()->max_length, 4);
  EXPECT_EQ(tokenizer.truncation_default()->strategy, Truncation::kOnlyFirst);
  EXPECT_EQ(tokenizer.truncation_side(), TextSide::kLeft);
  EXPECT_EQ(tokenizer.encode("a b c d e f").ids.size(), 8u);
}

TEST(TokenizerFolderTest, BertProcessingIsATemplate) {
  const auto files = json_files([](nlohmann::json& document) {
    document["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}};
  });
  const Tokenizer want = make_tokenizer("uncased");
  const Tokenizer got(parse_tokenizer_files(files));
  EXPECT_EQ(got.encode_pair("hello", "world").ids, want.encode_pair("hello", "world").ids);
  EXPECT_EQ(got.encode_pair("hello", "world").type_ids, want.encode_pair("hello", "world").type_ids);
  EXPECT_EQ(got.content_hash(), want.content_hash());
}

// An invalid folder, and a text that the error message must contain.
struct BadFolder {
  std::string name;
  std::function<TokenizerFiles()> files;
  std::string message;
};

BadFolder bad_json(const std::string& name, std::function<void(nlohmann::json&)> change,
                   const std::string& message) {
  return {name, [change = std::move(change)] { return json_files(change); }, message};
}

BadFolder bad_text(const std::string& name, std::optional<std::string> TokenizerFiles::*file,
                   std::string text, const std::string& message) {
  return {name,
          [file, text = std::move(text)] {
            TokenizerFiles files = vocab_files();
            files.*file = text;
            return files;
          },
          message};
}

std::vector<BadFolder> bad_folders() {
  using J = nlohmann::json;
  constexpr auto kJson = &TokenizerFiles::tokenizer_json;
  constexpr auto kVocabFile = &TokenizerFiles::vocab_txt;
  constexpr auto kConfig = &TokenizerFiles::tokenizer_config;
  constexpr auto kMap = &TokenizerFiles::special_tokens_map;
  constexpr auto kAdded = &TokenizerFiles::added_tokens;
  const std::string deep(1000000, '[');
  return {
      bad_text("empty_json", kJson, "", "folder/tokenizer.json: line 1, column 1: not valid JSON"),
      bad_text("truncated_json", kJson, "{\"version\": \"1.0\",\n\"model\": {", "line 2"),
      bad_text("deep_json", kJson, deep, "nested deeper than 256 levels"),
      bad_text("deep_balanced_json", kJson, "{\"a\":" + deep + std::string(deep.size(), ']') + "}",
               "nested deeper than 256 levels"),
      bad_text("nan_json", kJson, "{\"model\": NaN}", ": not valid JSON"),
      bad_text("invalid_utf8_json", kJson, "{\"model\": \"\xFF\"}", ": not valid JSON"),
      bad_text("array_json", kJson, "[]", "should be an object but is of type array"),
      bad_json(
          "version", [](J& d) { d["version"] = "2.0"; }, "version is '2.0'"),
      bad_json(
          "bpe", [](J& d) { d["model"]["type"] = "BPE"; }, "model.merges is missing"),
      bad_json(
          "model_type", [](J& d) { d["model"]["type"] = "Charm"; },
          "model.type is 'Charm'. Plimsoll has the models WordPiece, BPE, Unigram and WordLevel"),
      bad_json(
          "no_model", [](J& d) { d.erase("model"); }, "model is missing"),
      bad_json(
          "no_vocab", [](J& d) { d["model"].erase("vocab"); }, "model.vocab is missing"),
      bad_json(
          "vocab_array", [](J& d) { d["model"]["vocab"] = J::array(); }, "model.vocab should be an object"),
      bad_json(
          "no_unk", [](J& d) { d["model"]["vocab"].erase("[UNK]"); }, "not '[UNK]'"),
      bad_json(
          "unk_number", [](J& d) { d["model"]["unk_token"] = 3; },
          "model.unk_token should be a string but is of type number"),
      bad_json(
          "id_text", [](J& d) { d["model"]["vocab"]["x"] = "1"; }, "model.vocab.x should be an integer"),
      bad_json(
          "id_fraction", [](J& d) { d["model"]["vocab"]["x"] = 1.5; }, "model.vocab.x should be an integer"),
      bad_json(
          "id_negative", [](J& d) { d["model"]["vocab"]["x"] = -1; }, "id -1 is outside"),
      bad_json(
          "id_huge", [](J& d) { d["model"]["vocab"]["x"] = 4294967296u * 4; }, "is outside 0 to"),
      bad_json(
          "id_immense", [](J& d) { d["model"]["vocab"]["x"] = 18446744073709551615u; }, "too large"),
      bad_json(
          "id_null", [](J& d) { d["model"]["vocab"]["x"] = nullptr; }, "model.vocab.x is missing"),
      bad_json(
          "max_chars_negative", [](J& d) { d["model"]["max_input_chars_per_word"] = -1; }, "is -1"),
      bad_json(
          "normalizer",
          [](J& d) {
            d["normalizer"] = {{"type", "Unknown"}};
          },
          "normalizer.type is 'Unknown', a normalizer that Plimsoll does not have"),
      bad_json(
          "normalizer_in_sequence",
          [](J& d) {
            d["normalizer"] = {{"type", "Sequence"},
                               {"normalizers", {{{"type", "NFC"}}, {{"type", "Unknown"}}}}};
          },
          "normalizer.normalizers[1].type is 'Unknown'"),
      bad_json(
          "normalizer_list",
          [](J& d) {
            d["normalizer"] = {{"type", "Sequence"}};
          },
          "normalizer.normalizers is missing"),
      bad_json(
          "normalizer_list_of_numbers",
          [](J& d) {
            d["normalizer"] = {{"type", "Sequence"}, {"normalizers", {1, 2}}};
          },
          "normalizer.normalizers[0] should be an object"),
      bad_json(
          "normalizer_deep",
          [](J& d) {
            J step = {{"type", "NFC"}};
            for (int i = 0; i < 100; ++i) step = {{"type", "Sequence"}, {"normalizers", J::array({step})}};
            d["normalizer"] = step;
          },
          "is nested more than 32 times"),
      bad_json(
          "strip_flag",
          [](J& d) {
            d["normalizer"] = {{"type", "Strip"}, {"strip_left", true}};
          },
          "normalizer.strip_right is missing"),
      bad_json(
          "charsmap_absent",
          [](J& d) {
            d["normalizer"] = {{"type", "Precompiled"}};
          },
          "normalizer.precompiled_charsmap is not the base64"),
      bad_json(
          "charsmap_no_base64",
          [](J& d) {
            d["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "a*=="}};
          },
          "normalizer.precompiled_charsmap is not the base64"),
      bad_json(
          "charsmap_cut",
          [](J& d) {
            d["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAEAAAAA"}};
          },
          "normalizer.precompiled_charsmap is not the base64"),
      bad_json(
          "growth",
          [](J& d) {
            J steps = J::array();
            for (int i = 0; i < 12; ++i) {
              steps.push_back(
                  {{"type", "Replace"}, {"pattern", {{"String", "l"}}}, {"content", "llllllllll"}});
            }
            d["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
          },
          "the normalizers and pre-tokenizers turn a text of"),
      bad_json(
          "replace_pattern",
          [](J& d) {
            d["normalizer"] = {{"type", "Replace"}, {"content", "x"}};
          },
          "normalizer.pattern should be one \"String\" or one \"Regex\""),
      bad_json(
          "replace_regex",
          [](J& d) {
            d["normalizer"] = {{"type", "Replace"}, {"pattern", {{"Regex", "a(b"}}}, {"content", "x"}};
          },
          "normalizer.pattern.Regex: the regular expression has a group that is not closed"),
      bad_json(
          "pre_tokenizer",
          [](J& d) {
            d["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
          },
          "pre_tokenizer.type is 'UnicodeScripts', a pre-tokenizer that Plimsoll does not have"),
      bad_json(
          "delimiter",
          [](J& d) {
            d["pre_tokenizer"] = {{"type", "CharDelimiterSplit"}, {"delimiter", "ab"}};
          },
          "pre_tokenizer.delimiter is 'ab' but should be one character"),
      bad_json(
          "behavior",
          [](J& d) {
            d["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Kept"}};
          },
          "pre_tokenizer.behavior is 'Kept' but should be Removed"),
      bad_json(
          "metaspace_scheme",
          [](J& d) {
            d["pre_tokenizer"] = {{"type", "Metaspace"}, {"prepend_scheme", "maybe"}};
          },
          "pre_tokenizer.prepend_scheme is 'maybe'"),
      bad_json(
          "normalizer_field", [](J& d) { d["normalizer"].erase("lowercase"); },
          "normalizer.lowercase is missing"),
      bad_json(
          "post_processor",
          [](J& d) {
            d["post_processor"] = {{"type", "Unknown"}};
          },
          "post_processor.type is 'Unknown', a post-processor that Plimsoll does not have"),
      bad_json(
          "two_templates",
          [](J& d) {
            const J bert = {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}};
            d["post_processor"] = {{"type", "Sequence"}, {"processors", {bert, bert}}};
          },
          "2 of the post-processors add special tokens"),
      bad_json(
          "template_unknown", [](J& d) { d["post_processor"]["special_tokens"].erase("[CLS]"); },
          "do not list"),
      bad_json(
          "template_b", [](J& d) { d["post_processor"]["single"][1]["Sequence"]["id"] = "B"; },
          "uses sequence 'B'"),
      bad_json(
          "template_c", [](J& d) { d["post_processor"]["single"][1]["Sequence"]["id"] = "C"; },
          "should be 'A' or 'B'"),
      bad_json(
          "template_piece", [](J& d) { d["post_processor"]["single"][1] = J::object(); },
          "one \"Sequence\" or one"),
      bad_json(
          "template_ids", [](J& d) { d["post_processor"]["special_tokens"]["[CLS]"]["ids"] = {"x"}; },
          "should hold integers"),
      bad_json(
          "bert_processing",
          [](J& d) {
            d["post_processor"] = {{"type", "BertProcessing"}};
          },
          "as in [\"[SEP]\", 102]"),
      bad_json(
          "added_array", [](J& d) { d["added_tokens"] = 3; }, "added_tokens should be an array"),
      bad_json(
          "added_content", [](J& d) { d["added_tokens"][0].erase("content"); },
          "added_tokens[0].content is missing"),
      bad_json(
          "added_id", [](J& d) { d["added_tokens"][0]["id"] = 7; },
          "is stored with id 7, but Hugging Face would give it id 0"),
      bad_json(
          "added_empty",
          [](J& d) {
            d["added_tokens"].push_back({{"content", "\u0301"}, {"normalized", true}});
          },
          "is empty once normalised"),
      bad_json(
          "added_twins",
          [](J& d) {
            d["added_tokens"].push_back({{"content", "Foo"}, {"normalized", true}});
            d["added_tokens"].push_back({{"content", "foo"}, {"normalized", true}});
          },
          "are both 'foo' once normalised"),
      bad_text("vocab_empty", kVocabFile, "", "vocab.txt is empty"),
      bad_text("vocab_utf8", kVocabFile, "[UNK]\n\xFFx\n", "vocab.txt:2: the line is not valid UTF-8"),
      bad_text("vocab_no_unk", kVocabFile, "[CLS]\n[SEP]\n", "has 2 tokens but not '[UNK]' (unk_token)"),
      bad_text("vocab_no_cls", kVocabFile, "[UNK]\n[SEP]\n", "not '[CLS]' (cls_token)"),
      bad_text("config_json", kConfig, "{", "folder/tokenizer_config.json: line 1, column 1: not valid JSON"),
      bad_text("config_class", kConfig, R"({"tokenizer_class": "RobertaTokenizer"})",
               "is 'RobertaTokenizer'"),
      bad_text("config_flag", kConfig, R"({"do_lower_case": "yes"})",
               "do_lower_case should be true or false but is of type string"),
      bad_text("config_length", kConfig, R"({"model_max_length": -3})", "model_max_length is -3"),
      bad_text("config_side", kConfig, R"({"truncation_side": "up"})",
               "is 'up' but should be 'left' or 'right'"),
      bad_text("config_role", kConfig, R"({"cls_token": 5})", "cls_token should be an object"),
      bad_text("config_decoder_key", kConfig, R"({"added_tokens_decoder": {"x": {"content": "y"}}})",
               "the key 'x' should be a token's id"),
      bad_text("config_decoder_id", kConfig, R"({"added_tokens_decoder": {"99": {"content": "y"}}})",
               "is stored with id 99"),
      bad_text("config_unk", kConfig, R"({"unk_token": "<unk>"})", "not '<unk>' (unk_token)"),
      bad_text("map_json", kMap, "nonsense",
               "folder/special_tokens_map.json: line 1, column 2: not valid JSON"),
      bad_text("added_json", kAdded, R"({"x": "y"})", "x should be an integer"),
  };
}

TEST(TokenizerFolderTest, SaysWhatIsWrongWithAFile) {
  std::string previous;
  for (const BadFolder& bad : bad_folders()) {
    const std::string message = message_of(bad.files());
    EXPECT_NE(message.find(bad.message), std::string::npos) << bad.name << ": " << message.substr(0, 400);
    EXPECT_TRUE(message.find("folder/") == 0 || message.find("folder/") < 40)
        << bad.name << ": " << message.substr(0, 400);
  }
  EXPECT_GE(bad_folders().size(), 50u);
}

TEST(TokenizerFolderTest, AFolderWithoutATokenizerSaysWhatToDo) {
  const std::filesystem::path nowhere = "no/such/folder";
  const std::string message = error_message([&] { Tokenizer::load(nowhere); }, ErrorCode::kBadData);
  EXPECT_NE(message.find("neither tokenizer.json nor vocab.json nor vocab.txt"), std::string::npos)
      << message;
}

}  // namespace
}  // namespace plimsoll::text
