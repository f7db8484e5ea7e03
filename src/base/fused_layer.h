// The kinds of fused ops that contain a linear layer: the norm before the layer and the computation after it, with their names in
// the attributes of the op. Thread-safe: pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace plimsoll {

enum class NormKind : uint8_t { kLayer, kRms };
// The computation after the linear layer, whose result is z: none for kProduct, y = f(z) for kActivation, and y = f(z[:, :F])
// z[:, F:] for kGlu (a gated linear unit).
enum class LayerEnd : uint8_t { kProduct, kActivation, kGlu };

inline constexpr std::array<std::string_view, 2> kNormKindNames{"layer", "rms"};
inline constexpr std::array<std::string_view, 3> kLayerEndNames{"product", "activation", "glu"};

constexpr std::string_view norm_kind_name(NormKind norm) {
  return kNormKindNames[static_cast<size_t>(norm)];
}
constexpr std::string_view layer_end_name(LayerEnd end) {
  return kLayerEndNames[static_cast<size_t>(end)];
}

// Returns the enumerator with this name, or nothing if the table does not contain the name.
template <typename Enum, size_t kCount>
constexpr std::optional<Enum> find_named(const std::array<std::string_view, kCount>& names,
                                         std::string_view name) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}
constexpr std::optional<NormKind> find_norm_kind(std::string_view name) {
  return find_named<NormKind>(kNormKindNames, name);
}
constexpr std::optional<LayerEnd> find_layer_end(std::string_view name) {
  return find_named<LayerEnd>(kLayerEndNames, name);
}

}  // namespace plimsoll
