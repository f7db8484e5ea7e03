// Reads lists that a program wrote as text into a cell. Thread-safe: pure functions.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "io/data/table_reader.h"

namespace plimsoll {

// Parses a list as text, except for surrounding blanks and line ends. Returns nothing if the text is not a list. These notations are known:
//   JSON       [0, 1], ["a", "b"]
//   Python     ['a', 'b'], [True, False], the tuples (0, 1) and ('a',), and the sets {'a', 'b'}, set() and frozenset({'a'})
//   NumPy      [0 1], [1. 0.], ['a' 'b'], array([0, 1], dtype=int8), and its numbers and strings in lists: [np.int64(0)], [np.str_('a')]
//   PyTorch    tensor([0, 1])
//   no quotes  [a, b]: the items end at commas
// The items of a set in braces are always of kind kText, because a set is never a vector of targets. A text in parentheses without a comma
// is not a list.
std::optional<std::vector<JsonItem>> find_written_list(std::string_view text);

// Returns true if the text is enclosed in brackets, parentheses or braces, possibly after the name of a function: "[a", which only opens
// one, is not.
bool is_bracketed(std::string_view text);

// Returns the first characters of a text that begins like a list, even if the list is incomplete: "[", "array(", "tensor(", "set(" or
// "frozenset(". Returns an empty string for other texts, also for those in parentheses or braces, which are often names.
std::string_view opening_of_list(std::string_view text);

// Returns true if the text is an object of JSON or a dictionary of Python, {'a': 1}.
bool is_written_dictionary(std::string_view text);

// Returns true for a list of one item without quotes, [a], which is the name of a class in brackets if no label of a file has two items.
bool is_name_in_brackets(std::string_view text);

}  // namespace plimsoll
