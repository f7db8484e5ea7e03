#include "io/text/subwords.h"

#include <bit>
#include <cstring>
#include <utility>

#include "base/hash.h"

namespace plimsoll::text {

TokenIds::TokenIds(const std::vector<std::pair<std::string, int32_t>>& tokens) {
  reserve(tokens.size());
  for (const auto& [token, id] : tokens) insert(token, id);
}

void TokenIds::reserve(size_t count) {
  entries_.assign(std::bit_ceil(2 * count + 2), Entry{});
}

size_t TokenIds::place(std::string_view token, uint32_t hash) const {
  size_t i = hash & (entries_.size() - 1);
  while (entries_[i].id != kNoToken && (entries_[i].hash != hash || entries_[i].token != token)) {
    i = (i + 1) & (entries_.size() - 1);
  }
  return i;
}

void TokenIds::insert(std::string_view token, int32_t id) {
  const auto hash = static_cast<uint32_t>(hash64(token));
  entries_[place(token, hash)] = {token, id, hash};
}

int32_t TokenIds::find(std::string_view token) const {
  if (entries_.empty()) return kNoToken;
  return entries_[place(token, static_cast<uint32_t>(hash64(token)))].id;
}

WordCache::Key WordCache::key_of(std::string_view word) {
  Key key{};
  std::memcpy(key.data(), word.data(), word.size());
  key.back() = static_cast<char>(word.size() + 1);
  return key;
}

size_t WordCache::place(const Key& key) const {
  uint64_t hash = 0;
  for (size_t i = 0; i < kKeyBytes; i += sizeof hash) {
    uint64_t part = 0;
    std::memcpy(&part, key.data() + i, sizeof part);
    hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  }
  return hash & (entries_.size() - 1);
}

bool WordCache::find(std::string_view word, std::vector<WordToken>* out) const {
  if (word.size() >= kKeyBytes || entries_.empty()) return false;
  const Key key = key_of(word);
  const Entry& entry = entries_[place(key)];
  if (std::memcmp(entry.key.data(), key.data(), kKeyBytes) != 0) return false;
  uint32_t begin = 0;
  for (size_t i = 0; i < entry.count; ++i) {
    out->push_back({entry.ids[i], begin, entry.ends[i]});
    begin = entry.ends[i];
  }
  return true;
}

void WordCache::store(std::string_view word, std::span<const WordToken> tokens) {
  if (word.size() >= kKeyBytes || tokens.size() > kMaxTokens) return;
  Entry entry;
  for (const WordToken& token : tokens) {
    const uint32_t begin = entry.count == 0 ? 0 : entry.ends[entry.count - 1];
    if (token.begin != begin || token.end > 255) return;
    entry.ids[entry.count] = token.id;
    entry.ends[entry.count++] = static_cast<uint8_t>(token.end);
  }
  entry.key = key_of(word);
  if (++num_stored_ > entries_.size() && entries_.size() < kMaxEntries) grow();
  entries_[place(entry.key)] = entry;
}

void WordCache::clear() {
  entries_.clear();
  num_stored_ = 0;
}

void WordCache::grow() {
  std::vector<Entry> old = std::move(entries_);
  entries_.assign(old.empty() ? kFirstEntries : 4 * old.size(), Entry{});
  for (const Entry& entry : old) {
    if (entry.key.back() != 0) entries_[place(entry.key)] = entry;
  }
  num_stored_ = 0;
}

}  // namespace plimsoll::text
