#include "base/rope_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace plimsoll {
namespace {

// The numeric parameters, with their names in the text that rope_text() writes.
struct NumberField {
  std::string_view name;
  double RopeParameters::*field;
};
constexpr NumberField kNumberFields[] = {
    {"theta", &RopeParameters::theta},         {"factor", &RopeParameters::factor},
    {"original", &RopeParameters::original},   {"attention", &RopeParameters::attention_factor},
    {"low", &RopeParameters::low_freq_factor}, {"high", &RopeParameters::high_freq_factor},
    {"fast", &RopeParameters::beta_fast},      {"slow", &RopeParameters::beta_slow},
};
struct ListField {
  std::string_view name;
  std::vector<double> RopeParameters::*field;
};
constexpr ListField kListFields[] = {{"short", &RopeParameters::short_factor},
                                     {"long", &RopeParameters::long_factor}};
constexpr std::string_view kNoTruncation = "exact";

double number_of(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  PLIMSOLL_CHECK(error == std::errc() && end == text.data() + text.size(),
                 "a parameter of a rotary embedding must be a number, but is '{}'", text);
  return value;
}

// Returns the text before `separator`, and removes it and the separator from `text`.
std::string_view take_part(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return part;
}

// Returns the index of the pair of elements that makes `rotations` full turns over the original
// maximum length. The index is a real number.
double yarn_pair(double rotations, double dim, const RopeParameters& p) {
  return dim * std::log(p.original / (rotations * 2.0 * std::numbers::pi)) / (2.0 * std::log(p.theta));
}

// For the type yarn: returns the weight (0 to 1) of the unscaled frequency in the weighted mean that is the frequency of pair i.
double yarn_share(int64_t i, double dim, const RopeParameters& p) {
  double low = yarn_pair(p.beta_fast, dim, p), high = yarn_pair(p.beta_slow, dim, p);
  if (p.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, dim - 1.0);
  if (low == high) high += 0.001;  // avoids a division by zero as transformers does
  return 1.0 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
}

double llama3_frequency(double base, const RopeParameters& p) {
  const double wavelength = 2.0 * std::numbers::pi / base;
  if (wavelength < p.original / p.high_freq_factor) return base;
  if (wavelength > p.original / p.low_freq_factor) return base / p.factor;
  const double smooth =
      (p.original / wavelength - p.low_freq_factor) / (p.high_freq_factor - p.low_freq_factor);
  return (1.0 - smooth) * base / p.factor + smooth * base;
}

}  // namespace

std::optional<RopeType> find_rope_type(std::string_view name) {
  for (const RopeTypeName& row : kRopeTypeNames) {
    if (name == row.name) return row.type;
  }
  return std::nullopt;
}

const char* rope_type_name(RopeType type) {
  for (const RopeTypeName& row : kRopeTypeNames) {
    if (row.type == type) return row.name;
  }
  PLIMSOLL_CHECK(false, "RopeType has a value that is not one of its enumerators");
}

std::string rope_text(const RopeParameters& parameters) {
  const RopeParameters defaults;
  std::string text = rope_type_name(parameters.type);
  for (const NumberField& row : kNumberFields) {
    const double value = parameters.*row.field;
    if (value != defaults.*row.field) text += fmt::format(" {}={}", row.name, value);
  }
  for (const ListField& row : kListFields) {
    if ((parameters.*row.field).empty()) continue;
    text += fmt::format(" {}=", row.name);
    for (const double value : parameters.*row.field) text += fmt::format("{}:", value);
    text.pop_back();
  }
  if (!parameters.truncate) text.append(" ").append(kNoTruncation);
  return text;
}

RopeParameters parse_rope_text(std::string_view text) {
  RopeParameters parameters;
  const std::string_view type_name = take_part(text, ' ');
  const std::optional<RopeType> type = find_rope_type(type_name);
  PLIMSOLL_CHECK(type, "'{}' is not the name of a type of rotary embedding", type_name);
  parameters.type = *type;
  while (!text.empty()) {
    std::string_view value = take_part(text, ' ');
    const std::string_view name = take_part(value, '=');
    if (name == kNoTruncation) parameters.truncate = false;
    for (const NumberField& row : kNumberFields) {
      if (name == row.name) parameters.*row.field = number_of(value);
    }
    for (const ListField& row : kListFields) {
      while (name == row.name && !value.empty())
        (parameters.*row.field).push_back(number_of(take_part(value, ':')));
    }
  }
  return parameters;
}

double RopeFrequencies::frequency(int64_t i, int64_t dim, int64_t length) const {
  if (length <= original) return within[i];
  // For the type dynamic, pair 0 does not depend on the length. Handling it here avoids a division by zero below if dim is 2.
  if (growth == 0.0 || i == 0) return beyond[i];
  const double stretch =
      growth * static_cast<double>(length) / static_cast<double>(original) - (growth - 1.0);
  return within[i] * std::pow(stretch, -2.0 * static_cast<double>(i) / static_cast<double>(dim - 2));
}

RopeFrequencies rope_frequencies(const RopeParameters& p, int64_t dim) {
  PLIMSOLL_CHECK(dim >= 2 && dim % 2 == 0 && dim <= kMaxRopeDim,
                 "the head size of a rotary embedding must be even and between 2 and {}, but is {}",
                 kMaxRopeDim, dim);
  const auto half = static_cast<size_t>(dim / 2);
  const bool has_lists = p.short_factor.size() == half && p.long_factor.size() == half;
  PLIMSOLL_CHECK(p.type != RopeType::kLongRope || has_lists,
                 "longrope needs one short and one long factor per pair of elements of a head, but has {} "
                 "and {} for {} pairs",
                 p.short_factor.size(), p.long_factor.size(), half);
  RopeFrequencies out;
  const double width = static_cast<double>(dim);
  for (size_t i = 0; i < half; ++i) {
    const double base = std::pow(p.theta, -2.0 * static_cast<double>(i) / width);
    double within = base, beyond = base;
    switch (p.type) {
      case RopeType::kDefault:
      case RopeType::kDynamic:
        break;
      case RopeType::kLinear:
        within = beyond = base / p.factor;
        break;
      case RopeType::kYarn: {
        const double share = yarn_share(static_cast<int64_t>(i), width, p);
        within = beyond = base / p.factor * (1.0 - share) + base * share;
        break;
      }
      case RopeType::kLongRope:
        within = base / p.short_factor[i];
        beyond = base / p.long_factor[i];
        break;
      case RopeType::kLlama3:
        within = beyond = llama3_frequency(base, p);
        break;
    }
    out.within[i] = within;
    out.beyond[i] = beyond;
  }
  out.original = static_cast<int64_t>(p.original);
  if (p.type == RopeType::kDynamic) out.growth = p.factor;
  if (p.type == RopeType::kYarn || p.type == RopeType::kLongRope) out.scale = p.attention_factor;
  return out;
}

double yarn_attention_factor(double factor, double mscale, double mscale_all_dim) {
  const auto scale_of = [factor](double weight) {
    return factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
  };
  return mscale != 0.0 && mscale_all_dim != 0.0 ? scale_of(mscale) / scale_of(mscale_all_dim) : scale_of(1.0);
}

double longrope_attention_factor(double factor, double original) {
  return factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(original));
}

}  // namespace plimsoll
