"""Evaluates and prints the results of compare.py: medians, the reasons that make a case invalid, and tables in Markdown."""
import math
import statistics

from cases import BASE, LARGE, MODELS
from floors import ceilings_wanted


def median_of(runs, key):
    values = [r[key] for r in runs if r.get(key) is not None]
    return statistics.median(values) if values else None


def judge(row, check):
    """Adds medians and ratios to the result of a case. If a run failed or the losses differ too much, adds the reason as "invalid"."""
    ours, peer = row["ours"], row["peer"]
    faults = [r["error"] for r in ours + peer if "error" in r]
    if check is None or not check["ok"]:
        faults.append(f"the losses of the two sides differ in {row['case']['precision']}" if check else "no check of the loss")
    faults += [f"training loss {r['loss']}" for r in ours + peer
               if "error" not in r and not abs(r["loss"] - math.log(2)) <= 0.25]
    row.pop("invalid", None)
    if faults:
        row["invalid"] = faults[0]
    for name, runs in (("ours", ours), ("peer", peer)):
        for key in ("samples_per_s", "first_step_s", "nvml_mib", "predicted_mib", "program_mib"):
            row[f"{name}_{key}"] = median_of(runs, key)
    both = row["ours_samples_per_s"], row["peer_samples_per_s"]
    row["speed_ratio"] = both[0] / both[1] if all(both) else None
    both = row["ours_nvml_mib"], row["peer_nvml_mib"]
    row["memory_ratio"] = both[0] / both[1] if all(both) else None
    if row["ours_nvml_mib"] and row["ours_predicted_mib"] and row["ours_nvml_mib"] > row["ours_predicted_mib"]:
        row["above_prediction_mib"] = row["ours_nvml_mib"] - row["ours_predicted_mib"]


def shown(value, form="{:.1f}"):
    return "-" if value is None else form.format(value)


def with_range(row, side, key, form):
    values = [r[key] for r in row[side] if r.get(key) is not None]
    if not values:
        return "-"
    return f"{form.format(statistics.median(values))} ({form.format(min(values))}-{form.format(max(values))})"


def described(one):
    model = {LARGE: "BERT-large", BASE: "BERT-base"}.get(one["model"], one["model"])
    size = f"{one['batch']} x {one['length']}" if one["length"] else f"{one['batch']} short texts"
    more = f", accumulation {one['accumulation']}" if one["accumulation"] > 1 else ""
    kind = {"eval": " evaluation", "first_step": ", start to first step, s"}.get(one["kind"], "")
    return f"{model}{kind if one['kind'] == 'eval' else ''} {size}{more} {one['precision']}" + (
        kind if one["kind"] == "first_step" else "")


def speed_line(name, row):
    if "skipped" in row:
        return f"| {described(row['case'])} | skipped: {row['skipped']} |" + " - |" * 8
    key, form = ("first_step_s", "{:.2f}") if row["case"]["kind"] == "first_step" else ("samples_per_s", "{:.1f}")
    ratio, floor = row.get("speed_ratio"), row.get("floor")
    if row["case"]["kind"] == "first_step":
        floor = None
        ratio = row["peer_first_step_s"] / row["ours_first_step_s"] if row["ours_first_step_s"] and row["peer_first_step_s"] else None
    share = floor and row["ours_samples_per_s"] and row["ours_samples_per_s"] / floor["samples_per_s"]
    share_all = floor and row["ours_samples_per_s"] and row["ours_samples_per_s"] / floor["samples_per_s_with_element_wise"]
    name_of = described(row["case"]) + (f" **invalid: {row['invalid']}**" if "invalid" in row else "")
    cells = [name_of, with_range(row, "ours", key, form), with_range(row, "peer", key, form), shown(ratio, "{:.2f}x"),
             f"{shown(row['ours_nvml_mib'], '{:.0f}')} ({shown(row['ours_predicted_mib'], '{:.0f}')})",
             shown(row["peer_nvml_mib"], "{:.0f}"), shown(row["memory_ratio"], "{:.2f}x"),
             "-" if not floor else f"{floor['samples_per_s']:.0f} / {floor['samples_per_s_with_element_wise']:.0f}",
             "-" if not share else f"{100 * share:.0f} % / {100 * share_all:.0f} %", str(len(row["ours"]))]
    return "| " + " | ".join(cells) + " |"


