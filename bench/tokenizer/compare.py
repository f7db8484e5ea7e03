#!/usr/bin/env python3
"""Compares Plimsoll's tokenizer with Hugging Face's `tokenizers`: every id, type and offset, then the throughput.

    compare.py BUILD_FOLDER MODEL_FOLDER [--only CHECK ...] [--lines N] [--repeats N]

BUILD_FOLDER contains bench/tokenizer/tokenizer_bench (cmake -DPLIMSOLL_BUILD_BENCH=ON), MODEL_FOLDER a BERT model's
tokenizer.json and vocab.txt. Needs the Python packages `tokenizers` and `transformers` and, for real text, a Debian machine's
package lists (`apt-cache dumpavail`). The exit status is 1 if anything differs. Takes about 40 minutes, most of them in the
reference.
"""

import argparse
import array
import json
import os
import pathlib
import random
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import devices  # noqa: E402

# The variables are set before the import, because the thread pool Rayon reads them once, when `tokenizers` first uses threads.
CORES = devices.available_threads()
os.environ.update(devices.environment_for("cpu", threads=CORES), TOKENIZERS_PARALLELISM="false")
from tokenizers import Tokenizer  # noqa: E402  (the variables must be set before)

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
NORMALIZERS = {
    "uncased": {},
    "cased": {"lowercase": False},
    "cased, accents stripped": {"lowercase": False, "strip_accents": True},
    "uncased, accents kept": {"strip_accents": False},
    "no Chinese, not cleaned": {"handle_chinese_chars": False, "clean_text": False},
    "cased, not cleaned": {"clean_text": False, "lowercase": False},
}
WORDS = """naïve façade Ελληνικά γλώσσα ΟΔΥΣΣΕΥΣ Привет МОСКВА ёлка שָׁלוֹם עולם مرحبا السَّلام हिन्दी नमस्ते বাংলা ไทย ภาษา 한국어 서울특별시
日本語 東京 カタカナ ひらがな ガギグ 中文 北京大學 Việt Nam Tiếng İstanbul ığdır Straße GRÖẞE ﬁﬂ ǅ Åse e\u0301te\u0301 A\u030a o\u0328\u0304 \u1e9b\u0323 q\u0307\u0323
👩‍👩‍👧 🇩🇪 ☕️ € ½ ² № … — ‘quoted’ “double” « guillemets » ￦ ﷺ 𝔘𝔫𝔦 𐐀𐐨 ԱԲԳ აბგ ⴰⴱ ꙮ ᏣᎳᎩ ꮳꮃꭹ \u302a中\u302b 가\u302e \U0001d165\U0001d16d ཀ\u0f72\u0f71
[CLS] [SEP] [MASK] [UNK] [PAD] [cls] [ MASK ] ##ing don't e.g. x=1;y[2] C++ user@example.org https://a.b/c?d=e#f 3.14 1,000""".split()


def package_lines(limit):
    """Returns the lines of the short and long descriptions of all Debian packages, without duplicates."""
    text = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True).stdout.decode(errors="replace")
    lines = {}
    for line in text.split("\n"):
        match = re.match(r"(?:Description(?:-en)?: | (?=\S)(?!\.$))(.*)|((?:Maintainer|Homepage|Depends): .*)", line)
        if match:
            lines.setdefault((match.group(1) or match.group(2)).strip())
    lines = list(lines)
    random.Random(1).shuffle(lines)
    return lines[:limit]


def mixed_lines(count):
    rng = random.Random(2)
    return [" ".join(rng.choices(WORDS, k=rng.randint(1, 30))) for _ in range(count)]


def wild_lines(count):
    """Returns lines of random code points. Those that interact with others, such as combining marks, are more likely."""
    rng = random.Random(3)
    marks = [c for c in CODE_POINTS if 0x300 <= c < 0x370 or 0x302A <= c < 0x3030 or 0x1D165 <= c < 0x1D173
             or 0x16FF0 <= c < 0x16FF2 or 0x591 <= c < 0x5BE or 0xF71 <= c < 0xF82]
    pools = [range(0x20, 0x7F), range(0, 0x300), marks, range(0x370, 0x2000), range(0x2000, 0x3400),
             range(0x4E00, 0x4F00), range(0xAC00, 0xD7A4), range(0xF900, 0x10000), range(0x10000, 0x20000), CODE_POINTS]
    specials = ["[SEP]", "[CLS]", "[MASK]", "[UNK]", " ", "  ", "\t", "\u3000"]

    def piece():
        if rng.random() < 0.1:
            return rng.choice(specials)
        pool = rng.choice(pools)
        return "".join(chr(pool[rng.randrange(len(pool))]) for _ in range(rng.randint(1, 5)))

    return ["".join(piece() for _ in range(rng.randint(0, 12))) for _ in range(count)]


