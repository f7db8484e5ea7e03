#include "wordnet.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <istream>
#include <map>
#include <stdexcept>
#include <unordered_map>
#include <unordered_set>

namespace plimsoll::demo {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\v' || c == '\f';
}

// The names of WordNet's lexicographer files, indexed by their number, from lexnames(5WN).
constexpr std::array<std::string_view, 45> kLabels = {
    "adj.all",          "adj.pert",           "adv.all",
    "noun.Tops",        "noun.act",           "noun.animal",
    "noun.artifact",    "noun.attribute",     "noun.body",
    "noun.cognition",   "noun.communication", "noun.event",
    "noun.feeling",     "noun.food",          "noun.group",
    "noun.location",    "noun.motive",        "noun.object",
    "noun.person",      "noun.phenomenon",    "noun.plant",
    "noun.possession",  "noun.process",       "noun.quantity",
    "noun.relation",    "noun.shape",         "noun.state",
    "noun.substance",   "noun.time",          "verb.body",
    "verb.change",      "verb.cognition",     "verb.communication",
    "verb.competition", "verb.consumption",   "verb.contact",
    "verb.creation",    "verb.emotion",       "verb.motion",
    "verb.perception",  "verb.possession",    "verb.social",
    "verb.stative",     "verb.weather",       "adj.ppl"};

// Returns the text without leading, trailing and repeated blanks, control characters and quotes. Quotes are removed
// because readers of TSV files interpret them.
std::string cleaned(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"') continue;
    if (is_blank(c) || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      if (!result.empty() && result.back() != ' ') result += ' ';
    } else {
      result += c;
    }
  }
  if (!result.empty() && result.back() == ' ') result.pop_back();
  return result;
}

// Returns the definition of a gloss: the text before the first example, which is a sentence in quotes after a
// semicolon.
std::string definition_of(std::string_view gloss) {
  size_t end = gloss.size();
  for (size_t at = gloss.find(';'); at != std::string_view::npos; at = gloss.find(';', at + 1)) {
    const size_t next = gloss.find_first_not_of(' ', at + 1);
    if (next != std::string_view::npos && gloss[next] == '"') {
      end = at;
      break;
    }
  }
  return cleaned(gloss.substr(0, end));
}

// Returns the field with this index, from 0, of a line whose fields are separated by blanks; "" if there are fewer fields.
std::string_view field_of(std::string_view line, int index) {
  while (true) {
    const size_t end = line.find(' ');
    if (index == 0) return line.substr(0, end);
    if (end == std::string_view::npos) return {};
    line.remove_prefix(end + 1);
    --index;
  }
}

// Returns the word of a synonym set as people write it: "attorney general" for "attorney_general", and adjectives
// without the mark of their position, as in "elect(ip)".
std::string word_of(std::string_view field) {
  std::string word(field.substr(0, field.find('(')));
  std::ranges::replace(word, '_', ' ');
  return word;
}

struct Counted {
  std::string piece;
  int64_t count;
};

// Returns the pieces with at least this count, the most frequent first. Pieces with equal counts are sorted by their bytes.
std::vector<Counted> by_count(const std::unordered_map<std::string, int64_t>& counts, int64_t at_least) {
  std::vector<Counted> sorted;
  for (const auto& [piece, count] : counts) {
    if (count >= at_least) sorted.push_back({piece, count});
  }
  std::ranges::sort(sorted, [](const Counted& a, const Counted& b) {
    return a.count != b.count ? a.count > b.count : a.piece < b.piece;
  });
  return sorted;
}

// Returns the words of a text in lower case. A word is an uninterrupted sequence of ASCII letters and digits; other printable ASCII
// characters are separate words, as in WordPiece's pre-tokenizer. Bytes above ASCII are dropped, because the vocabulary is for English
// descriptions.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || is_blank(c)) {
      inside = false;
    } else if (std::isalnum(byte) != 0) {
      if (!inside) words.emplace_back();
      words.back() += static_cast<char>(std::tolower(byte));
      inside = true;
    } else {
      words.emplace_back(1, c);
      inside = false;
    }
  }
  return words;
}

// Sorts definitions by a hash. Definitions with equal hashes keep their order.
template <typename HashOf>
void order_by_hash(std::vector<const Definition*>& definitions, const HashOf& hash_of) {
  std::ranges::stable_sort(definitions, {},
                           [&](const Definition* definition) { return hash_of(*definition); });
}

}  // namespace

