// Tests the parsers of settings in JSON and YAML files.
#include "arguments/argument_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "arguments/testing/parse_words.h"

namespace plimsoll {
namespace {

using test::error_of;
using test::parse;
using test::usage_error;

// A file in the build folder, which the destructor removes.
class TextFile {
 public:
  TextFile(const std::string& name, const std::string& text)
      : path_(std::filesystem::path(PLIMSOLL_BINARY_DIR) / ("arguments_file_test_" + name)) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TextFile() { std::filesystem::remove(path_); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string json_error(const std::string& text) {
  return usage_error([&] { arguments_from_json(text, "run.json"); });
}

std::string yaml_error(const std::string& text) {
  const TextFile file("error.yaml", text);
  const std::string message = error_of({file.path()});
  const std::string folder =
      std::filesystem::path(file.path()).parent_path().string() + "/arguments_file_test_";
  return message.starts_with(folder) ? message.substr(folder.size()) : message;
}

// Editors find the JSON Schema of a settings file by the key "$schema". It must not be refused as an unknown setting.
TEST(ArgumentFile, TheNameOfASchemaIsNoSetting) {
  const TextFile json("schema.json", R"({"$schema": "https://example.org/plimsoll.json", "seed": 5})");
  EXPECT_EQ(parse({json.path()}).arguments.seed, 5);
  const TextFile yaml("schema.yaml", "$schema: ./settings.schema.json\nseed: 6\n");
  EXPECT_EQ(parse({yaml.path()}).arguments.seed, 6);
  EXPECT_NE(json_error(R"({"schema": "x"})").find("unknown setting"), std::string::npos);
  EXPECT_NE(json_error(R"({"$id": "x"})").find("unknown setting"), std::string::npos);
}

TEST(ArgumentFile, YamlHoldsAnySettingAndTheCommandLineWins) {
  const TextFile file(
      "all.yaml",
      "# comment\nlearning_rate: 1e-4\nseed: 7\neval_strategy: no\nbf16: true\nresume_from_checkpoint: null\n"
      "run_name: \"123\"\ndisable_pass: [fuse, cse]\noptim: sgd\noptim_args: {momentum: 0.9}\n"
      "lr_scheduler_kwargs: num_cycles=2\nmemory_limit: 2GiB\nfsdp: ''\nwarmup_ratio: 0.1\n");
  const ParseResult r = parse({file.path(), "--seed", "8"});
  EXPECT_EQ(r.arguments.learning_rate, 1e-4);
  EXPECT_EQ(r.arguments.seed, 8);
  EXPECT_EQ(r.arguments.eval_strategy, "no");
  EXPECT_TRUE(r.arguments.bf16);
  EXPECT_EQ(r.arguments.run_name, "123");
  EXPECT_EQ(r.arguments.disable_pass, (StringList{"fuse", "cse"}));
  EXPECT_EQ(r.arguments.optim_args, (KeyValues{{"momentum", "0.9"}}));
  EXPECT_EQ(r.arguments.lr_scheduler_kwargs, (KeyValues{{"num_cycles", "2"}}));
  EXPECT_EQ(r.arguments.memory_limit, int64_t{2} << 30);
  EXPECT_EQ(r.arguments.warmup_steps, 0.1);
  ASSERT_EQ(r.warnings.size(), 1u) << "the old name, and none for the seed: layers are meant to override";
  EXPECT_TRUE(r.warnings[0].ends_with(":14: warmup_ratio is an old name, read as --warmup_steps 0.1"));
  EXPECT_TRUE(r.explicitly_set.contains("learning_rate"));
}

TEST(ArgumentFile, TheCommandLineWinsWhereverTheFileStands) {
  const TextFile first("first.json", R"({"seed": 1, "max_steps": 5})");
  const TextFile second("second.yml", "seed: 2\n");
  const Arguments a = parse({"--max_steps=9", "--config", first.path(), second.path()}).arguments;
  EXPECT_EQ(a.seed, 2);
  EXPECT_EQ(a.max_steps, 9);
  EXPECT_TRUE(parse({"--do_train", first.path()}).arguments.do_train)
      << "a flag does not take the file as its value";
  EXPECT_EQ(parse({"--disable_pass", "fuse", first.path()}).arguments.disable_pass, (StringList{"fuse"}));
}

TEST(ArgumentFile, JsonTypesAreExact) {
  const Arguments a = arguments_from_json(
      R"({"learning_rate": 1, "max_steps": 3, "eval_steps": null, "report_to": [], "eval_strategy": false,
          "resume_from_checkpoint": true, "deepspeed": {"zero": {"stage": 2}}, "fsdp": [], "fsdp_config": {},
          "include_num_input_tokens_seen": true, "memory_limit": "1KiB", "seed": null})");
  EXPECT_EQ(a.learning_rate, 1.0);
  EXPECT_EQ(a.eval_strategy, "no");
  EXPECT_EQ(a.resume_from_checkpoint, "True");
  EXPECT_EQ(a.deepspeed, R"({"zero":{"stage":2}})");
  EXPECT_EQ(a.fsdp, "");
  EXPECT_EQ(a.fsdp_config, "");
  EXPECT_EQ(a.include_num_input_tokens_seen, "all");
  EXPECT_EQ(a.memory_limit, 1024);
  EXPECT_EQ(a.seed, 42);
  EXPECT_EQ(json_error(R"({"learning_rate": "abc"})"),
            "run.json: learning_rate: expected a number, got the text 'abc'");
  EXPECT_EQ(json_error(R"({"max_steps": 3.0})"),
            "run.json: max_steps: expected an integer, got the number 3.0");
  EXPECT_EQ(json_error(R"({"max_steps": 18446744073709551615})"),
            "run.json: max_steps: expected an integer, got the number 18446744073709551615");
  EXPECT_EQ(json_error(R"({"bf16": 1})"), "run.json: bf16: expected true or false, got the number 1");
  EXPECT_EQ(json_error(R"({"output_dir": ["a"]})"), "run.json: output_dir: expected a text, got a list");
  EXPECT_EQ(json_error(R"({"run_name": true})"), "run.json: run_name: expected a text, got the flag true");
  EXPECT_EQ(json_error(R"({"disable_pass": ["a", 1]})"),
            "run.json: disable_pass: expected a list of texts, got a list with the number 1");
  EXPECT_EQ(json_error(R"({"optim_args": {"a": [1]}})"),
            "run.json: optim_args.a: expected a number, a flag or a text, got a list");
  EXPECT_EQ(json_error(R"({"optim_args": 3})"),
            "run.json: optim_args: expected an object or key=value,key=value, got the number 3");
  EXPECT_EQ(json_error(R"({"adam_beta1": 2})"), "run.json: adam_beta1: 2 is outside [0, 1)");
}

TEST(ArgumentFile, UnknownKeysNameTheFileAndTheNearestName) {
  EXPECT_EQ(json_error(R"({"learning_rat": 1})"),
            "run.json: learning_rat: unknown setting, did you mean 'learning_rate'?");
  EXPECT_EQ(yaml_error("seed: 1\n\nlearning_rat: 1\n"),
            "error.yaml:3: learning_rat: unknown setting, did you mean 'learning_rate'?");
  EXPECT_EQ(json_error(R"({"no_do_train": true})").substr(0, 38), "run.json: no_do_train: unknown setting");
}

// Returns the error message that a file with this text causes, from the name of the file on.
std::string file_error(const std::string& name, const std::string& text,
                       const std::vector<std::string>& words = {}) {
  const TextFile file(name, text);
  std::vector<std::string> all{file.path()};
  all.insert(all.end(), words.begin(), words.end());
  std::string message = error_of(all);
  const std::string folder =
      std::filesystem::path(file.path()).parent_path().string() + "/arguments_file_test_";
  for (size_t at = message.find(folder); at != std::string::npos; at = message.find(folder, at))
    message.erase(at, folder.size());
  return message;
}

TEST(ArgumentFile, EveryFaultOfAJsonFileNamesItsLine) {
  EXPECT_EQ(file_error("a.json", "{\n  \"seed\": 1,\n  \"learning_rate\": \"abc\"\n}\n"),
            "a.json:3: learning_rate: expected a number, got the text 'abc'");
  EXPECT_EQ(file_error("a.json", "{\n  \"seed\": 1,\n\n  \"learning_rat\": 1\n}\n"),
            "a.json:4: learning_rat: unknown setting, did you mean 'learning_rate'?");
  EXPECT_EQ(file_error("a.json", "{\n  \"learning_rate\": 1e400\n}\n"),
            "a.json:2:24: learning_rate: expected a number of at most 1.8e308, got '1e400'");
  EXPECT_EQ(file_error("a.json", "{\n  \"adam_beta1\": 2\n}\n"), "a.json:2: adam_beta1: 2 is outside [0, 1)");
  EXPECT_EQ(file_error("a.json", "{\n  \"optim_args\":\n    {\"a\": [1]}\n}\n"),
            "a.json:2: optim_args.a: expected a number, a flag or a text, got a list");
  EXPECT_EQ(file_error("a.json", "{\n  \"seed\": 1,\n  \"seed\": 2\n}\n"),
            "a.json:3:8: seed: the key occurs twice, first on line 2; keep one");
  EXPECT_EQ(file_error("a.json", "{\n  \"deepspeed\": " + std::string(100, '[')),
            "a.json:2:47: nested deeper than 32 levels");
  EXPECT_EQ(file_error("a.json", "\n\n[1]"), "a.json:3: expected one object of settings, got a JSON array");
  EXPECT_EQ(file_error("a.json", "{\n  \"seed\": 1,\n}\n"),
            "a.json:3:1: not valid JSON: unexpected '}'; expected string literal, in '}'");
  EXPECT_EQ(file_error("a.json", "{\n  \"seed\": NaN\n}\n"),
            "a.json:2:11: not valid JSON: invalid literal, in '\"seed\": N'");
  EXPECT_EQ(file_error("a.json", "{\n  \"seed\": 1"),
            "a.json:2:11: not valid JSON: unexpected end of input; expected '}', in '\"seed\": 1'");
  EXPECT_EQ(file_error("a.json", "{\n \"run_name\": \"a\xff\"}"),
            "a.json:2:16: not valid JSON: byte 0xFF is not valid UTF-8");
  EXPECT_EQ(file_error("a.json", std::string("{}\n\0", 4)), "a.json:2:1: not valid JSON: a NUL byte (0x00)");
}

TEST(ArgumentFile, EveryFaultOfAYamlFileNamesItsLine) {
  EXPECT_EQ(file_error("a.yaml", "seed: 1\nlearning_rate: 1e400\n"),
            "a.yaml:2: learning_rate: expected a number, got '1e400'");
  EXPECT_EQ(file_error("a.yaml", "\njust words\n"),
            "a.yaml:2: expected lines of `setting: value`, got the text 'just words'");
  EXPECT_EQ(file_error("a.yaml", "seed: 1\nmax_steps: [1, 2\n"),
            "a.yaml:2: not YAML: end of sequence flow not found, at 'max_steps: [1, 2'; expected lines of "
            "`setting: value`");
  // If a quote is not closed, yaml-cpp accepts the end of the text as the closing quote and makes the settings after it
  // part of the value. The parser must refuse such a file.
  for (const char* quote : {"\"", "'"}) {
    EXPECT_EQ(file_error("a.yaml", fmt::format("run_name: {}abc\nseed: 3\n\n", quote)),
              "a.yaml:2: not YAML: illegal EOF in scalar, at 'seed: 3'; expected lines of `setting: value`");
  }
  // LoadAll() of yaml-cpp does not terminate for a text that is a single comma. The parser must detect this.
  EXPECT_EQ(
      file_error("a.yaml", "\n,"),
      "a.yaml:2: not YAML: this cannot start a YAML document, at ','; expected lines of `setting: value`");
  EXPECT_EQ(file_error("a.yaml", "seed: 1\n---\nseed: 2\n"),
            "a.yaml:3: a second document begins here (---); expected only one, with settings");
  EXPECT_EQ(file_error("a.yaml", "seed: 1\nrun_name: \xe4\n"),
            "a.yaml:2:11: not YAML: byte 0xE4 is not valid UTF-8; save the file of settings as UTF-8");
}

TEST(ArgumentFile, ContradictionsNameTheLinesOfWhatStandsInFiles) {
  EXPECT_EQ(file_error("a.json", "{\n  \"fp16\": true,\n  \"bf16\": true\n}\n"),
            "a.json:2: --fp16 and --bf16 exclude each other; give one of them\n  --bf16 is set in a.json:3");
  EXPECT_EQ(file_error("a.yaml", "bf16: true\n", {"--fp16"}),
            "a.yaml:1: --fp16 and --bf16 exclude each other; give one of them");
  EXPECT_EQ(file_error("a.yaml", "bf16: true\nseed: 1\n", {"--bf16", "--fp16"}),
            "--fp16 and --bf16 exclude each other; give one of them")
      << "the command line wins over the file";
}

TEST(ArgumentFile, BrokenFilesSayWhere) {
  EXPECT_EQ(json_error("{\"seed\": 1,\n \"max_steps\" 3}"),
            "run.json: line 2, column 14: not valid JSON: unexpected number literal; expected ':', in "
            "'\"max_steps\" 3'");
  EXPECT_EQ(json_error("[1]"), "run.json: expected one object of settings, got a JSON array");
  EXPECT_NE(json_error("").find("not valid JSON"), std::string::npos);
  EXPECT_NE(json_error("{\"seed\": NaN}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(json_error("{\"run_name\": \"\xff\"}").find("not valid JSON"), std::string::npos);
  EXPECT_EQ(json_error(R"({"seed": 1, "seed": 2})"),
            "run.json: line 1, column 18: seed: the key occurs twice, first on line 1; keep one");
  EXPECT_EQ(json_error("{\"deepspeed\": " + std::string(100000, '[')),
            "run.json: line 1, column 46: nested deeper than 32 levels");
  EXPECT_NE(json_error(R"({"run_name": "a\u0000b"})").find("NUL"), std::string::npos);
  EXPECT_EQ(yaml_error("seed: 1\nmax_steps: abc\n"),
            "error.yaml:2: max_steps: expected an integer, got 'abc'");
  EXPECT_EQ(yaml_error("seed: 1\nseed: 2\n"),
            "error.yaml:2: seed: the key occurs twice, first on line 1; keep one");
  EXPECT_EQ(yaml_error("- a\n"), "error.yaml:1: expected lines of `setting: value`, got a list");
  EXPECT_TRUE(yaml_error("seed: 1\n bad\n: {").starts_with("error.yaml:"))
      << yaml_error("seed: 1\n bad\n: {");
  EXPECT_NE(yaml_error("deepspeed: &a [*a]\n").find("nested deeper"), std::string::npos);
  EXPECT_NE(yaml_error("? [a]\n: 1\n").find("a key is not a text"), std::string::npos);
  EXPECT_LT(json_error("{\"" + std::string(1 << 20, 'x') + "\": 1}").size(), 200u);
  EXPECT_LT(json_error("{\"eval_strategy\": \"" + std::string(1 << 20, 'x') + "\"}").size(), 200u);
  EXPECT_FALSE(yaml_error("deepspeed: " + std::string(100000, '[') + "\n").empty());
  const TextFile empty("empty.yaml", "");
  EXPECT_NO_THROW(parse({empty.path()}));
  EXPECT_EQ(error_of({"nowhere.yaml"}), "nowhere.yaml: cannot read settings: the file does not exist");
  EXPECT_EQ(error_of({"--config", "/"}), "/: cannot read settings: it is not a file");
  const TextFile empty_json("empty.json", "");
  EXPECT_NE(error_of({empty_json.path()}).find("not valid JSON"), std::string::npos);
}

}  // namespace
}  // namespace plimsoll
