// Tests of the table of commands: command lines, help screens, and the texts generated from the table.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "plimsoll/commands.h"

namespace plimsoll {
namespace {

using Words = std::vector<std::string>;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

CommandWords read(std::string_view command, const Words& words) {
  return read_command_words(*find_command(command), words);
}

std::string error_of(std::string_view command, const Words& words) {
  try {
    read(command, words);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
  return {};
}

// Checks that a text fits on one screen of a terminal with 24 lines. The last line is needed for the next prompt.
void expect_one_screen(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  EXPECT_LE(lines.size(), 23u) << text;
  for (const std::string& line : lines) EXPECT_LE(line.size(), 80u) << line;
}

TEST(Commands, HelpFitsOnAScreen) {
  expect_one_screen(program_help());
  for (const CommandInfo& command : command_table()) {
    SCOPED_TRACE(command.name);
    const std::string screen = command_screen(command);
    expect_one_screen(screen);
    EXPECT_TRUE(screen.starts_with(fmt::format("usage: plimsoll {}", command.name)));
    EXPECT_NE(screen.find("example: "), std::string::npos);
    EXPECT_NE(program_help().find(fmt::format("\n  {} ", command.name)), std::string::npos);
    EXPECT_LE(command.common.size(), 10u);
    for (const CommandOption& option : command.options)
      EXPECT_NE(screen.find(fmt::format("  --{}", option.name)), std::string::npos) << option.name;
    if (!command.settings) continue;
    EXPECT_NE(screen.find("groups: model, data, run"), std::string::npos);
    EXPECT_NE(screen.find("--help all explain arguments"), std::string::npos);
    // A setting that the help of a command shows must have an effect on this command.
    for (const CommonSetting& common : command.common)
      EXPECT_TRUE(is_used_by(*command.settings, common.name)) << common.name;
  }
  for (const char* name : {"train", "plan", "eval", "predict"})
    EXPECT_EQ(find_command(name)->common.size(), 10u) << name;
}

TEST(Commands, DefaultsThatAScreenStatesAreThoseOfTheTable) {
  int stated = 0;
  for (const CommandInfo& command : command_table()) {
    for (const CommonSetting& common : command.common) {
      const size_t at = common.help.find("(default ");
      if (at == std::string_view::npos) continue;
      const auto row = std::ranges::find(argument_table(), common.name, &ArgumentInfo::name);
      ASSERT_NE(row, argument_table().end());
      EXPECT_EQ(common.help.substr(at), fmt::format("(default {})", row->default_text)) << common.name;
      ++stated;
    }
  }
  EXPECT_GE(stated, 8);
}

TEST(Commands, HelpHasTopics) {
  const CommandInfo& train = *find_command("train");
  EXPECT_NE(command_screen(train, "all").find("--adam_epsilon"), std::string::npos);
  EXPECT_NE(command_screen(train, "optimizer").find("--adam_epsilon"), std::string::npos);
  EXPECT_EQ(command_screen(train, "optimizer").find("--train_file"), std::string::npos);
  EXPECT_NE(command_screen(train, "adam_epsilon").find("1e-08"), std::string::npos);
  for (const CommandInfo& command : command_table()) {
    if (command.settings) {
      for (const std::string& line : lines_of(command_screen(command, "all")))
        EXPECT_TRUE(line.size() <= 80 || line.find(' ', 8) == std::string::npos) << line;
      EXPECT_THROW(command_screen(command, "no_such_topic"), Error);
    } else {
      EXPECT_EQ(command_screen(command, "all"), command_screen(command));
      EXPECT_THROW(command_screen(command, "optimizer"), Error);
    }
  }
}

TEST(Commands, WordsAreSortedByOption) {
  const CommandWords merge = read("merge", {"--adapter", "a", "--output-dir=b", "--overwrite_output_dir"});
  EXPECT_EQ(merge.value("adapter"), "a");
  EXPECT_EQ(merge.value("output_dir"), "b");
  EXPECT_TRUE(merge.has("overwrite_output_dir"));
  EXPECT_EQ(merge.value("model_name_or_path", "none"), "none");
  const CommandWords bench =
      read("bench", {"--sweep", "a=1,2", "--bf16", "--sweep=b=3", "--only", "x", "--max_steps", "3"});
  EXPECT_EQ(bench.values.at("sweep"), (Words{"a=1,2", "b=3"}));
  EXPECT_EQ(bench.rest, (Words{"--bf16", "--max_steps", "3"}));
  const CommandWords tokenize = read("tokenize", {"--tokenizer-name", "t", "-"});
  EXPECT_EQ(tokenize.value("tokenizer_name"), "t");
  EXPECT_EQ(tokenize.positionals, Words{"-"});
  EXPECT_EQ(read("inspect", {"a", "--", "--b"}).positionals, (Words{"a", "--b"}));
  EXPECT_EQ(read("monitor", {"--watch", "--json"}).value("watch"), "");
  EXPECT_EQ(read("monitor", {"--watch", "2.5", "--json"}).value("watch"), "2.5");
  EXPECT_EQ(read("monitor", {"--watch=3"}).value("watch"), "3");
  EXPECT_TRUE(read("fit", {"--help"}).help);
  EXPECT_EQ(read("fit", {"--bf16", "--help", "optimizer"}).help_topic, "optimizer");
  EXPECT_EQ(read("fit", {"--memory", "1GiB", "--config_name", "x"}).rest, (Words{"--config_name", "x"}));
}

TEST(Commands, WrongWordsAreNamed) {
  EXPECT_EQ(
      error_of("merge", {"--adaptor", "x"}),
      "merge: unknown option '--adaptor', did you mean 'adapter'?; it takes --adapter DIR, --output_dir DIR, "
      "--model_name_or_path DIR, --overwrite_output_dir, --json");
  EXPECT_EQ(error_of("schema", {"--x"}), "schema: unknown option '--x'; it takes no options");
  EXPECT_EQ(error_of("inspect", {"-x"}).substr(0, 30), "inspect: unknown option '-x'; ");
  for (const CommandInfo& command : command_table()) {
    for (const CommandOption& option : command.options) {
      const std::string name = "--" + std::string(option.name);
      if (option.form == OptionForm::kFlag) {
        EXPECT_EQ(error_of(command.name, {name + "=x"}),
                  fmt::format("{}: {} takes no value", command.name, name));
      } else if (option.form != OptionForm::kOptional) {
        EXPECT_EQ(error_of(command.name, {name}),
                  fmt::format("{}: {} needs a value: {}", command.name, name, option.value));
      }
      if (option.form == OptionForm::kValue && option.range.empty()) {
        EXPECT_NE(error_of(command.name, {name, "a", name, "b"}).find("is given twice, 'a' and 'b'"),
                  std::string::npos);
      }
    }
  }
  EXPECT_EQ(error_of("inspect", {"--quoting", "minimum"}),
            "inspect: --quoting: 'minimum' is not one of minimal, none, did you mean 'minimal'?");
}

// The completion script of every shell must contain every command, every option and every implemented setting of a
// command.
TEST(Completion, KnowsEverything) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    SCOPED_TRACE(shell);
    const std::string script = shell_completion(shell);
    EXPECT_TRUE(script.starts_with("#"));
    const std::string dashes = std::string(shell) == "fish" ? " -l " : "--";
    for (const CommandInfo& command : command_table()) {
      EXPECT_NE(script.find(command.name), std::string::npos) << command.name;
      for (const CommandOption& option : command.options)
        EXPECT_NE(script.find(dashes + std::string(option.name)), std::string::npos) << option.name;
    }
    for (const ArgumentInfo& info : argument_table()) {
      const bool is_there = script.find(dashes + std::string(info.name)) != std::string::npos;
      if (info.status == ArgumentStatus::kImplemented) {
        EXPECT_TRUE(is_there) << info.name;
      }
    }
    EXPECT_NE(script.find("reduce_lr_on_plateau"), std::string::npos) << "choices";
  }
  EXPECT_THROW(shell_completion("tcsh"), Error);
  EXPECT_THROW(shell_completion(""), Error);
}

// Completion must offer the names that the caller passes for a setting, and also folders if the setting takes a folder.
TEST(Completion, OffersTheNamesThatItIsGiven) {
  const ValueNames names{{"config_name", {"some-preset"}},
                         {"device", {"cpu"}},
                         {"plan device", {"cpu", "old-card"}},
                         {"fit device", {"cpu", "all"}}};
  const auto lines_with = [](const std::string& script, const std::string& words) {
    return std::ranges::count_if(
        lines_of(script), [&](const std::string& line) { return line.find(words) != std::string::npos; });
  };
  for (const char* shell : {"bash", "zsh", "fish"}) {
    SCOPED_TRACE(shell);
    const std::string script = shell_completion(shell, names);
    EXPECT_GE(lines_with(script, "some-preset"), 3) << "train, plan, fit";
    EXPECT_EQ(lines_with(script, "cpu old-card"), 1) << "only plan knows it";
    EXPECT_EQ(lines_with(script, "cpu all"), 1);
    EXPECT_EQ(lines_with(shell_completion(shell), "some-preset"), 0);
  }
  EXPECT_NE(shell_completion("bash", names)
                .find("--config_name) compopt -o filenames; mapfile -t COMPREPLY < <(compgen "
                      "-d -W \"some-preset\""),
            std::string::npos);
}

TEST(ManualPages, HaveTheirSections) {
  std::vector<std::string> names{""};
  for (const CommandInfo& command : command_table()) names.emplace_back(command.name);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const std::string page = manual_page(name);
    for (const char* section : {".TH ", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH EXIT STATUS\n"})
      EXPECT_NE(page.find(section), std::string::npos) << section;
    const std::set<std::string> requests{".TH", ".SH", ".SS", ".TP", ".B", ".BR", ".br", ".nf", ".fi"};
    for (const std::string& line : lines_of(page)) {
      if (!line.starts_with('.')) continue;
      EXPECT_TRUE(requests.contains(line.substr(0, line.find(' ')))) << line;
    }
  }
  EXPECT_NE(manual_page("train").find("\\-\\-learning_rate"), std::string::npos);
  EXPECT_EQ(manual_page("eval").find("\\-\\-learning_rate"), std::string::npos);
  EXPECT_THROW(manual_page("trian"), Error);
}

TEST(Schema, HasEverySetting) {
  const nlohmann::json schema = nlohmann::json::parse(settings_schema());
  EXPECT_EQ(schema.at("additionalProperties"), false);
  const nlohmann::json& properties = schema.at("properties");
  for (const ArgumentInfo& info : argument_table()) {
    const nlohmann::json& one = properties.at(std::string(info.name));
    EXPECT_TRUE(one.contains("type") || one.contains("enum") || one.contains("anyOf")) << info.name;
    EXPECT_TRUE(one.at("description").get<std::string>().starts_with(info.help)) << info.name;
    if (one.contains("default") && one.contains("enum")) {
      EXPECT_NE(std::find(one.at("enum").begin(), one.at("enum").end(), one.at("default")),
                one.at("enum").end())
          << info.name;
    }
  }
  EXPECT_EQ(properties.at("learning_rate").at("minimum"), 0);
  EXPECT_EQ(properties.at("num_train_epochs").at("exclusiveMinimum"), 0);
  EXPECT_EQ(properties.at("bf16").at("type"), nlohmann::json::parse(R"(["boolean", "null"])"));
  EXPECT_TRUE(properties.contains("$schema"));
  EXPECT_TRUE(properties.contains("evaluation_strategy")) << "old names are accepted in files";
  EXPECT_FALSE(properties.at("hub_token").contains("default"));
}

}  // namespace
}  // namespace plimsoll
