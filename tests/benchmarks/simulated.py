"""Makes two simulated programs for tests of benchmarks: one replaces Plimsoll's program, the other one the Python interpreter that runs
Hugging Face's Trainer, with which Plimsoll is compared.

Each writes its environment variables to a file, and reports that it used the device, the number of threads and the data type that the
variable SIMULATED (JSON) states.
"""
import json
import os
import stat

PROGRAM = '''#!/usr/bin/env python3
import json, os, sys
words, said = sys.argv[1:], json.loads(os.environ["SIMULATED"])
if words == ["--version"]:
    print("plimsoll 0.0.0")
    sys.exit(0)
with open(said["seen"] + ".program", "a") as file:
    file.write(json.dumps(dict(os.environ)) + "\\n")
def value(name, other=""):
    return words[words.index(name) + 1] if name in words else other
if words[0] == "bench":
    print("disk\\n  2.0 GB/s")
    sys.exit(0)
if words[0] == "plan":
    print(json.dumps(dict(spaces=[dict(name="disk", ms_per_step=1.0, gb_per_s=2.0)])))
    sys.exit(0)
devices = said["program"].split(";")
turn = len(open(said["seen"] + ".program").read().splitlines()) - 1
print("device " + devices[turn % len(devices)], file=sys.stderr)
out = value("--output_dir")
os.makedirs(out, exist_ok=True)
def write(name, content):
    with open(os.path.join(out, name), "w") as file:
        file.write(content)
write("train_results.json", json.dumps(dict(train_samples_per_second=10.0, train_steps_per_second=5.0, train_loss=1.386)))
write("memory.json", json.dumps(dict(measured_peak_bytes=2**20, predicted_total_bytes=2**20, arena_bytes=1, arena_high_water_bytes=1)))
write("log.jsonl", "\\n".join(json.dumps(dict(step=s, loss=1.386, tokens_per_second=100.0)) for s in (1, 2)))
for step in (1, 2, 3):
    folder = os.path.join(out, f"checkpoint-{step}")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model"), "wb") as file:
        file.write(bytes(1 << 16))
'''
PEER = '''#!/usr/bin/env python3
import json, os
said = json.loads(os.environ["SIMULATED"])
with open(said["seen"] + ".peer", "a") as file:
    file.write(json.dumps(dict(os.environ)) + "\\n")
print(json.dumps(dict(device=said["peer"], precision=said["precision"], samples_per_s=5.0, loss=1.386, peak_mib=2.0)))
'''


def write_program(path, text):
    """Writes an executable file and returns its path."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


class Simulation:
    """Creates the two simulated programs in a folder. environment() selects what the programs report."""

    def __init__(self, folder):
        self.folder, self.seen = folder, os.path.join(folder, "seen")
        self.program = write_program(os.path.join(folder, "plimsoll"), PROGRAM)
        self.peer = write_program(os.path.join(folder, "python"), PEER)
        with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
            file.write("\n".join(a + b + "at" for a in "bcdfghklmnprst" for b in "aeiou"))

    def environment(self, program="cpu: Simulated, 1 thread", peer="cpu: 1 thread", precision="fp32", **more):
        said = dict(seen=self.seen, program=program, peer=peer, precision=precision)
        return dict(os.environ, SIMULATED=json.dumps(said), **more)

    def environments(self, side):
        """Returns the environments of all processes so far that ran one program: Plimsoll's ("program") or Trainer's ("peer")."""
        path = f"{self.seen}.{side}"
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
