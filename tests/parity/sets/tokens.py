"""Parity cases of token classification with three architectures. Some words have several tokens, and some rows are truncated."""
import json
import os

from transformers import (BertConfig, BertForTokenClassification, DistilBertConfig, DistilBertForTokenClassification, ElectraConfig,
                          ElectraForTokenClassification)

from tiny import Numbers, sentence, vocabulary, write_model

TAGS = ["B-NAME", "B-TOOL", "I-NAME", "I-TOOL", "O"]
NAMES = {"num_labels": len(TAGS), "id2label": dict(enumerate(TAGS)), "label2id": {tag: i for i, tag in enumerate(TAGS)}}
SIZES = {"vocab_size": len(vocabulary()), "max_position_embeddings": 64, "initializer_range": 0.15}
SGD = {"optim": "sgd", "learning_rate": 0.05}


def write_models(folder):
    bert = BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, hidden_dropout_prob=0.0,
                      attention_probs_dropout_prob=0.0, **SIZES, **NAMES)
    write_model(os.path.join(folder, "bert_tokens"), BertForTokenClassification, bert)
    distilbert = DistilBertConfig(dim=32, n_layers=2, n_heads=2, hidden_dim=64, dropout=0.0, attention_dropout=0.0, **SIZES, **NAMES)
    write_model(os.path.join(folder, "distilbert_tokens"), DistilBertForTokenClassification, distilbert)
    electra = ElectraConfig(embedding_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **SIZES, **NAMES)
    write_model(os.path.join(folder, "electra_tokens"), ElectraForTokenClassification, electra)


def write_data(folder):
    numbers = Numbers(31)
    with open(os.path.join(folder, "tokens.jsonl"), "w", encoding="utf-8") as file:
        for _ in range(26):
            words = sentence(numbers, 30).split(" ")
            row = {"tokens": words, "tags": [TAGS[numbers.below(len(TAGS))] for _ in words]}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


CASES = [((f"{model}-tokens-{optimizer}", model, "tokens"), settings) for model in ("bert", "distilbert", "electra")
         for optimizer, settings in (("adamw", {}), ("sgd", SGD))]
CASES += [(("bert-tokens-adamw-accumulation3", "bert", "tokens"), {"gradient_accumulation_steps": 3}),
          (("bert-tokens-truncated", "bert", "tokens"), {"max_seq_length": 20}),
          (("distilbert-tokens-all-together", "distilbert", "tokens"),
           {"weight_decay": 0.05, "warmup_steps": 3, "lr_scheduler_type": "cosine", "max_grad_norm": 0.5,
            "label_smoothing_factor": 0.1, "gradient_accumulation_steps": 3})]
FIRST_BATCHES = [(model, "tokens") for model in ("bert", "distilbert", "electra")]
