#!/usr/bin/env python3
"""Compares `plimsoll tokenize --train` with the trainers of Hugging Face's tokenizers on real text.

    compare_training.py PLIMSOLL [--megabytes N] [--vocab N]

PLIMSOLL is the program. The text is that of compare_models.py. The vocabulary and the merges of BPE have to be equal. Hugging Face's
WordPiece trainer numbers the tokens that start with ## in the order of a hash table, and these numbers decide between
pairs with equal counts. The script therefore also passes every single character to both trainers as a special token,
which fixes the order, and the vocabularies have to be equal then. Hugging Face's library reads the files of both
trainers, and the ids of the text have to be equal. Prints the time of both. Needs the package `tokenizers`. The exit
status is 1 if anything differs.
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
import compare_models  # noqa: E402
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def theirs(kind, files, vocab_size, special):
    if kind == "bpe":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=2, special_tokens=["<|endoftext|>"] + special, show_progress=False,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    else:
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, min_frequency=2, special_tokens=BERT + special, show_progress=False,
                                            limit_alphabet=1000, continuing_subword_prefix="##")
    os.environ["TOKENIZERS_PARALLELISM"] = "true"  # both programs use every processor
    begin = time.perf_counter()
    tokenizer.train(files, trainer)
    return tokenizer, time.perf_counter() - begin


def ours(program, kind, files, vocab_size, special, folder):
    begin = time.perf_counter()
    done = subprocess.run([program, "tokenize", "--train", kind, "--vocab_size", str(vocab_size), "--output_dir", folder,
                           *(["--special_tokens", ",".join(special)] if special else []), *files], check=True, capture_output=True)
    print("  " + done.stdout.decode().strip())
    return Tokenizer.from_file(folder + "/tokenizer.json"), time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("plimsoll")
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--vocab", type=int, default=16000)
    args = parser.parse_args()
    print(f"both sides on {compare_models.compare.devices.host()}", flush=True)
    args.plimsoll = compare_models.compare.devices.measured_program(args.plimsoll)
    texts = compare_models.documents(args.megabytes)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        half = len(texts) // 2
        files = []
        for number, part in enumerate((texts[:half], texts[half:])):
            files.append(f"{folder}/{number}.txt")
            pathlib.Path(files[-1]).write_bytes("\n".join(part).encode())
        characters = set(normalizers.BertNormalizer().normalize_str("\n".join(texts)))
        single = ["##" + c for c in sorted(characters) if c not in ", \n\r\t"]
        for kind, special in (("bpe", []), ("wordpiece", single)):
            reference, their_seconds = theirs(kind, files, args.vocab, special)
            mine, our_seconds = ours(args.plimsoll, kind, files, args.vocab, special, f"{folder}/{kind}")
            a, b = (json.loads(t.to_str())["model"] for t in (mine, reference))
            same = a["vocab"] == b["vocab"] and a.get("merges") == b.get("merges")
            some = texts[::50]
            ids = [e.ids for e in mine.encode_batch(some, add_special_tokens=False)] == [e.ids for e in reference.encode_batch(some, add_special_tokens=False)]
            failed = failed or not (same and ids)
            print(f"{'ok  ' if same and ids else 'FAIL'} {kind}: {len(a['vocab'])} tokens, {len(a.get('merges', []))} merges, "
                  f"ids of {len(some)} texts {'equal' if ids else 'differ'}; {our_seconds:.1f} s, Hugging Face {their_seconds:.1f} s", flush=True)
            if not same:
                x, y = a.get("merges", sorted(a["vocab"], key=a["vocab"].get)), b.get("merges", sorted(b["vocab"], key=b["vocab"].get))
                first = next((i for i, (p, q) in enumerate(zip(x, y)) if p != q), min(len(x), len(y)))
                print(f"  first difference at {first}: {x[first:first + 3]} {y[first:first + 3]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
