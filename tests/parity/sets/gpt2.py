"""Parity cases of GPT-2 for sequence classification, which uses the last token of a row, and for token classification."""
import os

from transformers import GPT2Config, GPT2ForSequenceClassification, GPT2ForTokenClassification

from tiny import label_names, vocabulary, write_model
from tokens import NAMES

PROBLEMS = ("single", "pairs", "regression", "multi-label")
SGD = {"optim": "sgd", "learning_rate": 0.05}
# The tokenizer must not return token types, because GPT-2 would add word embeddings of them to its input.
TOKENIZER = {"model_input_names": ["input_ids", "attention_mask"]}


def config(**more):
    return GPT2Config(vocab_size=len(vocabulary()), n_positions=64, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
                      attn_pdrop=0.0, initializer_range=0.15, pad_token_id=0, bos_token_id=2, eos_token_id=3, **more)


def write_models(folder):
    write_model(os.path.join(folder, "gpt2"), GPT2ForSequenceClassification, config(num_labels=3, **label_names(3)),
                tokenizer=TOKENIZER)
    write_model(os.path.join(folder, "gpt2_regression"), GPT2ForSequenceClassification,
                config(num_labels=1, n_inner=48, activation_function="relu"), tokenizer=TOKENIZER)
    write_model(os.path.join(folder, "gpt2_tokens"), GPT2ForTokenClassification, config(classifier_dropout=0.0, **NAMES),
                tokenizer=TOKENIZER)


CASES = [((f"gpt2-{problem}-{optimizer}", "gpt2", problem), settings) for problem in PROBLEMS
         for optimizer, settings in (("adamw", {}), ("sgd", SGD))]
CASES += [(("gpt2-tokens-adamw", "gpt2", "tokens"), {}),
          (("gpt2-single-adamw-accumulation3", "gpt2"), {"gradient_accumulation_steps": 3}),
          (("gpt2-all-together", "gpt2", "pairs"),
           {"weight_decay": 0.05, "warmup_steps": 3, "lr_scheduler_type": "cosine", "max_grad_norm": 0.5,
            "label_smoothing_factor": 0.1})]
FIRST_BATCHES = [("gpt2", problem) for problem in (*PROBLEMS, "tokens")]
