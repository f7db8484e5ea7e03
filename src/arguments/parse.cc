// Parses command lines into layers of settings (settings of one source, before they are converted to values).
#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "arguments/argument_file.h"
#include "arguments/argument_table.h"
#include "arguments/foreign_config.h"
#include "arguments/value.h"
#include "base/check.h"

namespace plimsoll {
namespace {

bool is_option(std::string_view word) {
  // Returns false for words such as "-1" and "-.5", which are values and not options.
  return word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0 &&
         word[1] != '.';
}

// An option of the command line. The members state how many of the words after the option belong to its value.
struct Option {
  std::string name;
  std::string where;
  bool is_flag = false;
  bool is_list = false;
  bool is_repeatable = false;  // if true and the option is given several times, its lists are concatenated
  // true for a text setting whose name may be given without a value, which then means True or the first of the setting's choices
  bool may_stand_alone = false;
  bool is_negated = false;
};

// For each setting, the file and the line that it comes from; empty if it comes from the command line.
using Places = std::map<std::string, std::string, std::less<>>;

// Adds file and line to a message about settings that come from files. The position of the first such setting is put
// before the message, those of the others after it.
std::string with_places(const std::string& message, const Places& places) {
  std::string first;
  std::string others;
  std::set<std::string_view> seen;
  const std::string_view text = message;
  for (size_t at = text.find("--"); at != std::string_view::npos; at = text.find("--", at + 2)) {
    const size_t end =
        std::min(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", at + 2), text.size());
    const std::string_view name = text.substr(at + 2, end - at - 2);
    const auto place = places.find(name);
    if (place == places.end() || place->second.empty() || !seen.insert(name).second) continue;
    if (first.empty()) {
      first = place->second + ": ";
    } else {
      others += fmt::format("{}--{} is set in {}", others.empty() ? "\n  " : ", ", name, place->second);
    }
  }
  return first + message + others;
}

class CommandLine {
 public:
  CommandLine(std::span<const std::string> words, const ParseOptions& options)
      : words_(words), options_(options) {}

  ParseResult read() {
    while (next_ < words_.size() && !result_.help) read_word();
    if (result_.help) return std::move(result_);
    for (const std::string& path : files_) apply(read_argument_file(path));
    apply(layer_);
    return std::move(result_);
  }
  const Places& places() const { return places_; }

 private:
  void apply(const std::vector<Assignment>& layer) {
    apply_layer(layer, result_);
    for (const Assignment& assignment : layer) {
      const OldName* old = find_old_name(assignment.name);
      const std::string name = old != nullptr ? std::string(old->replacement) : assignment.name;
      places_[name] = assignment.place;
      if (assignment.place.empty()) result_.on_command_line.insert(name);
    }
  }

  bool has_value_next() const { return next_ < words_.size() && !is_option(words_[next_]); }

  void read_word() {
    const std::string& word = words_[next_++];
    if (word == "--help" || word == "-h") {
      result_.help = true;
      if (has_value_next()) result_.help_topic = words_[next_];
    } else if (word == "--") {
      while (next_ < words_.size()) read_after_options(words_[next_++]);
    } else if (word.starts_with("--")) {
      read_option(word);
    } else if (is_option(word)) {
      throw_error(ErrorCode::kUsage, "{}: unknown option; names begin with two dashes, as in --learning_rate",
                  word);
    } else {
      read_positional(word);
    }
  }

  // Handles a word after "--". If positional arguments are allowed, the word is one of them, even if it names a settings file.
  void read_after_options(const std::string& word) {
    if (options_.allow_positionals) {
      result_.positionals.push_back(word);
    } else {
      read_positional(word);
    }
  }

  void read_positional(const std::string& word) {
    // `predict` accepts texts as positional arguments. A word that contains a blank is such a text, not the name of a
    // file.
    const bool is_text = options_.allow_positionals && word.find(' ') != std::string::npos;
    if (is_argument_file(word) && !is_text) {
      files_.push_back(word);
    } else if (options_.allow_positionals) {
      result_.positionals.push_back(word);
    } else if (!last_flag_.empty()) {
      throw_error(ErrorCode::kUsage, "'{}' after {}: expected True or False, or nothing", word, last_flag_);
    } else {
      const bool is_data = word.ends_with(".csv") || word.ends_with(".tsv") || word.ends_with(".jsonl");
      throw_error(ErrorCode::kUsage,
                  "'{}': expected --name value, or a file of settings that ends in .json, .yaml or .yml{}",
                  word,
                  is_data ? "; a data file follows --train_file, --validation_file or --test_file" : "");
    }
  }

  void read_option(const std::string& word) {
    const size_t equals = std::min(word.find('='), word.size());
    std::string name = word.substr(2, equals - 2);
    std::ranges::replace(name, '-', '_');
    const bool has_inline_value = equals < word.size();
    if (name == "config") {
      files_.push_back(has_inline_value ? word.substr(equals + 1) : take_value("--config"));
      return;
    }
    const Option option = find_option(name);
    last_flag_.clear();
    if (option.is_negated) {
      if (has_inline_value) throw_error(ErrorCode::kUsage, "{}: takes no value", option.where);
      add(option, "False");
    } else if (has_inline_value) {
      add(option, word.substr(equals + 1));
    } else if (option.is_flag) {
      read_flag(option);
    } else if (option.is_list) {
      read_list(option);
    } else if (option.may_stand_alone && !takes_next(option)) {
      add(option, "True");
    } else {
      add(option, take_value(option.where));
    }
  }

  // Returns true if the next word is the value of an option whose value may be omitted. These words are values: True, False,
  // one of the option's choices, and a word similar to a choice, which is then refused with a suggestion. For an option
  // without choices, any word but the name of a settings file is the value.
  bool takes_next(const Option& option) const {
    if (!has_value_next()) return false;
    const Setting* setting = find_setting(option.name);
    if (setting == nullptr || setting->info.range.empty()) return !is_argument_file(words_[next_]);
    const std::string& next = words_[next_];
    const auto choices = split_choices(setting->info.range);
    return std::ranges::find(choices, std::string_view(next)) != choices.end() || bool_from_text(next) ||
           !did_you_mean(next, choices).empty();
  }

  void read_flag(const Option& option) {
    if (has_value_next()) {
      const std::string& next = words_[next_];
      if (bool_from_text(next) || next == "None" || next == "null") {
        add(option, next);
        ++next_;
        return;
      }
      last_flag_ = option.where;
    }
    add(option, "True");
  }

  void read_list(const Option& option) {
    std::string list = take_value(option.where);
    while (has_value_next() && !is_argument_file(words_[next_])) list += "," + words_[next_++];
    add(option, list);
  }

  std::string take_value(const std::string& where) {
    if (!has_value_next())
      throw_error(ErrorCode::kUsage, "{}: the value is missing; write it after the name", where);
    return words_[next_++];
  }

  void add(const Option& option, const std::string& text) {
    if (option.is_repeatable) {
      const auto before = std::ranges::find(layer_, option.name, &Assignment::name);
      if (before != layer_.end()) {
        before->value = before->value.get<std::string>() + "," + text;
        return;
      }
    }
    layer_.push_back({option.name, option.where, nlohmann::ordered_json(text), true});
  }

  static Option find_option(const std::string& name) {
    Option option{.name = name, .where = "--" + name};
    if (const Setting* setting = find_setting(name)) {
      option.is_flag = setting->is_flag();
      option.is_list = setting->is_list();
      option.is_repeatable = setting->info.unit == "repeatable";
      option.may_stand_alone = setting->info.unit == "flag";
      return option;
    }
    if (const OldName* old = find_old_name(name)) {
      option.is_flag = old->is_flag;
      const Setting* replacement = old->true_value.empty() ? find_setting(old->replacement) : nullptr;
      option.is_list = replacement != nullptr && replacement->is_list();
      return option;
    }
    if (name.starts_with("no_")) {
      const std::string positive = name.substr(3);
      const Setting* setting = find_setting(positive);
      const OldName* old = find_old_name(positive);
      const bool is_flag = setting != nullptr && (setting->is_flag() || setting->info.unit == "flag");
      if (is_flag || (old != nullptr && old->is_flag)) {
        option.name = positive;
        option.is_negated = true;
        return option;
      }
    }
    throw_error(ErrorCode::kUsage, "--{}: unknown setting{}", name, did_you_mean_setting(name));
  }

  std::span<const std::string> words_;
  const ParseOptions& options_;
  size_t next_ = 0;
  std::string last_flag_;  // name of the flag directly before the current word, if it has no value
  std::vector<std::string> files_;
  std::vector<Assignment> layer_;
  Places places_;
  ParseResult result_;
};

// Refuses a file if a flag disables its use. This is checked here because resolve_arguments() cannot distinguish a flag
// that was given as False from its default.
void check_disabled_files(const ParseResult& result) {
  const auto check = [&](std::string_view flag, bool value, std::string_view name, const std::string& file) {
    if (value || file.empty() || !result.explicitly_set.contains(std::string(flag))) return;
    throw_error(ErrorCode::kUsage,
                "--{} False and --{} {} exclude each other: a file that is named is read; give one of them",
                flag, name, file);
  };
  const Arguments& a = result.arguments;
  check("do_eval", a.do_eval, "validation_file", a.validation_file);
  check("do_predict", a.do_predict, "test_file", a.test_file);
}

}  // namespace

ParseResult parse_arguments(std::span<const std::string> words, const ParseOptions& options) {
  CommandLine line(words, options);
  ParseResult result = line.read();
  if (result.help) return result;
  Places places = line.places();
  try {
    const Replacement replacement = replace_foreign_configs(result.arguments, &result.explicitly_set);
    for (const auto& [name, place] : replacement.places) places[name] = place;
    check_disabled_files(result);
    result.notes = replacement.notes;
    const std::vector<std::string> notes = resolve_arguments(result.arguments);
    result.notes.insert(result.notes.end(), notes.begin(), notes.end());
  } catch (const Error& error) {
    throw Error(error.code(), with_places(error.what(), places));
  }
  return result;
}

Arguments arguments_from_json(std::string_view text, std::string_view source) {
  ParseResult result;
  apply_layer(read_argument_json(text, source, SourceLines::kOmit), result);
  return std::move(result.arguments);
}

}  // namespace plimsoll
