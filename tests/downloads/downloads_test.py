#!/usr/bin/env python3
"""Tests `plimsoll download`, and runs that name a model of the hub. The hub is simulated on the loopback interface (hub_server.py).

    tests/downloads/downloads_test.py PROGRAM      # called by ctest

The comparison with huggingface_hub runs if that package can be imported, by this Python or by the one that PLIMSOLL_HUB_PYTHON names.
"""
import base64
import fcntl
import hashlib
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from hub_server import Hub, git_hash  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = sys.argv.pop(1)
MODELS = ROOT / "tests/parity/models"
SOON = {"Retry-After": "0"}
ALL = ("config.json", "model.safetensors", "vocab.txt")


def hub_python():
    for python in (os.environ.get("PLIMSOLL_HUB_PYTHON"), sys.executable, "python3"):
        if python and shutil.which(python):
            done = subprocess.run([python, "-c", "import huggingface_hub"], capture_output=True)
            if done.returncode == 0:
                return python
    return None


class Downloads(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.home = self.folder / "hf"
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        generator = random.Random(1)
        self.files = {"config.json": b'{"model_type": "bert"}\n', "model.safetensors": generator.randbytes(300_000),
                      "vocab.txt": b"[PAD]\n[UNK]\nsch\xc3\xb6n\n", "pytorch_model.bin": b"pickle", "README.md": b"", "onnx/a b.onnx": b"graph"}
        self.commit = self.hub.add("org/name", self.files, refs=("main", "v1", "refs/pr/1"))

    def environment(self, **more):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING", "TRANSFORMERS_")) and
                not name.lower().endswith("_proxy") and name not in ("XDG_CACHE_HOME", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")}
        kept.update(HF_HOME=str(self.home), HF_ENDPOINT=self.hub.endpoint, CUDA_VISIBLE_DEVICES="", **more)
        return kept

    def start(self, *words, before=None, **more):
        return subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment(**more),
                                cwd=self.folder, preexec_fn=before)

    def run_program(self, *words, code=0, **more):
        process = self.start(*words, **more)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, code, out + err)
        return out, err

    def repository(self, name="models--org--name"):
        return self.home / "hub" / name

    def snapshot(self, path="", commit=None):
        return self.repository() / "snapshots" / (commit or self.commit) / path

    def blobs(self):
        folder = self.repository() / "blobs"
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []

    def assert_blobs_are_right(self):
        """Checks that the name of every completely downloaded file (blob) of the cache is the hash of its content."""
        for name in self.blobs():
            if name.endswith(".incomplete"):
                continue
            content = (self.repository() / "blobs" / name).read_bytes()
            self.assertIn(name, (hashlib.sha256(content).hexdigest(), git_hash(content)))

    def assert_complete(self, paths=ALL):
        for path in paths:
            self.assertEqual(self.snapshot(path).read_bytes(), self.files[path], path)
        self.assertEqual((self.repository() / "refs/main").read_text(), self.commit)
        self.assertFalse([name for name in self.blobs() if name.endswith(".incomplete")])
        self.assert_blobs_are_right()

    # --- which files are downloaded

    def test_default_files_and_layout(self):
        out, err = self.run_program("download", "org/name")
        self.assert_complete()
        self.assertEqual(out.splitlines()[-1], str(self.snapshot()).rstrip("/"))
        self.assertIn("3 files, 293.0 KiB; to download: 3 files", out)
        self.assertEqual(sorted(path.name for path in self.snapshot().iterdir()), sorted(ALL))
        self.assertEqual(os.readlink(self.snapshot("vocab.txt")), "../../blobs/" + git_hash(self.files["vocab.txt"]))
        # If all files are in the cache, a second download makes only one request: it asks which commit the revision is.
        before = len(self.hub.requests)
        out, err = self.run_program("download", "org/name", "--quiet")
        self.assertEqual(out, str(self.snapshot()).rstrip("/") + "\n")
        self.assertEqual(len(self.hub.requests), before + 1)

    def test_dry_run_writes_nothing(self):
        out, err = self.run_program("download", "org/name", "--dry_run")
        self.assertIn("free on the disk", out)
        self.assertFalse(self.home.exists())
        out, err = self.run_program("download", "org/name", "--dry_run", "--json")
        plan = json.loads(out)
        self.assertEqual((plan["commit"], plan["missing_bytes"]), (self.commit, sum(len(self.files[path]) for path in ALL)))

    def test_patterns_files_revisions_and_data_sets(self):
        self.run_program("download", "org/name@v1", "onnx/a b.onnx")
        self.assertEqual(self.snapshot("onnx/a b.onnx").read_bytes(), b"graph")
        self.assertEqual((self.repository() / "refs/v1").read_text(), self.commit)
        self.run_program("download", "org/name", "--revision", "refs/pr/1", "--include", "*.bin", "--include", "README*", "--exclude", "x*")
        self.assertEqual(self.snapshot("pytorch_model.bin").read_bytes(), b"pickle")
        self.assertEqual((self.repository() / "refs/refs/pr/1").read_text(), self.commit)
        self.run_program("download", "org/name", "--revision", self.commit, "--cache_dir", str(self.folder / "other"))
        self.assertTrue((self.folder / "other/models--org--name/snapshots" / self.commit / "config.json").exists())
        self.hub.add("texts", {"data/train.csv": b"sentence,label\na,1\n", "README.md": b"#"}, kind="datasets")
        out, err = self.run_program("download", "texts", "--repo_type", "dataset", "--quiet")
        self.assertEqual((pathlib.Path(out.strip()) / "data/train.csv").read_bytes(), b"sentence,label\na,1\n")
        self.assertTrue(self.repository("datasets--texts").exists())

    def test_a_new_commit_keeps_the_old_one(self):
        self.run_program("download", "org/name")
        old = self.commit
        self.files["config.json"] = b'{"model_type": "bert", "x": 1}\n'
        self.commit = self.hub.add("org/name", self.files)
        self.run_program("download", "org/name")
        self.assert_complete()
        # The weights did not change between the revisions, so they are downloaded once.
        self.assertEqual(self.hub.count("storage", "/stored/"), 1)
        self.assertTrue(self.snapshot("config.json", old).exists())

    def test_pages_of_a_long_list(self):
        self.hub.page_size = 2
        self.run_program("download", "org/name")
        self.assert_complete()

    # --- interruptions

    def test_cuts_are_continued(self):
        for size in (0, 1, 100_000, 299_999):
            shutil.rmtree(self.home, ignore_errors=True)
            self.hub.requests.clear()
            self.hub.fail("storage", "/stored/", cut=size, times=1, headers=SOON)
            self.run_program("download", "org/name")
            self.assert_complete()
            ranges = [r.headers.get("Range") for r in self.hub.requests if r.place == "storage"]
            self.assertEqual(ranges[:1], [None])
            if size:
                self.assertEqual(ranges, [None, f"bytes={size}-"])

    def test_a_server_without_ranges_starts_again(self):
        self.hub.fail("storage", "/stored/", cut=1000, headers=SOON)
        self.hub.fail("storage", "/stored/", ignores_range=True)
        self.run_program("download", "org/name")
        self.assert_complete()

    def wait_for_bytes(self, size):
        deadline = time.time() + 20
        while time.time() < deadline:
            if any(name.endswith(".incomplete") and (self.repository() / "blobs" / name).stat().st_size == size for name in self.blobs()):
                return
            time.sleep(0.02)
        self.fail("the bytes did not arrive")

    def test_signals_keep_the_bytes(self):
        for number, (sent, code) in enumerate(((signal.SIGINT, 6), (signal.SIGTERM, 6), (signal.SIGKILL, -signal.SIGKILL))):
            size = 50_000 * (number + 1)
            self.hub.fail("storage", "/stored/", stall=50_000)
            process = self.start("download", "org/name")
            self.wait_for_bytes(size)
            process.send_signal(sent)
            out, err = process.communicate(timeout=20)
            self.assertEqual(process.returncode, code, err)
            if code == 6:
                self.assertIn("run the command again to continue", err)
        self.run_program("download", "org/name")
        self.assert_complete()
        stored = [r for r in self.hub.requests if r.place == "storage"]
        self.assertEqual(stored[-1].headers["Range"], "bytes=150000-")

    def test_a_stalled_server_is_an_error(self):
        self.hub.fail("storage", "/stored/", stall=50_000, times=1, seconds=3, headers=SOON)
        self.run_program("download", "org/name", HF_HUB_DOWNLOAD_TIMEOUT="1")
        self.assert_complete()

    def test_two_processes_share_the_work(self):
        self.hub.fail("storage", "/stored/", stall=100, seconds=0.5, headers=SOON)
        first, second = self.start("download", "org/name"), self.start("download", "org/name")
        for process in (first, second):
            out, err = process.communicate(timeout=30)
            self.assertEqual(process.returncode, 0, out + err)
        self.assert_complete()
        sent = [r for r in self.hub.requests if r.place == "storage"]
        self.assertEqual([r.headers.get("Range") for r in sent], [None, "bytes=100-"])

    def test_locks_of_other_tools_count(self):
        folder = self.home / "hub/.locks/models--org--name"
        folder.mkdir(parents=True)
        with open(folder / (git_hash(self.files["config.json"]) + ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # huggingface_hub locks its files in the same way (package filelock)
            process = self.start("download", "org/name")
            self.assertIn("another process downloads config.json", process.stderr.readline())
        out, err = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 0, out + err)
        self.assert_complete()

    # --- wrong answers from the hub

    def test_wrong_bytes_are_removed(self):
        self.hub.fail("storage", "/stored/", content=b"x" * 300_000)
        out, err = self.run_program("download", "org/name", code=4)
        self.assertIn("but the hub lists", err)
        self.assertFalse([name for name in self.blobs() if len(name) > 60])
        self.run_program("download", "org/name")
        self.assert_complete()

    def test_wrong_lengths(self):
        for error in (-1000, 1000):
            shutil.rmtree(self.home, ignore_errors=True)
            self.hub.fail("storage", "/stored/", length_error=error, headers=SOON)
            self.run_program("download", "org/name")
            self.assert_complete()
        shutil.rmtree(self.home)
        self.hub.fail("storage", "/stored/", content=b"x" * 10, times=9, headers=SOON)
        out, err = self.run_program("download", "org/name", code=7)
        self.assertIn("states a size of 10 bytes, but the hub lists 300000 bytes", err)
        self.assert_blobs_are_right()

    def test_a_changed_tag(self):
        self.hub.fail("storage", "/stored/", cut=1000, headers=SOON)
        self.hub.fail("hub", "model.safetensors", times=0, etag="x")
        changed = self.hub.faults[-1]
        original = self.hub.storage_file

        def change(path):
            changed.times = 1
            return original(path)

        self.hub.storage_file = change
        out, err = self.run_program("download", "org/name", code=4)
        self.assertIn("changed on 127.0.0.1", err)
        self.assertFalse([name for name in self.blobs() if len(name) > 60])

    # --- refusals

    def test_refusals(self):
        for words, fault, code, said in (
                (("org/absent",), None, 4, "has no model 'org/absent', or it is private"),
                (("org/name@absent",), None, 4, "has no revision 'absent'"),
                (("org/name", "absent.txt"), None, 4, "has no file 'absent.txt'"),
                (("org/name", "--include", "*.absent"), None, 4, "none of them matches the patterns"),
                (("org/name",), dict(status=403, code="GatedRepo"), 4, "accept its conditions"),
                (("org/name",), dict(status=401), 4, "give a token in HF_TOKEN"),
                (("org/name",), dict(status=503, times=5, headers=SOON), 7, "answered with status 503"),
                (("a/b/c",), None, 2, "is not a name on the Hugging Face hub"),
                (("org/name@v1", "--revision", "v2"), None, 2, "both choose a revision"),
                ((), None, 2, "usage: plimsoll download")):
            if fault:
                self.hub.fail("hub", "/api/", **fault)
            out, err = self.run_program("download", *words, code=code)
            self.assertIn(said, out + err)
        for status in (429, 500, 502, 504):
            self.hub.fail("hub", "/api/", status=status, headers=SOON)
            self.hub.fail("storage", "/stored/", status=status, headers=SOON)
        self.run_program("download", "org/name")
        self.assert_complete()

    def test_token_goes_only_to_the_hub(self):
        (self.home).mkdir()
        (self.home / "token").write_text("hf_saved\n")
        self.run_program("download", "org/name")
        self.run_program("download", "org/name", "onnx/a b.onnx", "pytorch_model.bin", HF_TOKEN="hf_given")
        places = {(r.place, r.headers.get("Authorization")) for r in self.hub.requests}
        self.assertEqual(places, {("hub", "Bearer hf_saved"), ("hub", "Bearer hf_given"), ("storage", None)})

    def test_a_name_and_password_in_the_address_are_not_shown(self):
        address = self.hub.endpoint.replace("://", "://me:se%40cret@")
        done = subprocess.run([PROGRAM, "download", "org/name", "--json"], capture_output=True, text=True, timeout=30,
                              env={**self.environment(HF_TOKEN="hf_given"), "HF_ENDPOINT": address})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assert_complete()
        places = {(r.place, r.headers.get("Authorization")) for r in self.hub.requests}
        self.assertEqual(places, {("hub", "Basic " + base64.b64encode(b"me:se@cret").decode()), ("storage", None)})
        self.hub.fail("hub", "/api/", times=100, status=403)
        refused = subprocess.run([PROGRAM, "download", "org/name"], capture_output=True, text=True, timeout=30,
                                 env={**self.environment(), "HF_ENDPOINT": address})
        self.assertEqual(refused.returncode, 4)
        proxied = subprocess.run([PROGRAM, "download", "org/name"], capture_output=True, text=True, timeout=30,
                                 env={**self.environment(), "http_proxy": "unknown://me:se%40cret@proxy"})
        self.assertEqual(proxied.returncode, 7)
        for text in (done.stdout, done.stderr, refused.stderr, proxied.stderr):
            self.assertNotIn("cret", text)

    def test_a_damaged_rest_is_replaced_in_the_same_run(self):
        sha = hashlib.sha256(self.files["model.safetensors"]).hexdigest()
        (self.repository() / "blobs").mkdir(parents=True)
        (self.repository() / "blobs" / (sha + ".incomplete")).write_bytes(bytes(300_000))
        self.run_program("download", "org/name")
        self.assert_complete()
        self.assertEqual(self.hub.count("storage", "/stored/"), 1)

    def test_a_full_disk(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        process = self.start("download", "org/name", before=limit)
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 7, err)
        self.assertIn("cannot write", err)
        self.assert_blobs_are_right()
        self.run_program("download", "org/name")
        self.assert_complete()

    def test_no_network(self):
        for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            out, err = self.run_program("download", "org/name", code=7, **{variable: "1"})
            self.assertIn(f"because {variable}=1 forbids it", err)
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
            begin = time.time()
            done = subprocess.run([PROGRAM, "download", "org/name"], capture_output=True, text=True, timeout=30,
                                  env={**self.environment(), "HF_ENDPOINT": endpoint})
        self.assertEqual(done.returncode, 7)
        self.assertIn("cannot be reached", done.stderr)
        self.assertLess(time.time() - begin, 5)

    def test_a_proxy(self):
        done = subprocess.run([PROGRAM, "download", "org/name", "config.json"], capture_output=True, text=True, timeout=30,
                              env={**self.environment(), "HF_ENDPOINT": "http://hub.invalid", "http_proxy": self.hub.endpoint})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(all(r.path.startswith("http://hub.invalid/") for r in self.hub.requests))

    @unittest.skipUnless(shutil.which("openssl"), "needs the program openssl to make a certificate")
    def test_certificates(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key.pem",
                        "-out", "ca.pem", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,IP:127.0.0.2"],
                       cwd=self.folder, check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "ca.pem", self.folder / "key.pem")
        self.hub.close()
        self.hub = Hub(context=context)
        self.commit = self.hub.add("org/name", self.files)
        out, err = self.run_program("download", "org/name", code=7)
        self.assertIn("certificate", err)
        for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
            self.run_program("download", "org/name", **{variable: str(self.folder / "ca.pem")})
        self.assert_complete()
        # CA certificates can also be in a folder, in files named by the hash that `openssl rehash` would use.
        name = subprocess.run(["openssl", "x509", "-hash", "-noout", "-in", "ca.pem"], cwd=self.folder, check=True, capture_output=True, text=True)
        (self.folder / "certificates").mkdir()
        shutil.copy(self.folder / "ca.pem", self.folder / "certificates" / (name.stdout.strip() + ".0"))
        for variable in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_DIR"):
            self.run_program("download", "org/name", "README.md", **{variable: str(self.folder / "certificates")})

    # --- hub names in runs

    def add_model(self, name, folder):
        files = {path.name: path.read_bytes() for path in (MODELS / folder).iterdir()}
        self.hub.add(name, files)
        return files

    def test_runs_download_what_they_need(self):
        self.add_model("org/tiny", "bert")
        out, err = self.run_program("plan", "--model_name_or_path", "org/tiny")
        self.assertIn("downloading org/tiny from", err)
        self.assertEqual(self.hub.count("storage", "/stored/"), 0)  # making a plan must not download the weights
        (self.folder / "t.csv").write_text("sentence\ngood\nbad\n")
        words = ("predict", "--model_name_or_path", "org/tiny", "--test_file", "t.csv", "--use_cpu", "--output_dir", "out")
        out, err = self.run_program(*words)
        self.assertEqual(self.hub.count("storage", "/stored/"), 1)
        before = len(self.hub.requests)
        out, err = self.run_program(*words)
        self.assertEqual(len(self.hub.requests), before)  # with a complete cache the run must not use the network
        self.assertNotIn("downloading", err)

    def test_an_adapter_names_its_base(self):
        self.add_model("org/tiny", "bert")
        folder = ROOT / "tests/parity/adapters/query_value"
        config = json.loads((folder / "adapter_config.json").read_text()) | {"base_model_name_or_path": "org/tiny"}
        self.hub.add("org/adapter", {"adapter_config.json": json.dumps(config).encode(),
                                     "adapter_model.safetensors": (folder / "adapter_model.safetensors").read_bytes()})
        (self.folder / "t.csv").write_text("sentence\ngood\n")
        out, err = self.run_program("predict", "--model_name_or_path", "org/adapter", "--test_file", "t.csv", "--use_cpu", "--output_dir", "out")
        self.assertIn("downloading org/adapter from", err)
        self.assertIn("downloading org/tiny from", err)
        shutil.rmtree(self.home)
        self.run_program("merge", "--adapter", "org/adapter", "--output_dir", "merged")
        self.assertEqual(self.hub.count("storage", "/stored/"), 4)

    def test_tokenizers_and_fits(self):
        self.add_model("org/tiny", "bert")
        (self.folder / "text").write_text("good\n")
        out, err = self.run_program("tokenize", "--tokenizer_name", "org/tiny", "text")
        self.assertIn("downloading org/tiny from", err)
        out, err = self.run_program("fit", "--memory", "1GiB", "--device", "cpu", "--config_name", "org/tiny")
        self.assertNotIn("downloading", err)
        self.assertEqual(self.hub.count("storage", "/stored/"), 0)

    def test_the_ranks_of_a_run_download_once(self):
        self.add_model("org/tiny", "bert")
        (self.folder / "t.csv").write_text("sentence,label\n" + "good,0\nbad,1\nodd,2\n" * 4)
        self.run_program("train", "--model_name_or_path", "org/tiny", "--train_file", "t.csv", "--use_cpu", "--nproc_per_node", "2", "--num_threads",
                         "1", "--max_steps", "1", "--output_dir", "out")
        self.assertEqual(self.hub.count("storage", "/stored/"), 1)

    def test_runs_without_network_say_what_is_missing(self):
        words = ("plan", "--model_name_or_path", "org/absent")
        out, err = self.run_program(*words, code=4)
        self.assertIn("is neither a folder nor in Hugging Face's cache", err)
        self.assertIn("its download failed: 127.0.0.1", err)
        self.hub.fail("hub", "/api/", status=503, times=5, headers=SOON)
        out, err = self.run_program(*words, code=4)
        self.assertIn("warning: 'org/absent' is not downloaded: 127.0.0.1", err)
        self.assertIn("plimsoll download org/absent", err)
        for more in ({"HF_HUB_OFFLINE": "1"}, {}):
            before = len(self.hub.requests)
            out, err = self.run_program(*words, *(() if more else ("--local_files_only",)), code=4, **more)
            self.assertIn("plimsoll download org/absent", err)
            self.assertEqual(len(self.hub.requests), before)

    # --- together with huggingface_hub

    def tree(self, folder):
        """Returns the links and the hashes of the files below a folder by path. Contents that name the program that wrote them are left
        out: those of lock files, and all but the first line of CACHEDIR.TAG."""
        result = {}
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if path.name == "CACHEDIR.TAG":
                result[name] = path.read_text().splitlines()[0]
            elif path.is_symlink():
                result[name] = "-> " + os.readlink(path)
            elif path.is_file():
                result[name] = "" if path.suffix == ".lock" else hashlib.sha256(path.read_bytes()).hexdigest()
        return result

    def run_hub(self, code, home, **more):
        done = subprocess.run([self.python, "-c", "import os, sys\nfrom huggingface_hub import *\n" + code], capture_output=True, text=True, timeout=60,
                              env={**self.environment(HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_XET="1", **more), "HF_HOME": str(home)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_huggingface_hub_fills_the_same_tree(self):
        self.python = hub_python()
        if not self.python:
            self.skipTest("needs the Python package huggingface_hub")
        theirs = self.folder / "theirs"
        patterns = "['config.json', 'vocab.txt', '*.safetensors', 'onnx/*']"
        code = f"print(snapshot_download('org/name', revision='v1', allow_patterns={patterns}))"
        self.run_hub(code, theirs)
        self.run_program("download", "org/name@v1", "--include", "config.json", "--include", "vocab.txt", "--include", "*.safetensors",
                         "--include", "onnx/*")
        self.assertEqual(self.tree(self.home / "hub"), self.tree(theirs / "hub"))
        # Plimsoll and huggingface_hub must each find the files that the other one downloaded, without downloading them again.
        before = len(self.hub.requests)
        found = self.run_hub(code, self.home, HF_HUB_OFFLINE="1")
        self.assertEqual(found, str(self.snapshot()).rstrip("/"))
        self.home = theirs
        out, err = self.run_program("download", "org/name@v1", "vocab.txt", "config.json", "model.safetensors", "--quiet")
        self.assertEqual(out.strip(), str(self.snapshot()).rstrip("/"))
        self.assertEqual([r.path for r in self.hub.requests[before:]], ["/api/models/org/name/revision/v1"])
        # Plimsoll also records that a file does not exist on the hub, and huggingface_hub must understand this record.
        self.home = self.folder / "hf"
        self.run_program("download", "org/name@v1", "absent.json", code=4)
        self.assertEqual(self.run_hub("print(try_to_load_from_cache('org/name', 'absent.json', revision='v1') is _CACHED_NO_EXIST)", self.home),
                         "True")


if __name__ == "__main__":
    unittest.main()
