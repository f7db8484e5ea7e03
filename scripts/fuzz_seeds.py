#!/usr/bin/env python3
"""Writes the first inputs of every fuzzer, from the files of the tests and from short texts that are written here.

    scripts/fuzz_seeds.py FOLDER    writes FOLDER/<fuzzer>/<name>, and keeps what is there

A fuzzer starts from these files and changes them. Most fuzzers read an option from the first bytes of an input: the
functions below put them in front, once per option. scripts/test_long.sh calls this program.
"""
import gzip
import hashlib
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "tests/parity/models"
DATA = ROOT / "tests/parity/data"
DOCUMENTS = ROOT / "src/io/data/fixtures/clm"
MOST_BYTES = 24000  # larger inputs are not written, because they make a fuzzer slow

CSV_TEXTS = [
    "sentence\tlabel\nIt works.\tpositive\nIt does not.\tnegative\n",
    "id,review,sentiment\n1,\"good, \"\"very\"\" good\",1\n2,bad,0\n",
    "text,label\na,\"[1, 0, 1]\"\nb,\"[0, 1, 1]\"\n",
    "text,label\na,x#y\nb,y\nc,\n",
    "\ufefftext,label\r\n\"Great\" film,1.0\r\n\"no\" ,0.5\r\n",
    "sentence1\tsentence2\tlabel\r\"open\nline\"\tb\t0\n",
    "a,b,label,\n,,,\n",
]
JSON_TEXTS = [
    '[{"sentence": "a", "label": 1}, {"label": 0, "sentence": "b"}]',
    '{"data": [{"text": "a", "label": [1, 0, 1], "x": NaN, "y": 340282366920938463463374607431768211456}]}',
    '{"sentence1": "a", "sentence2": "b \\ud83d\\ude00", "label": 0.5}\n\n{"sentence1": "c", "sentence2": "\\ud800", "label": null}\n',
    '{"tokens": ["EU", "rejects"], "ner_tags": ["B-ORG", "O"]}\n{"tokens": ["a"], "ner_tags": ["O"]}\n',
    '{"input_ids": [1, 5, 2], "token_type_ids": [0, 0, 1], "attention_mask": [1, 1, 1], "label": 1}\n',
    '{"text": "a", "text": "b", "label": true}\n',
]
CONLL_TEXTS = [
    "-DOCSTART- -X- -X- O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\n\n# id 17\nGerman JJ B-NP B-MISC\n",
    "1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n1-2\tx\t_\t_\t_\t_\t_\t_\t_\t_\n2\tcat\tcat\tNOUN\tNN\t_\t0\troot\t_\t_\n",
]
INDEXES = [
    '{"metadata": {"total_size": 12}, "weight_map": {"bert.w": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}',
    '{"schema_version": 1, "step": 7, "run": {"id": "0123456789abcdef", "started": "now"}, "files": [{"name": "model.safetensors", '
    '"bytes": 10, "xxh3_128": "00112233445566778899aabbccddeeff"}]}',
]
ARGUMENTS = [
    (0, "--learning_rate\n2e-5\n--bf16\n--optim=adamw_8bit\n--max_steps\n3\n--num_train_epochs\n2.5\n"),
    (1, '{"$schema": "x", "learning_rate": 2e-5, "bf16": true, "lora_target_modules": ["query", "value"], "optim_args": {"beta1": 0.9}}'),
    (2, "learning_rate: 2e-5\nbf16: no\noutput_dir: 'runs/a'\nfreeze: [embeddings, \"layer.0\"]\n# comment\noptim_args:\n  beta1: 0.9\n"),
]


