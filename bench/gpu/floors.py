"""Computes lower bounds of the time of a step on a GPU, from the speed of PyTorch's matrix products, attention and copies on it."""
import math
import statistics

from cases import MODELS, SHORT_ROWS, short_lengths


def micro_batch(one):
    """Returns the tokens of a micro-batch, and the length of equal sequences of so many tokens for which attention costs the same."""
    if one["length"]:
        return one["batch"] * one["length"], one["length"]
    lengths = short_lengths(SHORT_ROWS)
    square = math.sqrt(sum(n * n for n in lengths) / sum(lengths) * statistics.mean(lengths))
    return round(one["batch"] * statistics.mean(lengths)), -(-round(square) // 8) * 8


def products_of(one):
    """Returns (outputs, inputs) of each weight matrix of a layer. Each is multiplied with a matrix of one row per token."""
    size = MODELS[one["model"]]
    h, f = size["hidden"], size["inner"]
    return [(3 * h, h), (h, h), (f, h), (h, f)]


def ceilings_wanted(cases):
    """Returns the PyTorch operations to measure: products as texts "precision tokens outputs inputs direction", and attentions."""
    products, attention = [], []
    for one in cases:
        tokens, length = micro_batch(one)
        directions = ["forward"] if one["kind"] == "eval" else ["forward", "input_gradient", "weight_gradient"]
        products += [f"{one['precision']} {tokens} {n} {k} {d}" for n, k in products_of(one) for d in directions]
        heads, way = MODELS[one["model"]]["heads"], "forward" if one["kind"] == "eval" else "both"
        attention.append(f"{one['precision']} {one['batch']} {heads} {length} {MODELS[one['model']]['hidden'] // heads} {way}")
    squares = [f"{p} 8192 8192 8192 forward" for p in ("fp32", "tf32", "bf16", "fp16")]
    return dict(products=sorted(set(products)) + squares, attention=sorted(set(attention)))


def num_parameters(model, vocabulary=30522):
    size = MODELS[model]
    h, f = size["hidden"], size["inner"]
    return (vocabulary + 512 + 2 + 2) * h + size["layers"] * (4 * h * h + 2 * h * f + 9 * h + f) + h * h + 3 * h + 2


def floor_of(one, ceilings):
    """Returns lower bounds of the milliseconds of a step on this card, for four parts of it, from the speed of PyTorch.

    products: the measured times of all matrix products. attention: the time of PyTorch's fastest kernel at this shape; for short
    texts, at the length whose square is the mean square of their lengths, without padding. adamw: at the measured copy rate, the
    time to read weights, two moments and an fp32 gradient and to write all but the gradient (28 bytes per parameter; 30 with a
    16-bit copy of the weights). element_wise: the time to move the inputs and outputs of the operations between the products, if
    only biases are fused into products. Per token and layer, counted in vectors of the model's width: twice dropout + residual +
    norm (3 each) and GELU (8, because a feed-forward layer is 4 times as wide as the model); in the backward pass norm (4 each),
    dropout (1 each) and GELU (12). These are 36 vectors in total, 14 for the forward pass only. Embeddings, the classifier and kernel
    launches are not counted."""
    size, precision = MODELS[one["model"]], one["precision"]
    tokens, length = micro_batch(one)
    wanted = ceilings_wanted([one])
    evaluates, bytes_a_value = one["kind"] == "eval", 2 if precision in ("bf16", "fp16") else 4
    shapes = [key for key in wanted["products"] if " 8192 8192 8192 " not in key]
    try:
        times = sum(ceilings["products"][key] for key in shapes)
        attention = ceilings["attention"][wanted["attention"][0]]["ms"]
    except (KeyError, TypeError):
        return None
    values = (14 if evaluates else 36) * tokens * size["layers"] * size["hidden"]
    copy = ceilings["copy_bytes_per_s"] / 1000.0
    moved = num_parameters(one["model"]) * (30 if bytes_a_value == 2 else 28)
    times_a_step = one["accumulation"]
    parts = dict(products=size["layers"] * times * times_a_step, attention=size["layers"] * attention * times_a_step,
                 adamw=0.0 if evaluates else moved / copy, element_wise=values * bytes_a_value / copy * times_a_step)
    strict = parts["products"] + parts["attention"] + parts["adamw"]
    samples = one["batch"] * times_a_step
    return dict(parts, samples_per_s=1000 * samples / strict,
                samples_per_s_with_element_wise=1000 * samples / (strict + parts["element_wise"]))
