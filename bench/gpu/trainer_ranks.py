#!/usr/bin/env python3
"""Runs one case of bench/gpu/many.py with Hugging Face's Trainer on several GPUs, with DistributedDataParallel or FSDP.

usage: torchrun --nproc_per_node N trainer_ranks.py CASE_AS_JSON ddp|fsdp

The case has the keys model ("bert-large-uncased", "gpt2" or "TinyLlama-1.1B-Chat-v1.0"), batch (rows per GPU), length (tokens per row), precision ("bf16"
or "fp16") and peer_steps. It needs torch and transformers (5). Random weights, random ids, fused AdamW, SDPA attention, dropout as the model's default,
no saving and no logging. The loss is that of one batch after the last step, because the loss that Trainer reports may
be the sum over the ranks. DDP does not search for unused parameters; FSDP is version 2 with one unit per layer. Time is
taken with idle GPUs only at the end of the warm-up and of the last step. Rank 0 prints samples_per_s of all GPUs, the
loss, and the device as JSON.
"""
import json
import os
import sys
import tempfile
import time

os.environ["HF_HUB_OFFLINE"] = "1"
import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import Trainer, TrainerCallback, TrainingArguments  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import devices  # noqa: E402


def model_of(name):
    """Returns the model with random weights, the name of the class of its layers, and the size of its vocabulary."""
    if name == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False)), "GPT2Block", 50257
    if name == "TinyLlama-1.1B-Chat-v1.0":
        config = transformers.LlamaConfig(vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
                                          num_key_value_heads=4, max_position_embeddings=2048, use_cache=False)
        return transformers.LlamaForCausalLM(config), "LlamaDecoderLayer", 32000
    if name == "bert-large-uncased":
        config = transformers.BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
        return transformers.BertForSequenceClassification(config), "BertLayer", 30522
    raise SystemExit(f"trainer_ranks.py: unknown model {name!r}")


class Rows(torch.utils.data.Dataset):
    """A data set of random ids. The labels are the ids for language models, and 0 and 1 in turn for classifiers."""

    def __init__(self, count, length, words, is_classifier):
        generator = torch.Generator().manual_seed(0)
        self.ids = torch.randint(1000, words, (count, length), generator=generator)
        self.is_classifier = is_classifier

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return dict(input_ids=self.ids[i], labels=i % 2 if self.is_classifier else self.ids[i])


class Clock(TrainerCallback):
    """Records the time at the end of the warm-up and of the last step."""

    def __init__(self, warm_up, last):
        self.marks, self.points = {}, {warm_up, last}

    def on_step_end(self, arguments, state, control, **more):
        if state.global_step in self.points:
            torch.cuda.synchronize()
            self.marks[state.global_step] = time.perf_counter()


def main():
    transformers.logging.set_verbosity_error()
    case, way = json.loads(sys.argv[1]), sys.argv[2]
    world = int(os.environ["WORLD_SIZE"])
    torch.manual_seed(0)
    model, layer, words = model_of(case["model"])
    last = case["peer_steps"]
    warm_up = max(4, last // 3)
    clock = Clock(warm_up, last)
    if way == "fsdp":
        more = dict(fsdp="full_shard auto_wrap",
                    fsdp_config=dict(fsdp_version=2, transformer_layer_cls_to_wrap=[layer], reshard_after_forward=True))
    else:
        more = dict(ddp_find_unused_parameters=False)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, max_steps=last, per_device_train_batch_size=case["batch"], learning_rate=1e-6,
                                      optim="adamw_torch_fused", bf16=case["precision"] == "bf16", fp16=case["precision"] == "fp16",
                                      report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True, **more)
        rows = Rows(case["batch"] * world * 8, case["length"], words, layer == "BertLayer")
        trainer = Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[clock])
        trainer.train()
        batch = {key: value.to(trainer.args.device) for key, value in trainer.data_collator([rows[i] for i in range(2)]).items()}
        with torch.no_grad():
            loss = trainer.model_wrapped.eval()(**batch).loss.item()
    if int(os.environ["RANK"]) == 0:
        samples = case["batch"] * world * (last - warm_up)
        print(json.dumps(dict(device=devices.trainer_device(trainer), precision=devices.trainer_precision(trainer), ranks=world, loss=loss,
                              samples_per_s=samples / (clock.marks[last] - clock.marks[warm_up]))), flush=True)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
