#!/usr/bin/env python3
"""Runs one task of bench/gpu/compare.py with Hugging Face's Trainer or PyTorch on this GPU, and prints JSON as the last line.

usage: peer.py train|first_step|eval CASE_AS_JSON DEVICE | make FOLDER | loss FOLDER FILE.tsv PRECISION DEVICE
               | ceilings WANTED_AS_JSON DEVICE | versions
It needs torch and transformers (5). Random weights, random ids, fused AdamW, SDPA attention, dropout as the model's
default, no saving and no logging: the settings of a careful user. The script waits for the GPU and reads the clock only after the
first step, after the warm-up and at the end, so that the GPU never runs out of work in between.
"""
import json
import os
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import (AutoTokenizer, BertConfig, BertForSequenceClassification, Trainer, TrainerCallback,  # noqa: E402
                          TrainingArguments)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import devices  # noqa: E402
from cases import CHECK_LABELS, CHECK_MODEL, MODELS, SHORT_ROWS, short_lengths  # noqa: E402

TYPES = {"fp32": torch.float32, "tf32": torch.float32, "tf32x3": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Rows(torch.utils.data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def used_by(device):
    """Returns the device of a tensor, "cpu" or "cuda:0: NVIDIA H100"."""
    return f"{device}: {torch.cuda.get_device_name(device)}" if device.type == "cuda" else str(device)


def drain(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def config_of(case):
    size = MODELS[case["model"]]
    return BertConfig(vocab_size=30522, hidden_size=size["hidden"], intermediate_size=size["inner"],
                      num_hidden_layers=size["layers"], num_attention_heads=size["heads"], num_labels=2)


def rows_of(case):
    """Returns 512 sequences of random ids with labels. Short texts are padded to 128 tokens, as in run_glue."""
    generator = torch.Generator().manual_seed(0)

    def ids(n):
        return torch.randint(1000, 30000, (n,), generator=generator)
    if case["length"]:
        return Rows([dict(input_ids=ids(case["length"]), labels=i % 2) for i in range(512)])
    rows = []
    for i, n in enumerate(short_lengths(SHORT_ROWS)):
        padding = torch.zeros(128 - n, dtype=torch.long)
        rows.append(dict(input_ids=torch.cat([ids(n), padding]), labels=i % 2,
                         attention_mask=torch.cat([torch.ones(n, dtype=torch.long), padding])))
    return Rows(rows)


def arguments_of(folder, precision, device, **more):
    words = dict(bf16=precision == "bf16", fp16=precision == "fp16", report_to=[], logging_strategy="no", save_strategy="no",
                 disable_tqdm=True, use_cpu=device == "cpu", **more)
    if device != "cpu":
        words["tf32"] = precision == "tf32"
    return TrainingArguments(folder, **words)


class Clock(TrainerCallback):
    """Reports the end of the first step, and records the time at the end of the warm-up and of the last step."""

    def __init__(self, warm_up, last, device):
        self.marks, self.points, self.device = {}, {1, warm_up, last}, device

    def on_step_end(self, arguments, state, control, **more):
        if state.global_step in self.points:
            drain(self.device)
            self.marks[state.global_step] = time.perf_counter()
            if state.global_step == 1:
                print("first step done", flush=True)


def train(case, device):
    torch.manual_seed(0)
    model = BertForSequenceClassification(config_of(case))
    last = case["peer_steps"]
    warm_up = max(4, last // 3) if last > 4 else 1
    clock = Clock(warm_up, last, device)
    # Averages the losses that the model itself returns, because with accumulation the loss that Trainer reports may be the
    # sum over the micro-batches instead of their mean.
    losses = []
    model.register_forward_hook(lambda module, words, output: losses.append(output.loss.detach()))
    fused = {} if device == "cpu" else dict(optim="adamw_torch_fused")
    with tempfile.TemporaryDirectory() as folder:
        arguments = arguments_of(folder, case["precision"], device, per_device_train_batch_size=case["batch"],
                                 gradient_accumulation_steps=case["accumulation"], max_steps=last, learning_rate=1e-6, **fused)
        trainer = Trainer(model=model, args=arguments, train_dataset=rows_of(case), callbacks=[clock])
        result = trainer.train()
    figures = dict(device=devices.trainer_device(trainer), precision=devices.trainer_precision(trainer), loss=torch.stack(losses).float().mean().item(), trainer_loss=result.training_loss)
    if last > warm_up:
        seconds = clock.marks[last] - clock.marks[warm_up]
        figures["samples_per_s"] = case["batch"] * case["accumulation"] * (last - warm_up) / seconds
    if device != "cpu":
        figures["allocated_mib"] = torch.cuda.max_memory_allocated() / 2**20
    return figures


def evaluate(case, device):
    """Measures the forward pass of an evaluation: a loop without Trainer, in which one batch stays on the device."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(config_of(case)).to(device).to(TYPES[case["precision"]]).eval()
    batch = dict(input_ids=torch.randint(1000, 30000, (case["batch"], case["length"]), device=device),
                 labels=torch.arange(case["batch"], device=device) % 2)
    with torch.inference_mode():
        for _ in range(5):
            loss = model(**batch).loss
        drain(device)
        start = time.perf_counter()
        for _ in range(case["peer_steps"]):
            model(**batch)
        drain(device)
        seconds = time.perf_counter() - start
    precision = case["precision"] if TYPES[case["precision"]] != torch.float32 else devices.product_precision(device)
    return dict(device=used_by(model.device), precision=precision, samples_per_s=case["batch"] * case["peer_steps"] / seconds, loss=loss.item())


def make(folder):
    """Returns a small random BERT whose logits are of order 1, so that its loss depends noticeably on every weight."""
    torch.manual_seed(1)
    names = [f"class{i}" for i in range(CHECK_LABELS)]
    config = BertConfig(vocab_size=30522, initializer_range=0.08, id2label=dict(enumerate(names)),
                        label2id={name: i for i, name in enumerate(names)}, **CHECK_MODEL)
    model = BertForSequenceClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            # noise, so that biases and the weights of norms differ from their initial 0 and 1
            parameter.add_(torch.randn_like(parameter) * 0.02)
    model.save_pretrained(folder)
    return dict(parameters=sum(p.numel() for p in model.parameters()))


def loss(folder, file_name, precision, device):
    """Returns Trainer's eval_loss of the rows of the file, padded to the longest row of each batch."""
    model = BertForSequenceClassification.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with open(file_name, encoding="utf-8") as file:
        lines = [line.rstrip("\n").split("\t") for line in file][1:]
    rows = Rows([dict(text=text, label=model.config.label2id[label]) for text, label in lines])

    def collate(some):
        batch = tokenizer([r["text"] for r in some], padding=True, truncation=True, max_length=128, return_tensors="pt")
        return dict(batch, labels=torch.tensor([r["label"] for r in some]))
    with tempfile.TemporaryDirectory() as scratch:
        arguments = arguments_of(scratch, precision, device, per_device_eval_batch_size=32, remove_unused_columns=False)
        trainer = Trainer(model=model, args=arguments, data_collator=collate)
        result = trainer.evaluate(rows)
    return dict(device=devices.trainer_device(trainer), precision=devices.trainer_precision(trainer), loss=result["eval_loss"])


def best_ms(work, device):
    """Returns the milliseconds of a call of work(): the shortest of three means, each over about 50 ms of calls."""
    def mean(count):
        if device == "cpu":
            start = time.perf_counter()
            for _ in range(count):
                work()
            return (time.perf_counter() - start) / count * 1000
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        for _ in range(count):
            work()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / count
    mean(3)
    count = max(3, min(100, int(50 / max(mean(3), 1e-3))))
    return min(mean(count) for _ in range(3))


def precise(precision):
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")


def product_ms(key, device):
    precision, tokens, outputs, inputs, direction = key.split()
    precise(precision)
    m, n, k = int(tokens), int(outputs), int(inputs)
    x, w, d = (torch.randn(shape, device=device, dtype=TYPES[precision]) for shape in ((m, k), (n, k), (m, n)))
    work = {"forward": lambda: x @ w.t(), "input_gradient": lambda: d @ w, "weight_gradient": lambda: d.t() @ x}[direction]
    return best_ms(work, device)


def attention_ms(key, device):
    """Returns the time of PyTorch's fastest attention kernel for this shape and data type, and its name. Training uses dropout 0.1."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    precision, batch, heads, length, size, way = key.split()
    precise(precision)
    shape = int(batch), int(heads), int(length), int(size)
    trains = way == "both"
    q, k, v, d = (torch.randn(shape, device=device, dtype=TYPES[precision], requires_grad=trains) for _ in range(4))

    def work():
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if trains else 0.0)
        if trains:
            torch.autograd.grad(out, (q, k, v), d)
    found = []
    for name in ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
        try:
            with sdpa_kernel(getattr(SDPBackend, name)):
                found.append((best_ms(work, device), name))
        except (RuntimeError, AttributeError):
            continue  # this kernel does not support the type or the shape
    ms, name = min(found)
    return dict(ms=ms, kernel=name)


def copy_bandwidth(device):
    """Returns the bytes per second that a copy within the device's memory reads and writes, and the device that did it."""
    size = 2**31 if device != "cpu" else 2**24
    source = torch.empty(size, device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    return 2 * size / (best_ms(lambda: target.copy_(source), device) / 1000), used_by(source.device)


def ceilings(wanted, device):
    copy, used = copy_bandwidth(device)
    if device == "cpu":  # a run on a CPU only checks that the script works
        wanted["products"] = [key for key in wanted["products"] if " 8192 " not in key]
    return dict(device=used, copy_bytes_per_s=copy, products={key: product_ms(key, device) for key in wanted["products"]},
                attention={key: attention_ms(key, device) for key in wanted["attention"]})


def versions():
    return dict(torch=torch.__version__, torch_cuda=str(torch.version.cuda), cudnn=str(torch.backends.cudnn.version()),
                transformers=transformers.__version__)


def main():
    transformers.logging.set_verbosity_error()
    task, words = sys.argv[1], sys.argv[2:]
    if task in ("train", "first_step"):
        answer = train(json.loads(words[0]), words[1])
    elif task == "eval":
        answer = evaluate(json.loads(words[0]), words[1])
    elif task == "ceilings":
        answer = ceilings(json.loads(words[0]), words[1])
    else:
        answer = {"make": make, "loss": loss, "versions": versions}[task](*words)
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