class Seeds:
    def __init__(self, folder):
        self.folder = folder
        self.counts = {}

    def add(self, fuzzer, content, prefix=b""):
        data = prefix + (content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        if len(data) > MOST_BYTES:
            return
        path = self.folder / fuzzer / hashlib.sha1(data).hexdigest()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        self.counts[fuzzer] = self.counts.get(fuzzer, 0) + 1


def add_tables(seeds):
    csv = CSV_TEXTS + [path.read_text() for path in sorted(DATA.glob("*.[ct]sv"))] + [(DOCUMENTS / "rows.csv").read_text()]
    for text in csv:
        for options in range(0, 64, 5):
            seeds.add("io_data_csv_fuzz", text, bytes([options]))
    for text in JSON_TEXTS + [path.read_text() for path in sorted(DATA.glob("*.jsonl"))]:
        for options in (0, 1, 3, 5, 13):
            seeds.add("io_data_json_fuzz", text, bytes([options]))
    for text in CONLL_TEXTS:
        for options in (2, 6):
            seeds.add("io_data_json_fuzz", text, bytes([options]))
    for text in CSV_TEXTS + JSON_TEXTS:
        seeds.add("io_data_compressed_text_fuzz", gzip.compress(text.encode("utf-8", "surrogatepass"), 9), b"\x00\x00")
        for options in (2, 3):
            seeds.add("io_data_compressed_text_fuzz", text, bytes([options, 128]))
    # Two inputs in Zstandard's format: an empty frame, and a frame with an uncompressed block.
    seeds.add("io_data_compressed_text_fuzz", bytes.fromhex("28b52ffd2000010000"), b"\x01\x00")
    seeds.add("io_data_compressed_text_fuzz", bytes.fromhex("28b52ffd2002110000") + b"ab", b"\x01\x00")
    texts = {0: ["one\n\ntwo\r\nthree\rfour", (DOCUMENTS / "lines.txt").read_text()],
             1: JSON_TEXTS + [(DOCUMENTS / "rows.jsonl").read_text()], 2: CSV_TEXTS + [(DOCUMENTS / "rows.csv").read_text()],
             3: CSV_TEXTS, 4: JSON_TEXTS}
    for kind, contents in texts.items():
        for text in contents:
            for size in (0, 6, 63):
                seeds.add("io_data_documents_fuzz", text, bytes([kind, size]))
                seeds.add("io_data_documents_fuzz", text, bytes([kind + 8 + 32, size]))


def add_json(seeds):
    configurations = [path.read_text() for path in sorted(MODELS.glob("*/config.json"))[:5]]
    for text in JSON_TEXTS + INDEXES + configurations + [text for choice, text in ARGUMENTS if choice % 3 != 2]:
        seeds.add("base_guarded_json_fuzz", text)


def add_tokenizers(seeds):
    text = b"\x1eThe caf\xc3\xa9 isn't 12 na\xc3\xafve \xe4\xb8\xad\xe6\x96\x87 [MASK] \xf0\x9f\x98\x80"
    for path in sorted(MODELS.glob("*/tokenizer.json")) + [ROOT / "src/io/text/fixtures/bert/tokenizer.json"]:
        seeds.add("io_text_tokenizer_fuzz", json.dumps(json.loads(path.read_text())).encode() + text, b"\x00")
    for path in sorted(MODELS.glob("*/tokenizer_config.json")):
        seeds.add("io_text_tokenizer_fuzz", path.read_bytes() + text, b"\x02")
    for path in sorted(MODELS.glob("*/merges.txt")):
        seeds.add("io_text_tokenizer_fuzz", path.read_bytes() + text, bytes([10]))
    seeds.add("io_text_tokenizer_fuzz", (MODELS / "bert/vocab.txt").read_bytes() + text, b"\x01")
    # Each test tokenizer without its model (its normalizer, pre-tokenizer and so on) is combined with each kind of model. The
    # fuzzer adds the model, which the first byte of an input selects.
    steps = {"normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens"}
    for folder in sorted(MODELS.glob("*/tokenizer.json")):
        tokenizer = json.loads(folder.read_text())
        members = json.dumps({key: value for key, value in tokenizer.items() if key in steps})[1:-1]
        for choice in (6, 8, 9):
            seeds.add("io_text_tokenizer_fuzz", members.encode() + text, bytes([choice]))
    patterns = json.loads((ROOT / "src/io/text/fixtures/regex.json").read_text())
    for pattern in sorted(set(strings_of(patterns)))[:200]:
        for choice in (7, 11):
            seeds.add("io_text_tokenizer_fuzz", pattern.encode("utf-8", "replace") + text, bytes([choice]))


def strings_of(value):
    """Returns every string in a JSON value."""
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for item in items for text in strings_of(item)]


