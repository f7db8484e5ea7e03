// The activation functions of feed-forward layers, by the names that transformers gives them in config.json.
// Thread-safe: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

// The formulas are documented in kernels/element_wise/gelu.h.
enum class Activation : uint8_t { kGelu, kGeluTanh, kRelu, kSilu, kTanh };

// All activation functions, for tests and tables.
inline constexpr std::array kActivations{Activation::kGelu, Activation::kGeluTanh, Activation::kRelu,
                                         Activation::kSilu, Activation::kTanh};

struct ActivationName {
  std::string_view name;
  Activation activation;
};

// All names that transformers has for these functions. "gelu_python" is the same function as "gelu", computed by other operations.
// "gelu_new", "gelu_pytorch_tanh" and "gelu_fast" are the tanh approximation of GELU and differ only in rounding; gelu_fast contains
// the constant 0.7978845608, which is sqrt(2 / pi) to 4e-12. Plimsoll prints the first name of each function.
inline constexpr std::array kActivationNames{
    ActivationName{"gelu", Activation::kGelu},
    ActivationName{"gelu_python", Activation::kGelu},
    ActivationName{"gelu_new", Activation::kGeluTanh},
    ActivationName{"gelu_pytorch_tanh", Activation::kGeluTanh},
    ActivationName{"gelu_fast", Activation::kGeluTanh},
    ActivationName{"relu", Activation::kRelu},
    ActivationName{"silu", Activation::kSilu},
    ActivationName{"swish", Activation::kSilu},
    ActivationName{"tanh", Activation::kTanh},
};

// Returns the activation function with this name in transformers, or nothing for an unknown name.
constexpr std::optional<Activation> find_activation(std::string_view name) {
  for (const ActivationName& row : kActivationNames) {
    if (row.name == name) return row.activation;
  }
  return std::nullopt;
}

constexpr std::string_view activation_name(Activation activation) {
  for (const ActivationName& row : kActivationNames) {
    if (row.activation == activation) return row.name;
  }
  return "?";
}

}  // namespace plimsoll
