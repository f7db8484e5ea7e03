#!/usr/bin/env python3
"""Compares Plimsoll's speed and memory for language models with Hugging Face on one GPU: Trainer, LoRA with PEFT, and generation.

usage: language.py PROGRAM [--cases NAMES] [--pairs N]

Both programs run alternately on the first visible GPU, which is the only one that they see. A run that used another device is not
counted. Weights and token ids are random. The optimizer is AdamW, dropout is the default of the model's configuration except where stated;
nothing is saved or logged. The speed is that of the last two thirds of the steps, in which nothing is compiled any more;
memory is the peak that NVML reports for the card. The first loss of both programs must be that of an untrained model,
ln(number of classes) within 5 % (25 % for two classes), otherwise the case is not counted.
The table has the median and the range over the pairs. It needs torch, transformers (5), pynvml, peft for LoRA, and bitsandbytes
for QLoRA; a case whose package is missing is named and left out.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import devices  # noqa: E402

LLAMA = dict(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
             num_key_value_heads=4, max_position_embeddings=2048)
TINY_LLAMA = "TinyLlama-1.1B-Chat-v1.0"
LORA = ["--lora_r", "16", "--lora_alpha", "32", "--lora_target_modules", "all-linear"]


def lm(name, length):
    return ["--problem_type", "causal_lm", "--config_name", name, "--block_size", str(length)]


# Per case: model, batch size, tokens per sequence, number of steps of Plimsoll and of Hugging Face, arguments of
# Plimsoll, options of the Hugging Face run.
CASES = {
    "gpt2": dict(model="gpt2", batch=16, length=1024, steps=(120, 36), words=lm("gpt2", 1024), compiled=True),
    "gpt2_batch4": dict(model="gpt2", batch=4, length=1024, steps=(200, 200), words=lm("gpt2", 1024)),
    "gpt2_medium": dict(model="gpt2", batch=16, length=1024, steps=(60, 24), words=lm("gpt2-medium", 1024), compiled=True,
                        sizes=dict(n_embd=1024, n_layer=24, n_head=16)),
    "llama": dict(model="llama", batch=4, length=2048, steps=(60, 24), words=lm(TINY_LLAMA, 2048)),
    "lora": dict(model="llama", batch=4, length=2048, steps=(60, 24), words=lm(TINY_LLAMA, 2048) + LORA, lora=True),
    "qlora": dict(model="llama", batch=4, length=2048, steps=(60, 24), lora=True, bits=4,
                  words=lm(TINY_LLAMA, 2048) + LORA + ["--load_in_4bit"]),
    "roberta": dict(model="roberta", batch=32, length=512, steps=(90, 30), classes=2,
                    words=["--config_name", "roberta-base", "--num_labels", "2", "--dummy_seq_length", "512"]),
    "modernbert": dict(model="modernbert", batch=16, length=1024, steps=(60, 24), classes=2,
                       words=["--config_name", "ModernBERT-base", "--num_labels", "2", "--dummy_seq_length", "1024"]),
    "beams": dict(model="gpt2", batch=8, prompt=64, new=128, beams=4, words=["--config_name", "gpt2"]),
}


class Gauge:
    """Measures the largest memory in use on the card, in MiB, while the `with` block runs."""

    def __enter__(self):
        import pynvml
        pynvml.nvmlInit()
        name = devices.environment_for("cuda:0")["CUDA_VISIBLE_DEVICES"]
        card = pynvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else pynvml.nvmlDeviceGetHandleByUUID(name)
        self.peak, self.ended = 0, threading.Event()

        def poll():
            while not self.ended.wait(0.02):
                used = pynvml.nvmlDeviceGetMemoryInfo(card, version=pynvml.nvmlMemory_v2).used
                self.peak = max(self.peak, used // 2**20)
        self.thread = threading.Thread(target=poll)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def peer_model(case):
    import transformers
    transformers.logging.set_verbosity_error()
    if case["model"] == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**case.get("sizes", {})))
    if case["model"] == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA, use_cache=False))
    if case["model"] == "roberta":
        config = transformers.RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)
        return transformers.RobertaForSequenceClassification(config)
    return transformers.ModernBertForSequenceClassification(transformers.ModernBertConfig())


def in_4_bits(model):
    """The model with its linear layers in the 4 bits of bitsandbytes (nf4) and the rest in bf16, as PEFT's guide to QLoRA
    loads it. Gradient checkpointing, which that guide switches on by default, is off: it would slow the peer down."""
    import peft
    import torch
    import transformers
    with tempfile.TemporaryDirectory() as folder:
        model.to(torch.bfloat16).save_pretrained(folder)
        config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
        model = type(model).from_pretrained(folder, quantization_config=config, dtype=torch.bfloat16, device_map={"": 0})
    return peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)


def train_peer(case):
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments
    torch.manual_seed(0)
    model = peer_model(case)
    model = in_4_bits(model) if case.get("bits") == 4 else model.cuda()
    if case.get("lora"):
        import peft
        if case.get("bits") != 4:
            model = model.to(torch.bfloat16)
        model = peft.get_peft_model(model, peft.LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
    ids = torch.randint(100, 30000, (256, case["length"]))
    rows = [dict(input_ids=x, labels=i % 2 if "classes" in case else x) for i, x in enumerate(ids)]
    times, losses = [], []

    class Clock(TrainerCallback):
        def on_step_end(self, *_args, **_words):
            torch.cuda.synchronize()
            times.append(time.perf_counter())

        def on_log(self, _args, _state, _control, logs=None, **_words):
            losses.extend([logs["loss"]] if "loss" in logs else [])
    with tempfile.TemporaryDirectory() as folder, Gauge() as gauge:
        arguments = TrainingArguments(folder, max_steps=case["steps"][1], per_device_train_batch_size=case["batch"], bf16=True,
                                      optim="adamw_torch_fused", report_to=[], save_strategy="no", disable_tqdm=True,
                                      logging_steps=case["steps"][1], logging_first_step=True,
                                      torch_compile=case.get("compiled", False))
        trainer = Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[Clock()])
        trainer.train()
    first = len(times) // 3
    rate = case["batch"] * (len(times) - 1 - first) / (times[-1] - times[first])
    return dict(rate=rate * case["length"], memory=gauge.peak, loss=losses[0], device=devices.trainer_device(trainer),
                precision=devices.trainer_precision(trainer))


def generate_peer(case):
    import torch
    torch.manual_seed(0)
    model = peer_model(case).bfloat16().cuda().eval()
    ids = torch.randint(100, 30000, (case["batch"], case["prompt"]), device="cuda")
    words = dict(max_new_tokens=case["new"], min_new_tokens=case["new"], do_sample=False, pad_token_id=0, num_beams=case["beams"])
    with Gauge() as gauge:
        model.generate(ids, **words)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        model.generate(ids, **words)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
    return dict(rate=case["batch"] * case["new"] / seconds, memory=gauge.peak,
                device=f"{model.device}: {torch.cuda.get_device_name(model.device)}")


def run_program(program, case):
    """Runs Plimsoll on a case and reads the measurements that it prints."""
    common = [*case["words"], "--dataset_name", "dummy", "--device", "cuda:0"]
    with tempfile.TemporaryDirectory() as folder, Gauge() as gauge:
        if "beams" in case:
            command = [program, "generate", *common, "--bf16_full_eval", "--num_beams", str(case["beams"]), "--max_new_tokens",
                       str(case["new"]), "--dummy_seq_length", str(case["prompt"]), "--dummy_num_samples", str(case["batch"]),
                       "--per_device_eval_batch_size", str(case["batch"])]
        else:
            steps = case["steps"][0]
            command = [program, "train", *common, *case.get("precision", ["--bf16"]), "--output_dir", folder, "--max_steps", str(steps), "--logging_steps",
                       str(steps // 3), "--logging_first_step", "--per_device_train_batch_size", str(case["batch"]),
                       "--dummy_num_samples", str(steps * case["batch"]), "--report_to", "none"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=devices.environment_for("cuda:0"))
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        output = done.stdout + done.stderr
        used = devices.plimsoll_device(output)
        if "beams" in case:
            return dict(rate=float(re.search(r"([\d.,]+) new tokens/s with prefill", output).group(1).replace(",", "")),
                        memory=gauge.peak, device=used)
        with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
    planned = re.search(r"^batch +(\d+) x (\d+)", output, re.MULTILINE)
    if planned is None or [int(n) for n in planned.groups()] != [case["batch"], case["length"]]:
        raise RuntimeError(f"the batch is '{planned and planned.group()}', not {case['batch']} x {case['length']}")
    logs = [record for record in records if "loss" in record]
    # Each of the three log records covers a third of the steps. The rate is that of the last two thirds.
    rate = 2 / sum(1 / record["tokens_per_second"] for record in logs[-2:])
    return dict(rate=rate, memory=gauge.peak, loss=logs[0]["loss"], device=used)


def check(case, figures):
    """Raises an error if a run used another device, or if its first loss is not that of an untrained model."""
    if wrong := devices.wrong_device("cuda:0", figures["device"]):
        raise RuntimeError(wrong)
    if wrong := "precision" in figures and devices.wrong_precision("bf16", figures["precision"]):
        raise RuntimeError(wrong)
    if "loss" not in figures:
        return
    classes = case.get("classes") or {"gpt2": 50257, "llama": 32000}[case["model"]]
    limit = 0.05 if "classes" not in case else 0.25
    if abs(figures["loss"] / math.log(classes) - 1) > limit:
        raise RuntimeError(f"the first loss is {figures['loss']:.3f}, ln({classes}) is {math.log(classes):.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.peer:  # runs Hugging Face's side in a separate process, so that its memory is freed afterwards
        case = CASES[given.peer]
        print(json.dumps(generate_peer(case) if "beams" in case else train_peer(case)))
        return
    given.program = devices.measured_program(given.program)
    print("| work | Plimsoll, tokens/s | Hugging Face | speed | Plimsoll, MiB | Hugging Face | memory |\n|---|---|---|---|---|---|---|")
    for name in given.cases.split(","):
        case, ours, peers = CASES[name], [], []
        try:
            for _ in range(given.pairs):
                ours.append(run_program(given.program, case))
                command = [sys.executable, __file__, given.program, "--peer", name]
                done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=devices.environment_for("cuda:0"))
                if done.returncode != 0:
                    raise RuntimeError(f"the peer ended with {done.returncode}: {done.stderr.strip()[-300:]}")
                peers.append(json.loads(done.stdout.strip().splitlines()[-1]))
                for figures in (ours[-1], peers[-1]):
                    check(case, figures)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{name}: not counted: {error}", file=sys.stderr, flush=True)
            continue

        def text(runs):
            rates = [run["rate"] for run in runs]
            middle = statistics.median(rates)
            return middle, f"{middle:,.0f}" + (f" ({min(rates):,.0f}-{max(rates):,.0f})" if len(rates) > 1 else "")
        (rate, shown), (peer_rate, peer_shown) = text(ours), text(peers)
        memory, peer_memory = max(run["memory"] for run in ours), max(run["memory"] for run in peers)
        print(f"{name}: Plimsoll ran on {ours[-1]['device']}, Hugging Face on {peers[-1]['device']}", file=sys.stderr, flush=True)
        print(f"| {name} | {shown} | {peer_shown} | {rate / peer_rate:.2f}x | {memory} | {peer_memory} | {memory / peer_memory:.2f}x |",
              flush=True)


if __name__ == "__main__":
    main()
