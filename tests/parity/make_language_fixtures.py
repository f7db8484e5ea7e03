#!/usr/bin/env python3
"""Makes language_models.json and data/text.txt: 20 steps of causal language modelling, and an evaluation, in transformers and PyTorch.

    python3 tests/parity/make_language_fixtures.py        # needs torch and transformers 5; run make_generation_fixtures.py first

The texts are lines of random words of the tiny vocabulary. As in transformers' example run_clm, they are tokenized line by line, joined,
and cut into blocks. The last block, which is shorter, is kept. The fp64 run of a case is the reference, and the distance of its fp32 run
from it is the unit of the limits in the test. Dropout is 0.
"""
import json
import os
import random

import torch
import transformers
from transformers import BertTokenizerFast, GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM, Qwen3ForCausalLM

from tiny import vocabulary

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 20
BATCH = 4
BLOCK = 32
STRIDES = [(32, 16), (32, 32), (32, 5), (64, 1), (48, 47), (9, 8)]
MODELS = {"gpt2_lm": GPT2LMHeadModel, "llama_lm": LlamaForCausalLM, "mistral_lm": MistralForCausalLM, "qwen3_lm": Qwen3ForCausalLM}


def write_text():
    words = [word for word in vocabulary() if word.isalpha()]
    generator = random.Random(7)
    lines = [" ".join(generator.choice(words) for _ in range(generator.randint(1, 30))) for _ in range(190)]
    with open("data/text.txt", "w") as file:
        file.write("\n".join(lines) + "\n")


def blocks_of(name):
    tokenizer = BertTokenizerFast.from_pretrained(f"models/{name}")
    ids = []
    with open("data/text.txt") as file:
        for line in file:
            ids += tokenizer(line).input_ids
    return [ids[i:i + BLOCK] for i in range(0, len(ids), BLOCK)]


def run(name, dtype):
    model = MODELS[name].from_pretrained(f"models/{name}", dtype=dtype, attn_implementation="eager").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    blocks = blocks_of(name)
    assert len(blocks[-1]) < BLOCK and STEPS * BATCH < len(blocks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    losses = []
    for step in range(STEPS):
        batch = torch.tensor(blocks[BATCH * step:BATCH * (step + 1)])
        loss = model(input_ids=batch, labels=batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    total, labels, correct = 0.0, 0, 0
    with torch.no_grad():
        for block in blocks:
            logits = model(input_ids=torch.tensor([block])).logits[0, :-1]
            wanted = torch.tensor(block[1:])
            total += torch.nn.functional.cross_entropy(logits, wanted, reduction="sum").item()
            labels += len(wanted)
            correct += (logits.argmax(-1) == wanted).sum().item()
    return losses, total / labels, correct / labels


def strided_loss(name, dtype, block, stride):
    """Returns the mean loss over all tokens, computed with the sliding window of Hugging Face's page on perplexity: each token is predicted
    from the tokens of its window. The loss of a window is weighted with the exact number of its new tokens; the page approximates this
    number."""
    model = MODELS[name].from_pretrained(f"models/{name}", dtype=dtype, attn_implementation="eager").eval()
    ids = torch.tensor([token for part in blocks_of(name) for token in part])
    total, count, previous_end = 0.0, 0, 1
    for begin in range(0, len(ids), stride):
        end = min(begin + block, len(ids))
        with torch.no_grad():
            logits = model(input_ids=ids[None, begin:end]).logits[0]
        first = max(previous_end - begin, 1)  # the context of a window does not include the tokens before its first one
        wanted = ids[begin + first:end]
        total += torch.nn.functional.cross_entropy(logits[first - 1:end - begin - 1], wanted, reduction="sum").item()
        count += len(wanted)
        previous_end = end
        if end == len(ids):
            break
    assert stride == block or count == len(ids) - 1
    return total / count


def strided_cases(name):
    cases = []
    for block, stride in STRIDES:
        loss = strided_loss(name, torch.float64, block, stride)
        loss32 = strided_loss(name, torch.float32, block, stride)
        cases.append({"model": name, "block_size": block, "stride": stride, "loss": loss, "fp32_loss_error": abs(loss32 - loss) / loss})
    return cases


def main():
    os.chdir(HERE)
    torch.set_num_threads(1)
    write_text()
    cases = []
    for name in MODELS:
        losses, eval_loss, accuracy = run(name, torch.float64)
        losses32, eval_loss32, accuracy32 = run(name, torch.float32)
        error = max(abs(a - b) / b for a, b in zip(losses32, losses))
        cases.append({"model": name, "loss": losses, "eval_loss": eval_loss, "accuracy": accuracy, "fp32_loss_error": error,
                      "fp32_eval_loss_error": abs(eval_loss32 - eval_loss) / eval_loss, "fp32_accuracy_error": abs(accuracy32 - accuracy)})
        print(name, losses[0], losses[-1], error, eval_loss, accuracy, accuracy32)
    strided = [case for name in MODELS for case in strided_cases(name)]
    with open("language_models.json", "w") as file:
        json.dump({"made_with": {"torch": torch.__version__, "transformers": transformers.__version__}, "block_size": BLOCK,
                   "batch_size": BATCH, "cases": cases, "strided": strided}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
