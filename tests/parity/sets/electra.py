"""Parity cases of ELECTRA for sequence classification. The embeddings are narrower than the hidden states."""
import os

from transformers import ElectraConfig, ElectraForSequenceClassification

from tiny import label_names, vocabulary, write_model

PROBLEMS = ("single", "pairs", "regression", "multi-label")
SGD = {"optim": "sgd", "learning_rate": 0.05}


def write_models(folder):
    for suffix, num_labels in (("", 3), ("_regression", 1)):
        config = ElectraConfig(vocab_size=len(vocabulary()), embedding_size=16, hidden_size=32, num_hidden_layers=2,
                               num_attention_heads=4, intermediate_size=64, max_position_embeddings=64, hidden_dropout_prob=0.0,
                               attention_probs_dropout_prob=0.0, initializer_range=0.15, num_labels=num_labels,
                               **label_names(num_labels))
        write_model(os.path.join(folder, "electra" + suffix), ElectraForSequenceClassification, config)


CASES = [((f"electra-{problem}-{optimizer}", "electra", problem), settings) for problem in PROBLEMS
         for optimizer, settings in (("adamw", {}), ("sgd", SGD))]
CASES += [(("electra-single-adamw-accumulation3", "electra"), {"gradient_accumulation_steps": 3}),
          (("electra-all-together", "electra", "pairs"),
           {"weight_decay": 0.05, "warmup_steps": 3, "lr_scheduler_type": "cosine", "max_grad_norm": 0.5,
            "label_smoothing_factor": 0.1})]
FIRST_BATCHES = [("electra", problem) for problem in PROBLEMS]
