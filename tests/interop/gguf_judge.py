"""Compares exported GGUF files in llama.cpp with the models in Plimsoll: the tokens of texts, the loss of a text, and greedy continuations.
Prints a table in Markdown; exits with 1 if a comparison fails. Needs only Python. Called by scripts/check_gguf.sh.

    python3 tests/interop/gguf_judge.py PLIMSOLL MODELS CORPUS ROOT NAME...

ROOT is the root of the file system in which llama.cpp is installed: "/" or a chroot. MODELS is a folder below it.

The loss is computed as llama-perplexity computes it: the text is divided into blocks of CONTEXT tokens, the first token of each block is
replaced by the token that begins texts (if the tokenizer adds one), and only the tokens in the second half of a block count. Plimsoll
computes it from the same ids, as rows of input_ids and labels. llama.cpp stores keys and values in f32 here, so that both programs differ
only by the rounding of f32 products. GPT-2 is an exception, because llama.cpp looks up its GELU in a table of f16 values. An element of a
q8_0 block differs from the exact weight by at most 1/254 of the largest weight of the block, so the loss of q8_0 has a wider limit.
"""
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

CONTEXT = 64
PORT = 18431
NEW_TOKENS = 24
# The largest accepted difference of the losses by type of the weight matrices. GPT-2 has a larger limit in f32, because llama.cpp looks
# GELU up in a table of f16 values.
LARGEST = {"f32": 2e-5, "f16": 2e-3, "bf16": 1e-2, "q8_0": 2e-2}
LARGEST_GPT2 = {**LARGEST, "f32": 2e-4}
TEXTS = ["Hello world, this isn't a test.", " leading space", "two  spaces and   three", "numbers 1 22 333 4444 55555", "tabs\tand\ttrailing ",
         "MiXeD CaSe I'LL we'Ve they're", "Zürich ÄÖÜ éàè ñ", "日本語のテキスト", "привет мир", "emoji 🚀 and 👩‍👩‍👧", "<|endoftext|>after", "a<|endoftext|> b",
         "punct!!! ... --- (x) [y] {z} #1 @you $5.00", "x=1;y=2//z", "\u00a0no break\u3000wide", "e\u0301", "the<0x41>x", "</s>", "ab\u200bcd"]
PROMPTS = ["The plan", "Memory of a run\n\nThe table", "1234 tokens", "It isn't", "Zürich"]


def is_known_difference(name, line):
    """Returns true if the tokens of the line may differ, as `plimsoll export` warns: Qwen's tokenizer composes accents and llama.cpp
    does not, and llama.cpp puts another space before a text that begins with a space."""
    return (name.startswith("qwen") and "\u0301" in line) or (name == "mistral" and line.startswith(" "))


