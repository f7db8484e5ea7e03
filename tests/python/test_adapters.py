"""Compares adapters that PEFT saved with PEFT: the logits of `plimsoll predict`, of the model that `plimsoll merge` writes, and of an adapter
that `plimsoll train` trained further. The base models are language models, models without a head and trained classifiers, because
the task_type of the adapter, and not the base, determines the task."""
import json
import os
import subprocess

import pytest

from conftest import ROOT

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
peft = pytest.importorskip("peft", reason="PEFT is not installed")
numpy = pytest.importorskip("numpy", reason="NumPy is not installed")

MODELS = os.path.join(ROOT, "tests", "parity", "models")
ROWS = [["web", "server", "client"], ["the", "debug", "text", "read"], ["python"]]
HEADS = {"SEQ_CLS": transformers.AutoModelForSequenceClassification, "TOKEN_CLS": transformers.AutoModelForTokenClassification,
         None: transformers.AutoModelForSequenceClassification}
# The base, the task type, the settings of LoraConfig, and the number of labels.
CASES = {
    "masked_distilbert": ("distilbert_mlm", "SEQ_CLS", {"target_modules": ["q_lin"]}, 2),
    "masked_distilbert_three_labels": ("distilbert_mlm", "SEQ_CLS", {"target_modules": ["q_lin"]}, 3),
    "masked_roberta_three_labels": ("roberta_mlm", "SEQ_CLS", {"target_modules": ["query"]}, 3),
    "masked_modernbert": ("modernbert_mlm", "SEQ_CLS", {"target_modules": ["Wqkv"]}, 2),
    "masked_electra_three_labels": ("electra_mlm", "SEQ_CLS", {"target_modules": ["value"]}, 3),
    "masked_bert_with_pooler": ("bert_mlm", "SEQ_CLS", {"target_modules": ["query"], "modules_to_save": ["pooler"]}, 2),
    "causal_gpt2": ("gpt2_lm", "SEQ_CLS", {"target_modules": ["c_attn"], "fan_in_fan_out": True}, 2),
    "causal_llama": ("llama_lm", "SEQ_CLS", {"target_modules": ["q_proj"]}, 3),
    "tokens_of_masked_bert": ("bert_mlm", "TOKEN_CLS", {"target_modules": ["query"]}, 5),
    "tokens_of_bert_without_a_head": ("BertModel", "TOKEN_CLS", {"target_modules": ["query"]}, 3),
    "tokens_of_masked_distilbert": ("distilbert_mlm", "TOKEN_CLS", {"target_modules": ["q_lin"]}, 5),
    "no_task_classifier_of_the_base": ("distilbert", None, {"target_modules": ["q_lin"]}, 3),
    "no_task_pooler_saved": ("bert", None, {"target_modules": ["query"], "modules_to_save": ["pooler"]}, 3),
    "no_task_classifier_saved": ("bert", None, {"target_modules": ["query"], "modules_to_save": ["classifier"]}, 3),
    "pissa_rank_above_the_width": ("distilbert_mlm", "SEQ_CLS", {"target_modules": ["q_lin", "lin1"], "r": 200,
                                                                 "init_lora_weights": "pissa"}, 2),
    "olora_rank_above_the_width": ("roberta_mlm", "SEQ_CLS", {"target_modules": ["query", "output.dense"], "r": 200,
                                                              "init_lora_weights": "olora"}, 2),
}


def make_base(name, folder):
    """Returns the folder of a base model. A class name selects a model of this class with the weights of the classifier "bert"."""
    if not name.endswith("Model"):
        return os.path.join(MODELS, name)
    source = os.path.join(MODELS, "bert")
    getattr(transformers, name).from_pretrained(source).save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return str(folder)


