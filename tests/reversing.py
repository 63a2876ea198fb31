"""A small encoder-decoder that has learnt to write letters backwards: it is known which one each token copies.

`python -m tests.reversing` trains it again and writes its weights, in half precision, into samples: half a minute.
"""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.nn.functional import cross_entropy
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

LETTERS = "abcdefghijklmnopqrstuvwx"
SPECIAL = ("[PAD]", "[BOS]", "[EOS]", "[START]")
FIRST, START = len(SPECIAL), SPECIAL.index("[START]")
WEIGHTS = Path(__file__).parent / "samples" / "reversing.safetensors"
STEPS, ROWS, RATE = 1000, 32, 3e-3
SHAPE = {"d_model": 64, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 128, "decoder_ffn_dim": 128}
HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "max_position_embeddings": 32, "dropout": 0.0}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": START}


def tokenizer() -> PreTrainedTokenizerFast:
    inner = Tokenizer(models.WordLevel({name: number for number, name in enumerate((*SPECIAL, *LETTERS))}, "[PAD]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=inner, pad_token="[PAD]", bos_token="[BOS]", eos_token="[EOS]", unk_token="[PAD]"
    )


def words(generator: torch.Generator, rows: int) -> torch.Tensor:
    """Rows of four to eight different letters."""
    length = int(torch.randint(4, 9, (1,), generator=generator))
    drawn = [torch.randperm(len(LETTERS), generator=generator)[:length] for _ in range(rows)]
    return torch.stack(drawn) + FIRST


def begun(targets: torch.Tensor) -> torch.Tensor:
    """What the decoder has read before each of these tokens."""
    return torch.cat([torch.full_like(targets[:, :1], START), targets[:, :-1]], dim=1)


def untrained() -> BartForConditionalGeneration:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BartConfig(vocab_size=FIRST + len(LETTERS), **SHAPE, **HEADS, **IDS, forced_eos_token_id=None)
        return BartForConditionalGeneration(config)


def trained() -> BartForConditionalGeneration:
    model = untrained()
    weights = {name: weight.float() for name, weight in load_file(WEIGHTS).items()}
    assert not model.load_state_dict(weights, strict=False).unexpected_keys
    return model.eval()


def main() -> None:
    model, generator = untrained(), torch.Generator().manual_seed(0)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=STEPS)
    for _ in range(STEPS):
        source = words(generator, ROWS)
        target = source.flip(1)
        logits = model(input_ids=source, decoder_input_ids=begun(target)).logits
        optimiser.zero_grad()
        cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    save_file({name: weight.detach().half() for name, weight in model.named_parameters()}, WEIGHTS)


if __name__ == "__main__":
    main()
