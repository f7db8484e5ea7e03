"""Makes tiny language models with random weights, one for each form of a GGUF file, and tokenizers of each kind that llama.cpp has. Needs
only Python. Called by scripts/check_gguf.sh.

    python3 tests/interop/gguf_models.py PLIMSOLL CORPUS OUTPUT
"""
import json
import math
import os
import random
import re
import struct
import subprocess
import sys

VOCAB = 512
PADDED = 520  # the embedding table has a few more rows than the tokenizer has tokens
END = "<|endoftext|>"
DIGITS3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DIGITS1 = DIGITS3.replace("{1,3}", "")


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")


def byte_level(regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": regex}


def split_first(pattern):
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, byte_level(False)]}


def special(token_id, content):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def begin_with(token_id, content):
    """Returns a post-processor of tokenizer.json that puts a token before each text."""
    first = {"SpecialToken": {"id": content, "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [first, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [first, {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {content: {"id": content, "ids": [token_id], "tokens": [content]}}}


def byte_level_tokenizer(trained, kind):
    """Returns a tokenizer.json with the vocabulary that `plimsoll tokenize --train bpe` learned, and the normalizer and pre-tokenizer of a
    published tokenizer."""
    tokenizer = json.loads(json.dumps(trained))
    tokenizer["normalizer"] = {"type": "NFC"} if kind == "qwen2" else None
    tokenizer["post_processor"] = byte_level(True)
    tokenizer["pre_tokenizer"] = {
        "gpt-2": byte_level(True),
        "smollm": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level(True)]},
        "llama-bpe": split_first(DIGITS3), "dbrx": split_first(DIGITS3), "qwen2": split_first(DIGITS1)}[kind]
    if kind == "llama-bpe":
        tokenizer["model"]["ignore_merges"] = True
        tokenizer["post_processor"] = begin_with(next(t["id"] for t in tokenizer["added_tokens"] if t["content"] == END), END)
    settings = {"tokenizer_class": {"gpt-2": "GPT2Tokenizer", "qwen2": "Qwen2Tokenizer"}.get(kind, "PreTrainedTokenizerFast"),
                "bos_token": END, "eos_token": END, "pad_token": END, "unk_token": END if kind == "gpt-2" else None, "model_max_length": 128}
    if kind == "qwen2":
        settings["chat_template"] = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return tokenizer, settings


def sentence_piece_tokenizer(corpus, form):
    """Returns a tokenizer.json in the form of Llama 2's. Its pieces are learned as SentencePiece learns them; its merges are all ways to
    divide a piece into two pieces."""
    words = {}
    for word in re.findall(r" ?[^ \n]+", corpus):
        word = tuple(word.replace(" ", "\u2581"))
        words[word] = words.get(word, 0) + 1
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    characters = sorted({c for word in words for c in word if ord(c) < 128 or c == "\u2581"})
    pieces = []
    while len(tokens) + len(pieces) + len(characters) < VOCAB:
        counts = {}
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                if len(pair[0] + pair[1]) <= 12:
                    counts[pair] = counts.get(pair, 0) + count
        best = max(counts, key=lambda pair: (counts[pair], pair))
        if best[0] + best[1] not in pieces:
            pieces.append(best[0] + best[1])
        joined = {}
        for word, count in words.items():
            out = []
            for piece in word:
                if out and (out[-1], piece) == best:
                    out[-1] += piece
                else:
                    out.append(piece)
            joined[tuple(out)] = joined.get(tuple(out), 0) + count
        words = joined
    tokens += pieces + characters
    known = set(tokens)
    merges = [[piece[:i], piece[i:]] for piece in pieces for i in range(1, len(piece)) if piece[:i] in known and piece[i:] in known]
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    prepend = {"type": "Prepend", "prepend": "\u2581"}
    metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [special(i, token) for i, token in enumerate(tokens[:3])],
        "normalizer": {"type": "Sequence", "normalizers": [prepend, replace]} if form == "prepend" else None,
        "pre_tokenizer": metaspace if form == "metaspace" else None,
        "post_processor": begin_with(1, "<s>"),
        "decoder": {"type": "Sequence", "decoders": [{**replace, "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                                                     {"type": "Fuse"}, strip]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges}}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
                "model_max_length": 128}
    return tokenizer, settings


class Weights:
    """Makes random tensors and saves them as a safetensors file. `deviation` is large enough that predictions differ clearly."""

    def __init__(self, seed, dtype):
        self.random, self.dtype, self.tensors = random.Random(seed), dtype, {}

    def add(self, name, *shape, around=0.0, deviation=0.12):
        numbers = [around + self.random.gauss(0.0, deviation) for _ in range(math.prod(shape))]
        data = struct.pack(f"<{len(numbers)}f", *numbers)
        if self.dtype == "BF16":  # bf16 is the upper half of an fp32 number
            data = b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
        self.tensors[name] = (list(shape), data)

    def norm(self, name, width):
        self.add(name + ".weight", width, around=1.0)

    def save(self, path):
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        for name, (shape, data) in self.tensors.items():
            header[name] = {"dtype": self.dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
            offset += len(data)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + b"".join(data for _, data in self.tensors.values()))


def gpt2(folder, weights, tied):
    width, layers, inner = 64, 2, 4 * 64
    weights.add("transformer.wte.weight", PADDED, width, deviation=0.3)
    weights.add("transformer.wpe.weight", 128, width)
    for layer in range(layers):
        prefix = f"transformer.h.{layer}."
        for norm in ("ln_1", "ln_2"):
            weights.norm(prefix + norm, width)
            weights.add(prefix + norm + ".bias", width)
        for name, rows, columns in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width), ("mlp.c_fc", width, inner),
                                    ("mlp.c_proj", inner, width)):
            weights.add(prefix + name + ".weight", rows, columns)
            weights.add(prefix + name + ".bias", columns)
    weights.norm("transformer.ln_f", width)
    weights.add("transformer.ln_f.bias", width)
    if not tied:
        weights.add("lm_head.weight", PADDED, width, deviation=0.3)
    return {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": width, "n_layer": layers, "n_head": 4, "n_positions": 128,
            "vocab_size": PADDED, "activation_function": "gelu_new", "tie_word_embeddings": tied, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
            "attn_pdrop": 0.0}