def make_adapter(base, task, settings, num_labels, folder):
    torch.manual_seed(3)
    model = HEADS[task].from_pretrained(base, num_labels=num_labels)
    adapted = peft.get_peft_model(model, peft.LoraConfig(task_type=task, lora_alpha=8, **{"r": 4, **settings}))
    generator = torch.Generator().manual_seed(5)
    for name, weight in adapted.named_parameters():
        if "lora_" in name:
            weight.data += torch.randn(weight.shape, generator=generator) * 0.1
        elif "modules_to_save" in name:
            weight.data = torch.randn(weight.shape, generator=generator) * 0.3
    adapted.save_pretrained(folder)
    return str(folder)


def peft_logits(base, adapter, task, num_labels):
    """Returns the logits of PEFT: per row, or per first token of each word."""
    model = peft.PeftModel.from_pretrained(HEADS[task].from_pretrained(base, num_labels=num_labels), adapter).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    logits = []
    for words in ROWS:
        batch = tokenizer(words if task == "TOKEN_CLS" else " ".join(words), is_split_into_words=task == "TOKEN_CLS", return_tensors="pt")
        if model.config.model_type not in ("bert", "electra"):
            batch.pop("token_type_ids", None)
        with torch.no_grad():
            rows = model(**batch).logits[0]
        if task != "TOKEN_CLS":
            logits.append(rows.tolist())
            continue
        places = batch.word_ids(0)
        logits += [rows[places.index(word)].tolist() for word in range(len(words))]
    return numpy.array(logits)


def run(*words):
    done = subprocess.run([os.environ["PLIMSOLL_PROGRAM"], *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def write_rows(folder, task, num_labels):
    path = folder / ("rows.jsonl" if task == "TOKEN_CLS" else "rows.tsv")
    if task == "TOKEN_CLS":
        tags = iter(range(sum(map(len, ROWS))))
        rows = [{"tokens": words, "ner_tags": [str(next(tags) % num_labels) for _ in words]} for words in ROWS]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text("text\tlabel\n" + "".join(f"{' '.join(words)}\t{i % num_labels}\n" for i, words in enumerate(ROWS)))
    return path


def our_logits(folder, rows, *model):
    run("predict", *model, "--test_file", rows, "--save_logits", "--use_cpu", "--num_threads", 1, "--max_seq_length", 32,
        "--output_dir", folder)
    return numpy.load(next(folder.glob("*logits*.npy")))


@pytest.mark.parametrize("name", CASES)
def test_the_task_type_decides(tmp_path, name):
    base, task, settings, num_labels = CASES[name]
    base = make_base(base, tmp_path / "base")
    adapter = make_adapter(base, task, settings, num_labels, tmp_path / "adapter")
    rows = write_rows(tmp_path, task, num_labels)
    expected = peft_logits(base, adapter, task, num_labels)
    # Computing the changed base of PiSSA and OLoRA in fp32, as PEFT does, loses digits.
    bound = 2e-4 if "init_lora_weights" in settings else 2e-5
    ours = our_logits(tmp_path / "predicted", rows, "--model_name_or_path", base, "--adapter_name_or_path", adapter)
    assert abs(ours - expected).max() < bound
    run("merge", "--adapter", adapter, "--model_name_or_path", base, "--output_dir", tmp_path / "merged")
    config = json.load(open(tmp_path / "merged" / "config.json"))
    assert config["architectures"] == [type(HEADS[task].from_pretrained(base, num_labels=num_labels)).__name__]
    assert abs(our_logits(tmp_path / "of_merged", rows, "--model_name_or_path", tmp_path / "merged") - expected).max() < bound
    # Trained further, the adapter must have the same task, and PEFT must read it.
    further = tmp_path / "further"
    run("train", "--model_name_or_path", base, "--adapter_name_or_path", adapter, "--train_file", rows, "--max_steps", 2, "--use_cpu",
        "--num_threads", 1, "--max_seq_length", 32, "--save_strategy", "no", "--learning_rate", 1e-2, "--output_dir", further)
    assert json.load(open(further / "adapter_config.json"))["task_type"] == task
    ours = our_logits(tmp_path / "of_further", rows, "--model_name_or_path", base, "--adapter_name_or_path", further)
    again = peft_logits(base, str(further), task, num_labels)
    assert abs(ours - again).max() < bound
    assert abs(again - expected).max() > 1e-3
