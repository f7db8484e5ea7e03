// Rotary position embeddings (Su et al., arXiv 2104.09864): the parameters of each type that Hugging Face's configurations
// state, and the inverse frequencies that follow from them. Thread-safe: values and pure functions.
//
// A head of D numbers is D / 2 pairs; at position n, pair i is rotated by the angle n f_i. With b_i = theta^(-2i / D):
//
//   default   f_i = b_i
//   linear    f_i = b_i / factor (Chen et al., arXiv 2306.15595)
//   dynamic   f_i = b_i s^(-2i / (D - 2)), s = factor S / original - (factor - 1), for a sequence of S > original tokens;
//             f_i = b_i for shorter ones
//   yarn      f_i = b_i / factor for slow pairs and b_i for fast ones, with a ramp between them; cos and sin are multiplied
//             by attention_factor (Peng et al., arXiv 2309.00071)
//   longrope  f_i = b_i / long_i for a sequence of more than `original` tokens, b_i / short_i for shorter ones; cos and sin
//             are multiplied by attention_factor (Ding et al., arXiv 2402.13753)
//   llama3    f_i = b_i for short wavelengths, b_i / factor for long ones, and between them a weighted mean of these two
//             (Llama 3.1)
//
// The length that dynamic and longrope depend on is that of the token's own sequence, so that the result for a token does
// not depend on the other sequences of a batch. (transformers uses the longest sequence of the batch.)
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll {

enum class RopeType : uint8_t { kDefault, kLinear, kDynamic, kYarn, kLongRope, kLlama3 };

struct RopeTypeName {
  RopeType type;
  const char* name;  // the name of the type in config.json
};
inline constexpr RopeTypeName kRopeTypeNames[] = {
    {RopeType::kDefault, "default"}, {RopeType::kLinear, "linear"},     {RopeType::kDynamic, "dynamic"},
    {RopeType::kYarn, "yarn"},       {RopeType::kLongRope, "longrope"}, {RopeType::kLlama3, "llama3"},
};
std::optional<RopeType> find_rope_type(std::string_view name);
const char* rope_type_name(RopeType type);

// The parameters of a rotary embedding. Parameters that its type does not use keep their defaults.
struct RopeParameters {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double factor = 1.0;
  // maximum length with which the model was pretrained (original_max_position_embeddings)
  double original = 0.0;
  double attention_factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // only for the type llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // only for the type yarn
  bool truncate = true;                                  // only for the type yarn
  // used by longrope: one factor per pair, D / 2 for a head of size D
  std::vector<double> short_factor = {}, long_factor = {};
  friend bool operator==(const RopeParameters&, const RopeParameters&) = default;
};

// Write the parameters as a text for an attribute of an op, such as "linear theta=10000 factor=4", and read this text. Requires
// (parse): the text was written by rope_text().
std::string rope_text(const RopeParameters& parameters);
RopeParameters parse_rope_text(std::string_view text);

// The largest head size that is supported.
inline constexpr int64_t kMaxRopeDim = 256;

// The inverse frequencies in the form that kernels use. `within` is for sequences of up to
// `original` tokens, `beyond` for longer ones.
struct RopeFrequencies {
  double within[kMaxRopeDim / 2] = {};
  double beyond[kMaxRopeDim / 2] = {};
  int64_t original = 0;
  double growth = 0.0;  // RopeParameters::factor for the type dynamic; 0 for other types
  double scale = 1.0;   // factor by which cos and sin are multiplied

  // Returns the inverse frequency f_i in a sequence of `length` tokens. Requires: i < dim / 2.
  double frequency(int64_t i, int64_t dim, int64_t length) const;
};
// Computes the inverse frequencies. Requires: dim is even and at most kMaxRopeDim; longrope has dim / 2 factors.
RopeFrequencies rope_frequencies(const RopeParameters& parameters, int64_t dim);

// Return the attention factors that yarn and longrope use if a configuration states none. `mscale` and `mscale_all_dim` are 0 if they are
// absent.
double yarn_attention_factor(double factor, double mscale, double mscale_all_dim);
double longrope_attention_factor(double factor, double original);

}  // namespace plimsoll