class Checker:
    def __init__(self, build, scratch):
        self.program = str(pathlib.Path(build) / "bench/tokenizer/tokenizer_bench")
        self.scratch = pathlib.Path(scratch)
        self.failures = 0

    def write_texts(self, records):
        """Writes the input of tokenizer_bench. Each record is a tuple of one or two texts (str or bytes)."""
        path = self.scratch / "texts"
        with open(path, "wb") as file:
            for record in records:
                file.write(struct.pack("=I", len(record)))
                for text in record:
                    data = text if isinstance(text, bytes) else text.encode()
                    file.write(struct.pack("=I", len(data)) + data)
        return str(path)

    def ours(self, folder, records, *options):
        result = self.scratch / "result"
        subprocess.run([self.program, "encode", str(folder), self.write_texts(records), str(result), *options],
                       check=True)
        numbers = array.array("i")
        numbers.frombytes(result.read_bytes())
        at = 0
        for _ in records:
            n = numbers[at]
            ids, types = numbers[at + 1:at + 1 + n], numbers[at + 1 + n:at + 1 + 2 * n]
            offsets = numbers[at + 1 + 2 * n:at + 1 + 4 * n]
            at += 1 + 4 * n
            yield ids.tolist(), types.tolist(), list(zip(offsets[::2], offsets[1::2]))

    def check(self, name, folder, reference, records, *options, special=True):
        def as_text(text):
            return text.decode(errors="replace") if isinstance(text, bytes) else text

        inputs = [as_text(r[0]) if len(r) == 1 else (as_text(r[0]), as_text(r[1])) for r in records]
        wrong = tokens = 0
        ours = self.ours(folder, records, *options)
        for start in range(0, len(inputs), 20000):
            for text, theirs in zip(inputs[start:start + 20000],
                                    reference.encode_batch(inputs[start:start + 20000], add_special_tokens=special)):
                mine = next(ours)
                tokens += len(mine[0])
                if mine != (theirs.ids, theirs.type_ids, theirs.offsets):
                    wrong += 1
                    if wrong <= 3:
                        print(f"  DIFFERS {text!r}\n    ours   {mine}\n    theirs {(theirs.ids, theirs.type_ids, theirs.offsets)}")
        self.failures += wrong
        print(f"{'FAIL' if wrong else 'ok  '} {name}: {len(records)} texts, {tokens} tokens, {wrong} differ", flush=True)

    def folder(self, name, tokenizer_json):
        path = self.scratch / name
        path.mkdir(exist_ok=True)
        (path / "tokenizer.json").write_text(json.dumps(tokenizer_json, ensure_ascii=False))
        return path, Tokenizer.from_str(json.dumps(tokenizer_json, ensure_ascii=False))


def with_normalizer(document, changes):
    document = json.loads(json.dumps(document))
    document["truncation"] = document["padding"] = None
    document["normalizer"].update(changes)
    return document


def every_code_point(checker, document):
    """Compares the encodings of every code point, with a vocabulary in which each of them has ids of its own."""
    vocab = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
    for c in CODE_POINTS:
        for token in (chr(c), "##" + chr(c)):
            vocab.setdefault(token, len(vocab))
    for name, changes in NORMALIZERS.items():
        full = with_normalizer(document, changes)
        full["model"]["vocab"] = vocab
        full["added_tokens"] = []
        full["post_processor"] = None
        path, reference = checker.folder("full", full)
        for form in ("{}", "a{}b", "e{}\u0301\u0316"):
            checker.check(f"every code point, {name}, as {form!r}", path, reference,
                          [(form.format(chr(c)),) for c in CODE_POINTS])
        checker.check(f"wild text, every code point a token, {name}", path, reference, [(t,) for t in wild_lines(50000)])


def real_lines(checker, document, lines):
    for name, changes in NORMALIZERS.items():
        path, reference = checker.folder("real", with_normalizer(document, changes))
        for kind, texts in (("package descriptions", lines), ("many languages", mixed_lines(30000)),
                            ("wild", wild_lines(30000))):
            checker.check(f"{kind}, {name}", path, reference, [(t,) for t in texts])


def invalid_utf8(checker, document):
    rng = random.Random(4)
    path, reference = checker.folder("real", with_normalizer(document, {}))
    texts = [bytes(rng.choice((0x41, 0x20, 0x5B, 0x80, 0xBF, 0xC0, 0xC3, 0xA9, 0xE2, 0xE0, 0xED, 0x9F, 0xA0, 0x90, 0x8F,
                               0xEF, 0xBD, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF, 0xCC, 0x81)) for _ in range(rng.randint(0, 20)))
             for _ in range(100000)]
    checker.check("invalid UTF-8", path, reference, [(t,) for t in texts])


