#include <fmt/format.h>

#include <string>

#include "base/units.h"
#include "plan/anatomy/generation.h"
#include "show/report/plan_table.h"
#include "show/report/quantities.h"

namespace plimsoll {
namespace {

// Formats a number of bytes: "18.0 KiB" or "1.5 MiB".
std::string small_size(int64_t bytes) {
  if (bytes < kMiB) return short_number(static_cast<double>(bytes) / 1024.0) + " KiB";
  return short_number(static_cast<double>(bytes) / static_cast<double>(kMiB)) + " MiB";
}

}  // namespace

std::string cache_table(const Plan& plan, size_t columns) {
  const CacheAnatomy cache = cache_anatomy(plan);
  const GenerationSizes& sizes = plan.request.generation.sizes;
  const GenerationEstimate estimate = generation_estimate(plan);
  const std::string sequences = counted(sizes.sequences_per_prompt, "sequence");
  std::string text = fmt::format("\nKV cache: {} MiB for texts of maximum length, {} of {} tokens\n",
                                 format_mib(cache.bytes()), counted(cache.num_pages, "page"),
                                 plan.request.generation.page_size);
  text += "  " + wrapped(fmt::format("a token takes {} (keys and values of all layers), a page {}",
                                     small_size(cache.bytes_per_token), small_size(cache.page_bytes)),
                         columns - 2, 4);
  text += "  " + wrapped(fmt::format("{} at once, {} each; prompts of up to {}, up to {} after them",
                                     counted(sizes.prompts_at_once, "prompt"), sequences,
                                     counted(sizes.longest_prompt, "token"),
                                     counted(sizes.max_new_tokens, "new token")),
                         columns - 2, 4);
  text += "  " +
          wrapped(sizes.sequences_per_prompt == 1
                      ? fmt::format("each prompt has {}",
                                    counted(cache.per_prompt.shared + cache.per_prompt.own, "page"))
                      : fmt::format(
                            "each prompt needs {} that its sequences share, and up to {} more per sequence",
                            counted(cache.per_prompt.shared, "page"), counted(cache.per_prompt.own, "page")),
                  columns - 2, 4);
  return text +
         wrapped(
             fmt::format(
                 "speed: prefill of {} in about {} ms; then about {} ms per run of one token per sequence, "
                 "{} new tokens/s (estimate{})",
                 counted(plan.request.batches.generate.tokens, "token"), short_number(estimate.prefill_ms),
                 short_number(estimate.decode_run_ms), short_number(estimate.new_tokens_per_s),
                 plan.is_on_gpu() ? "" : " without the time to select tokens on the host"),
             columns);
}

std::string beam_table(const Plan& plan, const std::vector<BeamCost>& costs) {
  if (costs.empty()) return {};
  const GenerationSizes& sizes = plan.request.generation.sizes;
  const bool are_texts = sizes.texts_per_prompt > 1 && sizes.texts_per_prompt == sizes.sequences_per_prompt;
  std::string text = "\n" + left_aligned(are_texts ? "texts per prompt" : "beams", 18) +
                     right_aligned("pages", 9) + right_aligned("cache MiB", 11) +
                     right_aligned("total MiB", 11) + right_aligned("ms per run", 12) +
                     right_aligned("new tokens/s", 14) + "\n";
  for (const BeamCost& cost : costs) {
    const bool is_this = cost.num_beams == sizes.sequences_per_prompt;
    text += left_aligned(fmt::format("  {}{}", cost.num_beams, is_this ? " (this plan)" : ""), 18) +
            right_aligned(format_grouped(cost.cache.num_pages), 9) +
            right_aligned(format_mib(cost.cache.bytes()), 11) +
            right_aligned(format_mib(cost.total_bytes), 11) +
            right_aligned(short_number(cost.estimate.decode_run_ms), 12) +
            right_aligned(short_number(cost.estimate.new_tokens_per_s), 14) +
            (cost.fits ? "" : "  will not fit") + "\n";
  }
  return text + "each row is a plan; speeds are estimates of decoding\n";
}

}  // namespace plimsoll