def add_checkpoints(seeds):
    for path in sorted(ROOT.glob("tests/parity/**/*.safetensors")):
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        num_data_bytes = len(data) - 8 - length
        if num_data_bytes < 65536:
            seeds.add("io_ckpt_safetensors_fuzz", data[8:8 + length], num_data_bytes.to_bytes(2, "little"))
        seeds.add("io_ckpt_safetensors_fuzz", data)
    for text in INDEXES + [path.read_text() for path in sorted(MODELS.glob("*/config.json"))[:5]]:
        seeds.add("io_ckpt_weight_index_fuzz", text)


def add_models(seeds):
    for path in sorted(MODELS.glob("*/config.json")):
        seeds.add("models_config_fuzz", path.read_bytes(), b"\x00")
    for overrides in ("hidden_act=relu,num_labels=3", "n_layers=2,dim=64", "rope_theta=1e6", "id2label=a"):
        seeds.add("models_config_fuzz", overrides, b"\x01")
    for path in sorted(ROOT.glob("tests/parity/adapters/*/adapter_config.json")):
        seeds.add("models_adapter_fuzz", path.read_bytes())
    for path in sorted(MODELS.glob("*/generation_config.json")):
        seeds.add("generate_settings_fuzz", path.read_bytes(), b"\x05")
    seeds.add("generate_settings_fuzz", json.dumps({
        "do_sample": True, "temperature": 0.7, "top_k": 20, "top_p": 0.9, "min_p": 0.05, "eos_token_id": [1, 2], "pad_token_id": -1,
        "max_length": 100, "min_length": 4, "repetition_penalty": 1.1, "stop_strings": ["\n", "User:"], "early_stopping": "never",
        "num_beams": 4, "num_return_sequences": 2, "suppress_tokens": [], "transformers_version": "5.0.0"}), b"\x05")
    for choice, text in ARGUMENTS:
        seeds.add("arguments_fuzz", text, bytes([choice]))


def add_hub(seeds):
    entry = {"type": "file", "path": "config.json", "oid": "9e26dfeeb6e641a33dae4961196235bdb965b21b", "size": 2}
    large = dict(entry, path="model.safetensors", lfs={"oid": "a" * 64, "size": 2}, xetHash="b" * 64)
    tree = {"format_version": 1, "files": {"config.json": {"size": 2, "blob_id": entry["oid"], "lfs_sha256": "a" * 64, "lfs_size": 2}}}
    seeds.add("io_hub_answers_fuzz", "\n" + json.dumps({"sha": "0123456789abcdef0123456789abcdef01234567"}), bytes([0]))
    seeds.add("io_hub_answers_fuzz", "\n" + json.dumps([entry, large, {"type": "directory", "path": "sub"}]), bytes([1]))
    seeds.add("io_hub_answers_fuzz", "<http://hub/api/models/m/tree/x?cursor=1>; rel=\"next\"\n" + json.dumps([entry]), bytes([1]))
    seeds.add("io_hub_answers_fuzz", "W/\"9e26dfeeb6e641a33dae4961196235bdb965b21b\"\n", bytes([2]))
    for header in ("", "bytes 0-1/2", "12", "http://other/x", "\"api\";r=0;t=5"):
        seeds.add("io_hub_answers_fuzz", header + "\n{}", bytes([3]))
    seeds.add("io_hub_answers_fuzz", "\n" + json.dumps(tree), bytes([4]))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    seeds = Seeds(pathlib.Path(sys.argv[1]))
    for add in (add_json, add_tables, add_tokenizers, add_checkpoints, add_models, add_hub):
        add(seeds)
    print("fuzz: seed inputs of", ", ".join(f"{name} {count}" for name, count in sorted(seeds.counts.items())))


if __name__ == "__main__":
    main()
