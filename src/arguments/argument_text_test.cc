// Tests the texts made from settings: help, the documentation page, dumps, and differences between settings.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "arguments/argument_table.h"
#include "arguments/testing/parse_words.h"
#include "arguments/value.h"

namespace plimsoll {
namespace {

using test::parse;
using test::usage_error;

TEST(ArgumentsHelp, ShowsEveryImplementedSettingAndNamesTheRest) {
  const std::string help = arguments_help();
  for (const ArgumentInfo& info : argument_table()) {
    const bool has_entry =
        help.find("  --" + std::string(info.name) + (info.type == "flag" ? "\n" : " ")) != std::string::npos;
    EXPECT_EQ(has_entry, info.status == ArgumentStatus::kImplemented) << info.name;
    EXPECT_NE(help.find(info.name), std::string::npos) << info.name;
    EXPECT_NE(arguments_help("all").find("  --" + std::string(info.name)), std::string::npos) << info.name;
  }
  std::istringstream lines(arguments_help("all") + help);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << line;
}

TEST(ArgumentsHelp, TakesAGroupOrAName) {
  EXPECT_EQ(arguments_help("--learning-rate"),
            "  --learning_rate number\n        Peak learning rate. Range [0, inf). (default 5e-05)\n");
  EXPECT_NE(arguments_help("optimizer").find("--adam_beta1"), std::string::npos);
  EXPECT_EQ(arguments_help("optimizer").find("--learning_rate"), std::string::npos);
  EXPECT_NE(arguments_help("use_dora").find("Refused: "), std::string::npos);
  EXPECT_EQ(arguments_help("warmup_ratio"), "  --warmup_ratio is an old name of --warmup_steps\n");
  EXPECT_EQ(usage_error([] { arguments_help("learning"); }),
            "--help learning: unknown group or setting, did you mean 'learning_rate'?");
}

TEST(ArgumentsText, PrintsResolvedValues) {
  Arguments arguments = parse({"--seed", "7", "--hub_token", "hf_abc", "--optim_args", "b=2,a=1"}).arguments;
  EXPECT_EQ(format_arguments(arguments, WhichArguments::kNotDefault),
            "seed = 7\noptim_args = a=1,b=2\nhub_token = ***\n");
  EXPECT_NE(format_arguments(arguments, WhichArguments::kAll).find("learning_rate = 5e-05\n"),
            std::string::npos);
  EXPECT_EQ(format_argument(arguments, "bf16"), "False");
  EXPECT_EQ(format_argument(arguments, "eval_steps"), "");
  EXPECT_EQ(usage_error([&] { format_argument(arguments, "sead"); }),
            "sead: unknown setting, did you mean 'seed'?");
}

// Returns settings whose values all differ from the defaults and are within the permitted ranges.
Arguments all_changed() {
  Arguments arguments;
  for (const Setting& setting : settings()) {
    if (setting.is_secret()) continue;
    std::string text = "word";
    if (setting.is_flag()) text = format_value(arguments, setting) == "True" ? "False" : "True";
    if (setting.info.type == "integer") text = setting.info.unit == "bytes" ? "3B" : "3";
    if (setting.info.type == "number") text = "0.30000000000000004";
    if (setting.info.type == "list") text = "a,b";
    if (setting.info.type == "key=value")
      text = "number=0.1,exponent=1e-4,word=cosine,flag=true,big=123456789012345678901";
    for (std::string_view choice : split_choices(setting.info.range)) {
      if (setting.info.type == "text" && choice != format_value(arguments, setting)) text = choice;
    }
    set_from_text(arguments, setting, text, setting.info.name);
  }
  return arguments;
}

TEST(ArgumentsJson, RoundTripsEverySetting) {
  const Arguments defaults;
  EXPECT_EQ(arguments_from_json(arguments_json(defaults)), defaults);
  const Arguments changed = all_changed();
  for (const Setting& setting : settings()) {
    EXPECT_EQ(is_default(changed, setting), setting.is_secret()) << setting.info.name;
  }
  EXPECT_EQ(arguments_from_json(arguments_json(changed)), changed);
}

TEST(ArgumentsJson, KeepsSecretsAndSurvivesBadText) {
  Arguments arguments;
  arguments.hub_token = "hf_abc";
  arguments.token = "hf_def";
  EXPECT_EQ(arguments_json(arguments).find("hf_"), std::string::npos);
  arguments.output_dir = "bad\xff";
  EXPECT_EQ(arguments_from_json(arguments_json(arguments)).output_dir, "bad\xef\xbf\xbd");
}

TEST(ArgumentsJson, IsOneObjectWithTypedValues) {
  const auto object = nlohmann::json::parse(arguments_json(Arguments{}));
  EXPECT_TRUE(object["learning_rate"].is_number_float());
  EXPECT_TRUE(object["max_steps"].is_number_integer());
  EXPECT_TRUE(object["bf16"].is_boolean());
  EXPECT_TRUE(object["eval_steps"].is_null());
  EXPECT_TRUE(object["report_to"].is_array());
  EXPECT_TRUE(object["optim_args"].is_object());
}

TEST(DiffArguments, NamesWhatChanged) {
  const Arguments before = parse({"--seed", "7", "--max_steps", "10"}).arguments;
  const Arguments after = parse({"--seed", "8", "--max_steps", "10", "--token", "x"}).arguments;
  const auto differences = diff_arguments(before, after);
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(differences[0].name, "seed");
  EXPECT_EQ(differences[0].before, "7");
  EXPECT_EQ(differences[0].after, "8");
  EXPECT_EQ(diff_arguments(Arguments{}, all_changed()).size(), settings().size() - 2);
}

TEST(ArgumentsPage, IsNotStale) {
  const std::string fresh = arguments_markdown();
  std::ofstream(std::string(PLIMSOLL_BINARY_DIR) + "/ARGUMENTS.md") << fresh;
  std::ifstream file(std::string(PLIMSOLL_SOURCE_DIR) + "/docs/ARGUMENTS.md");
  std::ostringstream page;
  page << file.rdbuf();
  EXPECT_TRUE(page.str() == fresh) << "docs/ARGUMENTS.md is stale: cp " << PLIMSOLL_BINARY_DIR
                                   << "/ARGUMENTS.md " << PLIMSOLL_SOURCE_DIR << "/docs/ARGUMENTS.md";
}

}  // namespace
}  // namespace plimsoll
