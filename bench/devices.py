"""Determines the device, the threads and the data type that each of two compared programs really uses.

The programs (the sides) are Plimsoll and, for example, Hugging Face's Trainer. A comparison is only valid if both ran on the requested
device. Trainer uses every visible GPU, and uses the CPU without a message if PyTorch sees no GPU. Both sides therefore get an environment
in which only the requested device is visible, report the device that they used, and are not counted if it is another one. The same holds
for threads and data types: environment variables such as OMP_NUM_THREADS, NVIDIA_TF32_OVERRIDE or RANK could change one side, so they are
removed for both.
"""
import datetime
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys

# Environment variables that change the threads, the instructions, the data types, the memory or the ranks of a program
# that reads them.
CHANGING = re.compile(
    r"(OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|DNNL|ONEDNN|ATEN|RAYON|ACCELERATE|FSDP|TORCHDYNAMO|TORCHINDUCTOR|TORCHELASTIC|TORCH_COMPILE|XLA|JAX|CUBLAS|"
    r"CUBLASLT|SLURM|OMPI|PMI|PMIX)_.*|NVIDIA_TF32_OVERRIDE|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|PYTORCH_(CUDA_)?ALLOC_CONF|"
    r"PYTORCH_NO_CUDA_MEMORY_CACHING|CUDA_LAUNCH_BLOCKING|TOKENIZERS_PARALLELISM|RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|"
    r"MASTER_ADDR|MASTER_PORT")
REPORTED = set()  # names of the removed variables that were already printed


def without_changing(base=None):
    """Returns the environment without the variables that match CHANGING, and prints each removed variable once."""
    environment = dict(os.environ if base is None else base)
    removed = sorted(name for name in environment if CHANGING.fullmatch(name))
    if new := [f"{name}={environment[name]}" for name in removed if name not in REPORTED]:
        print(f"note: every side runs without {', '.join(new)}", file=sys.stderr, flush=True)
        REPORTED.update(removed)
    return {name: value for name, value in environment.items() if name not in removed}


def visible_gpus(environment):
    """Returns the GPUs that CUDA_VISIBLE_DEVICES names, or None if it is not set. CUDA ignores a name that is not valid, and all after it."""
    if "CUDA_VISIBLE_DEVICES" not in environment:
        return None
    names = []
    for name in environment["CUDA_VISIBLE_DEVICES"].split(","):
        if not re.fullmatch(r"\d+|(GPU|MIG)-.+", name.strip()):
            break
        names.append(name.strip())
    return names