std::vector<Definition> read_definitions(std::istream& file, std::string_view name) {
  std::vector<Definition> definitions;
  int64_t number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    // the lines of the licence at the start of the file begin with two spaces
    if (line.starts_with("  ")) continue;
    const size_t bar = line.find(" | ");
    const std::string_view head = std::string_view(line).substr(0, bar);
    const std::string_view digits = field_of(head, 1);
    size_t label = kLabels.size();
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), label);
    if (bar == std::string::npos || error != std::errc() || end != digits.data() + digits.size() ||
        label >= kLabels.size() || field_of(head, 4).empty()) {
      throw std::runtime_error(std::string(name) + ":" + std::to_string(number) +
                               ": expected 'offset lex_filenum ss_type w_cnt word ... | gloss', as wndb(5WN) "
                               "describes");
    }
    std::string text = definition_of(std::string_view(line).substr(bar + 3));
    if (text.empty()) continue;
    definitions.push_back({word_of(field_of(head, 4)), std::move(text), std::string(kLabels[label])});
  }
  return definitions;
}

uint64_t name_hash(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
  return hash ^ (hash >> 31);
}

Split split_of(std::string_view word) {
  const uint64_t place = name_hash(word) % 100;
  if (place < 80) return Split::kTrain;
  return place < 90 ? Split::kValidation : Split::kTest;
}

Dataset make_dataset(const std::vector<Definition>& definitions, const DatasetLimits& limits) {
  std::map<std::string, int64_t> members;
  for (const Definition& definition : definitions) ++members[definition.label];
  Dataset dataset;
  for (const auto& [label, count] : members)
    ++(count < limits.min_class ? dataset.num_left_out : dataset.num_classes);

  std::vector<const Definition*> ordered;
  ordered.reserve(definitions.size());
  for (const Definition& definition : definitions) {
    if (members[definition.label] >= limits.min_class) ordered.push_back(&definition);
  }
  // If a class has more than max_class definitions, those with the smallest values of hash / 100 are kept. split_of() uses
  // hash % 100, so every split keeps about the same share of them.
  order_by_hash(ordered, [](const Definition& definition) { return name_hash(definition.word) / 100; });
  std::map<std::string_view, int64_t> taken;
  std::unordered_set<std::string_view> texts;
  std::erase_if(ordered, [&](const Definition* definition) {
    if (!texts.insert(definition->text).second) return true;
    return limits.max_class > 0 && ++taken[definition->label] > limits.max_class;
  });
  // Sorts again by a hash of the text. In the order by the hash of the word, the rows of a class that was cut to max_class would come
  // first.
  order_by_hash(ordered, [](const Definition& definition) { return name_hash(definition.text); });
  for (const Definition* definition : ordered) {
    LabelledText row{definition->text, definition->label};
    switch (split_of(definition->word)) {
      case Split::kTrain:
        dataset.train.push_back(std::move(row));
        break;
      case Split::kValidation:
        dataset.validation.push_back(std::move(row));
        break;
      case Split::kTest:
        dataset.test.push_back(std::move(row));
        break;
    }
  }
  if (limits.max_train_rows > 0 && static_cast<int64_t>(dataset.train.size()) > limits.max_train_rows) {
    dataset.train.resize(static_cast<size_t>(limits.max_train_rows));
  }
  return dataset;
}

std::string make_vocabulary(const std::vector<LabelledText>& rows, int64_t size) {
  std::unordered_map<std::string, int64_t> counts;
  for (const LabelledText& row : rows) {
    for (const std::string& word : words_of(row.text)) {
      if (word.size() < 2) continue;
      // A complete word counts twice, because it shortens texts more than the start or the ending of a word.
      counts[word] += 2;
      for (size_t length = 2; length <= 6 && length < word.size(); ++length) {
        ++counts["##" + word.substr(word.size() - length)];
        ++counts[word.substr(0, length)];
      }
    }
  }
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  int64_t pieces = 5;
  for (int c = 0x21; c < 0x7f; ++c) {
    if (std::isupper(c) != 0) continue;
    vocabulary += std::string(1, static_cast<char>(c)) + "\n";
    ++pieces;
    if (std::isalnum(c) == 0) continue;
    vocabulary += "##" + std::string(1, static_cast<char>(c)) + "\n";
    ++pieces;
  }
  for (const Counted& counted : by_count(counts, 6)) {
    if (pieces == size) break;
    vocabulary += counted.piece + "\n";
    ++pieces;
  }
  return vocabulary;
}

}  // namespace plimsoll::demo
