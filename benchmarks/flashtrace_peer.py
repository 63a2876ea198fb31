"""FlashTrace as a program: a line of JSON in (a prompt and its answer), a line out (scores, CPU seconds, bytes).

It is run by the Python of FlashTrace's own environment, so it imports nothing of ours.
"""

import json
import sys
import time
from pathlib import Path

import torch
from flashtrace import FlashTrace, load_model_and_tokenizer


def main(folder: str) -> None:
    torch.set_num_threads(1)
    model, tokenizer = load_model_and_tokenizer(folder, device_map="cpu", dtype="float32", attn_implementation="eager")
    tracer = FlashTrace(model, tokenizer)
    for line in sys.stdin:
        print(json.dumps(traced(tracer, json.loads(line))), flush=True)


def traced(tracer: FlashTrace, asked: dict) -> dict:
    """The answer as one span; FlashTrace adds an end token to it, which is left out of the span."""
    Path("/proc/self/clear_refs").write_text("5")  # forgets the highest so far (Linux)
    before, began = status("VmRSS"), time.process_time()
    span = (0, asked["tokens"] - 1)
    trace = tracer.trace(prompt=asked["prompt"], target=asked["answer"], output_span=span, method=asked["method"])
    seconds, took = time.process_time() - began, status("VmHWM") - before
    tokens = [len(trace.prompt_tokens), len(trace.generation_tokens) - 1]
    return {"scores": trace.scores, "tokens": tokens, "seconds": seconds, "bytes": took}


def status(field: str) -> int:
    """A field of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


main(sys.argv[1])
