#!/usr/bin/env python3
"""Makes masked_models.json and the checkpoints models/*_mlm: steps of masked language modelling, and an evaluation, in transformers and
PyTorch.

    python3 tests/parity/make_masked_fixtures.py        # needs torch and transformers 5; run make_language_fixtures.py first

The texts are those of data/text.txt. As in transformers' example run_mlm, they are tokenized line by line with special tokens. The lines
are either joined and cut into blocks, of which the last one is kept here although it is shorter, or truncated to the maximum length. A
Philox generator in this file computes the masks from the random numbers that src/io/data/masking.h defines, so that the masks of both
engines are compared too. The fp64 run of a case is the reference, and the distance of its fp32 run from it is the unit of the limits in
the test. Dropout is 0.
"""
import json
import os
import sys

import torch
import transformers
from transformers import (AutoTokenizer, BertConfig, BertForMaskedLM, CamembertConfig, CamembertForMaskedLM, DistilBertConfig, DistilBertForMaskedLM,
                          ElectraConfig, ElectraForMaskedLM, ModernBertConfig, ModernBertForMaskedLM, RobertaConfig, RobertaForMaskedLM, XLMRobertaConfig, XLMRobertaForMaskedLM)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "sets"))
from modernbert import byte_level_file
from roberta import SPECIAL, byte_level_files, replace_tokenizer, unigram_files
from tiny import vocabulary, write_model

BATCH = 4
LENGTH = 32
SEED = 42
MASK_SITE = 0xDA7A0200
NO_EPOCH = 0xFFFFFFFF
NO_LABEL = -100
SIZES = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, max_position_embeddings=66, initializer_range=0.2,
             hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def write_models():
    words = len(vocabulary())
    write_model("models/bert_mlm", BertForMaskedLM, BertConfig(vocab_size=words, type_vocab_size=3, hidden_act="gelu_new", layer_norm_eps=1e-5, **SIZES))
    write_model("models/bert_untied_mlm", BertForMaskedLM, BertConfig(vocab_size=words, tie_word_embeddings=False, hidden_act="silu", **SIZES))
    write_model("models/distilbert_mlm", DistilBertForMaskedLM, DistilBertConfig(
        vocab_size=words, dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=64, dropout=0.0, attention_dropout=0.0,
        initializer_range=0.2, activation="relu"))
    write_model("models/electra_mlm", ElectraForMaskedLM, ElectraConfig(vocab_size=words, embedding_size=16, hidden_act="silu", layer_norm_eps=1e-6, **SIZES))
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token", "mask_token"), SPECIAL))
    names.update(cls_token="<s>", sep_token="</s>")
    pieces = dict(pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1)
    files, size = byte_level_files()
    write_model("models/roberta_mlm", RobertaForMaskedLM, RobertaConfig(vocab_size=size, hidden_act="relu", layer_norm_eps=1e-5, **pieces, **SIZES))
    replace_tokenizer("models/roberta_mlm", files, {"tokenizer_class": "RobertaTokenizer", **names})
    files, size = unigram_files()
    write_model("models/xlm_roberta_mlm", XLMRobertaForMaskedLM, XLMRobertaConfig(vocab_size=size, tie_word_embeddings=False, **pieces, **SIZES))
    replace_tokenizer("models/xlm_roberta_mlm", files, {"tokenizer_class": "PreTrainedTokenizerFast", **names})
    write_model("models/camembert_mlm", CamembertForMaskedLM, CamembertConfig(vocab_size=size + 3, **pieces, **SIZES))
    replace_tokenizer("models/camembert_mlm", files, {"tokenizer_class": "PreTrainedTokenizerFast", **names})
    write_modernbert_models()