def llama_family(folder, weights, model_type, heads, kv_heads, head_dim, inner, tied, **settings):
    width, layers = 64, 2
    bias = settings.get("attention_bias", False)
    weights.add("model.embed_tokens.weight", PADDED, width, deviation=0.3)
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        weights.norm(prefix + "input_layernorm", width)
        weights.norm(prefix + "post_attention_layernorm", width)
        for name, rows, columns, has_bias in (("self_attn.q_proj", heads * head_dim, width, bias or model_type == "qwen2"),
                                              ("self_attn.k_proj", kv_heads * head_dim, width, bias or model_type == "qwen2"),
                                              ("self_attn.v_proj", kv_heads * head_dim, width, bias or model_type == "qwen2"),
                                              ("self_attn.o_proj", width, heads * head_dim, bias),
                                              ("mlp.gate_proj", inner, width, settings.get("mlp_bias", False)),
                                              ("mlp.up_proj", inner, width, settings.get("mlp_bias", False)),
                                              ("mlp.down_proj", width, inner, settings.get("mlp_bias", False))):
            weights.add(prefix + name + ".weight", rows, columns)
            if has_bias:
                weights.add(prefix + name + ".bias", rows)
        if model_type == "qwen3":
            weights.norm(prefix + "self_attn.q_norm", head_dim)
            weights.norm(prefix + "self_attn.k_norm", head_dim)
    weights.norm("model.norm", width)
    if not tied:
        weights.add("lm_head.weight", PADDED, width, deviation=0.3)
    prefix = {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}[model_type]
    return {"architectures": [prefix + "ForCausalLM"], "model_type": model_type, "hidden_size": width, "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head_dim, "intermediate_size": inner,
            "max_position_embeddings": 128, "vocab_size": PADDED, "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": tied,
            **settings}


LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}
PLAIN = {"rope_type": "default", "rope_theta": 10000.0}

# The models: name, tokenizer, data type of the stored weights, and the function that makes weights and configuration.
MODELS = [
    ("gpt2", "gpt-2", "F32", lambda f, w: gpt2(f, w, True)),
    ("gpt2_untied", "gpt-2", "F32", lambda f, w: gpt2(f, w, False)),
    ("llama3", "llama-bpe", "BF16", lambda f, w: llama_family(f, w, "llama", 4, 2, 16, 96, True, rope_parameters=LLAMA3)),
    ("llama_biases", "dbrx", "F32", lambda f, w: llama_family(f, w, "llama", 4, 1, 24, 80, False, attention_bias=True, mlp_bias=True,
                                                              rope_parameters=YARN)),
    ("llama2", "prepend", "F32", lambda f, w: llama_family(f, w, "llama", 4, 4, 16, 96, False, rope_parameters=LINEAR)),
    ("smollm", "smollm", "F32", lambda f, w: llama_family(f, w, "llama", 4, 2, 16, 96, True, rope_parameters=PLAIN)),
    ("mistral", "metaspace", "F32", lambda f, w: llama_family(f, w, "mistral", 4, 2, 16, 96, False, sliding_window=64,
                                                              rope_parameters=PLAIN)),
    ("qwen2", "qwen2", "F32", lambda f, w: llama_family(f, w, "qwen2", 4, 2, 16, 96, True, rope_parameters=YARN)),
    ("qwen3", "qwen2", "F32", lambda f, w: llama_family(f, w, "qwen3", 4, 2, 32, 96, True, rope_parameters=PLAIN)),
]


def main():
    program, corpus_file, output = sys.argv[1:4]
    with open(corpus_file, encoding="utf-8") as file:
        corpus = file.read()
    learned = os.path.join(output, "learned")
    subprocess.run([program, "tokenize", "--train", "bpe", "--vocab_size", str(VOCAB), "--output_dir", learned, corpus_file], check=True,
                   stdout=subprocess.DEVNULL)
    with open(os.path.join(learned, "tokenizer.json"), encoding="utf-8") as file:
        trained = json.load(file)
    for number, (name, kind, dtype, make) in enumerate(MODELS):
        folder = os.path.join(output, name)
        os.makedirs(folder, exist_ok=True)
        of_bytes = kind not in ("prepend", "metaspace")
        tokenizer, settings = byte_level_tokenizer(trained, kind) if of_bytes else sentence_piece_tokenizer(corpus, kind)
        write_json(os.path.join(folder, "tokenizer.json"), tokenizer)
        write_json(os.path.join(folder, "tokenizer_config.json"), {key: value for key, value in settings.items() if value is not None})
        weights = Weights(number, dtype)
        config = make(folder, weights)
        weights.save(os.path.join(folder, "model.safetensors"))
        ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
        config |= {"bos_token_id": ids[settings["bos_token"]], "eos_token_id": ids[settings["eos_token"]],
                   "dtype": {"F32": "float32", "BF16": "bfloat16"}[dtype]}
        write_json(os.path.join(folder, "config.json"), config)
    print("\n".join(name for name, *_ in MODELS))


if __name__ == "__main__":
    main()