def truncation(checker, document, lines):
    rng = random.Random(5)
    path, reference = checker.folder("real", with_normalizer(document, {}))
    for side in ("right", "left"):
        for special in (True, False):
            for limit in (3, 4, 5, 8, 13, 16, 32, 64, 128):
                records = [tuple(" ".join(rng.choices(lines, k=rng.randint(0, 3))) for _ in range(rng.randint(1, 2)))
                           for _ in range(2000)]
                reference.enable_truncation(limit, strategy="longest_first", direction=side)
                checker.check(f"longest_first {limit} {side} {'with' if special else 'without'} special tokens", path,
                              reference, records, "--max_length", str(limit), "--side", side,
                              *([] if special else ["--no_special"]), special=special)
    for strategy, place in (("only_first", 0), ("only_second", 1)):
        records = [tuple(" ".join(rng.choices(lines, k=40 if i == place else 1))[:4000 if i == place else 100]
                         for i in range(2)) for _ in range(2000)]
        reference.enable_truncation(200, strategy=strategy)
        checker.check(f"{strategy} 200", path, reference, records, "--max_length", "200", "--strategy", strategy)


def added_tokens(checker, document):
    rng = random.Random(6)
    for trial in range(24):
        changed = with_normalizer(document, rng.choice(list(NORMALIZERS.values())))
        contents = rng.sample(["<ent>", "Ünï", "foo", "fo", "foo bar", " x", "日本", "É", "##s", "[NEW]", "b ", "New York"], 6)
        for content in contents:
            changed["added_tokens"].append({
                "id": 0, "content": content, "special": rng.random() < 0.3, "normalized": rng.random() < 0.5,
                "single_word": rng.random() < 0.4, "lstrip": rng.random() < 0.4, "rstrip": rng.random() < 0.4})
        for i, token in enumerate(changed["added_tokens"][5:]):
            known = changed["model"]["vocab"].get(token["content"])
            token["id"] = known if known is not None else \
                len(changed["model"]["vocab"]) + sum(t["content"] not in changed["model"]["vocab"]
                                                     for t in changed["added_tokens"][5:5 + i])
        path, reference = checker.folder("added", changed)
        pieces = contents + ["foo", "FOO", "Foo Bar", "é", "e\u0301", " ", "  ", "\t", "x", "b", "日本語", "_", "\u200b", "[SEP]",
                             "a", "-", "NEW  york", "new york", "\u3000", "ünï", "UNI\u0308"]
        texts = [("".join(rng.choices(pieces, k=rng.randint(1, 9))),) for _ in range(4000)]
        checker.check(f"added tokens {trial}", path, reference, texts)


def vocab_txt(checker, model, lines):
    """Checks that a folder with only vocab.txt is read like tokenizer.json, with the defaults of transformers."""
    path = checker.scratch / "vocab"
    path.mkdir(exist_ok=True)
    (path / "vocab.txt").write_bytes((model / "vocab.txt").read_bytes())
    reference = Tokenizer.from_file(str(model / "tokenizer.json"))
    reference.no_truncation()
    reference.no_padding()
    checker.check("vocab.txt alone", path, reference, [(t,) for t in lines[:20000]])


