#!/usr/bin/env python3
"""Counts wording that makes the text of the project hard to read, in comments (C++, CUDA, Python, shell) and in Markdown.

  scripts/check_english.py [--limit N] [--show N]

Two kinds of findings are counted: words with a plainer equivalent, such as "beside" for "next to", and comments that begin
with a clause instead of a sentence, such as "What the caller needs". A finding can be correct English, so the count is
compared with a budget per 1000 lines of text. Prints the total, the counts and the N lines found first (default: 10).
Exits with 1 if there are more than --limit findings per 1000 lines (default: no limit).
"""

import argparse
import collections
import re
import subprocess
import sys

TEXT_FILES = re.compile(r"\.(h|cc|cu|cuh|inc|py|sh|md)$")

WORDS = {
    "beside": r"\bbeside\b",
    "lie": r"\blies?\b",
    "stand": r"\bstands?\b",
    "behind": r"\bbehind\b",
    "so many": r"\bso (?:many|much)\b",
    "in place of": r"\bin place of\b",
    "a instead of per": r"\b(?:bytes|MiB|GB|ms|samples|tokens|plans|numbers|rows|values) an? "
                        r"(?:second|parameter|token|element|row|step|layer|thread|sample)\b",
    "is there": r"\b(?:is|are|was|were) there\b",
    "unless said": r"\bunless (?:it is )?said\b|\bas said\b",
    "that which": r"\bthat which\b",
    "go on": r"\bgo(?:es)? on\b",
    "thereof": r"\b(?:thereof|therein|hereby|whereof)\b",
    "is told": r"\b(?:is|are|gets|get) told\b",
}
PATTERNS = {name: re.compile(pattern) for name, pattern in WORDS.items()}
OPENING = re.compile(r"(?:What|Whether|Of|Those|That|As|Where|Nothing|So that|So many|Whose|Which)\b")


def comment_lines(path, text):
    """Yields the comment of each line that has one, and None for a line of code."""
    for line in text.split("\n"):
        full = re.match(r"\s*(?://+|#(?!include|pragma|if|ifdef|ifndef|else|elif|endif|define|undef|error|!))\s?(.*)$", line)
        if full:
            yield full.group(1)
            continue
        start = line.find("// ")
        yield line[start + 3:] if start > 0 and line[:start].count('"') % 2 == 0 else None


def markdown_lines(text):
    """Yields the lines of a page outside of code blocks."""
    fenced = False
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        yield None if fenced or line.startswith(("```", "    ")) else line


def findings(path, text):
    """Returns the number of text lines and the findings as (line number, name, line)."""
    is_markdown = path.endswith(".md")
    num_lines, found, starts_sentence = 0, [], True
    lines = markdown_lines(text) if is_markdown else comment_lines(path, text)
    for number, line in enumerate(lines, 1):
        if line is None or not line.strip():
            starts_sentence = True
            continue
        num_lines += 1
        line = line.strip()
        for name, pattern in PATTERNS.items():
            found += [(number, name, line)] * len(pattern.findall(line))
        if starts_sentence and not is_markdown and OPENING.match(line):
            found.append((number, "opening", line))
        starts_sentence = line.endswith(".")
    return num_lines, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=float, help="the largest number of findings per 1000 lines")
    parser.add_argument("--show", type=int, default=10, help="how many findings to print")
    options = parser.parse_args()
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.splitlines()
    # This file is skipped because it contains the list of words, and the tables of Unicode because they are data.
    paths = [path for path in listed if TEXT_FILES.search(path) and "/tables/" not in path
             and path != "scripts/check_english.py"]
    total_lines, counts, shown = 0, collections.Counter(), []
    for path in paths:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except OSError:
            continue
        num_lines, found = findings(path, text)
        total_lines += num_lines
        for number, name, line in found:
            counts[name] += 1
            shown.append(f"{path}:{number}: {name}: {line[:120]}")
    rate = 1000.0 * sum(counts.values()) / max(1, total_lines)
    print(f"english: {sum(counts.values())} findings in {total_lines} lines of comments and Markdown, {rate:.1f} per 1000")
    if counts:
        print("    " + ", ".join(f"{name} {count}" for name, count in counts.most_common()))
    for line in shown[:options.show]:
        print("    " + line)
    if options.limit is not None and rate > options.limit:
        print(f"    more than {options.limit:g} per 1000 lines; rewrite the text in plain English (CONTRIBUTING.md)")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
