#!/usr/bin/env python3
"""Compares the time of a checkpoint with the time in which the disk writes the same number of bytes.

    bench/cpu/checkpoint_rate.py --binary build/plimsoll --ranks 2 [--async_save] [--folder FOLDER] [--repeats 3]

Trains a BERT of two layers with AdamW, which saves after every step. The time of a save is the time from the first file of a checkpoint
to the rename that completes it, as the file system records both. The rate of the disk is measured after the run, by as many processes as
the run has ranks, which write their shares of one file of the same size and sync it. The time of a save may be at most 1.2 times that of
the disk.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import devices  # noqa: E402

CHUNK = 1 << 20


def write_share(path: Path, begin: int, end: int) -> None:
    data = os.urandom(CHUNK)
    descriptor = os.open(path, os.O_WRONLY)
    for at in range(begin, end, CHUNK):
        os.pwrite(descriptor, data[: min(CHUNK, end - at)], at)
    os.fsync(descriptor)
    os.close(descriptor)


def seconds_of_disk(folder: Path, num_bytes: int, processes: int) -> float:
    """Returns the seconds in which several processes together write and sync a file of this size."""
    path = folder / "rate"
    start = time.monotonic()
    with open(path, "wb") as file:
        file.truncate(num_bytes)
    share = (num_bytes + processes - 1) // processes
    children = []
    for i in range(processes):
        pid = os.fork()
        if pid == 0:
            write_share(path, i * share, min(num_bytes, (i + 1) * share))
            os._exit(0)
        children.append(pid)
    for pid in children:
        if os.waitpid(pid, 0)[1] != 0:
            sys.exit(f"a process could not write {path}")
    seconds = time.monotonic() - start
    path.unlink()
    return seconds


def save_of(checkpoint: Path) -> tuple[float, int]:
    """Returns the duration in seconds of saving a complete checkpoint, and its size in bytes."""
    files = [file.stat() for file in checkpoint.iterdir()]
    begin = min(file.st_mtime for file in files)
    return checkpoint.stat().st_ctime - begin, sum(file.st_size for file in files)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/plimsoll")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--async_save", action="store_true")
    parser.add_argument("--folder", default="checkpoint_rate", help="a folder on the disk to measure; it is emptied")
    parser.add_argument("--repeats", type=int, default=3, help="number of checkpoints")
    parser.add_argument("--layers", type=int, default=2)
    arguments = parser.parse_args()
    folder = Path(arguments.folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    devices.check_disk(folder)
    command = [devices.measured_program(arguments.binary), "train", "--use_cpu", "--nproc_per_node", str(arguments.ranks),
               "--config_name", "bert-base-uncased", "--config_overrides", f"num_hidden_layers={arguments.layers}",
               "--dataset_name", "dummy", "--dummy_num_samples", "64", "--dummy_seq_length", "16",
               "--per_device_train_batch_size", "1", "--max_steps", str(arguments.repeats), "--save_steps", "1",
               "--save_only_model", "False", "--output_dir", str(folder / "run")]
    if arguments.async_save:
        command.append("--async_save")
    done = subprocess.run(command, capture_output=True, text=True, env=devices.environment_for("cpu"))
    if done.returncode != 0:
        sys.exit(f"exit code {done.returncode} of {' '.join(command)}:\n{done.stderr[-2000:]}")
    used = devices.plimsoll_device(done.stderr + done.stdout)
    if wrong := devices.wrong_device("cpu", used):
        sys.exit("Plimsoll " + wrong)
    saves = [save_of(folder / "run" / f"checkpoint-{step}") for step in range(1, arguments.repeats + 1)]
    shutil.rmtree(folder / "run")
    num_bytes = saves[0][1]
    disk = statistics.median(seconds_of_disk(folder, num_bytes, arguments.ranks) for _ in range(arguments.repeats))
    save = statistics.median(seconds for seconds, _ in saves)
    file_system = devices.file_system_of(folder)
    shutil.rmtree(folder)
    print(json.dumps({"device": used, "file_system": file_system, "ranks": arguments.ranks, "async_save": arguments.async_save, "megabytes": round(num_bytes / 1e6, 1),
                      "disk_s": round(disk, 3), "disk_mb_per_s": round(num_bytes / 1e6 / disk, 1),
                      "save_s": round(save, 3), "ratio": round(save / disk, 2)}))


if __name__ == "__main__":
    main()
