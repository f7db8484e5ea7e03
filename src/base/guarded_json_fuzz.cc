// Fuzzes the reader of JSON with the rules of its callers. It must return a tree, or throw an Error with code kBadData and a
// short, printable message. The tree must equal that of the JSON library, obey the rules, and not be deeper than they permit.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/guarded_json.h"
#include "base/json.h"
#include "base/testing/fuzz_answer.h"

namespace plimsoll {
namespace {

using Json = nlohmann::json;

// Returns the number of lists and objects around the deepest value. Requires: the tree is not deeper than a reader permits.
int depth_of(const Json& value) {
  int deepest = 0;
  for (const Json& inner : value) deepest = std::max(deepest, inner.is_structured() ? depth_of(inner) : 0);
  return value.is_structured() ? deepest + 1 : 0;
}

void check_text(std::string_view text, const JsonRules& rules) {
  JsonTree<Json> tree;
  const std::optional<JsonFault> fault = read_json(text, rules, tree);
  PLIMSOLL_CHECK(find_json(text, rules).is_discarded() == fault.has_value());
  if (fault) {
    PLIMSOLL_CHECK(fault->offset <= text.size() && !fault->reason.empty() && fault->reason.size() < 600);
    PLIMSOLL_CHECK(std::ranges::none_of(fault->reason, [](char c) { return c >= 0 && c < ' '; }));
    // If the fault is that the text is not JSON, the JSON library must refuse the text, too. It need not refuse a text with a NUL byte,
    // which it takes for the end of the text, or with a byte order mark, which it skips.
    const bool is_json = Json::accept(text);
    PLIMSOLL_CHECK(fault->kind != JsonFaultKind::kText || !is_json ||
                   text.find('\0') != std::string_view::npos || text.starts_with("\xef\xbb\xbf"));
    refuse_json(text, "fuzz", *fault, rules);
  }
  const Json value = tree.take();
  PLIMSOLL_CHECK(value == Json::parse(text) && depth_of(value) <= rules.max_depth);
  const std::string written = python_json(value, 2);
  PLIMSOLL_CHECK(parse_json(written, "fuzz", strict_json()) == value);
}

}  // namespace
}  // namespace plimsoll

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plimsoll;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const JsonRules& rules : {JsonRules(), strict_json(), JsonRules{.max_depth = 3, .max_bytes = 100}})
    expect_value_or({ErrorCode::kBadData}, [&] { check_text(text, rules); });
  return 0;
}
