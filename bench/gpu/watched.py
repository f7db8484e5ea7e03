"""Runs the processes of compare.py, and records the time of each line of their output and the memory used on the GPU."""
import ctypes
import json
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import devices  # noqa: E402
from cases import MIB  # noqa: E402


class Gauge:
    """Reads NVML's `used` (version 2) of one GPU from the driver's own library; `None` if there is no such library."""

    class Memory(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
                    ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]

    def __init__(self, device):
        self.nvml = None
        # Every process that is started sees only this GPU, because Trainer would use all of them. GPUs are numbered as
        # by NVML.
        environment = devices.environment_for(device)
        os.environ.clear()
        os.environ.update(environment)
        if not device.startswith("cuda"):
            return
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.check(self.nvml.nvmlInit_v2())
        name = devices.nvml_name()
        self.device = ctypes.c_void_p()
        if name.isdigit():
            self.check(self.nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(self.device)))
        else:
            self.check(self.nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(self.device)))

    @staticmethod
    def check(status):
        if status != 0:
            raise RuntimeError(f"NVML answers {status}; nvidia-smi may say more")

    def used(self):
        if self.nvml is None:
            return None
        memory = self.Memory(version=ctypes.sizeof(self.Memory) | 2 << 24)
        self.check(self.nvml.nvmlDeviceGetMemoryInfo_v2(self.device, ctypes.byref(memory)))
        return memory.used

    def card(self):
        if self.nvml is None:
            return dict(card="none (CPU)", driver="none", driver_cuda="none")
        text = ctypes.create_string_buffer(96)
        self.check(self.nvml.nvmlDeviceGetName(self.device, text, ctypes.c_uint(96)))
        name = text.value.decode()
        self.check(self.nvml.nvmlSystemGetDriverVersion(text, ctypes.c_uint(96)))
        version = ctypes.c_int()
        self.check(self.nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(version)))
        return dict(card=name, driver=text.value.decode(), driver_cuda=f"{version.value // 1000}.{version.value % 1000 // 10}")


class Watched:
    """Runs a process to its end. `lines` has a pair (seconds since its start, text) for each line of stdout and stderr."""

    def __init__(self, words, gauge, timeout, on_line=None):
        before = settle(gauge)
        self.lines, self.peak_mib = [], None
        peak, over = [before or 0], threading.Event()

        def sample():
            while not over.wait(0.01):
                peak[0] = max(peak[0], gauge.used())

        environment = dict(os.environ, PYTHONUNBUFFERED="1", HF_HUB_OFFLINE="1", PYTHONDONTWRITEBYTECODE="1")
        start = time.perf_counter()
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
        clock = threading.Timer(timeout, process.kill)
        sampler = threading.Thread(target=sample, daemon=True)
        clock.start()
        if before is not None:
            sampler.start()
        try:
            for line in process.stdout:
                self.lines.append((time.perf_counter() - start, line.decode(errors="replace").rstrip("\n")))
                if on_line:
                    on_line(self.lines[-1][1])
            self.code = process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            clock.cancel()
            over.set()
        self.seconds = time.perf_counter() - start
        if before is not None:
            sampler.join()
            self.peak_mib = (peak[0] - before) / MIB

    def error(self):
        """Returns in one line why the process failed, or None."""
        if self.code == 0:
            return None
        said = [text for _, text in self.lines if text.strip()]
        errors = [text for text in said if text.startswith("plimsoll: ") or "Error" in text]
        return f"exit {self.code} after {self.seconds:.0f} s: " + (errors or said or ["no output"])[-1][:300]

    def json_line(self):
        return json.loads([text for _, text in self.lines if text.startswith("{")][-1])


def settle(gauge):
    """Returns the memory that other programs use, after the last process has released its own."""
    used = gauge.used()
    for _ in range(50):
        time.sleep(0 if used is None else 0.1)
        again = gauge.used()
        if again == used:
            return again
        used = again
    return used
