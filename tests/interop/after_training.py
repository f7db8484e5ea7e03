"""Runs the command lines of docs/AFTER_TRAINING.md on models that Plimsoll trains here, and compares what they print with Plimsoll's own results. Called by
scripts/check_after_training.sh, which installs the packages.

    python3 tests/interop/after_training.py PLIMSOLL PAGE WORK BIN:BIN...

The last argument lists bin folders of virtual environments. A line of the page runs with the first folder that contains its program and
packages. If no folder contains its program, the line is reported as not run, which does not count as a failure.
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

POSITIVE = ["The keyboard feels solid.", "The battery lasts two days.", "A lovely screen and a good price.", "It works well every day."]
NEGATIVE = ["It stopped working after a week.", "The screen broke at once.", "A bad keyboard and a loud fan.", "It never starts in the morning."]
PROMPT = "The battery"


def run(command, **settings):
    done = subprocess.run(command, capture_output=True, text=True, **settings)
    if done.returncode != 0:
        sys.exit(f"{command if isinstance(command, str) else shlex.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def train_models(program):
    """Trains three models: runs/mine classifies texts, runs/pairs predicts a number for each pair of texts, and runs/language is a GPT-2.
    """
    os.makedirs("runs", exist_ok=True)
    texts = (POSITIVE + NEGATIVE) * 8
    with open("train.tsv", "w", encoding="utf-8") as file:
        file.write("sentence\tlabel\n" + "".join(f"{text}\t{'positive' if text in POSITIVE else 'negative'}\n" for text in texts))
    with open("pairs.jsonl", "w", encoding="utf-8") as file:
        for i, text in enumerate(texts):
            file.write(json.dumps({"sentence1": text, "sentence2": texts[i * 5 % len(texts)], "label": i % 7 / 7.0}) + "\n")
    with open("lines.txt", "w", encoding="utf-8") as file:
        file.write("\n".join(texts) + "\n")
    run([program, "tokenize", "--train", "wordpiece", "--vocab_size", "300", "--min_frequency", "1", "--output_dir", "words", "lines.txt"])
    run([program, "tokenize", "--train", "bpe", "--vocab_size", "300", "--min_frequency", "1", "--output_dir", "bytes", "lines.txt"])
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "max_position_embeddings": 64, "vocab_size": 300}
    os.makedirs("encoder", exist_ok=True)
    with open("encoder/config.json", "w", encoding="utf-8") as file:
        json.dump({"model_type": "bert", **sizes}, file)
    os.makedirs("decoder", exist_ok=True)
    with open("decoder/config.json", "w", encoding="utf-8") as file:
        json.dump({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 300}, file)
    common = ["--use_cpu", "--seed", "1", "--quiet", "--overwrite_output_dir", "--learning_rate", "3e-3", "--lr_scheduler_type", "constant",
              "--num_train_epochs"]
    run([program, "train", "--config_name", "encoder", "--tokenizer_name", "words", "--train_file", "train.tsv", "--output_dir", "runs/mine", *common, "6"])
    run([program, "train", "--config_name", "encoder", "--tokenizer_name", "words", "--train_file", "pairs.jsonl", "--output_dir", "runs/pairs", *common, "6"])
    run([program, "train", "--config_name", "decoder", "--tokenizer_name", "bytes", "--train_file", "lines.txt", "--block_size", "32", "--output_dir",
         "runs/language", *common, "60"])


def numbers_in(text):
    return [float(number) for number in re.findall(r"(?<![\w.])-?\d+\.\d+(?:e-?\d+)?", text)]


class Page:
    def __init__(self, program, page, folders):
        self.program, self.folders, self.failures = program, folders, 0
        with open(page, encoding="utf-8") as file:
            self.lines = [line.strip() for line in file if line.startswith("    ")]

    def finish(self, what, good, found, expected):
        print(f"{'ok' if good else 'FAILED'}: {what}: {found} (expected {expected})", flush=True)
        self.failures += not good

    def output_of(self, beginning):
        """Runs the command line of the page that begins with this text. Returns what it prints, or None if its program is not installed.
        """
        line = next((line for line in self.lines if line.startswith(beginning)), None)
        if line is None:
            sys.exit(f"the page has no line that begins with {beginning!r}")
        line = line.replace("build/plimsoll", shlex.quote(self.program))
        words = shlex.split(line)
        for folder in self.folders:
            path = f"{folder}:{os.environ['PATH']}"
            if shutil.which(words[0], path=path) is None:
                continue
            if words[0] == "python3" and words[1].endswith(".py") and not os.path.exists(words[1]):
                continue
            if words[0] == "python3" and words[1] == "-c":
                package = re.search(r"from ([\w.]+) import", words[2])[1]
                if subprocess.run(["python3", "-c", f"import {package}"], env={**os.environ, "PATH": path}, capture_output=True).returncode != 0:
                    continue
            return run(line, shell=True, executable="/bin/bash", env={**os.environ, "PATH": path, "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""})
        print(f"not run: {line}", flush=True)
        return None

    def check_classifier(self, beginning, what):
        output = self.output_of(beginning)
        if output is None:
            return
        text = re.search(r'"(It stopped[^"]*)"', next(line for line in self.lines if line.startswith(beginning)))[1]
        with open("one.tsv", "w", encoding="utf-8") as file:
            file.write(f"sentence\n{text}\n")
        run([self.program, "predict", "--model_name_or_path", "runs/mine", "--test_file", "one.tsv", "--scores", "--output_dir", "scores", "--use_cpu", "--quiet"])
        with open("scores/predict_results.txt", encoding="utf-8") as file:
            table = file.read()
        expected = max(numbers_in(table))
        score = numbers_in(output)[-1]
        self.finish(what, abs(score - expected) < 2e-5 and "negative" in output, score, expected)

    def check_pairs(self, beginning, what):
        output = self.output_of(beginning)
        if output is None:
            return
        first, second = re.search(r'\[\("([^"]*)", "([^"]*)"\)\]', next(line for line in self.lines if line.startswith(beginning))).groups()
        with open("pair.jsonl", "w", encoding="utf-8") as file:
            file.write(json.dumps({"sentence1": first, "sentence2": second}) + "\n")
        run([self.program, "predict", "--model_name_or_path", "runs/pairs", "--test_file", "pair.jsonl", "--output_dir", "scores", "--use_cpu", "--quiet"])
        with open("scores/predict_results.txt", encoding="utf-8") as file:
            expected = numbers_in(file.read())[-1]
        score = numbers_in(output)[-1]
        self.finish(what, abs(score - expected) < 5.2e-4, score, f"{expected}, rounded to three decimals")

    def check_text(self, beginning, what):
        output = self.output_of(beginning)
        if output is None:
            return
        run([self.program, "generate", "--model_name_or_path", "runs/language", "--max_new_tokens", "20", "--json", "texts.jsonl", "--use_cpu", PROMPT])
        with open("texts.jsonl", encoding="utf-8") as file:
            expected = json.loads(file.readline())["text"].strip()
        good = len(expected) > 20 and " ".join(expected.split())[:40] in " ".join(output.replace("\\n", "\n").split())
        self.finish(what, good, output.strip()[:120], expected)


def main():
    program, page_file, work, folders = sys.argv[1:5]
    page = Page(os.path.abspath(program), page_file, folders.split(":"))
    os.makedirs(work, exist_ok=True)
    os.chdir(work)
    train_models(page.program)
    page.check_classifier("python3 -c 'from transformers import pipeline; print(pipeline(\"text-classification\"", "transformers, classification")
    page.check_text("python3 -c 'from transformers import pipeline; print(pipeline(\"text-generation\"", "transformers, generation")
    page.check_pairs("python3 -c 'from sentence_transformers", "sentence-transformers, CrossEncoder")
    if page.output_of("optimum-cli export onnx") is not None:
        page.check_classifier("python3 -c 'from optimum.onnxruntime", "onnxruntime, classification")
    page.output_of("build/plimsoll export")
    page.check_text("llama-completion", "llama.cpp, generation")
    if page.output_of("python3 convert_hf_to_gguf.py") is None:
        print("  (the converter is a file of llama.cpp's repository)")
    sys.exit(1 if page.failures else 0)


if __name__ == "__main__":
    main()
