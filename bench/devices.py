"""The device that each side of a comparison really uses: restricts what it can see, and checks what it says.

A comparison is only valid if both sides ran on the requested device. Trainer uses every visible GPU, and falls back to the CPU
without a word if PyTorch sees none, so both sides get an environment with exactly the requested device, report the device
that they used, and are refused if it is another one.
"""
import os
import platform
import re


def environment_for(device, base=None):
    """Returns environment variables with which only this device is visible: "cpu" or "cuda:N", an index among the visible GPUs."""
    environment = dict(os.environ if base is None else base)
    if not device.startswith("cuda"):
        return dict(environment, CUDA_VISIBLE_DEVICES="")
    ordinal = int(device.partition(":")[2] or 0)
    visible = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    if visible and ordinal >= len(visible):
        raise ValueError(f"{device}: CUDA_VISIBLE_DEVICES={','.join(visible)} has {len(visible)} GPUs")
    return dict(environment, CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=visible[ordinal] if visible else str(ordinal))


def visible_name(device):
    """Returns the name of the only visible device for a program that runs in environment_for(device)."""
    return "cuda:0" if device.startswith("cuda") else "cpu"


def nvml_name():
    """Returns the first visible GPU as NVML identifies it: its index as text, or its UUID. Requires an environment of environment_for."""
    return (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")[0]


def host():
    """Returns the device of work that never uses a GPU: "cpu: Intel..., 2 threads", the threads that this process may use."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            name = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), name)
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"cpu: {name}, {threads} thread{'s' if threads != 1 else ''}"


def plimsoll_device(output):
    """Returns the device that `plimsoll` printed as its first line (on stderr), "cpu: Intel..., 2 threads", or None."""
    found = re.search(r"^device ((?:cpu|cuda).*)$", output, re.MULTILINE)
    return found.group(1) if found else None


def trainer_device(trainer):
    """Returns the device that a Trainer used, "cpu" or "cuda:0: NVIDIA H100", and the number of GPUs if there are several."""
    import torch
    device = str(trainer.args.device)
    if device.startswith("cuda"):
        device += f": {torch.cuda.get_device_name(trainer.args.device)}"
    return device + (f", {trainer.args.n_gpu} GPUs" if trainer.args.n_gpu > 1 else "")


def wrong_device(wanted, used):
    """Returns why a run does not count, or None: the device that it used is not the requested one, or is not known."""
    kind = "cuda" if wanted.startswith("cuda") else "cpu"
    if used is None:
        return f"the device is not known, {kind} was requested"
    if not used.startswith(kind) or re.search(r", \d+ GPUs", used):
        return f"ran on {used}, {kind} was requested"
    return None


def self_check():
    assert environment_for("cpu", {"CUDA_VISIBLE_DEVICES": "3", "A": "b"}) == {"CUDA_VISIBLE_DEVICES": "", "A": "b"}
    assert environment_for("cuda:1", {"CUDA_VISIBLE_DEVICES": "3,5"})["CUDA_VISIBLE_DEVICES"] == "5"
    assert environment_for("cuda:1", {})["CUDA_VISIBLE_DEVICES"] == "1"
    assert environment_for("cuda", {"CUDA_VISIBLE_DEVICES": "GPU-1f,GPU-2f"})["CUDA_VISIBLE_DEVICES"] == "GPU-1f"
    assert re.fullmatch(r"cpu: .+, \d+ threads?", host()) and wrong_device("cpu", host()) is None and wrong_device("cuda:0", host())
    assert plimsoll_device("device cpu: Intel, 2 threads\nmodel x") == "cpu: Intel, 2 threads"
    assert plimsoll_device("note: x\ndevice cuda:0: NVIDIA H100\n") == "cuda:0: NVIDIA H100"
    assert plimsoll_device("nothing") is None and plimsoll_device("device constant: 30 MiB") is None
    assert wrong_device("cpu", "cpu: Intel, 2 threads") is None and wrong_device("cuda:0", "cuda:0: NVIDIA H100") is None
    for wanted, used in (("cpu", "cuda:0: NVIDIA H100"), ("cuda:0", "cpu"), ("cuda:0", "cuda:0: NVIDIA H100, 2 GPUs"), ("cpu", None)):
        assert wrong_device(wanted, used), (wanted, used)


if __name__ == "__main__":
    self_check()
    print("devices: passed")