def folders(checker, model, lines):
    """Compares tokenizers of whole folders, with tokenizer_config.json and older files, with AutoTokenizer of transformers."""
    from transformers import AutoTokenizer  # transformers is imported only here, because that takes a second or more

    texts = [*lines[:3000], *mixed_lines(3000), *wild_lines(2000), "a New York [NEW] é new york<x> b", "<S> <s>a</s>"]
    vocab, document = (model / "vocab.txt").read_bytes(), (model / "tokenizer.json").read_bytes()
    new_york = {"content": "New York", "lstrip": True, "rstrip": False, "single_word": False, "normalized": True, "special": False}
    size = len(vocab.splitlines())
    cases = {
        "cased": {"tokenizer_config.json": {"do_lower_case": False}},
        "accents stripped": {"tokenizer_config.json": {"do_lower_case": False, "strip_accents": True}},
        "no Chinese": {"tokenizer_config.json": {"tokenize_chinese_chars": False}},
        "other roles": {"tokenizer_config.json": {"cls_token": "the", "sep_token": "of", "mask_token": "<x>"}},
        "extra tokens": {"tokenizer_config.json": {"additional_special_tokens": ["[NEW]", "new"]}},
        "decoder": {"tokenizer_config.json": {"added_tokens_decoder": {str(size): new_york}}},
        "older files": {"tokenizer_config.json": {}, "special_tokens_map.json": {"cls_token": "of", "mask_token": {
            "content": "<x>", "lstrip": True, "rstrip": False, "single_word": False, "normalized": False}},
            "added_tokens.json": {"new york": size}},
    }
    for name, files in cases.items():
        for kind, data in (("vocab.txt", vocab), ("tokenizer.json", document)):
            path = checker.scratch / f"folder {name} {kind}"
            path.mkdir()
            (path / kind).write_bytes(data)
            (path / "config.json").write_text('{"model_type": "bert"}')
            for file, content in files.items():
                (path / file).write_text(json.dumps(content))
            reference = AutoTokenizer.from_pretrained(path)
            reference.backend_tokenizer.no_truncation()
            reference.backend_tokenizer.no_padding()
            if kind == "tokenizer.json" and name in ("other roles", "older files"):
                # transformers derives the template that adds special tokens from their roles (cls_token and so on), but this
                # reference reads the template in tokenizer.json, so the two are not compared.
                continue
            checker.check(f"folder with {kind}: {name}", path, reference.backend_tokenizer, [(t,) for t in texts])


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def throughput(checker, model, lines, repeats):
    reference = Tokenizer.from_file(str(model / "tokenizer.json"))
    reference.no_truncation()
    reference.no_padding()
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    texts, cores = checker.write_texts([(line,) for line in lines]), CORES
    ours, theirs = {}, {}
    # the two programs run alternately, so that a slow period of the machine affects both
    for _ in range(repeats):
        run = subprocess.run([checker.program, "time", str(model), texts, "1", str(cores)], check=True,
                             capture_output=True)
        for key, value in json.loads(run.stdout).items():
            ours.setdefault(key, []).append(value)
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        for key, call in (("encode_s", lambda: [reference.encode(line) for line in lines]),
                          ("batch_s", lambda: reference.encode_batch(lines)),
                          ("batch_ids_s", lambda: reference.encode_batch_fast(lines))):
            theirs.setdefault(key, []).append(seconds(call))
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        theirs.setdefault("batch_threads_s", []).append(seconds(lambda: reference.encode_batch(lines)))
    mine = {key: statistics.median(values) for key, values in ours.items()}
    peer = {key: statistics.median(values) for key, values in theirs.items()}
    print(f"throughput, {len(lines)} lines, {megabytes:.1f} MB, {mine['tokens']:.0f} tokens, medians of {repeats}; "
          f"loading takes {mine['load_s'] * 1e3:.1f} ms")
    rows = (("one text at a time", "encode_s", "encode_s"), ("batch, 1 thread", "batch_s", "batch_s"),
            (f"batch, {cores} threads", "batch_threads_s", "batch_threads_s"),
            ("ids only, 1 thread", "append_ids_s", "batch_ids_s"), ("append with offsets, 1 thread", "append_s", "batch_s"))
    for label, key, peer_key in rows:
        print(f"  {label:30} {megabytes / mine[key]:7.1f} MB/s   Hugging Face {megabytes / peer[peer_key]:5.1f} MB/s   "
              f"{peer[peer_key] / mine[key]:5.1f}x")
    slowest = min(peer[peer_key] / mine[key] for _, key, peer_key in rows)
    if slowest < 2:
        checker.failures += 1
        print(f"FAIL throughput: {slowest:.2f}x is below the bar of 2x")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--lines", type=int, default=150000)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    print(f"both sides on {devices.host()}", flush=True)
    devices.program_of(os.path.join(args.build, "bench/tokenizer/tokenizer_bench"))
    document = json.loads((args.model / "tokenizer.json").read_text())
    lines = package_lines(args.lines)
    assert len(lines) >= min(args.lines, 100000), f"only {len(lines)} lines of real text"
    with tempfile.TemporaryDirectory() as scratch:
        checker = Checker(args.build, scratch)
        checks = {"lines": lambda: real_lines(checker, document, lines), "invalid": lambda: invalid_utf8(checker, document),
                  "truncation": lambda: truncation(checker, document, lines),
                  "added": lambda: added_tokens(checker, document),
                  "folders": lambda: folders(checker, args.model, lines),
                  "vocab": lambda: vocab_txt(checker, args.model, lines),
                  "code_points": lambda: every_code_point(checker, document),
                  "throughput": lambda: throughput(checker, args.model, lines[:100000], args.repeats)}
        for name, check in checks.items():
            if not args.only or name in args.only:
                check()
        print("everything equal" if not checker.failures else f"{checker.failures} failures")
        sys.exit(1 if checker.failures else 0)


if __name__ == "__main__":
    main()
