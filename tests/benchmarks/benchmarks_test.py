#!/usr/bin/env python3
"""Tests that benchmarks do not compare runs that used another device, number of threads, data type or program than the benchmark states.
Needs neither a GPU nor a Python package.

    tests/benchmarks/benchmarks_test.py      # called by ctest

The scripts of bench/ run simulated programs (simulated.py), which report the device, threads and types that a test prescribes.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/gpu"), str(pathlib.Path(__file__).resolve().parent)]
sys.dont_write_bytecode = True
import devices  # noqa: E402
import simulated  # noqa: E402

# If one of these environment variables were inherited from the user's shell, it would silently change the speed of one or both compared
# programs.
CHANGING = dict(OMP_NUM_THREADS="7", OMP_THREAD_LIMIT="1", OMP_DYNAMIC="true", MKL_NUM_THREADS="7", DNNL_MAX_CPU_ISA="AVX2",
                ONEDNN_DEFAULT_FPMATH_MODE="BF16", ATEN_CPU_CAPABILITY="default", NVIDIA_TF32_OVERRIDE="1", TORCH_ALLOW_TF32_CUBLAS_OVERRIDE="1",
                ACCELERATE_MIXED_PRECISION="bf16", RANK="0", WORLD_SIZE="2", LOCAL_RANK="0", SLURM_NTASKS="2", OMPI_COMM_WORLD_SIZE="2",
                RAYON_NUM_THREADS="1", JAX_PLATFORMS="cuda", XLA_FLAGS="--x", PYTORCH_CUDA_ALLOC_CONF="x:y")
SET_BY_SCRIPTS = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"}


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.simulation = simulated.Simulation(self.folder)

    def run_script(self, script, *words, **said):
        done = subprocess.run([sys.executable, "-B", str(ROOT / script), *words], capture_output=True, text=True, cwd=self.folder,
                              env=self.simulation.environment(**said))
        return done.returncode, done.stdout + done.stderr

    def compare_on_cpu(self, *words, path=None, case="mini_fp32", threads=1, **said):
        return self.run_script("bench/cpu/compare.py", path or self.simulation.program, self.folder, "--pairs", "1", "--threads", str(threads),
                               "--python", self.simulation.peer, "--cases", case, *words, **said)

    def test_the_gpu_comparison_checks_itself(self):
        code, output = self.run_script("bench/gpu/compare.py", "--self_check")
        self.assertEqual((code, output.strip()), (0, "self check passed"))

    def assert_clean(self, side, threads):
        environments = self.simulation.environments(side)
        self.assertTrue(environments, side)
        for environment in environments:
            self.assertEqual(environment["CUDA_VISIBLE_DEVICES"], "", side)
            for name in CHANGING:
                self.assertEqual(environment.get(name), str(threads) if name in SET_BY_SCRIPTS and threads else None, f"{side}: {name}")

    def test_both_sides_get_one_environment(self):
        code, output = self.compare_on_cpu(CUDA_VISIBLE_DEVICES="0", **CHANGING)
        self.assertEqual(code, 0, output)
        self.assertIn("2.00x", output)
        self.assertIn("OMP_NUM_THREADS=7", output)  # the output must name the variables that were removed from the environment
        self.assert_clean("program", 1)
        self.assert_clean("peer", 1)

    def test_the_device_and_the_program_are_printed(self):
        code, output = self.compare_on_cpu()
        self.assertEqual(code, 0, output)
        self.assertIn("ours on cpu: Simulated, 1 thread; peer on cpu: 1 thread", output)
        self.assertRegex(output, r"program /.*/plimsoll: plimsoll 0\.0\.0, of \d{4}-\d\d-\d\d \d\d:\d\d, sha256 [0-9a-f]{12}")

    def test_a_side_on_a_gpu_is_not_compared(self):
        for said in (dict(program="cuda:0: NVIDIA H100"), dict(peer="cuda:0: NVIDIA H100")):
            code, output = self.compare_on_cpu(**said)
            self.assertEqual(code, 1, output)
            self.assertIn("not compared", output, said)
            self.assertIn("ran on cuda:0: NVIDIA H100, cpu was requested", output)
            self.assertNotIn("2.00x", output)

    def test_a_side_with_other_threads_is_not_compared(self):
        for said in (dict(program="cpu: Simulated, 2 threads"), dict(peer="cpu: 8 threads"), dict(peer="cpu")):
            code, output = self.compare_on_cpu(**said)
            self.assertEqual(code, 1, output)
            self.assertIn("not compared", output, said)
            self.assertIn("1 thread was requested", output)
            self.assertNotIn("2.00x", output)

    def test_more_threads_than_processors_are_refused(self):
        many = devices.available_threads() + 1
        code, output = self.compare_on_cpu(threads=many)
        self.assertNotEqual(code, 0)
        self.assertIn(f"this process may use {many - 1} processors", output)

    def test_a_peer_with_another_data_type_is_not_compared(self):
        for case, precision in (("mini_fp32", "bf16"), ("mini_fp32", "tf32"), ("mini_bf16", "fp32"), ("mini_bf16", "fp16")):
            code, output = self.compare_on_cpu(case=case, precision=precision)
            self.assertIn(f"multiplied in {precision}", output)
            self.assertNotIn("2.00x", output)

    def test_a_program_in_path_is_named_with_its_folder(self):
        code, output = self.compare_on_cpu(path="plimsoll", PATH=os.pathsep.join([self.folder, os.environ["PATH"]]))
        self.assertEqual(code, 0, output)
        self.assertIn(f"program {self.folder}/plimsoll: ", output)
        code, output = self.compare_on_cpu(path="no-such-plimsoll")
        self.assertIn("no-such-plimsoll: there is no such program", output)

    def test_steps_with_states_on_a_disk_run_on_the_cpu(self):
        words = ["bench/cpu/disk_states.py", self.simulation.program, self.folder, "--pairs", "1", "--threads", "1"]
        if devices.file_system_of(self.folder).startswith("tmpfs"):
            code, output = self.run_script(*words)
            self.assertIn("which is in memory", output)
            return
        code, output = self.run_script(*words, CUDA_VISIBLE_DEVICES="0", **CHANGING)
        self.assertEqual(code, 0, output)
        self.assertIn("device cpu: Simulated, 1 thread", output)
        self.assertIn(f"disk of {self.folder}: ", output)
        self.assert_clean("program", 0)
        for used in ("cuda:0: NVIDIA H100", "cpu: Simulated, 2 threads"):
            code, output = self.run_script(*words, program=used)
            self.assertNotEqual(code, 0, used)
            self.assertIn(f"ran on {used}", output)

    def test_checkpoints_are_written_from_the_cpu(self):
        words = ["bench/cpu/checkpoint_rate.py", "--binary", self.simulation.program, "--ranks", "1", "--folder", os.path.join(self.folder, "saves")]
        code, output = self.run_script(*words, program="cuda:0: NVIDIA H100")
        self.assertNotEqual(code, 0)
        if not devices.file_system_of(self.folder).startswith("tmpfs"):
            self.assertIn("ran on cuda:0: NVIDIA H100, cpu was requested", output)

    @unittest.skipUnless(devices.file_system_of("/dev/shm").startswith("tmpfs"), "/dev/shm is not in memory")
    def test_a_folder_in_memory_is_no_disk(self):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            code, output = self.run_script("bench/cpu/disk_states.py", self.simulation.program, folder, "--threads", "1")
            self.assertNotEqual(code, 0)
            self.assertIn("tmpfs", output)

    def builds(self):
        """Returns the paths of two simulated builds of the program, whose speeds a benchmark compares by running them alternately."""
        return [self.simulation.program, simulated.write_program(os.path.join(self.folder, "new"), simulated.PROGRAM + "# another build\n")]

    def test_two_builds_on_different_devices_are_not_compared(self):
        old, new = self.builds()
        for used in ("cpu: Simulated, 2 threads, AVX2;cpu: Simulated, 2 threads, AVX-512", "cpu: S, 1 thread;cpu: S, 2 threads", "cuda:0: NVIDIA H100"):
            code, output = self.run_script("scripts/compare_builds.py", "speed", old, new, "--pairs", "1", program=used)
            self.assertEqual(code, 1, output)
            self.assertIn("failed", output)
        code, output = self.run_script("scripts/compare_builds.py", "speed", old, new, "--pairs", "1")
        self.assertEqual(code, 0, output)
        self.assertIn("device cpu: Simulated, 1 thread", output)
        code, output = self.run_script("scripts/compare_builds.py", "speed", old, old)
        self.assertIn("OLD and NEW are the same file", output)


class Devices(unittest.TestCase):
    def test_self_checks(self):
        devices.self_check()
        done = subprocess.run([sys.executable, "-B", str(ROOT / "bench/gpu/compare.py"), "--self_check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_hidden_gpus_are_refused(self):
        # Each of these values of CUDA_VISIBLE_DEVICES hides the requested GPU. CUDA ignores what follows an invalid entry such as -1.
        for visible, device in (("", "cuda:0"), ("-1", "cuda:0"), ("NoDevFiles", "cuda:0"), ("0,-1,1", "cuda:1"), ("3", "cuda:1")):
            with self.assertRaises(SystemExit, msg=visible):
                devices.environment_for(device, {"CUDA_VISIBLE_DEVICES": visible})
        self.assertEqual(devices.environment_for("cuda:1", {"CUDA_VISIBLE_DEVICES": "0, 5"})["CUDA_VISIBLE_DEVICES"], "5")
        self.assertEqual(devices.environment_for("cuda:0", {"CUDA_VISIBLE_DEVICES": "MIG-1a"})["CUDA_VISIBLE_DEVICES"], "MIG-1a")

    def test_the_gauges_of_many_are_those_of_the_visible_gpus(self):
        import many
        asked = []
        pynvml = types.SimpleNamespace(nvmlInit=lambda: None, nvmlDeviceGetHandleByIndex=asked.append, nvmlDeviceGetHandleByUUID=asked.append)
        with mock.patch.dict(sys.modules, pynvml=pynvml):
            with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="2,GPU-7"):
                many.Gauges(2)
                with self.assertRaises(SystemExit):
                    many.Gauges(3)
            self.assertEqual(asked, [2, "GPU-7"])
            with mock.patch.dict(os.environ, **CHANGING):
                environment = many.environment_of_runs()
        self.assertEqual(set(CHANGING) & set(environment), set())
        self.assertEqual(environment["CUDA_DEVICE_ORDER"], "PCI_BUS_ID")

    def test_the_type_of_a_product_follows_from_its_error(self):
        # The largest errors of products of 256 x 256 matrices with elements in [-0.5, 0.5], computed with rounded operands.
        self.assertEqual([devices.precision_of_error(error) for error in (7e-7, 2.4e-4, 1.9e-3)], ["fp32", "tf32", "bf16"])
        self.assertIsNone(devices.wrong_precision("tf32x3", "fp32"))
        self.assertIsNotNone(devices.wrong_precision("fp32", "tf32"))

    def test_the_file_system_is_that_of_the_folder(self):
        self.assertTrue(devices.file_system_of("/proc").startswith("proc"))


class ExperimentsPeer(unittest.TestCase):
    def test_a_row_without_an_equal_peer_is_refused(self):
        import experiments_peer as peer
        for words in (["--fp8"], ["--nproc_per_node", "2"], ["--pp_size", "2"], ["--problem_type", "causal_lm"], ["--offload_optimizer"]):
            with self.assertRaises(SystemExit, msg=words):
                peer.refuse_what_has_no_peer(peer.options_of(words))
        peer.refuse_what_has_no_peer(peer.options_of(["--bf16", "--nproc_per_node", "1", "--tf32", "True"]))

    def test_the_type_and_the_device_are_those_of_the_row(self):
        import experiments_peer as peer
        for words, wanted in ((["--bf16"], "bf16"), (["--fp16", "True"], "fp16"), (["--tf32", "True"], "tf32"), (["--matmul_precision", "tf32"], "tf32"),
                              (["--matmul_precision", "tf32x3"], "fp32"), ([], "fp32")):
            self.assertEqual(peer.wanted_precision(peer.options_of(words)), wanted)
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "peer.json")
            self.assertEqual(peer.device_of_row(out), (None, 0))
            for gpu, expected in ((None, ("cpu", 2)), ({"name": "h100"}, ("cuda", 2))):
                with open(os.path.join(folder, "plan.json"), "w", encoding="utf-8") as file:
                    json.dump(dict(request=dict(gpu=gpu, num_threads=2)), file)
                self.assertEqual(peer.device_of_row(out), expected)


if __name__ == "__main__":
    unittest.main()
