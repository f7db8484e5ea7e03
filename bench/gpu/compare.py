#!/usr/bin/env python3
"""Compares Plimsoll with Hugging Face Trainer on this GPU: the same work in alternating pairs, checked before its time counts.

usage: compare.py PLIMSOLL TOKENIZER_FOLDER [--pairs 3] [--cases a,b] [--python python3] [--out FOLDER] [--ceilings]
                  [--device cuda:0] [--dry_run]
       compare.py --self_check

PLIMSOLL is the program, TOKENIZER_FOLDER a folder with BERT's uncased vocab.txt, --python an interpreter with torch and
transformers. --ceilings first measures copy bandwidth, matrix products and attention with PyTorch and adds the lower bound
of each case's time. --out stores gpu_compare.json and gpu_compare.md, rewritten after each pair; a further call with the same
card and programs adds its cases to them and does not repeat checks that passed. --device cpu runs the whole script on a tiny
model, to test it without a GPU.

Measurements: each run is a separate process. Samples/s are those of the steady state, between two points of time after the
warm-up. The points are the train_runtime in two lines of log.jsonl for Plimsoll (checked against the time at which this script
received these lines), and the ends of two steps with the GPU idle for Trainer. Memory is NVML's `used`, version 2, sampled while the
process runs, minus its value before the process started; it includes the CUDA context of either program. Time to the first
step is from the start of the process to the end of its first optimizer step.

Checks: in each precision both programs compute the loss of one small random BERT on one file of texts, and the losses must agree
within the bound that `loss_bound` derives. Each training loss must be that of two classes that are not learned (ln 2 = 0.693,
within 0.25; both programs use the learning rate 1e-6, which does not change the time). A case that fails is marked invalid,
and the exit code is 1. A precision that Plimsoll refuses is skipped and named.
"""
import argparse
import datetime
import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import devices  # noqa: E402
from cases import CASES, MIB, loss_bound, on_cpu, read_json, write_json
from floors import ceilings_wanted, floor_of
from results import judge, markdown
from self_check import self_check
from sides import Ours, Peer, check_losses
from watched import Gauge, settle


def save(result, folder):
    if not folder:
        return
    write_json(os.path.join(folder, "gpu_compare.json"), result)
    with open(os.path.join(folder, "gpu_compare.md"), "w", encoding="utf-8") as file:
        file.write(markdown(result))


def header_of(program, peer, gauge):
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    with open(program, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:12]
    print(f"program {devices.describe_program(program)}", file=sys.stderr, flush=True)
    used = settle(gauge)
    return dict(gauge.card(), date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
                plimsoll=f"{version} ({digest})", held_by_others_mib=None if used is None else used / MIB, **peer.call("versions"))


def begin(header, folder):
    """Returns the result of an earlier call with the same card and programs from the folder, or an empty result."""
    result = dict(header=header, checks={}, ceilings=None, cases={})
    path = os.path.join(folder, "gpu_compare.json") if folder else ""
    if not os.path.exists(path):
        return result
    before = read_json(path)
    same = all(before["header"].get(key) == value for key, value in header.items() if key not in ("date", "held_by_others_mib"))
    if same:
        return dict(before, header=header)
    os.replace(path, path + ".before")
    print(f"{path}: of another card or program; it is kept as {path}.before", file=sys.stderr)
    return result


def run_case(name, one, sides, result, arguments):
    ours, peer = sides
    row = result["cases"][name] = dict(case=one, ours=[], peer=[])
    why = ours.refusal(one)
    if why:
        row["skipped"] = why
        print(f"{name}: skipped: {why}", file=sys.stderr, flush=True)
        save(result, arguments.out)
        return
    if result["ceilings"] and one["kind"] != "first_step":
        row["floor"] = floor_of(one, result["ceilings"])
    for pair in range(arguments.pairs):
        row["ours"].append(ours.run(one))
        row["peer"].append(peer.run(one))
        judge(row, result["checks"].get(one["precision"]))
        save(result, arguments.out)
        brief = {side: {k: v for k, v in row[side][-1].items() if k != "intervals"} for side in ("ours", "peer")}
        print(f"{name} {pair + 1}/{arguments.pairs}: {json.dumps(brief)}", file=sys.stderr, flush=True)
        if any("error" in row[side][-1] for side in ("ours", "peer")):
            break


