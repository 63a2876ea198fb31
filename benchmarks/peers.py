"""The same question asked of several libraries in one run: attention of every layer, and what made the next token.

GPT-2 in size, random weights, 100 tokens; every time is a multiple of one forward pass. A library that is not installed
is left out and named. They go into an environment of their own:

    python -m venv .peers/all && .peers/all/bin/pip install -c constraints.txt -e . captum nnsight transformer-lens
    .peers/all/bin/python -m benchmarks peers
"""

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

import whence
from benchmarks.clock import medians, one_thread

LENGTH, REPEATS, STEPS = 100, 3, 20


def main() -> None:
    torch.manual_seed(0)
    tokenizer = whence.load().tokenizer
    config = GPT2Config(vocab_size=len(tokenizer), bos_token_id=101, eos_token_id=102, attn_implementation="eager")
    network = GPT2LMHeadModel(config).eval()
    ids = torch.randint(1000, 30000, (1, LENGTH))

    def forward() -> object:
        with torch.no_grad():
            return network(ids).logits

    jobs: dict[str, Callable[[], object]] = {"one forward pass": forward} | of_whence(network, tokenizer, ids)
    with tempfile.TemporaryDirectory() as folder:
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for package, make in PEERS.items():
            if find_spec(package) is None:
                print(f"{package} is not installed and left out (see benchmarks/peers.py)")
            else:
                jobs |= make(network, Path(folder), ids)
        with one_thread():
            for job in jobs.values():
                job()
            times = medians(jobs, REPEATS)
    for name, spent in times.items():
        print(f"{name:<74}  {spent / times['one forward pass']:6.1f} x the forward pass")


def of_whence(network: GPT2LMHeadModel, tokenizer: Any, ids: torch.Tensor) -> dict[str, Callable[[], object]]:
    model = whence.load(network, tokenizer)
    return {
        "attention: whence.measure": lambda: whence.measure(model, ids[0], "attention"),
        "attention, norms, mixing: whence.measure": lambda: whence.measure(
            model, ids[0], ["attention", "norms", "mixing"]
        ),
        "next token, exact parts at every layer: whence.why (share)": lambda: whence.why(
            model, ids[0], measures="share"
        ),
        "next token, parts and derivatives at every layer: whence.why": lambda: whence.why(model, ids[0]),
    }


def of_transformer_lens(network: GPT2LMHeadModel, folder: Path, ids: torch.Tensor) -> dict[str, Callable[[], object]]:
    from transformer_lens.model_bridge import TransformerBridge

    plain = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    bridge = TransformerBridge.boot_transformers(str(folder), hf_model=plain, tokenizer=tokenizer)

    def cached() -> object:
        with torch.no_grad():
            return bridge.run_with_cache(ids, names_filter=lambda name: name.endswith("hook_pattern"))[1]

    return {"attention: TransformerLens, run_with_cache of the patterns": cached}


def of_nnsight(network: GPT2LMHeadModel, folder: Path, ids: torch.Tensor) -> dict[str, Callable[[], object]]:
    from nnsight import TransformersModel

    plain = GPT2LMHeadModel.from_pretrained(folder, attn_implementation="eager").eval()
    model = TransformersModel(plain, task="text-generation", tokenizer=AutoTokenizer.from_pretrained(folder))

    def traced() -> object:
        kept = []
        with torch.no_grad(), model.trace(ids):
            for block in model.transformer.h:
                kept.append(block.attn.output[1].save())
        return kept

    return {"attention: nnsight, a trace of every block": traced}


def of_captum(network: GPT2LMHeadModel, folder: Path, ids: torch.Tensor) -> dict[str, Callable[[], object]]:
    from captum.attr import LayerIntegratedGradients

    def last(given: torch.Tensor) -> torch.Tensor:
        return network(given).logits[:, -1]

    attribution = LayerIntegratedGradients(last, network.transformer.wte)
    target = int(last(ids).argmax())
    baseline = torch.full_like(ids, 102)
    asked = {"baselines": baseline, "target": target, "n_steps": STEPS, "internal_batch_size": 1}
    return {
        f"next token, by input token: captum, integrated gradients in {STEPS} steps": lambda: attribution.attribute(
            ids, **asked
        )
    }


PEERS = {"transformer_lens": of_transformer_lens, "nnsight": of_nnsight, "captum": of_captum}
