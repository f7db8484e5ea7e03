"""Defines the cases of compare.py (models, precisions, batches), texts of known lengths, and the permitted difference of two losses."""
import json
import math
import os
import random

MIB = 2**20
MODELS = {
    "bert-large-uncased": dict(hidden=1024, inner=4096, layers=24, heads=16),
    "bert-base-uncased": dict(hidden=768, inner=3072, layers=12, heads=12),
    "tiny": dict(hidden=128, inner=512, layers=2, heads=2),
}
LARGE, BASE = "bert-large-uncased", "bert-base-uncased"


def case(precision, batch, ours_steps, peer_steps, model=LARGE, length=512, accumulation=1, kind="train"):
    return dict(kind=kind, model=model, precision=precision, batch=batch, length=length, accumulation=accumulation,
                ours_steps=ours_steps, peer_steps=peer_steps)


# The numbers of steps are chosen so that the measured part lasts at least a second on an H200. If the length is None,
# the case uses short texts of different lengths.
CASES = {
    "large_bf16": case("bf16", 32, 60, 30),
    "large_tf32": case("tf32", 32, 36, 21),
    "large_fp32": case("fp32", 32, 15, 12),
    "large4_fp32": case("fp32", 4, 60, 36),
    "large4_tf32x3": case("tf32x3", 4, 90, 36),
    "large4_fp16": case("fp16", 4, 180, 60),
    "large4_bf16": case("bf16", 4, 180, 60),
    "accumulate_fp16": case("fp16", 1, 90, 24, accumulation=4),
    "accumulate_bf16": case("bf16", 1, 90, 24, accumulation=4),
    "short_bf16": case("bf16", 32, 600, 150, model=BASE, length=None),
    "eval_bf16": case("bf16", 64, 72, 40, kind="eval"),
    "first_step": case("bf16", 32, 1, 1, kind="first_step"),
}
PRECISION_WORDS = {"fp32": [], "tf32": ["--tf32"], "tf32x3": ["--matmul_precision", "tf32x3"], "bf16": ["--bf16"], "fp16": ["--fp16"]}
SHORT_ROWS = 3668
CHECK_ROWS, CHECK_LABELS = 256, 4
CHECK_MODEL = dict(hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4)


def on_cpu(one):
    """Returns the case with a tiny model and fewer sequences and steps, for --device cpu."""
    return dict(one, model="tiny", batch=min(one["batch"], 4), length=one["length"] and 32,
                ours_steps=min(one["ours_steps"], 18), peer_steps=min(one["peer_steps"], 9))


def short_lengths(rows, seed=1, mean=53, longest=128):
    """Returns log-normal lengths in tokens with this mean (before clamping to 8..longest), like texts of one or two sentences."""
    generator = random.Random(seed)
    sigma = 0.4
    return [min(longest, max(8, round(math.exp(generator.gauss(math.log(mean) - sigma**2 / 2, sigma))))) for _ in range(rows)]


def write_texts(path, lengths, tokenizer, num_labels):
    """Writes a TSV file with one labelled text per length, which is its number of tokens including [CLS] and [SEP]."""
    with open(os.path.join(tokenizer, "vocab.txt"), encoding="utf-8") as file:
        words = [w for w in file.read().split("\n") if w.isascii() and w.isalpha() and w.islower() and len(w) > 2]
    generator = random.Random(2)
    with open(path, "w", encoding="utf-8") as file:
        file.write("sentence\tlabel\n")
        for i, length in enumerate(lengths):
            file.write(" ".join(generator.choice(words) for _ in range(length - 2)) + f"\tclass{i % num_labels}\n")


def loss_bound(precision):
    """Returns the largest allowed relative difference between the losses that Plimsoll and Trainer compute for the small model.

    fp32: 1e-5, because the programs only sum in different orders. tf32x3 (Trainer then uses fp32): the same plus 2^-21, the error of
    splitting a product into TF32 products. The other precisions round the inputs or outputs of each product with relative error u
    (2^-11 for tf32 and fp16, 2^-9 for bf16), and the two programs round at different points: about 12 roundings per layer in 4 layers
    and two programs, so that the loss of a sample differs by about u sqrt(2 x 48) = 10 u. Averaging over 256 samples would divide
    this by 16 if their errors were independent. All samples share the rounded weights, so the bound divides it by 4 only: 2.5 u."""
    unit = {"fp32": 0.0, "tf32x3": 2.0**-21, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-9}
    return (1e-5 if precision in ("fp32", "tf32x3") else 0.0) + 2.5 * unit[precision]


def read_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_json(path, value):
    """Writes a temporary file and renames it, so that the old file stays complete if this program is killed."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    os.replace(path + ".new", path)