def floor_lines(result):
    rows = [(row, row["floor"]) for row in result["cases"].values() if row.get("floor")]
    if not rows:
        return []
    ceilings = result["ceilings"]
    lines = ["", f"Measured with PyTorch here: copy {ceilings['copy_bytes_per_s'] / 1e12:.2f} TB/s (read and written); 8192 x 8192 x "
             "8192, TFLOP/s: " + ", ".join(f"{key.split()[0]} {2 * 8192**3 / ms / 1e9:.0f}" for key, ms in
                                           ceilings["products"].items() if " 8192 8192 8192 " in key) + ".", "",
             "| a step's floor, ms | products | TFLOP/s | attention | kernel | AdamW | element-wise | sum | Plimsoll | Trainer |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for row, floor in rows:
        one, wanted = row["case"], ceilings_wanted([row["case"]])
        flops = sum(2 * math.prod(int(n) for n in key.split()[1:4]) for key in wanted["products"] if " 8192 8192 8192 " not in key)
        flops *= MODELS[one["model"]]["layers"] * one["accumulation"]
        step = [1000 * one["batch"] * one["accumulation"] / rate if rate else None
                for rate in (row["ours_samples_per_s"], row["peer_samples_per_s"])]
        parts = [floor["products"], floor["attention"], floor["adamw"], floor["element_wise"]]
        lines.append(f"| {described(one)} | {parts[0]:.2f} | {flops / floor['products'] / 1e9:.0f} | {parts[1]:.2f} | "
                     f"{ceilings['attention'][wanted['attention'][0]]['kernel']} | {parts[2]:.2f} | {parts[3]:.2f} | "
                     f"{sum(parts):.2f} | {shown(step[0], '{:.2f}')} | {shown(step[1], '{:.2f}')} |")
    return lines


def markdown(result):
    head = result["header"]
    lines = [f"{head['date']}: {head['card']}, driver {head['driver']} (CUDA {head['driver_cuda']}); {head['plimsoll']}; "
             f"torch {head['torch']} (CUDA {head['torch_cuda']}, cuDNN {head['cudnn']}), transformers {head['transformers']}. "
             f"Before the runs others held {shown(head['held_by_others_mib'], '{:.0f}')} MiB of the GPU.", "",
             "Medians and ranges over alternating pairs, each run a process of its own, dropout 0.1. Memory is NVML's `used` "
             "(version 2) at its peak less what was held before: the CUDA context counts on both sides. Floor: products, attention "
             "and AdamW alone / element-wise bytes too. Mode of every row: Plimsoll's default, the "
             "same kernels and bits as under --full_determinism; Trainer's default, which does not promise equal bits.", "",
             "| work | Plimsoll, samples/s | Trainer, samples/s | speed | Plimsoll, MiB (planned) | Trainer, MiB | memory | "
             "floor, samples/s | share of it | pairs |", "|---|---|---|---|---|---|---|---|---|---|"]
    lines += [speed_line(name, row) for name, row in result["cases"].items()]
    lines += ["", "| loss on the same weights and texts | Plimsoll | Trainer | relative difference | bound | |", "|---|---|---|---|---|---|"]
    for precision, c in result["checks"].items():
        lines.append(f"| {precision} | {shown(c.get('ours'), '{:.7f}')} | {shown(c.get('peer'), '{:.7f}')} | "
                     f"{shown(c.get('difference'), '{:.1e}')} | {c['bound']:.1e} | {'agree' if c['ok'] else c.get('error', 'differ')} |")
    for row in result["cases"].values():
        if "above_prediction_mib" in row:
            lines += ["", f"{described(row['case'])}: {row['above_prediction_mib']:.0f} MiB above what was planned."]
    return "\n".join(lines + floor_lines(result)) + "\n"
