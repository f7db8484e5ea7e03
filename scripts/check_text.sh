#!/bin/sh
# Checks the text of tracked files without a build: no unfinished work, no file that should be split, no path of one machine, and
# scripts that parse. Prints the lines with findings and exits with 1 if there are any.
set -u
status=0
report() {
  if [ -n "$2" ]; then
    echo "text: $1"
    printf '%s\n' "$2" | sed 's/^/    /'
    status=1
  fi
}

# The brackets prevent the patterns from matching the line that contains them.
report "unfinished work; finish it or open an issue" \
  "$(git grep -nIwE '[T]ODO|[F]IXME|[X]XX|[H]ACK' -- src include cmake scripts tests bench examples Makefile .ci)"
report "a path of one machine" \
  "$(git grep -nIE '(^|[^A-Za-z0-9_.])/[w]ork/' -- src include cmake scripts tests bench examples docs README.md)"
report "more than 800 lines; split the file" \
  "$(git ls-files 'src/*' 'include/*' 'tests/*' 'bench/*' 'examples/*' | grep -E '\.(cc|h|cu|cuh|py|sh)$' |
    xargs -r wc -l 2>/dev/null | awk '$2 != "total" && $1 > 800 { print $2 ": " $1 " lines" }')"
report "blanks at the end of a line" \
  "$(git grep -nIE '[[:blank:]]+$' -- '*.cc' '*.h' '*.cu' '*.cuh' '*.cmake' '*.sh' 'CMakeLists.txt' '*.md' | cut -c1-160)"
report "a tracked file above 2 MiB" \
  "$(git ls-files | while read -r file; do
    [ -f "$file" ] && [ "$(wc -c <"$file")" -gt 2097152 ] && echo "$file"
  done)"
# Code that uses <algorithm> without including it compiles only with standard libraries in which other headers include it, so
# the include is required.
algorithms='std::(ranges::)?(sort|stable_sort|partial_sort|nth_element|find|find_if|find_if_not|find_first_of|count|count_if|rotate|m(in|ax|inmax)(_element)?|any_of|all_of|none_of|copy|copy_n|copy_if|copy_backward|fill|fill_n|transform|reverse|unique|lower_bound|upper_bound|equal_range|binary_search|equal|mismatch|search|remove|remove_if|replace|replace_if|generate|generate_n|partition|stable_partition|is_sorted|for_each|adjacent_find|merge|includes|set_union|set_difference|set_intersection|lexicographical_compare|is_permutation|clamp|swap_ranges)\('
report "an algorithm without #include <algorithm>" \
  "$(git grep -lE "$algorithms" -- '*.cc' '*.h' '*.cu' '*.cuh' | xargs -r grep -L '#include <algorithm>')"
for script in scripts/*.sh .ci/run; do
  shell="sh"
  if head -n 1 "$script" | grep -q bash; then shell=bash; fi
  report "$script does not parse" "$("$shell" -n "$script" 2>&1)"
done
# Permits at most 3 findings per 1000 lines of comments and Markdown.
if command -v python3 >/dev/null 2>&1; then python3 scripts/check_english.py --show 20 --limit 3 || status=1; fi

[ "$status" -eq 0 ] && echo "text: nothing found"
exit "$status"
