"""Tests the parts of compare.py that need no program and no GPU, on artificial logs: compare.py --self_check."""
import os
import statistics
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import devices  # noqa: E402
from cases import CASES, LARGE, MIB, SHORT_ROWS, case, loss_bound, on_cpu, short_lengths
from floors import ceilings_wanted, floor_of, num_parameters
from results import described, judge, markdown
from sides import arrivals, steady, train_figures


def self_check():
    devices.self_check()
    assert loss_bound("fp32") == 1e-5 and loss_bound("bf16") == 2.5 / 512, (loss_bound("fp32"), loss_bound("bf16"))
    log = [dict(step=s, loss=0.7, train_runtime=5.0 + 0.1 * s) for s in (1, 5, 10, 15, 20, 25, 30)] + [dict(step=30, train_loss=0.7)]
    found = steady(log, 32, 30)
    assert (found["from_step"], found["to_step"]) == (10, 30) and abs(found["samples_per_s"] - 320) < 1e-6, found
    assert len(found["intervals"]) == 4 and all(abs(r - 320) < 1e-6 for r in found["intervals"])
    try:
        steady(log[:3], 32, 30)
        raise AssertionError("a log without two records after the warm-up")
    except ValueError:
        pass
    lines = [(2.0, "device"), (6.1, "step  1/30   3 %  loss 0.7"), (7.0, "step 10/30"), (9.0, "step 30/30")]
    assert arrivals(lines) == {1: 6.1, 10: 7.0, 30: 9.0}
    one, memory = case("bf16", 32, 30, 30), dict(measured_peak_bytes=8 * MIB, predicted_total_bytes=9 * MIB)

    class Fake:
        peak_mib = 10.0
    Fake.lines = lines
    figures = train_figures(one, log, memory, Fake)
    assert figures["first_step_s"] == 6.1 and figures["predicted_mib"] == 9 and abs(figures["samples_per_s_by_arrival"] - 320) < 1e-6
    Fake.lines = lines[:-1] + [(10.0, "step 30/30")]
    assert "clock" in train_figures(one, log, memory, Fake)["error"]
    row = dict(case=one, ours=[figures, dict(figures, samples_per_s=330.0)], peer=[dict(samples_per_s=100.0, loss=0.7, nvml_mib=20.0)])
    good = dict(ok=True, bound=0.01)
    judge(row, good)
    assert "invalid" not in row and abs(row["speed_ratio"] - 3.25) < 1e-6 and row["memory_ratio"] == 0.5
    assert abs(row["above_prediction_mib"] - 1) < 1e-6
    judge(row, dict(good, ok=False))
    assert "differ" in row["invalid"]
    judge(dict(row, ours=[dict(figures, loss=float("nan"))]), good)
    bad = dict(row, ours=[dict(figures, loss=float("nan"))])
    judge(bad, good)
    assert "nan" in bad["invalid"], "a loss of NaN is invalid"
    assert num_parameters(LARGE) == 335143938, num_parameters(LARGE)
    lengths = short_lengths(SHORT_ROWS)
    assert 52 < statistics.mean(lengths) < 54 and max(lengths) == 128, statistics.mean(lengths)
    # The measured speeds of an H200 must give the lower bound that the documents state: 39.5 ms of products, 24 x 0.673
    # ms of attention, 2.4 ms of AdamW.
    wanted = ceilings_wanted([one])
    shapes = [key for key in wanted["products"] if " 8192 8192 8192 " not in key]
    assert len(shapes) == 12
    fake = dict(products={key: 39.5 / 24 / 12 for key in shapes}, copy_bytes_per_s=4.26e12,
                attention={wanted["attention"][0]: dict(ms=0.673, kernel="CUDNN")})
    floor = floor_of(one, fake)
    assert abs(floor["adamw"] - 2.36) < 0.01 and 6 < floor["element_wise"] < 8 and 545 < floor["samples_per_s"] < 555, floor
    assert floor_of(case("fp16", 4, 9, 9), fake) is None
    head = dict(date="d", card="c", driver="1", driver_cuda="1", plimsoll="p", torch="t", torch_cuda="1", cudnn="1", transformers="1",
                held_by_others_mib=None)
    fake["products"]["bf16 8192 8192 8192 forward"] = 1.4
    judge(row, good)
    text = markdown(dict(header=head, checks=dict(bf16=good), ceilings=fake, cases=dict(
        a=dict(row, floor=floor), b=dict(bad, floor=None), c=dict(case=one, ours=[], peer=[], skipped="refused"))))
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert "**invalid: training loss nan**" in text and "skipped: refused" in text and "785" in text, text
    assert {line.count(" | ") for line in tables[:5]} <= {9, 0}, text
    for chosen in CASES.values():
        ceilings_wanted([chosen])
        described(on_cpu(chosen))
    print("self check passed")
