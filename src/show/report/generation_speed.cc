#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.h"
#include "plimsoll/generator.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

double per(double sum, int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0.0;
}

std::string mib(double bytes) {
  return format_mib(static_cast<int64_t>(bytes));
}

// Formats a time: "35.2 ms" or "1.25 s".
std::string duration(double seconds) {
  return seconds < 1 ? short_number(1e3 * seconds) + " ms" : short_number(seconds) + " s";
}

}  // namespace

std::string format_generation_speed(const GenerationSpeed& speed) {
  if (speed.num_prompts == 0) return "no text was generated";
  std::string text = fmt::format("{}, {}; {}, {}\n", counted(speed.num_prompts, "prompt"),
                                 counted(speed.prompt_tokens, "prompt token"),
                                 counted(speed.num_texts, "text"), counted(speed.new_tokens, "new token"));
  text += fmt::format("{} new tokens/s with prefill ({}), {} to the first token\n",
                      short_number(speed.new_tokens_per_s()), duration(speed.seconds),
                      duration(speed.first_token_seconds));
  if (speed.decode_runs == 0) return text + "decode: none, every text ends with its first token";
  return text +
         fmt::format(
             "decode: {} new tokens/s; {} in {}, {} per run, which reads {} MiB of weights and {} MiB of "
             "KV cache: {} GB/s",
             short_number(speed.decoded_new_tokens_per_s()), counted(speed.decode_runs, "run"),
             duration(speed.decode_seconds), duration(per(speed.decode_seconds, speed.decode_runs)),
             mib(per(speed.weight_bytes_read, speed.decode_runs)),
             mib(per(speed.cache_bytes_read, speed.decode_runs)),
             short_number(1e-9 * speed.bytes_read_per_s()));
}

std::string generation_speed_json(const GenerationSpeed& speed, const MemoryFigures& memory) {
  const nlohmann::ordered_json json{
      {"prompts", speed.num_prompts},
      {"prompt_tokens", speed.prompt_tokens},
      {"texts", speed.num_texts},
      {"new_tokens", speed.new_tokens},
      {"seconds", speed.seconds},
      {"new_tokens_per_s", speed.new_tokens_per_s()},
      {"first_token_seconds", speed.first_token_seconds},
      {"prefill_seconds", speed.prefill_seconds},
      {"decode_seconds", speed.decode_seconds},
      {"decode_runs", speed.decode_runs},
      {"decoded_tokens", speed.decoded_tokens},
      {"decode_new_tokens_per_s", speed.decoded_new_tokens_per_s()},
      {"weight_bytes_read_per_run", per(speed.weight_bytes_read, speed.decode_runs)},
      {"cache_bytes_read_per_run", per(speed.cache_bytes_read, speed.decode_runs)},
      {"decode_bytes_read_per_s", speed.bytes_read_per_s()},
      {"predicted_total_bytes", memory.predicted_total_bytes},
      {"arena_bytes", memory.arena_bytes},
      {"arena_high_water_bytes", memory.arena_high_water_bytes},
      {"measured_peak_bytes", memory.measured_peak_bytes}};
  return json.dump(2) + "\n";
}

}  // namespace plimsoll
