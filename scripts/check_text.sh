#!/bin/sh
# Checks of the text of tracked files that need no build: no unfinished work by its own words, no file that should be two, no
# path of one machine, scripts that parse. Exits with 1 and names the lines.
set -u
status=0
report() {
  if [ -n "$2" ]; then
    echo "text: $1"
    printf '%s\n' "$2" | sed 's/^/    /'
    status=1
  fi
}

# The brackets keep these patterns from finding themselves.
report "unfinished work; finish it or open an issue" \
  "$(git grep -nIwE '[T]ODO|[F]IXME|[X]XX|[H]ACK' -- src include cmake scripts tests bench examples Makefile .ci)"
report "a path of one machine" \
  "$(git grep -nIE '(^|[^A-Za-z0-9_.])/[w]ork/' -- src include cmake scripts tests bench examples docs README.md)"
report "more than 800 lines; which room is this file hiding?" \
  "$(git ls-files 'src/*' 'include/*' 'tests/*' 'bench/*' 'examples/*' | grep -E '\.(cc|h|cu|cuh|py|sh)$' |
    xargs -r wc -l 2>/dev/null | awk '$2 != "total" && $1 > 800 { print $2 ": " $1 " lines" }')"
report "blanks at the end of a line" \
  "$(git grep -nIE '[[:blank:]]+$' -- '*.cc' '*.h' '*.cu' '*.cuh' '*.cmake' '*.sh' 'CMakeLists.txt' '*.md' | cut -c1-160)"
report "a tracked file above 2 MiB" \
  "$(git ls-files | while read -r file; do
    [ -f "$file" ] && [ "$(wc -c <"$file")" -gt 2097152 ] && echo "$file"
  done)"
for script in scripts/*.sh .ci/run; do
  shell="sh"
  if head -n 1 "$script" | grep -q bash; then shell=bash; fi
  report "$script does not parse" "$("$shell" -n "$script" 2>&1)"
done

[ "$status" -eq 0 ] && echo "text: nothing found"
exit "$status"
