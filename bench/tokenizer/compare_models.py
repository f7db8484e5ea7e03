#!/usr/bin/env python3
"""Compares tokenizers of every model (src/io/text/fixtures/model_tokenizers.py) with Hugging Face's on mixed text.

    compare_models.py BUILD_FOLDER [--megabytes N] [--vocab N] [--only NAME ...] [--repeats N] [--threads N]

BUILD_FOLDER contains bench/tokenizer/tokenizer_bench (cmake -DPLIMSOLL_BUILD_BENCH=ON). Each tokenizer learns its vocabulary from the
text. Every id, token type and offset of N megabytes (default 20) has to be equal, and every text that both decode from the ids. Then the
throughput of both is measured in turns on the same threads. The text consists of a Debian machine's package descriptions, its
translations of programs (/usr/share/locale) and the sources of Python's library, in documents of 1 to 40 lines, and of odd
characters. Needs the package `tokenizers`. The exit status is 1 if anything differs or the throughput is below three times that of
Hugging Face.
"""

import argparse
import gettext
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src/io/text/fixtures"), str(ROOT / "bench/tokenizer")]
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import compare  # noqa: E402
import model_tokenizers  # noqa: E402
import pipelines  # noqa: E402

DEFAULT = ["gpt2", "roberta", "llama3", "qwen2", "modernbert", "gpt4o", "llama2", "mistral", "gemma", "xlm_roberta", "t5", "openai_gpt"]


def translations(num_bytes):
    """Returns translated messages of programs, from files of all languages in random order."""
    found, rng = [], random.Random(5)
    files = sorted(pathlib.Path("/usr/share/locale").glob("*/LC_MESSAGES/*.mo"))
    rng.shuffle(files)
    for path in files:
        try:
            with open(path, "rb") as file:
                catalog = gettext.GNUTranslations(file)._catalog
        except (OSError, UnicodeDecodeError, ValueError, IndexError):
            continue
        messages = [text for key, text in catalog.items() if key and isinstance(text, str)]
        found += messages[:300]
        num_bytes -= sum(len(text.encode()) for text in messages[:300])
        if num_bytes < 0:
            break
    return found


def sources(num_bytes):
    found = []
    for path in sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("**/*.py")):
        if "site-packages" in path.parts:
            continue
        text = path.read_bytes().decode(errors="replace")
        found += text.split("\n")
        num_bytes -= len(text)
        if num_bytes < 0:
            break
    return found


def documents(megabytes):
    """Returns documents of all kinds in random order. The order is the same in every call."""
    rng = random.Random(9)
    third = int(megabytes * 1e6 / 3)
    pools = [compare.package_lines(10**9), translations(third), sources(third)]
    result = []
    for pool in pools:
        at = left = 0
        left = third
        while left > 0 and at < len(pool):
            count = rng.choice([1, 1, 1, 2, 5, 40])
            text = "\n".join(pool[at:at + count])
            at += count
            left -= len(text.encode())
            result.append(text)
    odd = pipelines.odd_lines(int(2000 * megabytes / 20) + 50, seed=6)
    result += odd + compare.wild_lines(len(odd) // 2)
    rng.shuffle(result)
    return result


def check_decoding(checker, folder, tokenizer, texts):
    """Checks that both tokenizers decode the ids of some texts to the same text."""
    texts = [text for text in texts if text.strip()]
    encoded = [e.ids for e in tokenizer.encode_batch(texts)]
    ids = checker.scratch / "ids"
    ids.write_text("".join(f"{line}\n" for line in encoded))
    done = subprocess.run([checker.plimsoll, "tokenize", "--tokenizer_name", str(folder), "--decode", str(ids)], check=True, capture_output=True)
    ours = [json.loads(line)["text"] for line in done.stdout.decode().split("\n")[:-1]]
    theirs = [tokenizer.decode(line, skip_special_tokens=False) for line in encoded]
    wrong = sum(a != b for a, b in zip(ours, theirs, strict=True))
    checker.failures += wrong
    print(f"{'FAIL' if wrong else 'ok  '}   decoding: {len(texts)} texts, {wrong} differ", flush=True)


def throughput(checker, folder, tokenizer, texts, repeats, threads):
    """Measures the MB/s of both tokenizers: ids with offsets and ids only on one thread, and ids with offsets on all threads.

    Prints the medians and returns the smallest ratio of Plimsoll's rate to that of Hugging Face.
    """
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    path = checker.write_texts([(text,) for text in texts])
    rates = {key: [] for key in ("batch", "ids", "threads", "peer_batch", "peer_ids", "peer_threads")}
    for _ in range(repeats):
        run = json.loads(subprocess.run([checker.program, "time", str(folder), path, "1", str(threads)], check=True, capture_output=True).stdout)
        for key, name in (("batch", "batch_s"), ("ids", "append_ids_s"), ("threads", "batch_threads_s")):
            rates[key].append(megabytes / run[name])
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        rates["peer_batch"].append(megabytes / compare.seconds(lambda: tokenizer.encode_batch(texts)))
        rates["peer_ids"].append(megabytes / compare.seconds(lambda: tokenizer.encode_batch_fast(texts)))
        os.environ["TOKENIZERS_PARALLELISM"] = "true"
        rates["peer_threads"].append(megabytes / compare.seconds(lambda: tokenizer.encode_batch(texts)))
    rate = {key: statistics.median(values) for key, values in rates.items()}
    ratios = []
    for key in ("batch", "ids", "threads"):
        ratios.append(rate[key] / rate["peer_" + key])
        label = {"batch": "ids and offsets, 1 thread", "ids": "ids, 1 thread", "threads": f"ids and offsets, {threads} threads"}[key]
        print(f"       {label:28} {rate[key]:7.1f} MB/s   Hugging Face {rate['peer_' + key]:6.1f} MB/s   {ratios[-1]:5.1f}x", flush=True)
    return min(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--only", nargs="+", default=DEFAULT)
    parser.add_argument("--repeats", type=int, default=3, help="0 measures no throughput")
    parser.add_argument("--threads", type=int, default=compare.CORES)
    parser.add_argument("--bar", type=float, default=3.0)
    parser.add_argument("--plimsoll", default="", help="the program; default: BUILD_FOLDER/plimsoll")
    args = parser.parse_args()
    print(f"both sides on {compare.devices.host()}, {compare.devices.counted_threads(args.threads)} at most", flush=True)
    compare.devices.check_threads(args.threads)
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    texts = documents(args.megabytes)
    print(f"{len(texts)} documents, {sum(len(text.encode()) for text in texts) / 1e6:.1f} MB", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        checker = compare.Checker(args.build, scratch)
        checker.plimsoll = compare.devices.measured_program(args.plimsoll or str(pathlib.Path(args.build) / "plimsoll"))
        for name in args.only:
            os.environ["TOKENIZERS_PARALLELISM"] = "true"
            tokenizer = model_tokenizers.TOKENIZERS[name](texts[::20], args.vocab)
            folder, tokenizer = checker.folder(name, json.loads(tokenizer.to_str()))
            checker.check(name, folder, tokenizer, [(text,) for text in texts], "--threads", str(args.threads))
            check_decoding(checker, folder, tokenizer, texts[:3000])
            if args.repeats == 0:
                continue
            slowest = throughput(checker, folder, tokenizer, texts[:len(texts) // 4], args.repeats, args.threads)
            if slowest < args.bar:
                checker.failures += 1
                print(f"FAIL   {slowest:.2f}x is below the bar of {args.bar}x", flush=True)
    return 1 if checker.failures else 0


if __name__ == "__main__":
    sys.exit(main())
