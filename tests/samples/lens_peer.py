"""Writes lens_peer.safetensors: a small random GPT-2 and its Jacobian lens as TransformerLens 4.3 fits it.

Run where torch, transformers and transformer-lens 4.3.0 are installed: python lens_peer.py. The texts are numbers
of tokens, the last text shorter than the others.
"""

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformer_lens.model_bridge import TransformerBridge
from transformer_lens.tools.analysis import JacobianLens
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

CONFIG = {"vocab_size": 29, "n_embd": 16, "n_layer": 3, "n_head": 4, "n_positions": 32, "n_inner": 32}
TEXTS = ((24, 0), (24, 1), (19, 2))  # tokens, seed
SKIP = 5


def main() -> None:
    torch.manual_seed(0)
    network = GPT2LMHeadModel(GPT2Config(**CONFIG, bos_token_id=0, eos_token_id=0)).eval()
    for parameter in network.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    weights = {name: tensor.clone() for name, tensor in network.state_dict().items() if name != "lm_head.weight"}
    texts = [random.Random(seed).choices(range(29), k=count) for count, seed in TEXTS]
    words = Tokenizer(WordLevel({f"w{number}": number for number in range(29)}, unk_token="w0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", bos_token="w0", eos_token="w0")
    with TemporaryDirectory() as folder:
        network.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        bridge = TransformerBridge.boot_transformers(folder, device="cpu")
    bridge.to_tokens = lambda tokens: torch.tensor([tokens])
    fitted = JacobianLens.fit(bridge, texts, corpus="random", skip_first_positions=SKIP, show_progress=False)
    lens = {f"lens.{block}": matrix.contiguous() for block, matrix in fitted.jacobians.items()}
    save_file(weights | lens, Path(__file__).with_suffix(".safetensors"))


main()