def write_modernbert_models():
    tokenizer, size = byte_level_file()
    sizes = dict(vocab_size=size, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=64,
                 initializer_range=0.15, local_attention=6, pad_token_id=3, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    unusual = dict(tie_word_embeddings=False, decoder_bias=False, norm_bias=True, classifier_bias=True, classifier_activation="silu")
    for name, settings in (("modernbert_mlm", {"sparse_prediction": True}), ("modernbert_untied_mlm", unusual)):
        write_model(f"models/{name}", ModernBertForMaskedLM, ModernBertConfig(**sizes, **settings))
        replace_tokenizer(f"models/{name}", {"tokenizer.json": tokenizer}, {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 64, **names})


CASES = [("bert_mlm", {}), ("bert_untied_mlm", {"mlm_probability": 0.4}), ("distilbert_mlm", {"line_by_line": True}),
         ("electra_mlm", {"gradient_accumulation_steps": 3}), ("roberta_mlm", {}), ("xlm_roberta_mlm", {"line_by_line": True, "data_seed": 7}),
         ("camembert_mlm", {"mlm_probability": 0.25, "gradient_accumulation_steps": 2}), ("modernbert_mlm", {}),
         ("modernbert_untied_mlm", {"line_by_line": True, "mlm_probability": 0.3, "gradient_accumulation_steps": 2})]


def philox(counter, key):
    """Philox4x32 with ten rounds."""
    counter, key = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(p1 >> 32) ^ counter[1] ^ key[0], p1 & 0xFFFFFFFF, (p0 >> 32) ^ counter[3] ^ key[1], p0 & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


class Masks:
    def __init__(self, tokenizer, settings):
        self.probability = settings.get("mlm_probability", 0.15)
        self.seed = settings.get("data_seed", SEED)
        self.mask, self.size = tokenizer.mask_token_id, len(tokenizer)
        self.special = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id, self.mask}

    def apply(self, ids, sequence, epoch):
        inputs, labels = list(ids), [NO_LABEL] * len(ids)
        for position, token in enumerate(ids):
            key = [self.seed & 0xFFFFFFFF, self.seed >> 32]
            choice = philox([position // 4, sequence, MASK_SITE, epoch], key)[position % 4]
            kind, random = philox([position, sequence, MASK_SITE + 1, epoch], key)[:2]
            if token in self.special or choice >= int(self.probability * 2**32):
                continue
            labels[position] = token
            if kind < int(0.8 * 2**32):
                inputs[position] = self.mask
            elif kind < int(0.9 * 2**32):
                inputs[position] = random * self.size >> 32
        return inputs, labels


def rows_of(tokenizer, settings):
    with open("data/text.txt") as file:
        lines = [line.rstrip("\n") for line in file]
    if settings.get("line_by_line"):
        return [tokenizer(line, truncation=True, max_length=LENGTH).input_ids for line in lines]
    ids = sum((tokenizer(line).input_ids for line in lines), [])
    return [ids[i:i + LENGTH] for i in range(0, len(ids), LENGTH)]


def loss_of(model, tokenizer, rows):
    """Returns the sum of the losses of the masked tokens, the number of these tokens, and the number of correct predictions."""
    longest = max(len(inputs) for inputs, _ in rows)
    if model.config.model_type == "modernbert" and any(len(inputs) < longest for inputs, _ in rows):
        # With a local attention window, a padding token far from the text attends to nothing, and transformers' eager attention returns
        # NaN. Each row is therefore computed alone, without padding.
        return tuple(sum(parts) for parts in zip(*(loss_of(model, tokenizer, [row]) for row in rows)))
    ids = torch.tensor([inputs + [tokenizer.pad_token_id] * (longest - len(inputs)) for inputs, _ in rows])
    mask = torch.tensor([[1] * len(inputs) + [0] * (longest - len(inputs)) for inputs, _ in rows])
    labels = torch.tensor([labels + [NO_LABEL] * (longest - len(labels)) for _, labels in rows]).flatten()
    output = model(input_ids=ids, attention_mask=mask, labels=labels.view_as(ids))
    # If sparse_prediction is set and labels are given, the model returns the logits of the masked tokens only. A second call without
    # labels gives the logits of all tokens.
    logits = output.logits if output.logits.dim() == 3 else model(input_ids=ids, attention_mask=mask).logits
    logits = logits.flatten(0, 1)
    total = torch.nn.functional.cross_entropy(logits, labels, reduction="sum", ignore_index=NO_LABEL)
    count = int((labels != NO_LABEL).sum())
    assert count == 0 or abs(total.item() / count - output.loss.item()) < 1e-4
    return total, count, int((logits.argmax(-1) == labels).sum())


def run(name, settings, dtype):
    path = f"models/{name}"
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = {"bert": BertForMaskedLM, "distilbert": DistilBertForMaskedLM, "electra": ElectraForMaskedLM, "roberta": RobertaForMaskedLM,
             "xlm_roberta": XLMRobertaForMaskedLM, "camembert": CamembertForMaskedLM,
             "modernbert": ModernBertForMaskedLM}[name.removesuffix("_mlm").removesuffix("_untied")]
    model = model.from_pretrained(path, dtype=dtype, attn_implementation="eager").train()
    masks, rows = Masks(tokenizer, settings), rows_of(tokenizer, settings)
    steps_rows = BATCH * settings.get("gradient_accumulation_steps", 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    losses = []
    for epoch in range(2):  # one epoch and some steps of the second one, whose masks are different
        for first in range(0, len(rows) if epoch == 0 else 3 * steps_rows, steps_rows):
            chosen = range(first, min(first + steps_rows, len(rows)))
            total, count, _ = loss_of(model, tokenizer, [masks.apply(rows[row], row, epoch) for row in chosen])
            loss = total / max(count, 1)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        parts = [loss_of(model, tokenizer, [masks.apply(ids, row, NO_EPOCH)]) for row, ids in enumerate(rows)]
    labels = sum(count for _, count, _ in parts)
    return losses, sum(total.item() for total, _, _ in parts) / labels, sum(correct for _, _, correct in parts) / labels, labels


def main():
    os.chdir(HERE)
    torch.set_num_threads(1)
    write_models()
    cases = []
    for name, settings in CASES:
        losses, eval_loss, accuracy, labels = run(name, settings, torch.float64)
        losses32, eval_loss32, accuracy32, _ = run(name, settings, torch.float32)
        error = max(abs(a - b) / b for a, b in zip(losses32, losses))
        cases.append({"model": name, "settings": settings, "loss": losses, "eval_loss": eval_loss, "accuracy": accuracy, "fp32_loss_error": error,
                      "fp32_eval_loss_error": abs(eval_loss32 - eval_loss) / eval_loss, "fp32_accuracy_error": abs(accuracy32 - accuracy)})
        print(name, settings, len(losses), losses[0], losses[-1], error, eval_loss, accuracy, accuracy32, labels)
    with open("masked_models.json", "w") as file:
        json.dump({"made_with": {"torch": torch.__version__, "transformers": transformers.__version__}, "length": LENGTH, "batch_size": BATCH,
                   "cases": cases}, file)
        file.write("\n")


if __name__ == "__main__":
    main()
