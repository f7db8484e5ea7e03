// Formats settings for people: --help, the documentation page, resolved values, JSON and differences between
// settings.
#include <algorithm>
#include <iterator>
#include <set>

#include "arguments/argument_table.h"
#include "arguments/foreign_keys.h"
#include "arguments/value.h"
#include "base/check.h"

namespace plimsoll {
namespace {

constexpr size_t kColumns = 80;

// Appends words in lines of at most kColumns, each indented by `indent` blanks.
void append_wrapped(std::string& out, std::string_view text, size_t indent) {
  std::string line;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    if (!line.empty() && indent + line.size() + 1 + word.size() > kColumns) {
      out += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += line.empty() ? "" : " ";
    line += word;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += std::string(indent, ' ') + line + "\n";
}

// Returns the permitted values of a setting for help texts: an interval, a list of choices, or an empty string.
std::string format_range(const ArgumentInfo& info) {
  if (info.range.find('|') == std::string_view::npos) return std::string(info.range);
  return fmt::format("{}", fmt::join(split_choices(info.range), ", "));
}

void append_setting(std::string& out, const ArgumentInfo& info) {
  const bool is_flag = info.type == "flag";
  out += fmt::format("  --{}{}{}\n", info.name, is_flag ? "" : " ", is_flag ? "" : info.type);
  std::string text(info.help);
  if (const std::string range = format_range(info); !range.empty())
    text += fmt::format(" One of: {}.", range);
  if (info.range.starts_with('[') || info.range.starts_with('(')) {
    text = fmt::format("{} Range {}.", info.help, info.range);
  }
  if (!info.default_text.empty()) text += fmt::format(" (default {})", info.default_text);
  if (info.status == ArgumentStatus::kNoEffect)
    text += fmt::format(" Accepted without effect: {}.", info.note);
  if (info.status == ArgumentStatus::kRefused) text += fmt::format(" Refused: {}.", info.note);
  append_wrapped(out, text, 8);
}

// Returns the names of the settings with this status in alphabetical order.
std::string names_with(ArgumentStatus status) {
  std::set<std::string_view> names;
  for (const ArgumentInfo& info : argument_table()) {
    if (info.status == status) names.insert(info.name);
  }
  return fmt::format("{}", fmt::join(names, " "));
}

void append_status_lists(std::string& out) {
  out += "\naccepted without effect (--help NAME explains why):\n";
  append_wrapped(out, names_with(ArgumentStatus::kNoEffect), 8);
  out += "\nrefused (--help NAME explains why):\n";
  append_wrapped(out, names_with(ArgumentStatus::kRefused), 8);
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|' || c == '*' || c == '<') result += '\\';
    result += c;
  }
  return result;
}

constexpr std::string_view kPageHead = R"(# Arguments

This page is generated from `include/plimsoll/arguments.inc`, and a test fails if it is outdated. To update it, run
`ctest -R arguments_test` in the build directory and copy `ARGUMENTS.md` from there over this file.

## Syntax

- `--name value` or `--name=value`; `-` and `_` are equivalent in names.
- A flag takes no value, or `True`/`False`, `1`/`0`, `yes`/`no`, `on`/`off`; `--no_name` disables it.
- A list takes words separated by commas or blanks; a key=value setting takes `momentum=0.9,nesterov=true` or an object.
- A size takes bytes or a suffix: `2GiB` and `2G` are 2 x 1024^3 bytes, `2GB` is 2 x 1000^3.
- A word that ends in `.json`, `.yaml` or `.yml`, or follows `--config`, is a file with any of the settings: one object with
  their names as keys. The command line overrides files, and a later file overrides an earlier one. `null` means the default.
- An unknown name is an error that suggests the nearest name. The exit code of every error on this page is 2.

Names of Hugging Face's `TrainingArguments` and example scripts have the same meaning as there. Each is either implemented,
accepted with a note if it has no effect here, or refused with a reason if it requests more than its default.

)";
constexpr std::string_view kPageRules = R"(
## Rules that are checked before a run

- Data comes from one source: `dataset_name dummy` and any file exclude each other, as do the folder of a GLUE task and a
  `train_file`; any other `dataset_name` needs a `task_name`.
- `fp16` and `bf16` exclude each other, and so do `use_cpu` and a `device` other than a CPU. `fp16` needs a GPU.
- `load_best_model_at_end` needs equal `save_strategy` and `eval_strategy` (or `save_strategy best`), and `save_steps` must be
  a multiple of `eval_steps`.
- Numbers of steps above 1 must be integers; values below 1 are a fraction of all steps. `logging_steps`, `eval_steps` and
  `save_steps` must be above 0 if their strategy is `steps`; the default of `eval_steps` is `logging_steps`, otherwise 500.
- The default of `logging_steps` is a twentieth of the run (0.05), so that a run of any length logs about 20 points and `loss.svg`
  shows a curve. Trainer's default is 500 steps; `--logging_steps 500` restores it.
- `validation_file` implies `do_eval`, and `test_file` implies `do_predict`: a file that is named is read. Trainer reads them only
  with the flags. `do_eval False` together with `validation_file` is refused, and so are `do_predict False` with `test_file`, and
  files on the command line of `eval` or `predict` that the command does not read. In a settings file shared by several commands
  they cause a note.
- `validation_split_percentage` implies `do_eval`. Without `validation_file`, a language model is validated on the first 5 % of the
  documents of its `train_file` if the run evaluates; otherwise it is trained on all of them. run_clm sets them aside in either case.
- `quiet` excludes the levels `detail`, `debug`, `info`, `error` and `critical` of `log_level`.
- `reduce_lr_on_plateau`, `greedy`, `save_strategy best` and `early_stopping_patience` need an `eval_strategy`.
- `dataloader_prefetch_factor` needs `dataloader_num_workers` above 0.
- The default of `metric_for_best_model` is `loss`; the default of `greater_is_better` follows from its name.

## Documents of a language model

- `problem_type masked_lm` hides tokens of the documents and trains an encoder to predict them, as run_mlm does. A checkpoint whose class is a masked language model (`...ForMaskedLM`) is trained in this way
  if its `train_file` is plain text; all others make it the base of a classifier. Its documents have no line breaks, and its rows have `max_seq_length` tokens, or `block_size` if that is given. With
  `line_by_line` each document is a row, which is cut to this length, and those without a token to predict are left out.
- `problem_type causal_lm`, a checkpoint whose class is a language model (`GPT2LMHeadModel`, `...ForCausalLM`), or a `train_file` that is plain text
  together with a model that has a head for language modelling and states no task, make the run train a language model. A `task_name`, or a
  `train_file` with a label column or with tags, makes such a checkpoint the base of a classifier.
- Each line of a `.txt` file is a document, with its line break unless `keep_linebreaks` is False. Other files have a document per row, in the column given by
  `text_column_names`, otherwise in `text`, otherwise in the first column that can be text; or lists of ids in `input_ids`. With a list of
  the same length in `labels` (the id of each token, or -100 for a token that is not trained), each row is a sequence of its own, as transformers' default collator reads it.
- Parquet and Arrow files, and folders that `save_to_disk` of Hugging Face's datasets wrote, have the same rows as JSONL files, if Plimsoll was built with Apache Arrow; otherwise they are
  refused with the line of Python that converts them. Large ones are read part by part. A folder with several splits is refused: give the folder of one.
  A data set in several Parquet files (`data/train-00000-of-00002.parquet`) is given by its folder, or by a pattern in quotes, `'data/train-*.parquet'`, if the folder has several splits.
- All documents are concatenated and cut into blocks of `block_size` tokens, as in run_clm, but over the whole file instead of 1000 documents at a time, and
  the last, shorter block is kept: every token is trained on. With `packing`, documents are never mixed: each is a sequence of its own within
  a block, and is cut only if it is longer than a block. `max_train_samples` and `max_eval_samples` count blocks.
- No token is added between documents unless the tokenizer's own template or `append_eos_token` does.

## Conversations

- A causal language model is fine-tuned on conversations if the rows of its JSON or JSONL file have `messages` (a list of `{"role": ..., "content": ...}`), `conversations` (the same, also with
  ShareGPT's keys `from` and `value` and its roles `human` and `gpt`), or `prompt` and `completion` (two such lists, or two texts). `text_column_names` selects another column.
- The tokens are those of `apply_chat_template()` of transformers with the tokenizer's own template. Plimsoll knows published templates by a fingerprint of their text: white space that is
  not rendered, comments and quotes do not matter. Any other template is refused; `chat_template` names the one that it equals, and its name is saved
  with the model, so that `generate --chat` uses the same. Templates that state today's date state 26 Jul 2024, which they
  have for systems without a clock.
- Only what the assistant writes is trained: from the end of the header of its turn to its end-of-turn token, inclusive. All other tokens have no label, and the loss of an optimizer step is the
  mean over the labels of all its micro-batches. Of two texts, the completion and an end-of-text token that follows it are trained; of two lists, the turns of the completion.
- Each conversation is a row of its own, cut to `block_size` tokens; one in which no label is left is not used. With `packing` several are packed into a row, and each sees only itself.
- Tool calls, tools, and contents that are not texts are refused with the line of the row.

## Columns of a data file

- The labels are in the column `label`, or in the one given by `--label_column_name`. The texts are in the columns given by
  `--text_column_names`, otherwise in `sentence1` and `sentence2` (or another pair of GLUE's names), otherwise in the only two
  other columns, or the only one, that can be texts. Columns of numbers, of true and false, and those with the name of an index
  (`id`, `idx`, `index`, `guid`, `Unnamed: 0`, names that end in `_id`) are never texts. More than two are an error that names them.
- A form of the label is never a text: a column such as `label_text` or `label_name`, and a column that has one value for each label.
  Metadata is a text only if nothing else is: URLs, addresses, dates, prices, hashes, names of files, and single words in columns such as `lang` or `split`. A
  column called `text`, `sentence`, `review` or similar is the only text if the other columns have single words, few different values
  or names such as `author`. A note names the columns that are not read.
- Training writes the names of both into the `config.json` that it saves, as `text_column_names` and `label_column_name`.
  `eval` and `predict` read the same columns of their files, so that a label column is never mistaken for a second text. The
  two settings override the names saved in a model.
- If a file does not have the columns that the model was trained on, the same number of texts is selected by the rule above,
  and a warning names both; if the file has more columns that could be the texts, it is refused. For a model without saved names, such as one of Hugging Face's, a note says if texts are read in
  pairs.
- Rows of words with tags are those of run_ner: `tokens` or `words`, or else the first column of lists, has the words; the label
  column, `ner_tags` (or `pos_tags`, `chunk_tags` with `--task_name pos`, `chunk`), `labels` or `tags`, or else the next column of
  lists, has one tag per word. They come from JSON, JSON Lines or CoNLL files (`.conll`, `.txt`, `.conllu`: one word and its tags
  per line, an empty line between sentences), since CSV cannot contain lists.
- Rows of ready-made token ids have a column `input_ids` (JSON, lists) and, optionally, `token_type_ids`, `attention_mask` and
  `position_ids`; the first row determines which of them are read. They are used as they are and need no tokenizer. Their labels are in
  `label` or `labels`.
- Padding (`attention_mask` 0) of such rows is left out at both ends, and positions are counted from the first token that is not padding.
  transformers counts padding on the left too, unless the data has `position_ids`, so models with learned positions (BERT, DistilBERT,
  ELECTRA, GPT-2) differ there, which a warning says; pad on the right to get the same results. A mask of 0 between other tokens, other `position_ids`, and
  `token_type_ids` with GPT-2 are errors. Models without embeddings of token types ignore `token_type_ids`.
- Labels that are lists (`[1, 0, 1]`, `["a", "b"]`, as JSON, Python, NumPy or PyTorch writes them, also tuples, sets and `array([1, 0])`) are sets of classes, in CSV too.
  `--label_delimiter '#'` splits cells such as `a#b`, and is saved with the model.
- Labels of evaluation may be written in another way than those of training: `0.0` is the class `0`, and `true` in JSON the class `True` of a CSV file.
- A field that begins with a quote ends at the next one, as in pandas; text after it belongs to the field, with a warning. A quoted
  field that looks like several rows has a warning too. `--quoting none` makes quotes ordinary characters.
- In JSON, NaN, Infinity, numbers beyond 64 bits, half surrogate pairs and repeated keys are errors only in a column that is read.
- A file may be compressed: `.gz` (gzip) or `.zst` (Zstandard) follows the extension, as in `train.csv.gz`.
- `plimsoll inspect FILE` shows what training reads of a file; it also takes `--text_column_names`, `--label_column_name`,
  `--problem_type`, `--label_delimiter` and `--quoting`.
)";

void append_group_page(std::string& out, ArgumentGroup group) {
  out += fmt::format(
      "\n## {}\n\n| name | type | default | range | from | status | meaning "
      "|\n|---|---|---|---|---|---|---|\n",
      to_string(group));
  for (const ArgumentInfo& info : argument_table()) {
    if (info.group != group) continue;
    std::string meaning(info.help);
    if (!info.note.empty())
      meaning += fmt::format(" {}: {}.", info.status == ArgumentStatus::kRefused ? "Refused" : "No effect",
                             info.note);
    const bool has_unit = !info.unit.empty() && info.unit != "json" && info.unit != "secret" &&
                          info.unit != "flag" && info.unit != "repeatable" && info.unit != "file" &&
                          info.unit != "folder";
    out += fmt::format("| `{}` | {}{} | {} | {} | {} | {} | {} |\n", info.name, info.type,
                       has_unit ? fmt::format(", {}", info.unit) : std::string{}, escaped(info.default_text),
                       escaped(format_range(info)), to_string(info.origin), to_string(info.status),
                       escaped(meaning));
  }
}

// Appends a table with the number of settings by the origin of their names and by status.
void append_counts(std::string& out) {
  out += "| from | implemented | no effect | refused | all |\n|---|---|---|---|---|\n";
  for (const ArgumentOrigin origin : {ArgumentOrigin::kTrainer, ArgumentOrigin::kScript,
                                      ArgumentOrigin::kPeft, ArgumentOrigin::kPlimsoll}) {
    out += fmt::format("| {} |", to_string(origin));
    int64_t all = 0;
    for (const ArgumentStatus status :
         {ArgumentStatus::kImplemented, ArgumentStatus::kNoEffect, ArgumentStatus::kRefused}) {
      const int64_t count = std::ranges::count_if(argument_table(), [&](const ArgumentInfo& info) {
        return info.origin == origin && info.status == status;
      });
      out += fmt::format(" {} |", count);
      all += count;
    }
    out += fmt::format(" {} |\n", all);
  }
}

void append_old_names_page(std::string& out) {
  out += "\n## Old names\n\nEach is accepted with a warning.\n\n| old name | is read as |\n|---|---|\n";
  for (const OldName& old : old_names()) {
    if (old.kind == NameKind::kPeft) continue;
    const std::string meaning = old.replacement.empty() ? fmt::format("ignored: {}", old.note)
                                : old.true_value.empty()
                                    ? fmt::format("`{}`", old.replacement)
                                    : fmt::format("`{} {}`", old.replacement, old.true_value);
    out += fmt::format("| `{}` | {} |\n", old.name, meaning);
  }
  for (const OldValue& old : old_values()) {
    out += fmt::format("| `{0} {1}` | `{0} {2}` |\n", old.setting, old.value, old.replacement);
  }
  out +=
      "\n## Names of PEFT\n\nLoraConfig's names that are translated.\n\n| name | is read as "
      "|\n|---|---|\n";
  for (const OldName& old : old_names()) {
    if (old.kind == NameKind::kPeft) out += fmt::format("| `{}` | `{}` |\n", old.name, old.replacement);
  }
}

// Converts a topic such as --learning-rate to the name learning_rate.
std::string topic_name(std::string_view topic) {
  while (topic.starts_with('-')) topic.remove_prefix(1);
  std::string name(topic);
  std::ranges::replace(name, '-', '_');
  return name;
}

constexpr int kNumGroups = static_cast<int>(ArgumentGroup::kDistributed) + 1;

}  // namespace

const std::vector<ArgumentInfo>& argument_table() {
  static const std::vector<ArgumentInfo> table = [] {
    const Arguments defaults;
    std::vector<ArgumentInfo> rows;
    for (const Setting& setting : settings()) {
      rows.push_back(setting.info);
      rows.back().default_text = format_value(defaults, setting);
    }
    return rows;
  }();
  return table;
}

std::string arguments_help(std::string_view topic) {
  return help_of(topic, [](const ArgumentInfo&) { return true; });
}

bool is_setting_topic(std::string_view topic) {
  const std::string name = topic_name(topic);
  return find_setting(name) != nullptr || find_old_name(name) != nullptr;
}

std::string help_of(std::string_view topic, const std::function<bool(const ArgumentInfo&)>& is_wanted) {
  const std::string name = topic_name(topic);
  std::string out;
  if (const Setting* setting = find_setting(name)) {
    append_setting(out, argument_table()[static_cast<size_t>(setting - settings().data())]);
    return out;
  }
  if (const OldName* old = find_old_name(name)) {
    if (old->replacement.empty()) return fmt::format("  --{} is ignored: {}\n", name, old->note);
    return fmt::format("  --{} is {} name of --{}\n", name,
                       old->kind == NameKind::kPeft ? "PEFT's" : "an old", old->replacement);
  }
  const bool is_all = name == "all";
  bool is_known = is_all || name.empty();
  for (int i = 0; i < kNumGroups; ++i) {
    const auto group = static_cast<ArgumentGroup>(i);
    const bool is_topic = name == to_string(group);
    is_known = is_known || is_topic;
    if (!is_all && !name.empty() && !is_topic) continue;
    std::string section;
    for (const ArgumentInfo& info : argument_table()) {
      if (info.group != group) continue;
      if (name.empty() && info.status != ArgumentStatus::kImplemented) continue;
      if (is_wanted(info)) append_setting(section, info);
    }
    if (!section.empty()) out += fmt::format("{}{}:\n{}", out.empty() ? "" : "\n", to_string(group), section);
  }
  if (!is_known) {
    throw_error(ErrorCode::kUsage, "--help {}: unknown group or setting{}", name, did_you_mean_setting(name));
  }
  if (name.empty()) append_status_lists(out);
  if (out.empty()) out = fmt::format("no setting of the group '{}' has an effect here\n", name);
  return out;
}

std::string arguments_markdown() {
  std::string out(kPageHead);
  append_counts(out);
  out += kPageRules;
  for (int i = 0; i < kNumGroups; ++i) append_group_page(out, static_cast<ArgumentGroup>(i));
  append_old_names_page(out);
  out += foreign_keys_markdown();
  return out;
}

std::string format_argument(const Arguments& arguments, std::string_view name) {
  const Setting* setting = find_setting(name);
  if (setting == nullptr) {
    throw_error(ErrorCode::kUsage, "{}: unknown setting{}", name, did_you_mean_setting(name));
  }
  const std::string text = format_value(arguments, *setting);
  return setting->is_secret() && !text.empty() ? "***" : text;
}

std::string format_arguments(const Arguments& arguments, WhichArguments which) {
  std::string out;
  for (const Setting& setting : settings()) {
    if (which == WhichArguments::kNotDefault && is_default(arguments, setting)) continue;
    out += fmt::format("{} = {}\n", setting.info.name, format_argument(arguments, setting.info.name));
  }
  return out;
}

std::string arguments_json(const Arguments& arguments) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const Setting& setting : settings()) {
    if (!setting.is_secret()) object[std::string(setting.info.name)] = value_json(arguments, setting);
  }
  // A program may set a value that is not valid UTF-8, which the parsers of settings would refuse. Its invalid bytes
  // are written as U+FFFD.
  return object.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::vector<ArgumentDifference> diff_arguments(const Arguments& before, const Arguments& after) {
  std::vector<ArgumentDifference> differences;
  for (const Setting& setting : settings()) {
    if (setting.is_secret() || value_json(before, setting) == value_json(after, setting)) continue;
    differences.push_back(
        {std::string(setting.info.name), format_value(before, setting), format_value(after, setting)});
  }
  return differences;
}

}  // namespace plimsoll
