#!/usr/bin/env python3
"""Repeats one training run of `plimsoll bench --peer` (a row of its table) with Hugging Face's Trainer. Writes a JSON file.

usage: experiments_peer.py OUT.json ARGUMENTS_OF_PLIMSOLL_TRAIN...
       experiments_peer.py --check    # checks if it can run; exit code 0 or the reason in the last line

It needs torch and transformers. The run uses random weights and random ids as Plimsoll's run does, fused AdamW unless another
optimizer is requested, and neither saves nor logs: the settings of a careful user. LoRA is that of PEFT, 8-bit Adagrad and SGD those
of bitsandbytes; frozen parameters and the data type of the weights are set on the model itself. Arguments for which Trainer has no
equivalent are refused, so that different methods are never compared; other names that are not in TrainingArguments are ignored.
Samples/s are measured after the first third of the steps, with the GPU idle at both ends. Memory on a GPU is the peak of NVML's
`used` (version 2) minus its value before the run; on a CPU it is the peak of the process.
"""
import ctypes
import dataclasses
import fnmatch
import json
import os
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import devices  # noqa: E402

os.environ["HF_HUB_OFFLINE"] = "1"

MODELS = {
    "bert-large-uncased": dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16),
    "bert-base-uncased": dict(hidden_size=768, intermediate_size=3072, num_hidden_layers=12, num_attention_heads=12),
    "MiniLM-L6-H384-uncased": dict(hidden_size=384, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=12),
    "MiniLM-L12-H384-uncased": dict(hidden_size=384, intermediate_size=1536, num_hidden_layers=12, num_attention_heads=12),
}


class Memory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), ("total", ctypes.c_ulonglong), ("reserved", ctypes.c_ulonglong),
                ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Gauge:
    """Reads the used memory of the first visible GPU from NVML every 10 ms until stop(), which returns the largest increase."""

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.nvml.nvmlInit_v2()
        name = devices.nvml_name()
        self.device = ctypes.c_void_p()
        if name.isdigit():
            status = self.nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(int(name)), ctypes.byref(self.device))
        else:
            status = self.nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(self.device))
        if status != 0:
            sys.exit(f"NVML answers {status} for the GPU {name}, whose memory would be measured")
        self.before = self.peak = self.used()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.sample, daemon=True)
        self.thread.start()

    def used(self):
        memory = Memory(version=ctypes.sizeof(Memory) | 2 << 24)
        self.nvml.nvmlDeviceGetMemoryInfo_v2(self.device, ctypes.byref(memory))
        return memory.used

    def sample(self):
        while not self.over.wait(0.01):
            self.peak = max(self.peak, self.used())

    def stop(self):
        self.over.set()
        self.thread.join()
        return max(self.peak, self.used()) - self.before


def peak_of_process():
    with open("/proc/self/status", encoding="ascii") as file:
        line = [line for line in file if line.startswith("VmHWM:")][0]
    return int(line.split()[1]) * 1024


# Arguments of plimsoll train for which Trainer has an equivalent only if they have these values.
WITHOUT_PEER = {
    "recompute": ("auto", "none", "cheap", "full"),
    "recompute_budget": (),
    "optimizer_in_backward": ("False",),
    "chunked_loss": ("never", "auto"),
    "offload_optimizer": ("False",),
    "offload_activations": ("False",),
    "weight_copies": ("kept",),
    "gradient_dtype": ("auto", "fp32"),
    "fp8": ("False",),
    # The settings below keep these values, because this script runs Trainer in one process and trains a classifier.
    "nproc_per_node": ("1",),
    "nnodes": ("1",),
    "tp_size": ("1",),
    "cp_size": ("1",),
    "pp_size": ("1",),
    "problem_type": ("auto", "single_label_classification"),
    "load_in_4bit": ("False",),  # needs a folder with weights in Trainer, but the rows use random weights
    "load_in_8bit": ("False",),
    "modules_to_save": (),
}
# Optimizers of bitsandbytes that Trainer cannot create by a name.
OWN_OPTIMIZERS = {"adagrad_8bit": "Adagrad8bit", "adagrad_bnb_8bit": "Adagrad8bit", "sgd_8bit": "SGD8bit",
                  "sgd_bnb_8bit": "SGD8bit"}


