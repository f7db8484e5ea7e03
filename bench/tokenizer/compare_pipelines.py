#!/usr/bin/env python3
"""Compares tokenizers that have many combinations of normalizers and pre-tokenizers (src/io/text/fixtures/pipelines.py)
with those of Hugging Face on real text.

    compare_pipelines.py PLIMSOLL [--lines N] [--only NAME ...]

PLIMSOLL is the program. Each pipeline gets a WordPiece vocabulary learned from the text. Every id and offset of N lines (default
100,000) has to be equal. The text is that of a Debian machine's package lists (`apt-cache dumpavail`); every tenth line is one of
odd characters. Needs the package `tokenizers`. The exit status is 1 if anything differs.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src/io/text/fixtures"), str(ROOT / "bench/tokenizer")]
os.environ["TOKENIZERS_PARALLELISM"] = "true"
import compare  # noqa: E402
import pipelines  # noqa: E402


def corpus(count):
    lines = compare.package_lines(count - count // 10)
    odd = [line.replace("\n", " ").replace("\r", " ") for line in pipelines.odd_lines(count // 10, seed=6)]
    return lines + odd


def differences(name, program, lines):
    tokenizer = pipelines.build(name, lines[::5], 4000)
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save(folder + "/tokenizer.json")
        text = pathlib.Path(folder, "lines.txt")
        text.write_bytes(("\n".join(lines) + "\n").encode())
        begin = time.time()
        done = subprocess.run([program, "tokenize", "--tokenizer_name", folder, str(text)], capture_output=True, check=True)
        seconds = time.time() - begin
    got = [json.loads(line) for line in done.stdout.decode().splitlines()]
    if len(got) != len(lines):
        return [f"{len(got)} lines of {len(lines)}"], seconds
    found = []
    for start in range(0, len(lines), 10000):
        for line, mine, theirs in zip(lines[start:], got[start:], tokenizer.encode_batch(lines[start:start + 10000])):
            if mine["ids"] != theirs.ids or [tuple(o) for o in mine["offsets"]] != theirs.offsets:
                found.append(f"{line!r}\n    {mine['ids']} {mine['offsets']}\n    {theirs.ids} {theirs.offsets}")
    return found, seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("plimsoll")
    parser.add_argument("--lines", type=int, default=100000)
    parser.add_argument("--only", nargs="+", default=list(pipelines.PIPELINES))
    args = parser.parse_args()
    print(f"both sides on {compare.devices.host()}", flush=True)
    args.plimsoll = compare.devices.measured_program(args.plimsoll)
    lines = corpus(args.lines)
    failed = False
    for name in args.only:
        found, seconds = differences(name, args.plimsoll, lines)
        print(f"{name:24} {len(lines)} lines, {len(found)} differ, {seconds:.1f} s", flush=True)
        for line in found[:3]:
            print("  " + line[:600])
        failed = failed or bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
