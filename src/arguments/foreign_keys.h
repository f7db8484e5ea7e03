// The keys of configurations of other programs, as data: DeepSpeed's JSON file, Trainer's options and configuration of
// fully sharded data parallelism (FSDP), and Accelerate's ParallelismConfig.
//
// The tables are in the .inc files of this folder. foreign_config.h reads a configuration. Thread-safe: immutable after
// first use.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

enum class KeyType : uint8_t {
  kFlag,
  kInteger,  // a whole number, also one such as 5e8
  kNumber,
  kText,
  kNumbers,  // a list of numbers
  kAny,
  kSection,  // an object whose keys are not in the table; "enabled": false disables it
};

// The use of the value of a key. The value null, and "auto" for everything but a section, mean the value of
// the argument.
enum class KeyUse : uint8_t {
  kSets,      // sets a setting; another value of a setting that the user gave is an error
  kEquals,    // must be equal to the value of a setting
  kSize,      // states how many ranks share the work, together with other keys
  kNoEffect,  // has no effect, which a note states
  kRefused,   // is an error unless it is one of `values`
};

// A key of a configuration.
struct ForeignKey {
  std::string_view path;  // "zero_optimization.stage"; "compile.*" means all other keys of a section
  KeyType type;
  KeyUse use;
  // For kSets, kEquals and kSize: the setting; "adam_beta1|adam_beta2" for a list; "optim_args.momentum" for a key of a
  // key=value setting.
  std::string_view setting;
  // For kSets: the value of the setting for each value of the key, "cpu=True|none="; nothing after = keeps the setting.
  // Empty: the value itself. For kRefused: the values that request nothing, "0|1".
  std::string_view values;
  // The reason of an effect that is missing or refused, or of a value that is not in `values`.
  std::string_view note;
};

// A table of keys, and the argument that names the configuration.
struct ForeignKeys {
  std::string_view argument;  // name of the argument: "deepspeed"
  std::string_view prefix;    // names of keys may begin with this: "fsdp_"
  std::span<const ForeignKey> keys;
};

const ForeignKeys& deepspeed_keys();
const ForeignKeys& fsdp_keys();
const ForeignKeys& fsdp_options();
const ForeignKeys& parallelism_keys();

// Returns the row of a key; if it has none, the row that covers all other keys of its section; otherwise null.
const ForeignKey* find_key(const ForeignKeys& table, std::string_view path);
// Returns true if the table has keys in this section.
bool is_section(const ForeignKeys& table, std::string_view path);
// Returns ", did you mean 'x'?" for the key nearest to an unknown one, or an empty string.
std::string did_you_mean_key(const ForeignKeys& table, std::string_view path);

// Returns the part of docs/ARGUMENTS.md that lists all keys.
std::string foreign_keys_markdown();

}  // namespace plimsoll