def print_commands(chosen, sides):
    ours, peer = sides
    for name, one in chosen.items():
        rows = one["batch"] * one["ours_steps"] if one["kind"] == "eval" else None
        print(f"# {name}\n{shlex.join(ours.words(one, 'FOLDER', rows))}\n{shlex.join(peer.words(one['kind'], json.dumps(one), peer.device))}")
    for precision in sorted({one["precision"] for one in chosen.values()}):
        print(f"# loss on the same weights, {precision}, within {loss_bound(precision):.1e}\n"
              + shlex.join(ours.check_words("FOLDER", precision, "FOLDER/out")) + "\n"
              + shlex.join(peer.words("loss", "FOLDER/model", "FOLDER/check.tsv", precision, peer.device)))
    print("# ceilings\n" + shlex.join(peer.words("ceilings", json.dumps(ceilings_wanted(chosen.values())), peer.device)))


def parse_words():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("tokenizer", nargs="?")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--python", default="python3")
    parser.add_argument("--out", help="folder for gpu_compare.json and gpu_compare.md")
    parser.add_argument("--ceilings", action="store_true", help="measure the card's ceilings and print floors")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--dry_run", action="store_true", help="print the commands and stop")
    parser.add_argument("--self_check", action="store_true", help="test this script's own arithmetic and stop")
    arguments = parser.parse_args()
    if not arguments.self_check and not (arguments.program and arguments.tokenizer):
        parser.error("PLIMSOLL and TOKENIZER_FOLDER are needed")
    unknown = [name for name in arguments.cases.split(",") if name not in CASES]
    if unknown:
        parser.error(f"no case {unknown[0]!r}; there are {', '.join(CASES)}")
    return arguments


def main():
    arguments = parse_words()
    if arguments.self_check:
        return self_check()
    # If this program is stopped by a signal, it also ends its child process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    chosen = {name: CASES[name] for name in arguments.cases.split(",")}
    if not arguments.device.startswith("cuda"):
        chosen = {name: on_cpu(one) for name, one in chosen.items()}
    gauge = Gauge("cpu" if arguments.dry_run else arguments.device)
    program, tokenizer = devices.program_of(arguments.program), os.path.abspath(arguments.tokenizer)
    device = "cuda:0" if gauge.nvml else arguments.device
    ours, peer = Ours(program, tokenizer, device, gauge), Peer(arguments.python, tokenizer, device, gauge)
    if arguments.dry_run:
        return print_commands(chosen, (ours, peer))
    if arguments.out:
        os.makedirs(arguments.out, exist_ok=True)
    result = begin(header_of(program, peer, gauge), arguments.out)
    accepted = [p for p in dict.fromkeys(one["precision"] for one in chosen.values())
                if not ours.refusal(next(one for one in chosen.values() if one["precision"] == p))]
    held = {precision for precision, check in result["checks"].items() if check["ok"]}
    result["checks"].update(check_losses(ours, peer, [p for p in accepted if p not in held]))
    save(result, arguments.out)
    if arguments.ceilings:
        wanted = ceilings_wanted(one for one in chosen.values() if one["kind"] != "first_step" and one["precision"] in accepted)
        print("measuring ceilings", file=sys.stderr, flush=True)
        measured = peer.call("ceilings", json.dumps(wanted), peer.device)
        if wrong := devices.wrong_device(peer.device, measured.get("device")):
            sys.exit("the ceilings: PyTorch " + wrong)
        before = result["ceilings"] or dict(products={}, attention={})
        result["ceilings"] = dict(measured, products={**before["products"], **measured["products"]},
                                  attention={**before["attention"], **measured["attention"]})
        save(result, arguments.out)
    for name, one in chosen.items():
        run_case(name, one, (ours, peer), result, arguments)
    print(markdown(result), end="")
    bad = [name for name in chosen if "invalid" in result["cases"][name]]
    return 1 if bad or not all(c["ok"] for c in result["checks"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
