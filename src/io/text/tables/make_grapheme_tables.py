#!/usr/bin/env python3
"""Writes grapheme_tables.inc: how Unicode divides texts into grapheme clusters (Unicode Standard Annex 29).

The class of each code point comes from the package `regex`. The script also tests with `tokenizers` which code points join the cluster of
the code point before them. This result replaces the class if the two packages use different versions of Unicode.

    python3 make_grapheme_tables.py > grapheme_tables.inc       (half a minute; needs the packages `regex` and `tokenizers`)
"""

import base64
import struct
import sys

import regex
import tokenizers
from tokenizers import normalizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ALL = "".join(map(chr, CODE_POINTS))
CLASSES = ["CR", "LF", "Control", "Extend", "ZWJ", "RI", "Prepend", "SpacingMark", "L", "V", "T", "LV", "LVT"]
PICTOGRAPHIC, CONSONANT, LINKER, CONJUNCT_EXTEND = 16, 32, 64, 128


def charsmap(mapping):
    """Returns a map in the format of SentencePiece: a double-array trie of the keys, followed by the values."""
    nodes = {(): {}}
    values, offsets = b"", {}
    for key, value in mapping.items():
        offsets[key.encode()] = len(values)
        values += value.encode() + b"\0"
        data = key.encode()
        for i in range(len(data)):
            nodes.setdefault(tuple(data[:i]), {})[data[i]] = tuple(data[:i + 1])
        nodes.setdefault(tuple(data), {})
    array, used, next_base = {0: 0}, {0}, 1
    queue, place = [()], {(): 0}
    while queue:
        node = queue.pop(0)
        labels = sorted(nodes[node]) + ([0] if bytes(node) in offsets else [])
        base = next_base
        while any((base ^ label) in used for label in labels) or base in used:
            base += 1
        next_base = base
        at = place[node]
        array[at] |= (at ^ base) << 10 | (256 if bytes(node) in offsets else 0)
        assert at ^ base < 1 << 21
        for label in labels:
            used.add(base ^ label)
            if label == 0:
                array[base] = offsets[bytes(node)] | 1 << 31
            else:
                array[base ^ label] = label
                place[nodes[node][label]] = base ^ label
                queue.append(nodes[node][label])
    size = (max(array) | 255) + 1
    units = struct.pack(f"<{size}I", *(array.get(i, 0) for i in range(size)))
    return base64.b64encode(struct.pack("<I", len(units)) + units + values).decode()


def precompiled(mapping):
    return normalizers.Precompiled(base64.b64decode(charsmap(mapping)))


def main():
    flags = dict.fromkeys(CODE_POINTS, 0)
    for number, name in enumerate(CLASSES):
        for match in regex.finditer(rf"\p{{GCB={name}}}", ALL):
            flags[ord(match[0])] = number + 1
    for bit, pattern in ((PICTOGRAPHIC, r"\p{Extended_Pictographic}"), (CONSONANT, r"\p{InCB=Consonant}"), (LINKER, r"\p{InCB=Linker}"),
                         (CONJUNCT_EXTEND, r"\p{InCB=Extend}")):
        for match in regex.finditer(pattern, ALL):
            flags[ord(match[0])] |= bit
    # Tests whether a code point joins the cluster of an "a" before it. The normalizer replaces a cluster of fewer than 6 bytes by the value
    # of its shortest known prefix (here "Z" for "a"). If the code point belongs to the cluster, it is therefore lost and only "Z" remains.
    normalize = precompiled({"a": "Z"}).normalize_str
    joining = {CLASSES.index(name) + 1 for name in ("Extend", "ZWJ", "SpacingMark")}
    corrected = 0
    for c in CODE_POINTS:
        joined = normalize("a" + chr(c)) == "Z"
        if joined != (flags[c] & 15 in joining):
            flags[c] = flags[c] & ~15 | (CLASSES.index("Extend") + 1 if joined else 0)
            corrected += 1
    print(f"{corrected} corrected", file=sys.stderr)
    print("// Made by make_grapheme_tables.py; do not edit.")
    print(f'constexpr std::string_view kGraphemeTablesSource = "tokenizers {tokenizers.__version__}";')
    print("// Runs of code points with equal values: first code point, class and flags (unicode_properties.cc).")
    out, last = [], None
    for c in range(0x110000):
        value = flags.get(c, 3)
        if value != last:
            out += [c, value]
            last = value
    print("constexpr uint32_t kGraphemeRuns[] = {")
    line = ""
    for number in out:
        word = f"{number},"
        if len(line) + len(word) > 110:
            print(line)
            line = ""
        line += word
    print(line.rstrip(","))
    print("};")


if __name__ == "__main__":
    main()
