#!/usr/bin/env python3
"""Measures how training scales from one GPU of this machine to several.

usage: many.py PROGRAM [--gpus 2] [--cases NAMES] [--rounds 2] [--with "NAME=VALUE ..."]... [--mesh "ARGUMENTS"]...
               [--peer ddp,fsdp] [--more "ARGUMENTS"] [--out FILE]

For each case the program trains in three ways, alternately and --rounds times: on one GPU; on --gpus GPUs with one independent run per
GPU ("apart"), which shows how much the GPUs of one machine slow each other down without exchanging data; and on --gpus GPUs as one run.
For each --with there is one more run on --gpus GPUs with these environment variables: NCCL_P2P_DISABLE=1 forbids the direct links between
the GPUs. For each --mesh there is one more run on --gpus GPUs with these arguments, such as "--tp_size 2" or "--pp_size 2
--gradient_accumulation_steps 8". With --peer, Hugging Face's Trainer also runs each case on --gpus GPUs, once with
DistributedDataParallel or FSDP (trainer_ranks.py, through torchrun). The models have random weights and the rows random ids; nothing is
saved. The rate is that of the last two thirds of the steps, in which no kernel is measured or captured any more. Memory is the peak that
NVML reports for each GPU, minus its use before the run. The table has, per case, the median rates in samples/s with their ranges, the
efficiency (the rate on N GPUs divided by N times the rate on one, and by N times that of the slowest independent run), the rate that the
plan predicts, the planned memory of the GPU that needs the most, and the largest measured memory of a GPU. The mean loss must be that
of an untrained model, within 25 %, otherwise the run does not count. It needs pynvml, and for --peer torch and transformers (5).
"""
import argparse
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import devices  # noqa: E402

MIB = 2**20


