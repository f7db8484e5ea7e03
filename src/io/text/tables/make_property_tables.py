#!/usr/bin/env python3
"""Writes property_tables.inc: the Unicode properties that normalizers and pre-tokenizers use, as Hugging Face's `tokenizers` defines them.

`tokenizers` contains several versions of Unicode: that of its regular expressions (Oniguruma), that of Rust, and those of Rust crates.
The script determines every property by calling the public functions of the package.

    python3 make_property_tables.py > property_tables.inc       (about a minute; needs the package `tokenizers`)
"""

import sys

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ALL = "".join(map(chr, CODE_POINTS))
HANGUL = range(0xAC00, 0xAC00 + 11172)
CATEGORIES = ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
              "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"]


def matching(pattern):
    """Returns the code points that a character class of a regular expression matches."""
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    found = set()
    for piece, _ in split.pre_tokenize_str(ALL):
        found.update(map(ord, piece))
    return found


def split_apart(pre_tokenizer):
    """Returns the code points that a pre-tokenizer separates from the letters on both sides."""
    text = "".join(f"a{chr(c)}a\n" for c in CODE_POINTS)
    found = set()
    for piece, _ in pre_tokenizer.pre_tokenize_str(text):
        if piece not in ("a", "\n") and len(piece) == 1:
            found.add(ord(piece))
    return found


def runs(name, values, default):
    out, last = [], default
    for c in range(0x110000):
        value = values.get(c, default)
        if value != last or c == 0:
            out += [c, value]
            last = value
    write(name, out)


def write(name, numbers):
    print(f"constexpr uint32_t {name}[] = {{")
    line = ""
    for number in numbers:
        word = f"{number},"
        if len(line) + len(word) > 110:
            print(line)
            line = ""
        line += word
    print(line.rstrip(","))
    print("};")


def main():
    category = {}
    for number, name in enumerate(CATEGORIES):
        for c in matching(rf"\p{{{name}}}"):
            category[c] = number + 1
    for c in CODE_POINTS:
        category.setdefault(c, 0)  # 0 is Cn (unassigned); surrogates, which are Cs, cannot occur in a text
    space, digit, word, upper, lower = (matching(p) for p in (r"\s", r"\d", r"\w", r"[[:upper:]]", r"[[:lower:]]"))
    assert digit == {c for c in CODE_POINTS if CATEGORIES[category[c] - 1] == "Nd" and category[c]}
    numeric = split_apart(pre_tokenizers.Digits(individual_digits=True))
    strip = normalizers.StripAccents().normalize_str
    marks = {c for c in CODE_POINTS if strip(chr(c)) == ""}
    flags = {c: category[c] | (32 if c in numeric else 0) | (64 if c in marks else 0) | (128 if c in word else 0) |
             (256 if c in space else 0) for c in CODE_POINTS}
    nfd, nfkd, nfc = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str, normalizers.NFC().normalize_str
    compatible, compositions = [], []
    for c in CODE_POINTS:
        s = chr(c)
        if c in HANGUL:
            continue
        if nfkd(s) != nfd(s):
            compatible += [c, len(nfkd(s)), *map(ord, nfkd(s))]
    # NFC composes a character from two code points. The first one is what NFC makes of the start of the character's decomposition; the
    # second is the rest.
    for c in CODE_POINTS:
        if c in HANGUL:
            continue
        parts = nfd(chr(c))
        if len(parts) < 2 or nfc(parts) != chr(c):
            continue
        for cut in range(1, len(parts)):
            left, right = nfc(parts[:cut]), parts[cut:]
            if len(left) == 1 and len(right) == 1 and nfc(left + right) == chr(c):
                compositions += [ord(left), ord(right), c]
    print("// Made by make_property_tables.py; do not edit.")
    print(f'constexpr std::string_view kPropertyTablesSource = "tokenizers {tokenizers.__version__}";')
    print("// Runs of code points with equal flags: first code point, flags (unicode_properties.h).")
    runs("kPropertyRuns", flags, 0)
    print("// Compatibility decompositions that differ from the canonical one: code point, length, values.")
    write("kCompatibility", compatible)
    print("// Compositions: first, second, composite; sorted by composite.")
    write("kCompositions", compositions)
    print(len(upper), len(lower), file=sys.stderr)


if __name__ == "__main__":
    main()
