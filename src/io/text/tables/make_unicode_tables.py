#!/usr/bin/env python3
"""Writes unicode_tables.inc: how Hugging Face's `tokenizers` changes and classifies every Unicode code point.

`tokenizers` contains Unicode tables of several versions, so Plimsoll needs the same tables to get the same ids. The script
determines every entry by calling the public functions of the package; nothing is copied from its sources.

    python3 make_unicode_tables.py > unicode_tables.inc       (about 40 s; needs the package `tokenizers`)
"""

import sys

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

REMOVED, WHITESPACE, PUNCTUATION, CJK, MARK, LOWERCASES, DECOMPOSES, WORD = (1 << bit for bit in range(8))
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xAC00 + 11172)


def bert(**only):
    settings = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    return normalizers.BertNormalizer(**(settings | only)).normalize_str


def added_token_probe(**properties):
    """Returns a tokenizer with a single added token, "xyz"."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, "[UNK]"))
    tokenizer.add_tokens([AddedToken("xyz", normalized=False, **properties)])
    return tokenizer


def hangul_parts(code_point):
    index = code_point - 0xAC00
    parts = [0x1100 + index // 588, 0x1161 + index % 588 // 28]
    return parts + ([0x11A7 + index % 28] if index % 28 else [])


def observe():
    clean, cjk, strip, lower = (bert(**{name: True}) for name in
                                ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"))
    nfd = normalizers.NFD().normalize_str
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    single_word, rstrip = added_token_probe(single_word=True), added_token_probe(rstrip=True)
    flags, lowered, decomposed = {}, {}, {}
    for c in CODE_POINTS:
        s, f = chr(c), 0
        pieces = len(split(f"a{s}b"))
        f |= {1: 0, 2: WHITESPACE, 3: PUNCTUATION}[pieces]
        cleaned = clean(s)
        f |= REMOVED if cleaned == "" else 0
        assert cleaned in ("", " " if f & WHITESPACE else s), hex(c)
        spaced = cjk(s)
        f |= CJK if spaced != s else 0
        assert spaced in (s, f" {s} "), hex(c)
        if lower(s) != s:
            f |= LOWERCASES
            lowered[c] = [ord(x) for x in lower(s)]
        parts = [ord(x) for x in nfd(s)]
        if parts != [c]:
            f |= DECOMPOSES
            if c in HANGUL:
                assert parts == hangul_parts(c), hex(c)
            else:
                decomposed[c] = parts
        elif strip(s) == "":
            f |= MARK
        f |= WORD if single_word.encode(f"xyz{s}").ids != [1] + [0] else 0
        assert (rstrip.encode(f"xyz{s}").offsets[0][1] == 4) == bool(f & WHITESPACE), hex(c)
        flags[c] = f
    assert all(flags[c] & DECOMPOSES for c in HANGUL)
    for c in CODE_POINTS:
        expected = decomposed.get(c) or (hangul_parts(c) if c in HANGUL else [c])
        assert strip(chr(c)) == "".join(chr(x) for x in expected if not flags[x] & MARK), hex(c)
    return flags, lowered, decomposed


def observe_ranks():
    """Returns the rank by which NFD sorts each combining character; 0 for a starter, which is not moved."""
    nfd = normalizers.NFD().normalize_str

    def sorts_before(x, y):  # true if x has a smaller combining class than y; requires that neither is a starter (class 0)
        return x != y and nfd(chr(y) + chr(x)) == chr(x) + chr(y)

    top = 0x0345  # the combining iota subscript, which has the highest combining class in Unicode
    combining = [c for c in CODE_POINTS if nfd(chr(c)) == chr(c) and (c == top or sorts_before(c, top))]
    # Checks that no character has a higher class: NFD would sort it after `top`.
    assert not [c for c in CODE_POINTS if nfd(chr(c)) == chr(c) and sorts_before(top, c)]
    classes = []  # one character per combining class, in sorting order
    ranks = {}
    for c in combining:
        below = sum(sorts_before(r, c) for r in classes)
        if below < len(classes) and not sorts_before(c, classes[below]):
            continue
        classes.insert(below, c)
    for c in combining:
        ranks[c] = 1 + sum(sorts_before(r, c) for r in classes)
    return ranks


def runs(values):
    """Returns the runs of equal values as (first code point, value). Surrogates have the value 0."""
    result, last = [], None
    for c in range(0x110000):
        value = values.get(c, 0)
        if value != last:
            result.append((c, value))
            last = value
    return result


def emit(name, comment, type_name, numbers):
    print(f"\n// {comment}\nconstexpr {type_name} {name}[] = {{")
    line = ""
    for number in numbers:
        text = (str(number) if number < 10 else hex(number)) + ","
        if len(line) + len(text) > 108:
            print("  " + line)
            line = ""
        line += text
    print("  " + line + "\n};")


def main():
    flags, lowered, decomposed = observe()
    ranks = observe_ranks()
    print(f"// Generated by make_unicode_tables.py from tokenizers {tokenizers.__version__}. Do not edit.")
    print(f'constexpr const char* kUnicodeTablesSource = "tokenizers {tokenizers.__version__}";')
    emit("kFlagRuns", "First code point of a run and its flags (CodePointFlags), in pairs.", "uint32_t",
         [n for run in runs(flags) for n in run])
    emit("kCombiningRuns", "First code point of a run and its rank in canonical order (0: a starter), in pairs.",
         "uint32_t", [n for run in runs(ranks) for n in run])
    emit("kLowercase", "Code point, length of its lower case, lower case.", "uint32_t",
         [n for c, low in sorted(lowered.items()) for n in (c, len(low), *low)])
    emit("kDecompositions", "Code point, length of its full canonical decomposition, decomposition; no Hangul syllables.",
         "uint32_t", [n for c, parts in sorted(decomposed.items()) for n in (c, len(parts), *parts)])
    counts = {name: sum(bool(f & bit) for f in flags.values()) for name, bit in
              (("removed", REMOVED), ("whitespace", WHITESPACE), ("punctuation", PUNCTUATION), ("cjk", CJK),
               ("mark", MARK), ("lowercases", LOWERCASES), ("decomposes", DECOMPOSES), ("word", WORD))}
    print(counts, "classes", max(ranks.values()), "combining", len(ranks),
          "combining but no mark", sum(not flags[c] & MARK for c in ranks), file=sys.stderr)


if __name__ == "__main__":
    main()
