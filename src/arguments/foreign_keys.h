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
  kInteger,  // a whole number, which may be written as 5e8
  kNumber,
  kText,
  kNumbers,  // a list of numbers
  kAny,
  kSection,  // an object whose keys are not listed in the table; it is disabled by "enabled": false
};

// The use of the value of a key. If the value is null or, except for sections, "auto", the corresponding argument of
// the command line determines the setting.
enum class KeyUse : uint8_t {
  kSets,      // sets a setting; if the user gave the setting another value, this is an error
  kEquals,    // the value of the key must be equal to that of a setting
  kSize,      // states, together with other keys, how many ranks there are and what they divide
  kNoEffect,  // the key has no effect, and a note says so
  kRefused,   // any value that is not in `values` is an error
};

// A key of a configuration of another program.
struct ForeignKey {
  // full name of the key, such as "zero_optimization.stage"; "compile.*" means all other keys of the section compile
  std::string_view path;
  KeyType type;
  KeyUse use;
  // The setting, for kSets, kEquals and kSize. "adam_beta1|adam_beta2" if the value is a list; "optim_args.momentum" if
  // the setting is a list of key=value pairs.
  std::string_view setting;
  // For kSets: pairs of a value of the key and the value of the setting, as in "cpu=True|none=". If nothing follows
  // "=", the setting is not changed. If `values` is empty, the setting gets the value of the key. For kRefused: the
  // values that are accepted because they request nothing, as in "0|1".
  std::string_view values;
  // The reason why the key has no effect or is refused, or why only the values in `values` are accepted.
  std::string_view note;
};

// A table of keys, and the argument that names the configuration with these keys.
struct ForeignKeys {
  std::string_view argument;  // name of the argument, such as "deepspeed"
  std::string_view prefix;    // optional prefix of the names of keys, such as "fsdp_"
  std::span<const ForeignKey> keys;
};

const ForeignKeys& deepspeed_keys();
const ForeignKeys& fsdp_keys();
const ForeignKeys& fsdp_options();
const ForeignKeys& parallelism_keys();

// Returns the row of the table for a key. If the key has no row, returns the row for all other keys of its section, such as
// "compile.*"; if there is no such row either, returns null.
const ForeignKey* find_key(const ForeignKeys& table, std::string_view path);
// Returns true if the table has keys in this section.
bool is_section(const ForeignKeys& table, std::string_view path);
// Returns ", did you mean 'x'?" for the known key that resembles an unknown key most, or an empty string.
std::string did_you_mean_key(const ForeignKeys& table, std::string_view path);

// Returns the part of docs/ARGUMENTS.md that lists all keys.
std::string foreign_keys_markdown();

}  // namespace plimsoll