class Judge:
    def __init__(self, program, models, corpus, root):
        self.program, self.models, self.root = program, models, root
        self.inside = "/" + os.path.relpath(models, root)
        self.failures = []
        with open(corpus, encoding="utf-8") as file:
            self.corpus = file.read()[:10000]
        with open(os.path.join(models, "corpus.txt"), "w", encoding="utf-8") as file:
            file.write(self.corpus)

    def llama(self, *words):
        command = list(words) if self.root == "/" else ["chroot", self.root, *words]
        return command

    def plimsoll(self, *words, stdin=None):
        done = subprocess.run([self.program, *words], input=stdin, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"plimsoll {' '.join(words)}: {done.stderr}")
        return done.stdout

    def fail(self, message):
        self.failures.append(message)
        print("FAILED: " + message, file=sys.stderr)

    def ask(self, path, value):
        request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", json.dumps(value).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def serve(self, file):
        server = subprocess.Popen(self.llama("llama-server", "-m", f"{self.inside}/{file}", "-c", "128", "-np", "1", "-t", "1", "-ctk", "f32", "-ctv", "f32",
                                             "-fa", "off", "--port", str(PORT), "--host", "127.0.0.1", "--no-webui"),
                                  stdout=subprocess.DEVNULL, stderr=open(os.path.join(self.models, file + ".log"), "wb"), start_new_session=True)
        for _ in range(300):
            if server.poll() is not None:
                sys.exit(f"llama-server ended; see {self.models}/{file}.log")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=2) as answer:
                    if answer.status == 200:
                        return server
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        sys.exit("llama-server does not answer")

    def stop(self, server):
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()

    def compare_tokens(self, name, folder):
        lines = TEXTS + [line.strip() for line in self.corpus.split("\n") if line.strip()][:60]
        ours = [json.loads(line) for line in self.plimsoll("tokenize", "--tokenizer_name", folder, stdin="\n".join(lines) + "\n").splitlines()]
        ours = [row["ids"] for row in ours]
        equal = 0
        for line, ids in zip(lines, ours, strict=True):
            theirs = self.ask("/tokenize", {"content": line, "add_special": True, "parse_special": True})["tokens"]
            if theirs == ids:
                equal += 1
            elif not is_known_difference(name, line):
                self.fail(f"{name}: tokens of {line!r}: {ids} in Plimsoll, {theirs} in llama.cpp")
        return f"{equal} of {len(lines)}"

    def compare_texts(self, name, folder):
        prompts = os.path.join(self.models, "prompts.jsonl")
        with open(prompts, "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"prompt": prompt}) + "\n" for prompt in PROMPTS)
        output = os.path.join(self.models, "texts.jsonl")
        self.plimsoll("generate", "--model_name_or_path", folder, "--prompt_file", prompts, "--max_new_tokens", str(NEW_TOKENS), "--use_cpu", "--json",
                      output)
        with open(output, encoding="utf-8") as file:
            ours = [json.loads(line)["tokens"] for line in file]
        equal = 0
        for prompt, tokens in zip(PROMPTS, ours, strict=True):
            answer = self.ask("/completion", {"prompt": prompt, "n_predict": NEW_TOKENS, "temperature": 0, "return_tokens": True, "cache_prompt": False})
            theirs = answer["tokens"]
            if tokens[:len(theirs)] == theirs and len(tokens) - len(theirs) <= 1:
                equal += 1
            else:
                self.fail(f"{name}: continuation of {prompt!r}: {tokens} in Plimsoll, {theirs} in llama.cpp")
        return f"{equal} of {len(PROMPTS)}"

    def rows(self, name):
        """Writes the blocks for which llama-perplexity computes the loss as a data file: rows of input_ids and labels."""
        ids = self.ask("/tokenize", {"content": self.corpus, "add_special": True, "parse_special": False})["tokens"]
        first = self.ask("/tokenize", {"content": "", "add_special": True})["tokens"]
        path = os.path.join(self.models, name + ".rows.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for begin in range(0, len(ids) - CONTEXT + 1, CONTEXT):
                block = ids[begin:begin + CONTEXT]
                if first:
                    block[0] = first[0]
                labels = [-100] * (CONTEXT // 2 + 1) + block[CONTEXT // 2 + 1:]
                file.write(json.dumps({"input_ids": block, "labels": labels}) + "\n")
        return path

    def our_loss(self, folder, rows):
        output = os.path.join(self.models, "eval")
        self.plimsoll("eval", "--model_name_or_path", folder, "--validation_file", rows, "--block_size", str(CONTEXT), "--output_dir", output, "--use_cpu",
                      "--quiet")
        with open(os.path.join(output, "eval_results.json"), encoding="utf-8") as file:
            return json.load(file)["eval_loss"]

    def their_loss(self, file):
        command = self.llama("llama-perplexity", "-m", f"{self.inside}/{file}", "-f", f"{self.inside}/corpus.txt", "-c", str(CONTEXT), "-b", str(CONTEXT), "-ub",
                             str(CONTEXT), "-t", "1", "-ctk", "f32", "-ctv", "f32", "-fa", "off")
        for _ in range(5):  # llama-perplexity sometimes ends before it prints its last line, so it is started again
            done = subprocess.run(command, capture_output=True, text=True)
            found = re.search(r"Final estimate: PPL = ([0-9.]+)", done.stdout + done.stderr)
            if found:
                return math.log(float(found[1]))
        sys.exit(f"llama-perplexity {file}: {(done.stdout + done.stderr)[-2000:]}")

    def compare(self, name):
        folder = os.path.join(self.models, name)
        for kind in LARGEST:
            self.plimsoll("export", "--model_name_or_path", folder, "--gguf", os.path.join(self.models, f"{name}.{kind}.gguf"), "--outtype", kind, "--overwrite")
        server = self.serve(f"{name}.f32.gguf")
        try:
            tokens = self.compare_tokens(name, folder)
            texts = self.compare_texts(name, folder)
            rows = self.rows(name)
        finally:
            self.stop(server)
        ours = self.our_loss(folder, rows)
        cells = []
        for kind in LARGEST:
            theirs = self.their_loss(f"{name}.{kind}.gguf")
            largest = (LARGEST_GPT2 if name.startswith("gpt2") else LARGEST)[kind]
            if not abs(theirs - ours) <= largest:
                self.fail(f"{name}: the loss of {kind} is {theirs:.6f} in llama.cpp and {ours:.6f} in Plimsoll, more than {largest} apart")
            cells.append(f"{theirs:.5f}")
        print(f"| {name} | {tokens} | {texts} | {ours:.5f} | {' | '.join(cells)} |", flush=True)


def main():
    program, models, corpus, root = sys.argv[1:5]
    judge = Judge(program, os.path.abspath(models), corpus, root)
    print("| model | equal tokens | equal continuations | loss in Plimsoll | " + " | ".join(f"llama.cpp {kind}" for kind in LARGEST) + " |")
    print("|---|---|---|---|" + "---|" * len(LARGEST))
    for name in sys.argv[5:]:
        judge.compare(name)
    sys.exit(1 if judge.failures else 0)


if __name__ == "__main__":
    main()
