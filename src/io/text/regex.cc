#include "io/text/pattern.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/check.h"
#include "io/text/regex_char_set.h"
#include "io/text/unicode.h"
#include "io/text/unicode_properties.h"

namespace plimsoll::text {
namespace regex {

constexpr size_t kMaxInstructions = 1 << 16;
constexpr int kMaxRepeats = 1000;
constexpr int kMaxDepth = 200;
// The maximum number of matching steps for a text is kMaxSteps, plus kStepsPerCodePoint for each code point. Oniguruma similarly
// limits the number of retries to ten million.
constexpr int64_t kMaxSteps = 10'000'000;
constexpr int64_t kStepsPerCodePoint = 1000;
constexpr size_t kNoLimit = static_cast<size_t>(-1);

enum class Op : uint8_t {
  kSet,    // matches one code point if the set sets[a] contains it
  kSplit,  // tries to continue at instruction `a`, and if that fails, at instruction `b`
  kJump,   // continues at the instruction with the number `a`
  kLineStart,
  kLineEnd,
  kTextStart,
  kTextEnd,
  kTextEndOrLast,  // \Z: matches at the end of the text, and before a line feed that ends the text
  kWordBoundary,
  kNotWordBoundary,
  kMark,       // stores the current position in register `a`
  kProgress,   // fails if the position is still the one that kMark stored in register `a`
  kLookahead,  // the instructions [pc + 1, a) must match from here on or, if b is 1, must not match
  // The instructions [pc + 1, a) must match a text that ends here or, if b is 1, must not match. The length of that text is
  // between `c` and `d`.
  kLookbehind,
  kAtomic,  // matches the instructions [pc + 1, a) without backtracking into them later
  kMatch,
};

struct Instruction {
  Op op;
  size_t a = 0;
  size_t b = 0;
  size_t c = 0;
  size_t d = 0;
};

// The least and the largest number of code points that a part of a pattern can match.
struct Lengths {
  size_t least = 0;
  size_t most = 0;
};

}  // namespace regex

struct Regex::Program {
  std::string where;
  std::vector<regex::Instruction> code;
  std::vector<regex::CharSet> sets;
  size_t num_registers = 0;
};

namespace regex {

// Compiles a pattern to instructions by recursive descent. Each part of the pattern becomes a list of instructions with relative
// addresses.
class Compiler {
 public:
  using Code = std::vector<Instruction>;

  Compiler(std::u32string pattern, std::string where, std::vector<CharSet>* sets)
      : pattern_(std::move(pattern)), where_(std::move(where)), sets_(sets) {}