def refuse_what_has_no_peer(options):
    for name, others in WITHOUT_PEER.items():
        if options.get(name, others[0] if others else None) not in (*others, None):
            sys.exit(f"Trainer has nothing like --{name} {options[name]}")
    if "momentum_dtype" in options.get("optim_args", "") or "variance_dtype" in options.get("optim_args", ""):
        # adamw_anyprecision is the only optimizer of Trainer that reads these options.
        options.setdefault("optim", "adamw_anyprecision")


def own_optimizer(model, arguments, options):
    """Creates an optimizer of bitsandbytes as Trainer would: biases and norms do not decay, states of embeddings have 32 bits."""
    import bitsandbytes
    settings = dict(pair.split("=", 1) for pair in options.get("optim_args", "").split(",") if pair)
    parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    decays = lambda name: not (name.endswith("bias") or "LayerNorm" in name)
    groups = [dict(params=[p for name, p in parameters if decays(name) == d], weight_decay=arguments.weight_decay if d else 0.0)
              for d in (True, False)]
    for module in model.modules():
        if type(module).__name__ == "Embedding":
            bitsandbytes.optim.GlobalOptimManager.get_instance().register_module_override(module, "weight", {"optim_bits": 32})
    kind = getattr(bitsandbytes.optim, OWN_OPTIMIZERS[options["optim"]])
    return kind(groups, lr=arguments.learning_rate, **{key: float(text) for key, text in settings.items()})


def prepared(model, options):
    """Applies those arguments of the run that concern the model and not Trainer. Returns the changed model."""
    import torch
    if options.get("dtype", "float32") == "bfloat16":
        model = model.to(torch.bfloat16)
    for pattern in [p for p in options.get("freeze", "").split(",") if p]:
        for name, parameter in model.named_parameters():
            if fnmatch.fnmatch(name, pattern):
                parameter.requires_grad = False
    if any(name.startswith("lora_") or name in ("exclude_modules", "layers_to_transform") for name in options):
        from peft import LoraConfig, get_peft_model
        targets = options.get("lora_target_modules", "query,value")
        model = get_peft_model(model, LoraConfig(
            task_type="SEQ_CLS", r=int(options.get("lora_r", 8)), lora_alpha=float(options.get("lora_alpha", 8)),
            lora_dropout=float(options.get("lora_dropout", 0)),
            target_modules=targets if targets == "all-linear" else targets.split(","),
            exclude_modules=list_of(options, "exclude_modules"),
            layers_to_transform=[int(layer) for layer in list_of(options, "layers_to_transform") or []] or None))
    return model


# PEFT's names for options that have other names in plimsoll train.
PEFT_NAMES = {"r": "lora_r", "target_modules": "lora_target_modules", "bias": "lora_bias"}


def list_of(options, name):
    return [word for word in options.get(name, "").split(",") if word] or None


def options_of(words):
    """Returns the last value of each option; a flag without a value is True."""
    options, name = {}, None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            name = PEFT_NAMES.get(name, name)
            options[name] = value if equals else "True"
        elif name:
            options[name] = word
    return options


def value_of(text):
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return {"True": True, "False": False, "true": True, "false": False}.get(text, text)


def device_of_row(out):
    """Returns the device on which Plimsoll ran this row, "cuda" or "cpu", and its threads; (None, 0) if it has not run.

    The plan.json of the row is next to OUT.json."""
    path = os.path.join(os.path.dirname(os.path.abspath(out)), "plan.json")
    if not os.path.exists(path):
        return None, 0
    with open(path, encoding="utf-8") as file:
        request = json.load(file)["request"]
    return "cpu" if request["gpu"] is None else "cuda", request["num_threads"]


def wanted_precision(options):
    """Returns the result that trainer_precision() must have for the run: its mixed precision, otherwise the type of fp32 products."""
    for name in ("bf16", "fp16", "tf32"):
        if options.get(name, "False") in ("True", "true", "1"):
            return name
    return "tf32" if options.get("matmul_precision", "") == "tf32" else "fp32"


def bert_config_of(name):
    """Returns the configuration of a BERT model. Checks model_type, because BertConfig would also read the file of another model."""
    from transformers import AutoConfig
    config = AutoConfig.from_pretrained(name)
    if config.model_type != "bert":
        sys.exit(f"{name} is a model of type {config.model_type}; this script trains a BERT")
    return config


