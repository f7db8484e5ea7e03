// Reads the configurations of other programs (foreign_keys.h) as settings: --deepspeed, --fsdp, --fsdp_config and
// --parallelism_config.
//
// The readers are pure functions of text; replace_foreign_configs() also reads the files that the settings name. Errors:
// kUsage. Every message starts with the argument and the file, and contains the full name of the key.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/foreign_keys.h"
#include "plimsoll/arguments.h"

namespace plimsoll {

// The value of one key of another program's configuration, and the setting of Plimsoll that it sets.
struct ForeignValue {
  const ForeignKey* key = nullptr;
  std::string where;    // name of the key in messages: "--deepspeed ds.json: 'optimizer.params.lr'"
  std::string shown;    // the value as it is written in the configuration, such as 3e-5
  std::string setting;  // the setting, such as "learning_rate" or "optim_args.momentum"
  std::string text;     // the value of the setting, written as on the command line
};

struct ForeignConfig {
  std::string name;  // start of error messages, such as "--deepspeed ds.json"
  // one element per key that sets a setting, in the order of the configuration
  std::vector<ForeignValue> values;
  std::vector<std::string> unused;  // full names of the keys that have no effect
  std::vector<std::string> notes;
};

// Reads a JSON object. `name` is the start of messages: "--deepspeed ds.json", or "--deepspeed" for an object on the command
// line. Errors: kUsage for text that is not JSON, an unknown key, a value of the wrong type, and a value that Plimsoll
// refuses.
ForeignConfig read_foreign_config(const ForeignKeys& table, std::string_view text, std::string_view name);
// Reads the value of --fsdp: "full_shard auto_wrap", "true", or a JSON list of options.
ForeignConfig read_fsdp_options(std::string_view text);

// The result of replace_foreign_configs(): notes for the user, and the source of the value of each setting that it set.
struct Replacement {
  std::vector<std::string> notes;
  // For each setting that was set: the configuration's key that set it, for messages.
  std::map<std::string, std::string> places;
};

// Replaces the settings that name configurations (such as --deepspeed) by the settings that the configurations request,
// so that saved settings do not refer to files. `given` contains the names of the settings that the user gave; if it is
// null, those are the settings that differ from their defaults. Errors: kUsage, also if a value contradicts a setting
// that was given.
Replacement replace_foreign_configs(Arguments& arguments, const std::set<std::string>* given);

}  // namespace plimsoll