  Code compile() {
    Lengths lengths;
    Code code = alternatives(&lengths);
    if (!at_end()) refuse("an unmatched ')'");
    code.push_back({.op = Op::kMatch});
    return code;
  }
  size_t num_registers() const { return num_registers_; }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw_error(
        ErrorCode::kBadData,
        "{}: the regular expression has {} at character {}, which Plimsoll does not support; use a tokenizer "
        "with a simpler expression",
        where_, what, at_ + 1);
  }
  bool at_end() const { return at_ >= pattern_.size(); }
  char32_t peek(size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : U'\0';
  }
  bool take(char32_t c) {
    if (at_end() || pattern_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take(std::u32string_view text) {
    if (std::u32string_view(pattern_).substr(std::min(at_, pattern_.size()), text.size()) != text)
      return false;
    at_ += text.size();
    return true;
  }

  static void append(Code part, Code* code) {
    const size_t shift = code->size();
    for (Instruction instruction : part) {
      switch (instruction.op) {
        case Op::kSplit:
          instruction.b += shift;
          [[fallthrough]];
        case Op::kJump:
        case Op::kLookahead:
        case Op::kLookbehind:
        case Op::kAtomic:
          instruction.a += shift;
          break;
        default:
          break;
      }
      code->push_back(instruction);
    }
  }
  void check_size(size_t size) const {
    if (size > kMaxInstructions) refuse("more repetitions than fit");
  }

  Code alternatives(Lengths* lengths) {
    if (++depth_ > kMaxDepth) refuse("groups that are nested too deeply");
    const bool fold_case = fold_case_, dot_all = dot_all_;
    Code code = sequence(lengths);
    while (take(U'|')) {
      Lengths other;
      const Code second = sequence(&other);
      Code joined;
      joined.push_back({.op = Op::kSplit, .a = 1, .b = code.size() + 2});
      append(std::move(code), &joined);
      joined.push_back({.op = Op::kJump, .a = joined.size() + 1 + second.size()});
      append(second, &joined);
      code = std::move(joined);
      check_size(code.size());
      lengths->least = std::min(lengths->least, other.least);
      lengths->most = std::max(lengths->most, other.most);
    }
    fold_case_ = fold_case;
    dot_all_ = dot_all;
    --depth_;
    return code;
  }

  static size_t add(size_t a, size_t b) { return a == kNoLimit || b == kNoLimit ? kNoLimit : a + b; }

  Code sequence(Lengths* lengths) {
    Code code;
    *lengths = {};
    while (!at_end() && peek() != U'|' && peek() != U')') {
      Lengths part;
      Code item = repeated(&part);
      append(std::move(item), &code);
      check_size(code.size());
      lengths->least = add(lengths->least, part.least);
      lengths->most = add(lengths->most, part.most);
    }
    return code;
  }

  // Reads a quantifier {n}, {n,}, {,m} or {n,m}. Returns false for braces with other contents, which match literally.
  bool take_braces(size_t* least, size_t* most) {
    const size_t begin = at_;
    const auto number = [&](size_t* value) {
      const size_t first = at_;
      *value = 0;
      while (peek() >= U'0' && peek() <= U'9' && at_ - first < 6)
        *value = *value * 10 + (pattern_[at_++] - U'0');
      return at_ > first;
    };
    if (!take(U'{')) return false;
    const bool has_least = number(least);
    bool has_most = false;
    if (take(U',')) {
      has_most = number(most);
      if (!has_most) *most = kNoLimit;
      if (!has_least) *least = 0;
      if (!has_least && !has_most) {
        at_ = begin;
        return false;
      }
    } else {
      *most = *least;
      has_most = has_least;
    }
    if (!take(U'}') || (!has_least && !has_most)) {
      at_ = begin;
      return false;
    }
    if (*most != kNoLimit && *least > *most) refuse("a repetition whose minimum exceeds its maximum");
    if (*least > kMaxRepeats || (*most != kNoLimit && *most > kMaxRepeats)) refuse("a repetition above 1000");
    return true;
  }

  Code repeated(Lengths* lengths) {
    Code item = atom(lengths);
    for (bool is_first = true;; is_first = false) {
      size_t least = 0, most = 0;
      const char32_t sign = peek();
      bool braces = false;
      if (take(U'*')) {
        most = kNoLimit;
      } else if (take(U'+')) {
        least = 1;
        most = kNoLimit;
      } else if (take(U'?')) {
        most = 1;
      } else if (sign == U'{' && take_braces(&least, &most)) {
        braces = true;
      } else {
        return item;
      }
      if (item.empty() && is_first) refuse("a repetition with nothing to repeat before it");
      const bool lazy = take(U'?');
      // A '+' after a quantifier in braces does not make it possessive. In Oniguruma's Ruby syntax it is a second quantifier.
      const bool possessive = !lazy && !braces && take(U'+');
      item = repeat(item, least, most, lazy);
      if (possessive) item = wrap(Op::kAtomic, std::move(item), {});
      const size_t each = lengths->most;
      lengths->least *= least;
      lengths->most = each == 0 ? 0 : most == kNoLimit || each == kNoLimit ? kNoLimit : each * most;
    }
  }

  static Code wrap(Op op, Code body, Instruction extra) {
    Code code;
    extra.op = op;
    code.push_back(extra);
    append(std::move(body), &code);
    code.push_back({.op = Op::kMatch});
    code.front().a = code.size();
    return code;
  }

  Code repeat(const Code& item, size_t least, size_t most, bool lazy) {
    Code code;
    for (size_t i = 0; i < least; ++i) {
      append(item, &code);
      check_size(code.size());
    }
    const auto split = [&](size_t into, size_t past) {
      code.push_back({.op = Op::kSplit, .a = lazy ? past : into, .b = lazy ? into : past});
    };
    if (most == kNoLimit) {
      const size_t mark = num_registers_++;
      const size_t begin = code.size();
      split(begin + 1, begin + item.size() + 4);
      code.push_back({.op = Op::kMark, .a = mark});
      append(item, &code);
      code.push_back({.op = Op::kProgress, .a = mark});
      code.push_back({.op = Op::kJump, .a = begin});
      return code;
    }
    const size_t end = code.size() + (most - least) * (item.size() + 1);
    check_size(end);
    for (size_t i = least; i < most; ++i) {
      split(code.size() + 1, end);
      append(item, &code);
    }
    return code;
  }

  Code set_code(CharSet set, Lengths* lengths) {
    *lengths = {1, 1};
    if (fold_case_ && only_member(set) == U'\u00DF') refuse("'\u00DF' without regard to case");
    set.fold_case = fold_case_;
    set.finish();
    sets_->push_back(std::move(set));
    return {{.op = Op::kSet, .a = sets_->size() - 1}};
  }

  Code atom(Lengths* lengths) {
    *lengths = {};
    const char32_t c = pattern_[at_++];
    switch (c) {
      case U'(':
        return group(lengths);
      case U'[':
        return set_code(char_class(), lengths);
      case U'.': {
        CharSet set;
        set.negated = true;
        if (!dot_all_) set.ranges.push_back({U'\n', U'\n'});
        return set_code(std::move(set), lengths);
      }
      case U'^':
        return {{.op = Op::kLineStart}};
      case U'$':
        return {{.op = Op::kLineEnd}};
      case U'\\':
        return escape(lengths);
      case U'*':
      case U'+':
      case U'?':
        --at_;
        refuse("a repetition with nothing to repeat before it");
      default:
        return set_code(single(c), lengths);
    }
  }

  static CharSet single(char32_t c) {
    CharSet set;
    set.ranges.push_back({c, c});
    return set;
  }

  Code group(Lengths* lengths) {
    const auto close = [&](Code code) {
      if (!take(U')')) refuse("a group that is not closed");
      return code;
    };
    if (!take(U'?')) return close(alternatives(lengths));
    if (take(U':')) return close(alternatives(lengths));
    if (take(U'>')) return close(wrap(Op::kAtomic, alternatives(lengths), {}));
    if (take(U'=') || take(U'!')) {
      const bool negated = pattern_[at_ - 1] == U'!';
      Lengths inside;
      return close(wrap(Op::kLookahead, alternatives(&inside), {.op = Op::kLookahead, .b = negated}));
    }
    if (take(U"<=") || take(U"<!")) {
      const bool negated = pattern_[at_ - 1] == U'!';
      Lengths inside;
      Code body = alternatives(&inside);
      if (inside.most == kNoLimit) refuse("a lookbehind without a largest length");
      return close(wrap(Op::kLookbehind, std::move(body),
                        {.op = Op::kLookbehind, .b = negated, .c = inside.least, .d = inside.most}));
    }
    if (take(U'#')) {
      while (!at_end() && peek() != U')') ++at_;
      return close({});
    }
    if (take(U'<') || take(U'\'')) {
      const char32_t end = pattern_[at_ - 1] == U'<' ? U'>' : U'\'';
      while (!at_end() && peek() != end) ++at_;
      if (!take(end)) refuse("a name that is not closed");
      return close(alternatives(lengths));
    }
    return options(lengths, close);
  }

  // Reads options: (?i) changes the rest of the enclosing group, and (?i:...) only the group that it opens.
  template <typename Close>
  Code options(Lengths* lengths, const Close& close) {
    bool on = true;
    const bool fold_case = fold_case_, dot_all = dot_all_;
    for (;; ++at_) {
      const char32_t c = peek();
      if (c == U'-') {
        on = false;
      } else if (c == U'i') {
        fold_case_ = on;
      } else if (c == U'm') {
        dot_all_ = on;
      } else {
        break;
      }
    }
    if (take(U')')) return alternatives(lengths);
    if (!take(U':')) refuse("an unknown kind of group");
    Code code = close(alternatives(lengths));
    fold_case_ = fold_case;
    dot_all_ = dot_all;
    return code;
  }

  Code escape(Lengths* lengths) {
    if (at_end()) refuse("a backslash at the end");
    switch (peek()) {
      case U'A':
        ++at_;
        return {{.op = Op::kTextStart}};
      case U'z':
        ++at_;
        return {{.op = Op::kTextEnd}};
      case U'Z':
        ++at_;
        return {{.op = Op::kTextEndOrLast}};
      case U'b':
        ++at_;
        return {{.op = Op::kWordBoundary}};
      case U'B':
        ++at_;
        return {{.op = Op::kNotWordBoundary}};
      default:
        return set_code(escaped_set(), lengths);
    }
  }

  char32_t hex(size_t least, size_t most) {
    char32_t value = 0;
    size_t digits = 0;
    for (; digits < most; ++digits, ++at_) {
      const char32_t c = peek();
      const char32_t low = c >= U'A' && c <= U'F' ? c + 32 : c;
      const bool is_digit = (c >= U'0' && c <= U'9') || (low >= U'a' && low <= U'f');
      if (!is_digit) break;
      value = value * 16 + (c <= U'9' ? c - U'0' : low - U'a' + 10);
    }
    if (digits < least || value >= kNumCodePoints) refuse("a malformed code point");
    return value;
  }

  // Reads an escape sequence after its backslash, inside or outside a character class.
  CharSet escaped_set() {
    if (at_end()) refuse("a backslash at the end");
    CharSet set;
    const char32_t c = pattern_[at_++];
    switch (c) {
      case U'd':
      case U'D':
        set.categories = UnicodeProperties::categories("Nd");
        set.negated = c == U'D';
        return set;
      case U's':
        set.space = true;
        return set;
      case U'S':
        set.not_space = true;
        return set;
      case U'w':
        set.word = true;
        return set;
      case U'W':
        set.not_word = true;
        return set;
      case U'h':
      case U'H':
        set.ranges = {{U'0', U'9'}, {U'a', U'f'}, {U'A', U'F'}};
        set.negated = c == U'H';
        return set;
      case U'p':
      case U'P':
        return property(c == U'P');
      case U'n':
        return single(U'\n');
      case U't':
        return single(U'\t');
      case U'r':
        return single(U'\r');
      case U'f':
        return single(U'\f');
      case U'v':
        return single(U'\v');
      case U'a':
        return single(U'\a');
      case U'e':
        return single(0x1B);
      case U'0':
        return single(0);
      case U'u':
        return single(hex(4, 4));
      case U'x':
        if (take(U'{')) {
          const char32_t value = hex(1, 8);
          if (!take(U'}')) refuse("a malformed code point");
          return single(value);
        }
        return single(hex(1, 2));
      default:
        break;
    }
    const bool is_letter = (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'1' && c <= U'9');
    if (is_letter) {
      --at_;
      refuse(fmt::format("'\\{}'", static_cast<char>(c)));
    }
    return single(c);
  }

  CharSet property(bool negated) {
    std::string name;
    if (!take(U'{')) refuse("a property without braces");
    if (take(U'^')) negated = !negated;
    while (!at_end() && peek() != U'}') append_utf8(pattern_[at_++], &name);
    if (!take(U'}')) refuse("a property that is not closed");
    CharSet set = named_set(name);
    set.negated = set.negated != negated;
    return set;
  }

  // Returns the set of code points of a Unicode category, or of a POSIX class in Oniguruma's definition for Unicode.
  CharSet named_set(const std::string& name) {
    CharSet set;
    set.categories = UnicodeProperties::categories(name);
    if (set.categories != 0) return set;
    const auto of = [&](std::initializer_list<const char*> names) {
      for (const char* category : names) set.categories |= UnicodeProperties::categories(category);
    };
    std::string lower = name;
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    static const std::map<std::string, const char*> kLong = {
        {"letter", "L"}, {"mark", "M"},      {"number", "N"}, {"punctuation", "P"},
        {"symbol", "S"}, {"separator", "Z"}, {"other", "C"}};
    if (const auto found = kLong.find(lower); found != kLong.end()) {
      of({found->second});
    } else if (lower == "digit") {
      of({"Nd"});
    } else if (lower == "cntrl") {
      of({"Cc"});
    } else if (lower == "punct") {
      of({"P"});
    } else if (lower == "space") {
      set.space = true;
    } else if (lower == "word") {
      set.word = true;
    } else if (lower == "blank") {
      of({"Zs"});
      set.ranges.push_back({U'\t', U'\t'});
    } else if (lower == "ascii") {
      set.ranges.push_back({0, 0x7F});
    } else if (lower == "xdigit") {
      set.ranges = {{U'0', U'9'}, {U'a', U'f'}, {U'A', U'F'}};
    } else if (lower == "any") {
      set.ranges.push_back({0, kNumCodePoints - 1});
    } else {
      refuse(fmt::format("the property '{}'", name));
    }
    return set;
  }

  // Reads a character class after its opening bracket.
  CharSet char_class() {
    if (++depth_ > kMaxDepth) refuse("classes that are nested too deeply");
    CharSet set;
    set.negated = take(U'^');
    bool is_first = true;
    while (is_first || peek() != U']') {
      if (at_end()) refuse("a class that is not closed");
      is_first = false;
      if (peek() == U'&' && peek(1) == U'&') refuse("an intersection of classes");
      if (take(U"[:")) {
        set.nested.push_back(posix_class());
      } else if (take(U'[')) {
        set.nested.push_back(char_class());
      } else {
        add_range(&set);
      }
    }
    ++at_;
    --depth_;
    return set;
  }

  CharSet posix_class() {
    std::string name;
    const bool negated = take(U'^');
    while (!at_end() && peek() != U':') append_utf8(pattern_[at_++], &name);
    if (!take(U":]")) refuse("a class that is not closed");
    CharSet set = named_set(name);
    if (name == "punct") set.categories |= UnicodeProperties::categories("S");
    set.strict_word = true;
    set.negated = set.negated != negated;
    return set;
  }

  // Returns the member of a set that has exactly one member, otherwise nothing.
  static std::optional<char32_t> only_member(const CharSet& set) {
    const bool is_single = !set.negated && set.categories == 0 && !set.word && !set.space && !set.not_word &&
                           !set.not_space && set.ranges.size() == 1 &&
                           set.ranges[0].first == set.ranges[0].second;
    return is_single ? std::optional(set.ranges[0].first) : std::nullopt;
  }

  void add_range(CharSet* set) {
    CharSet first = take(U'\\') ? escaped_set() : single(pattern_[at_++]);
    first.strict_word = true;
    const auto low = only_member(first);
    if (low && peek() == U'-' && peek(1) != U']' && at_ + 1 < pattern_.size()) {
      ++at_;
      const CharSet last = take(U'\\') ? escaped_set() : single(pattern_[at_++]);
      const auto high = only_member(last);
      if (!high || *high < *low) refuse("a malformed range");
      set->ranges.push_back({*low, *high});
      return;
    }
    if (low) {
      set->ranges.push_back({*low, *low});
    } else {
      set->nested.push_back(first);
    }
  }

  std::u32string pattern_;
  std::string where_;
  std::vector<CharSet>* sets_;
  size_t at_ = 0;
  size_t num_registers_ = 0;
  int depth_ = 0;
  bool fold_case_ = false;
  bool dot_all_ = false;
};

// Matches a compiled expression against one text, with backtracking.
class Matcher {
 public:
  Matcher(const std::vector<Instruction>& code, const std::vector<CharSet>& sets, size_t num_registers,
          std::u32string_view text, const std::string& where)
      : code_(code),
        sets_(sets),
        text_(text),
        where_(where),
        registers_(num_registers, kNoLimit),
        limit_(kMaxSteps + kStepsPerCodePoint * narrow<int64_t>(text.size())) {}

  // Executes the program from instruction `pc` on at position `at` of the text. Returns the end of the match, or nothing if there is no
  // match. If `must_end` is not kNoLimit, the match must end there.
  std::optional<size_t> run(size_t pc, size_t at, size_t must_end = kNoLimit);

 private:
  // An entry of the backtracking stack. It is either a position in the program and in the text to which the matcher can return,
  // or, if `reg` is not kNoLimit, a register and its previous value.
  struct Choice {
    size_t pc;
    size_t at;
    size_t reg = kNoLimit;
  };
  bool is_word(size_t at) const {
    return at < text_.size() && (UnicodeProperties::get().flags(text_[at]) & kRegexWord) != 0;
  }
  bool at_boundary(size_t at) const { return (at > 0 && is_word(at - 1)) != is_word(at); }
  bool looks_behind(const Instruction& look, size_t pc, size_t at) {
    for (size_t length = look.c; length <= std::min(look.d, at); ++length) {
      if (run(pc + 1, at - length, at)) return true;
    }
    return false;
  }
  bool is_in(const CharSet& set, char32_t c) {
    if (c < CharSet::kNumStored) return set.stored[c];
    steps_ += narrow<int64_t>(set.nested.size());
    return set.contains(c);
  }
  // Executes an instruction that does not branch. Returns false if the text does not match it.
  bool step(const Instruction& instruction, size_t* pc, size_t* at);

  const std::vector<Instruction>& code_;
  const std::vector<CharSet>& sets_;
  std::u32string_view text_;
  const std::string& where_;
  std::vector<size_t> registers_;
  std::vector<Choice> choices_;
  int64_t limit_;
  int64_t steps_ = 0;
};

bool Matcher::step(const Instruction& instruction, size_t* pc, size_t* at) {
  const size_t here = *at;
  switch (instruction.op) {
    case Op::kSet:
      if (here >= text_.size() || !is_in(sets_[instruction.a], text_[here])) return false;
      ++*at;
      break;
    case Op::kLineStart:
      if (here != 0 && (text_[here - 1] != U'\n' || here == text_.size())) return false;
      break;
    case Op::kLineEnd:
      if (here != text_.size() && text_[here] != U'\n') return false;
      break;
    case Op::kTextStart:
      if (here != 0) return false;
      break;
    case Op::kTextEnd:
      if (here != text_.size()) return false;
      break;
    case Op::kTextEndOrLast:
      if (here != text_.size() && !(here + 1 == text_.size() && text_[here] == U'\n')) return false;
      break;
    case Op::kWordBoundary:
      if (!at_boundary(here)) return false;
      break;
    case Op::kNotWordBoundary:
      if (at_boundary(here)) return false;
      break;
    case Op::kProgress:
      if (registers_[instruction.a] == here) return false;
      break;
    case Op::kLookahead:
      if (run(*pc + 1, here).has_value() == (instruction.b != 0)) return false;
      *pc = instruction.a;
      return true;
    case Op::kLookbehind:
      if (looks_behind(instruction, *pc, here) == (instruction.b != 0)) return false;
      *pc = instruction.a;
      return true;
    case Op::kAtomic: {
      const auto end = run(*pc + 1, here);
      if (!end) return false;
      *at = *end;
      *pc = instruction.a;
      return true;
    }
    default:
      break;
  }
  ++*pc;
  return true;
}

std::optional<size_t> Matcher::run(size_t pc, size_t at, size_t must_end) {
  const size_t base = choices_.size();
  // Backtracks to the last alternative that was not tried, and restores the registers that were changed since. Returns false if
  // there is none.
  const auto go_back = [&] {
    while (choices_.size() > base) {
      const Choice choice = choices_.back();
      choices_.pop_back();
      if (choice.reg != kNoLimit) {
        registers_[choice.reg] = choice.at;
        continue;
      }
      pc = choice.pc;
      at = choice.at;
      return true;
    }
    return false;
  };
  for (;;) {
    if (++steps_ > limit_) {
      throw_error(
          ErrorCode::kBadData,
          "{}: the regular expression needs more than {} steps for a text; use a tokenizer with a simpler "
          "expression, or cut the text into parts",
          where_, limit_);
    }
    const Instruction& instruction = code_[pc];
    switch (instruction.op) {
      case Op::kMatch:
        if (must_end == kNoLimit || at == must_end) {
          choices_.resize(base);
          return at;
        }
        if (!go_back()) return std::nullopt;
        break;
      case Op::kSplit:
        choices_.push_back({instruction.b, at});
        pc = instruction.a;
        break;
      case Op::kJump:
        pc = instruction.a;
        break;
      case Op::kMark:
        choices_.push_back({0, registers_[instruction.a], instruction.a});
        registers_[instruction.a] = at;
        ++pc;
        break;
      default:
        if (!step(instruction, &pc, &at) && !go_back()) return std::nullopt;
    }
  }
}

}  // namespace regex

Regex::Regex(std::string_view pattern, const std::string& where) : program_(std::make_unique<Program>()) {
  program_->where = where;
  std::u32string chars;
  for (size_t i = 0; i < pattern.size();) {
    const DecodedCodePoint c = decode_utf8(pattern.substr(i));
    chars.push_back(c.value);
    i += c.num_bytes;
  }
  regex::Compiler compiler(std::move(chars), where, &program_->sets);
  program_->code = compiler.compile();
  program_->num_registers = compiler.num_registers();
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

void Regex::find_all(std::u32string_view text, std::vector<std::pair<size_t, size_t>>* matches) const {
  regex::Matcher matcher(program_->code, program_->sets, program_->num_registers, text, program_->where);
  std::optional<size_t> last_end;
  for (size_t at = 0; at <= text.size();) {
    const auto end = matcher.run(0, at);
    // An empty match directly after the previous match is not reported.
    if (!end || (*end == at && last_end == at)) {
      ++at;
      continue;
    }
    matches->push_back({at, *end});
    last_end = end;
    at = *end == at ? at + 1 : *end;
  }
}

}  // namespace plimsoll::text