def check():
    """Imports the modules that every run needs. If one is missing, `plimsoll bench` shows the last line of the error."""
    import torch  # noqa: F401
    import transformers  # noqa: F401


def main():
    if sys.argv[1:] == ["--check"]:
        return check()
    out, options = sys.argv[1], options_of(sys.argv[2:])
    refuse_what_has_no_peer(options)
    if options.get("recompute") == "full":
        options["gradient_checkpointing"] = "True"
    device, (row, row_threads) = options.get("device", ""), device_of_row(out)
    on_cpu = options.get("use_cpu", "False") in ("True", "1") or device == "cpu" or row == "cpu"
    # Only one GPU is made visible, because Trainer would use every visible GPU.
    threads = (int(options.get("num_threads", "0")) or row_threads) if on_cpu else 0
    environment = devices.environment_for("cpu" if on_cpu else device if device.startswith("cuda") else "cuda:0", threads=threads)
    os.environ.clear()
    os.environ.update(environment)
    import torch
    if not on_cpu and not torch.cuda.is_available():
        if device.startswith("cuda"):
            sys.exit(f"--device {device}: PyTorch {torch.__version__} sees no GPU")
        if row == "cuda":
            sys.exit(f"Plimsoll ran on a GPU, but PyTorch {torch.__version__} sees none")
        on_cpu = True
    gauge = None if on_cpu else Gauge()
    import transformers
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    if threads:
        torch.set_num_threads(threads)
    name = options.get("config_name", "bert-large-uncased")
    config = BertConfig(vocab_size=30522, **MODELS[name]) if name in MODELS else bert_config_of(name)
    model = prepared(BertForSequenceClassification(config), options)
    length = int(options.get("dummy_seq_length", 512))
    generator = torch.Generator().manual_seed(0)
    rows = [dict(input_ids=torch.randint(1000, 30000, (length,), generator=generator), labels=i % 2)
            for i in range(int(options.get("dummy_num_samples", 512)))]
    known = {field.name for field in dataclasses.fields(TrainingArguments)}
    dropped = {"output_dir", "logging_steps", "save_strategy", "include_num_input_tokens_seen", "disable_tqdm", "use_cpu",
               "do_eval", "do_train"}
    if options.get("optim") in OWN_OPTIMIZERS:
        dropped |= {"optim", "optim_args"}
    words = {key: value_of(text) for key, text in options.items() if key in known - dropped}
    if "matmul_precision" in options and options["matmul_precision"] == "tf32" and not on_cpu:
        words["tf32"] = True
    marks = {}

    class Clock(TrainerCallback):
        def on_step_end(self, arguments, state, control, **more):
            if state.global_step in (max(2, round(state.max_steps / 3)), state.max_steps):
                if not on_cpu:
                    torch.cuda.synchronize()
                marks[state.global_step] = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, report_to=[], logging_strategy="no", save_strategy="no", disable_tqdm=True,
                                      use_cpu=on_cpu, **words)
        optimizers = (own_optimizer(model, arguments, options) if options.get("optim") in OWN_OPTIMIZERS else None, None)
        trainer = Trainer(model=model, args=arguments, train_dataset=rows, callbacks=[Clock()], optimizers=optimizers)
        result = trainer.train()
    steps = sorted(marks)
    samples = arguments.per_device_train_batch_size * arguments.gradient_accumulation_steps
    rate = result.metrics["train_samples_per_second"]
    if len(steps) > 1:
        rate = samples * (steps[-1] - steps[0]) / (marks[steps[-1]] - marks[steps[0]])
    if wrong := devices.wrong_precision(wanted_precision(options), devices.trainer_precision(trainer)):
        sys.exit("Trainer " + wrong)
    device = devices.trainer_device(trainer)
    if wrong := devices.wrong_device("cpu" if on_cpu else "cuda", device) or (threads and devices.wrong_threads(threads, device)):
        sys.exit("Trainer " + wrong)
    figures = dict(samples_per_s=rate, device=device, measured_bytes=gauge.stop() if gauge else peak_of_process(), refused="",
                   seconds=result.metrics["train_runtime"], torch=torch.__version__, transformers=transformers.__version__)
    print(f"device {figures['device']}", flush=True)
    with open(out, "w", encoding="ascii") as file:
        json.dump(figures, file)


if __name__ == "__main__":
    main()
