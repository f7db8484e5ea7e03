#!/usr/bin/env python3
"""Makes chat_models.json, data/chat.jsonl and data/completions.jsonl: 10 steps of supervised fine-tuning on conversations, and an
evaluation, in transformers and PyTorch.

    python3 tests/parity/make_chat_fixtures.py        # needs torch and transformers 5; run make_generation_fixtures.py first

apply_chat_template() makes the token ids and loss masks of conversations. Those of prompts with completions are made as TRL's SFTTrainer
makes them. Rows are truncated to the block size, and rows that then have no label are dropped. A step has two micro-batches, and its loss
is the mean over the labels of both. The fp64 run of a case is the reference, and the distance of its fp32 run from it is the unit of the
limits in the test. Dropout is 0.
"""
import json
import os
import random

import torch
import transformers
from transformers import BertTokenizerFast, GPT2LMHeadModel, LlamaForCausalLM

from tiny import vocabulary

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 10
BATCH = 3
ACCUMULATION = 2
BLOCK = 56
MODELS = {"gpt2_lm": GPT2LMHeadModel, "llama_lm": LlamaForCausalLM}
CHATML = """{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}
{%- else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}{% endfor %}"""


def write_data():
    words = [word for word in vocabulary() if word.isalpha()]
    generator = random.Random(11)

    def text(most):
        return " ".join(generator.choice(words) for _ in range(generator.randint(1, most)))

    with open("data/chat.jsonl", "w") as file:
        for row in range(100):
            messages = [{"role": "system", "content": text(4)}] if row % 3 == 0 else []
            for _ in range(generator.randint(1, 2)):
                messages += [{"role": "user", "content": text(60 if row == 7 else 6)}, {"role": "assistant", "content": text(12)}]
            file.write(json.dumps({"messages": messages}) + "\n")
    with open("data/completions.jsonl", "w") as file:
        for _ in range(100):
            file.write(json.dumps({"prompt": text(10) + " ", "completion": text(10)}) + "\n")


def rows_of(name, data):
    tokenizer = BertTokenizerFast.from_pretrained(f"models/{name}", eos_token="[SEP]")
    rows = []
    with open(f"data/{data}.jsonl") as file:
        for line in file:
            row = json.loads(line)
            if data == "chat":
                encoded = tokenizer.apply_chat_template(row["messages"], chat_template=CHATML, tokenize=True, return_dict=True,
                                                        return_assistant_tokens_mask=True)
                ids, mask = encoded["input_ids"], encoded["assistant_masks"]
            else:
                ids = tokenizer(row["prompt"] + row["completion"] + "[SEP]").input_ids
                num_prompt = len(tokenizer(row["prompt"]).input_ids)
                mask = [int(i >= num_prompt) for i in range(len(ids))]
            ids = ids[:BLOCK]
            labels = [token if kept else -100 for token, kept in zip(ids, mask)]
            if any(label != -100 for label in labels[1:]):
                rows.append((torch.tensor([ids]), torch.tensor([labels])))
    return rows


def sum_of(model, row):
    ids, labels = row
    logits = model(input_ids=ids).logits[0, :-1]
    wanted = labels[0, 1:]
    loss = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum")
    return loss, int((wanted != -100).sum()), int((logits.argmax(-1) == wanted).sum())


def run(name, data, dtype):
    model = MODELS[name].from_pretrained(f"models/{name}", dtype=dtype, attn_implementation="eager").train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    rows = rows_of(name, data)
    assert STEPS * BATCH * ACCUMULATION < len(rows)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    losses = []
    for step in range(STEPS):
        size = BATCH * ACCUMULATION
        sums = [sum_of(model, row) for row in rows[size * step:size * (step + 1)]]
        loss = sum(part[0] for part in sums) / sum(part[1] for part in sums)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        sums = [sum_of(model, row) for row in rows]
    labels = sum(part[1] for part in sums)
    return losses, sum(part[0] for part in sums).item() / labels, sum(part[2] for part in sums) / labels, len(rows), labels


def main():
    os.chdir(HERE)
    torch.set_num_threads(1)
    write_data()
    cases = []
    for name, data in [("llama_lm", "chat"), ("gpt2_lm", "chat"), ("llama_lm", "completions")]:
        losses, eval_loss, accuracy, num_rows, num_labels = run(name, data, torch.float64)
        losses32, eval_loss32, accuracy32, _, _ = run(name, data, torch.float32)
        error = max(abs(a - b) / b for a, b in zip(losses32, losses))
        cases.append({"model": name, "data": data, "rows": num_rows, "labels": num_labels, "loss": losses, "eval_loss": eval_loss, "accuracy": accuracy,
                      "fp32_loss_error": error, "fp32_eval_loss_error": abs(eval_loss32 - eval_loss) / eval_loss,
                      "fp32_accuracy_error": abs(accuracy32 - accuracy)})
        print(name, data, num_rows, num_labels, losses[0], losses[-1], error, eval_loss, accuracy)
    with open("chat_models.json", "w") as file:
        json.dump({"made_with": {"torch": torch.__version__, "transformers": transformers.__version__}, "block_size": BLOCK,
                   "batch_size": BATCH, "accumulation": ACCUMULATION, "cases": cases}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