def case_of(name, batch, length, steps, precision, classes, words):
    return dict(batch=batch, steps=steps, loss=math.log(classes), words=["--config_name", name, "--dummy_seq_length", str(length), f"--{precision}", *words],
                peer=dict(model=name, batch=batch, length=length, precision=precision, peer_steps=max(24, steps // 3)))


def language(name, batch, length, steps, classes):
    return case_of(name, batch, length, steps, "bf16", classes, ["--problem_type", "causal_lm", "--block_size", str(length)])


CASES = {
    "bert32": case_of("bert-large-uncased", 32, 512, 60, "bf16", 2, []),
    "bert4": case_of("bert-large-uncased", 4, 512, 240, "fp16", 2, []),
    "gpt2": language("gpt2", 16, 1024, 150, 50257),
    "llama": language("TinyLlama-1.1B-Chat-v1.0", 4, 2048, 60, 32000),
}
PEERS = {"ddp": "Trainer, DDP", "fsdp": "Trainer, FSDP"}


def environment_of_runs(variables=""):
    """Returns the environment of every run: GPUs are numbered as in NVML, and variables that would change the work are removed. `variables`
    are further ones, as "NAME=VALUE ..."."""
    return dict(devices.without_changing(), CUDA_DEVICE_ORDER="PCI_BUS_ID", **dict(pair.split("=", 1) for pair in variables.split()))


class Gauges:
    """Measures on each GPU the largest memory in use while the `with` block runs, minus the memory in use before, in MiB."""

    def __init__(self, count):
        import pynvml
        pynvml.nvmlInit()
        self.nvml = pynvml
        self.cards = [pynvml.nvmlDeviceGetHandleByIndex(int(name)) if name.isdigit() else pynvml.nvmlDeviceGetHandleByUUID(name)
                      for name in devices.gpus_of_runs(count)]

    def used(self):
        return [self.nvml.nvmlDeviceGetMemoryInfo(card, version=self.nvml.nvmlMemory_v2).used for card in self.cards]

    def __enter__(self):
        self.before, self.ended = self.used(), threading.Event()
        self.peaks = list(self.before)

        def poll():
            while not self.ended.wait(0.02):
                self.peaks = [max(pair) for pair in zip(self.peaks, self.used())]
        self.thread = threading.Thread(target=poll)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def mib(self):
        return [round((peak - before) / MIB, 1) for peak, before in zip(self.peaks, self.before)]


def words_of(case, gpus, gpu, more):
    steps = case["steps"]
    return [*case["words"], "--dataset_name", "dummy", "--dummy_num_samples", str(case["batch"] * gpus * 8),
            "--per_device_train_batch_size", str(case["batch"]), "--max_steps", str(steps), "--nproc_per_node", str(gpus),
            *(["--device", f"cuda:{gpu}"] if gpus == 1 else []), *more]


def plan(program, case, gpus, gpu, more, variables):
    """Plans a run. Returns its speed, the number of samples per step, and the planned MiB of the GPU that needs the most."""
    with tempfile.NamedTemporaryFile() as file:
        command = [program, "plan", *words_of(case, gpus, gpu, more), "--json", file.name]
        run = subprocess.run(command, capture_output=True, text=True, env=environment_of_runs(variables))
        if run.returncode != 0:
            raise SystemExit(f"many.py: exit code {run.returncode} of {shlex.join(command)}\n{run.stderr[-3000:]}")
        planned = json.load(open(file.name, encoding="utf-8"))
    # `samples` is the number of samples that all ranks together process per step.
    estimate = planned["estimate"]
    return dict(planned_rate=estimate["samples_per_second"], samples=estimate["samples"], planned=planned["total_bytes"] / MIB)


def begin(program, case, gpus, gpu, more, variables, folder):
    """Starts a run on `gpus` GPUs. If that is 1, the run uses the GPU with the number `gpu`."""
    command = [program, "train", *words_of(case, gpus, gpu, more), "--logging_steps", str(case["steps"] // 12),
               "--logging_first_step", "--include_num_input_tokens_seen", "all", "--learning_rate", "1e-6", "--save_strategy", "no",
               "--disable_tqdm", "--output_dir", folder]
    return command, subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                     env=environment_of_runs(variables))


def check_loss(case, mean):
    if not abs(mean - case["loss"]) <= 0.25 * case["loss"]:
        raise SystemExit(f"many.py: the mean loss is {mean:.3f}, not near {case['loss']:.3f}")


def figures(case, gpus, samples, folder, command, process):
    """Waits for the end of a run and returns its measurements. `samples` is the number of samples per step of all its GPUs."""
    _, said = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"many.py: exit code {process.returncode} of {shlex.join(command)}\n{said[-3000:]}")
    with open(os.path.join(folder, "log.jsonl"), encoding="utf-8") as file:
        records = [r for r in map(json.loads, file) if "loss" in r and "train_runtime" in r]
    device = devices.plimsoll_device(said) or "unknown"
    if not device.startswith("cuda") or (gpus > 1) != (f" of {gpus}" in device):
        raise SystemExit(f"many.py: the run used {device}")
    check_loss(case, statistics.mean(r["loss"] for r in records))
    settled = [r for r in records if r["step"] >= case["steps"] // 3]
    first, last = settled[0], settled[-1]
    rate = samples * (last["step"] - first["step"]) / (last["train_runtime"] - first["train_runtime"])
    return dict(rate=rate, device=device)


def train(program, case, kind, more, count):
    """Runs one case and returns its measurements."""
    gpus = [1] * count if kind == "apart" else [1] if kind == "one" else [count]
    is_mesh = kind.startswith("--")
    if is_mesh:
        more = [*more, *shlex.split(kind)]
    variables = "" if is_mesh or kind in ("one", "apart", "all") else kind
    planned = plan(program, case, gpus[0], 0, more, variables)
    with tempfile.TemporaryDirectory() as folder, Gauges(count) as gauges:
        folders = [os.path.join(folder, str(i)) for i in range(len(gpus))]
        runs = [begin(program, case, n, i, more, variables, path) for i, (n, path) in enumerate(zip(gpus, folders))]
        found = [figures(case, n, planned["samples"], path, *run) for n, path, run in zip(gpus, folders, runs)]
    return dict(planned, device=found[0]["device"], rate=sum(f["rate"] for f in found), slowest=min(f["rate"] for f in found), measured=gauges.mib(),
                kind=kind)


def train_peer(case, way, count):
    """Runs one case with Trainer on `count` GPUs and returns its measurements, without a planned speed or memory."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "trainer_ranks.py")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(count), script, json.dumps(case["peer"]), way]
    with Gauges(count) as gauges:
        run = subprocess.run(command, capture_output=True, text=True, env=environment_of_runs())
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    if run.returncode != 0 or not lines:
        raise SystemExit(f"many.py: exit code {run.returncode} of {shlex.join(command)}\n{run.stderr[-3000:]}")
    found = json.loads(lines[-1])
    if not found["device"].startswith("cuda") or found["ranks"] != count:
        raise SystemExit(f"many.py: Trainer used {found['ranks']} ranks, the first on {found['device']}")
    if wrong := devices.wrong_precision(case["peer"]["precision"], found["precision"]):
        raise SystemExit(f"many.py: Trainer {wrong}")
    check_loss(case, found["loss"])
    return dict(device=found["device"], rate=found["samples_per_s"], measured=gauges.mib(), kind=PEERS[way])


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--with", action="append", default=[], dest="variants")
    parser.add_argument("--mesh", action="append", default=[], dest="meshes", metavar="ARGUMENTS")
    parser.add_argument("--peer", default="", metavar="ddp,fsdp")
    parser.add_argument("--more", default="")
    parser.add_argument("--out", default="")
    given = parser.parse_args()
    more = shlex.split(given.more)
    kinds = ["one", "apart", "all", *given.variants, *given.meshes]
    peers = [way for way in given.peer.split(",") if way]
    if set(peers) - set(PEERS):
        parser.error(f"--peer is {given.peer}; it takes {' and '.join(PEERS)}")
    given.program = devices.measured_program(given.program)
    results = {}
    print("| case | runs | samples/s | of one | of the slowest apart | planned samples/s | planned MiB per GPU | measured MiB per GPU |\n|"
          + "---|" * 8, flush=True)
    for name in given.cases.split(","):
        runs = {kind: [] for kind in kinds}
        for _ in range(given.rounds):
            for kind in kinds:
                runs[kind].append(train(given.program, CASES[name], kind, more, given.gpus))
        one = statistics.median(r["rate"] for r in runs["one"])
        slowest = statistics.median(r["slowest"] for r in runs["apart"])
        for kind, of_kind in runs.items():
            rate = statistics.median(r["rate"] for r in of_kind)
            shares = ["", ""] if kind == "one" else [f"{100 * rate / given.gpus / of:.1f} %" for of in (one, slowest)]
            used = 1 if kind == "one" else given.gpus
            measured = [max(r["measured"][i] for r in of_kind) for i in range(used)]
            label = dict(one="1 GPU", apart=f"{given.gpus} GPUs apart", all=f"{given.gpus} GPUs").get(kind, f"{given.gpus} GPUs, {kind}")
            print(f"| {name} | {label} | {spread([r['rate'] for r in of_kind])} | {shares[0]} | {shares[1]} | "
                  f"{of_kind[0]['planned_rate']:.1f} | {of_kind[0]['planned']:.1f} | {', '.join(f'{m:.1f}' for m in measured)} |", flush=True)
            results[f"{name} {kind}"] = of_kind
        for way in peers:
            peer = train_peer(CASES[name], way, given.gpus)
            print(f"| {name} | {given.gpus} GPUs, {peer['kind']} | {peer['rate']:.1f} |  |  |  |  | {', '.join(f'{m:.1f}' for m in peer['measured'])} |",
                  flush=True)
            results[f"{name} {peer['kind']}"] = [peer]
        if given.out:
            with open(given.out, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