def environment_for(device, base=None, threads=None):
    """Returns environment variables with which only this device is visible: "cpu" or "cuda:N", an index among the visible GPUs.

    If `threads` is given, OpenMP, MKL and Rayon use this number of threads. Ends the program if the variables of `base` hide the GPU."""
    environment = without_changing(base)
    if threads:
        environment.update({name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")})
    if not device.startswith("cuda"):
        return dict(environment, CUDA_VISIBLE_DEVICES="")
    ordinal = int(device.partition(":")[2] or 0)
    visible = visible_gpus(environment)
    if visible is not None and ordinal >= len(visible):
        sys.exit(f"{device}: CUDA_VISIBLE_DEVICES='{environment['CUDA_VISIBLE_DEVICES']}' shows {len(visible)} GPUs")
    return dict(environment, CUDA_DEVICE_ORDER="PCI_BUS_ID", CUDA_VISIBLE_DEVICES=str(ordinal) if visible is None else visible[ordinal])


def gpus_of_runs(count):
    """Returns the first `count` visible GPUs as NVML identifies them. Ends the program if fewer are visible."""
    visible = visible_gpus(os.environ)
    if visible is None:
        return [str(i) for i in range(count)]
    if len(visible) < count:
        sys.exit(f"{count} GPUs: CUDA_VISIBLE_DEVICES='{os.environ['CUDA_VISIBLE_DEVICES']}' shows {len(visible)}")
    return visible[:count]


def visible_name(device):
    """Returns the name under which a program that runs in environment_for(device) sees its only device: "cuda:0" or "cpu"."""
    return "cuda:0" if device.startswith("cuda") else "cpu"


def nvml_name():
    """Returns the first visible GPU as NVML identifies it: its index as text, or its UUID. Requires an environment of environment_for."""
    return (os.environ.get("CUDA_VISIBLE_DEVICES") or "0").split(",")[0]


def host():
    """Describes the device of work that never uses a GPU: "cpu: Intel..., 2 threads", with the threads that this process may use."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            name = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), name)
    return f"cpu: {name}, {counted_threads(available_threads())}"


def available_threads():
    """Returns the number of processors that this process may use, which taskset and containers can reduce below os.cpu_count()."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def counted_threads(count):
    return f"{count} thread{'s' if count != 1 else ''}"


def check_threads(threads):
    """Ends the program if this process may use fewer processors than the requested number of threads."""
    if threads > available_threads():
        sys.exit(f"{counted_threads(threads)} were requested, but this process may use {available_threads()} processors")


def program_of(name):
    """Returns the absolute path of a program, which `name` states or which is in PATH. Ends the program if there is none."""
    path = shutil.which(name)
    if path is None:
        sys.exit(f"{name}: there is no such program")
    return os.path.abspath(path)


def describe_program(path):
    """Describes Plimsoll's program: its version, the time when it was built, and a hash that identifies the build."""
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:12]
    built = datetime.datetime.fromtimestamp(os.stat(path).st_mtime).strftime("%Y-%m-%d %H:%M")
    return f"{path}: {version}, of {built}, sha256 {digest}"


def measured_program(name):
    """Returns the absolute path of Plimsoll's program and prints what describe_program() says."""
    path = program_of(name)
    print(f"program {describe_program(path)}", file=sys.stderr, flush=True)
    return path


def file_system_of(folder):
    """Returns the type and the source of the file system of a folder, such as "ext4 on /dev/vda"."""
    found, longest = "unknown", -1
    path = os.path.realpath(folder)
    with open("/proc/self/mounts", encoding="utf-8") as file:
        for line in file:
            source, point, kind = line.split()[:3]
            point = point.encode().decode("unicode_escape")
            if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= longest:
                found, longest = f"{kind} on {source}", len(point)
    return found


def check_disk(folder):
    """Prints the file system of a folder whose disk is measured. Ends the program if it is in memory."""
    found = file_system_of(folder)
    if found.split()[0] in ("tmpfs", "ramfs"):
        sys.exit(f"{folder}: the file system is {found}, which is in memory; name a folder on a disk")
    print(f"disk of {folder}: {found}", file=sys.stderr, flush=True)


def plimsoll_device(output):
    """Returns the device that `plimsoll` printed as its first line (on stderr), "cpu: Intel..., 2 threads", or None."""
    found = re.search(r"^device ((?:cpu|cuda).*)$", output, re.MULTILINE)
    return found.group(1) if found else None


def trainer_device(trainer):
    """Returns the device that a Trainer used, "cpu: 2 threads" or "cuda:0: NVIDIA H100", and the number of GPUs if there are several."""
    import torch
    device = str(trainer.args.device)
    if device.startswith("cuda"):
        device += f": {torch.cuda.get_device_name(trainer.args.device)}"
    elif device == "cpu":
        device += f": {counted_threads(torch.get_num_threads())}"
    return device + (f", {trainer.args.n_gpu} GPUs" if trainer.args.n_gpu > 1 else "")


def wrong_device(wanted, used):
    """Returns the reason why a run is excluded (its device is unknown or is not the requested one), or None."""
    kind = "cuda" if wanted.startswith("cuda") else "cpu"
    if used is None:
        return f"the device is not known, {kind} was requested"
    if not used.startswith(kind) or re.search(r", \d+ GPUs", used):
        return f"ran on {used}, {kind} was requested"
    return None


def wrong_threads(wanted, used):
    """Returns the reason why a run on a CPU is excluded (it used another number of threads or did not state it), or None."""
    found = re.search(r"(\d+) threads?\b", used or "")
    if found and int(found.group(1)) == wanted:
        return None
    return f"ran on {used}, {counted_threads(wanted)} {'was' if wanted == 1 else 'were'} requested"


def precision_of_error(error):
    """Returns the data type to which the operands of a product were rounded: "fp32", "tf32" or "bf16".

    `error` is the largest error of the product in product_precision(), relative to its largest element. fp32 sums of 256 terms have errors
    below 1e-5. Rounding the operands gives each term an error of random sign: about 2^-11 for TF32 and fp16, 2^-8 for bf16."""
    return "fp32" if error < 2e-5 else "tf32" if error < 7e-4 else "bf16"


def product_precision(device):
    """Returns the type in which PyTorch multiplies fp32 matrices on a device, measured: "fp32", "tf32" or "bf16"."""
    import torch
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.rand(256, 256, generator=generator, dtype=torch.float64) - 0.5 for _ in range(2))
    # The operands are rounded to fp32 first, so that only the product itself can lose precision.
    a, b = a.float().double(), b.float().double()
    found = (a.float().to(device) @ b.float().to(device)).double().cpu()
    return precision_of_error(((found - a @ b).abs().max() / (a @ b).abs().max()).item())


def trainer_precision(trainer):
    """Returns the data type in which a Trainer multiplies matrices: the type of its mixed precision ("bf16", "fp16"), or, if it
    has none, the measured type in which the device multiplies fp32 matrices."""
    mixed = str(trainer.accelerator.mixed_precision)
    return mixed if mixed != "no" else product_precision(trainer.args.device)


def wrong_precision(wanted, used):
    """Returns the reason why a run is excluded (it multiplied in another type), or None. Trainer's equivalent of "tf32x3" is fp32."""
    wanted = "fp32" if wanted == "tf32x3" else wanted
    return None if used == wanted else f"multiplied in {used}, {wanted} was requested"


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
