#include "hardware/tuning_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "hardware/measured_json.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

std::string hex_of(const std::array<uint8_t, kTunedAlgorithmBytes>& bytes) {
  std::string text;
  for (const uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::optional<int> digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return std::nullopt;
}

std::array<uint8_t, kTunedAlgorithmBytes> bytes_of(const std::string& hex, const std::string& source) {
  std::array<uint8_t, kTunedAlgorithmBytes> bytes{};
  const auto bad = [&] {
    throw_error(ErrorCode::kBadData,
                "{}: an algorithm must have {} hexadecimal digits, but is '{}'; the file is damaged", source,
                2 * kTunedAlgorithmBytes, hex);
  };
  if (hex.size() != size_t{2} * kTunedAlgorithmBytes) bad();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const std::optional<int> high = digit_of(hex[2 * i]);
    const std::optional<int> low = digit_of(hex[2 * i + 1]);
    if (!high || !low) bad();
    bytes[i] = static_cast<uint8_t>(*high * 16 + *low);
  }
  return bytes;
}

// Returns the table as JSON, in the order of its keys, so that equal tables give equal texts and hashes.
Json content_json(const TuningTable& table) {
  Json products = Json::array();
  for (const auto& [key, product] : table.products) {
    products.push_back({{"form", key.form},
                        {"m", key.m},
                        {"n", key.n},
                        {"k", key.k},
                        {"algorithm", hex_of(product.algorithm)},
                        {"workspace_bytes", product.workspace_bytes},
                        {"ms", product.ms},
                        {"first_ms", product.first_ms},
                        {"candidates", product.num_candidates},
                        {"words", product.words}});
  }
  return {{"card", table.card},
          {"library", table.library},
          {"workspace_bytes", table.workspace_bytes},
          {"products", std::move(products)}};
}

TuningTable table_of(const MeasuredJson& json, const Json& content, const std::string& source) {
  TuningTable table{.card = json.get<std::string>(content, "card"),
                    .library = json.get<std::string>(content, "library"),
                    .workspace_bytes = json.get<int64_t>(content, "workspace_bytes")};
  for (const Json& entry : json.at(content, "products")) {
    const ProductKey key{.form = json.get<std::string>(entry, "form"),
                         .m = json.get<int64_t>(entry, "m"),
                         .n = json.get<int64_t>(entry, "n"),
                         .k = json.get<int64_t>(entry, "k")};
    TunedProduct product{.algorithm = bytes_of(json.get<std::string>(entry, "algorithm"), source),
                         .workspace_bytes = json.get<int64_t>(entry, "workspace_bytes"),
                         .ms = json.get<double>(entry, "ms"),
                         .first_ms = json.get<double>(entry, "first_ms"),
                         .num_candidates = json.get<int>(entry, "candidates"),
                         .words = json.get<std::string>(entry, "words")};
    if (!table.products.emplace(key, std::move(product)).second) {
      throw_error(ErrorCode::kBadData, "{}: the matrix product {} occurs twice; the file is damaged", source,
                  format_product_key(key));
    }
  }
  return table;
}

// Returns by what factor two sizes differ: the larger one divided by the smaller one.
double ratio(int64_t a, int64_t b) {
  const auto larger = static_cast<double>(std::max(a, b));
  return larger / static_cast<double>(std::max<int64_t>(std::min(a, b), 1));
}

}  // namespace

std::string format_product_key(const ProductKey& key) {
  return fmt::format("{} x {} x {} {}", key.m, key.n, key.k, key.form);
}

const TunedProduct* TuningTable::find(const ProductKey& key) const {
  const auto it = products.find(key);
  return it == products.end() ? nullptr : &it->second;
}

const TunedProduct* TuningTable::nearest(const ProductKey& key) const {
  const TunedProduct* best = nullptr;
  double best_ratio = 0;
  // Entries of smaller products come first. If two entries are equally near to the wanted product, the first one, which is smaller, is
  // returned.
  for (auto it = products.lower_bound({.form = key.form}); it != products.end(); ++it) {
    const ProductKey& other = it->first;
    if (other.form != key.form) break;
    const int differing = (other.m != key.m) + (other.n != key.n) + (other.k != key.k);
    if (differing > 1) continue;
    const double apart = ratio(other.m, key.m) * ratio(other.n, key.n) * ratio(other.k, key.k);
    if (best != nullptr && apart >= best_ratio) continue;
    best = &it->second;
    best_ratio = apart;
  }
  return best;
}

uint64_t tuning_table_hash(const TuningTable& table) {
  return table.empty() ? 0 : hash64(content_json(table).dump());
}

std::string tuning_table_json(const TuningTable& table) {
  const Json content = content_json(table);
  const Json json = {{"schema_version", kTuningSchemaVersion},
                     {"xxh3", to_hex(hash64(content.dump()))},
                     {"content", content}};
  return json.dump(1) + "\n";
}

TuningTable parse_tuning_table(std::string_view text, const std::string& source) {
  const MeasuredJson json(text, source, {.name = "tuning table", .schema_version = kTuningSchemaVersion});
  const auto stated = json.get<std::string>(json.top(), "xxh3");
  const Json& content = json.at(json.top(), "content");
  const std::string found = to_hex(hash64(content.dump()));
  if (stated != found) {
    throw_error(ErrorCode::kBadData,
                "{}: the file is damaged: the hash of its tuning table is {}, but the file states {}", source,
                found, stated);
  }
  return table_of(json, content, source);
}

}  // namespace plimsoll
