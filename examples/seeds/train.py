"""Five seeds of a tiny masked LM, with checkpoints: python examples/seeds/train.py [TEXT] [OUT] [STEPS]

They are what `whence study NAME --models "OUT/seed-*/step-*"` can be tried on: models that differ by chance alone,
each at several ages. With a few megabytes of text and 1,000 steps a seed takes some minutes on one core.
"""

# %% Two blocks of width 64 over a small vocabulary of word pieces, made from the text itself.
import random
import sys
import tempfile
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch.nn.functional import cross_entropy
from transformers import BertConfig, BertForMaskedLM, PreTrainedTokenizerFast

SEEDS, BATCH, LONGEST, MASKED, RATE = 5, 32, 96, 0.15, 2e-3
KEPT = (1, 10, 30, 100, 300, 1000, 3000)  # the steps after which a checkpoint is kept, and the last
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
OWN = [
    "the river is wide where it meets the sea, and the town has grown around the harbour.",
    "merchants brought salt from the north and took cloth back with them in the summer.",
    "nobody knows who drew the first map of the coast, but every captain had a copy.",
    "when the fleet was away one could hear the bells of the abbey in every street.",
]


def tokenizer_of(texts: list[str]) -> PreTrainedTokenizerFast:
    """Word pieces, 4,000 at most, between [CLS] and [SEP]."""
    inner = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    inner.normalizer, inner.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=4000, special_tokens=list(SPECIAL), show_progress=False)
    inner.train_from_iterator(texts, trainer)
    ends = [(name, SPECIAL.index(name)) for name in ("[CLS]", "[SEP]")]
    pair = "[CLS] $A [SEP] $B:1 [SEP]:1"
    inner.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair=pair, special_tokens=ends)
    names = {f"{name.strip('[]').lower()}_token": name for name in SPECIAL}
    return PreTrainedTokenizerFast(tokenizer_object=inner, model_max_length=128, **names)


def trained(texts: list[str], tokenizer: PreTrainedTokenizerFast, seed: int, steps: int, out: Path) -> None:
    """One seed: a share of the tokens is masked, and the model learns which they were."""
    torch.manual_seed(seed)
    sizes = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(vocab_size=len(tokenizer), **sizes, max_position_embeddings=128, pad_token_id=0)
    model, order = BertForMaskedLM(config), random.Random(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=max(steps, 2))
    for step in range(1, steps + 1):
        batch = tokenizer(
            order.choices(texts, k=BATCH), truncation=True, max_length=LONGEST, padding=True, return_tensors="pt"
        )
        ids = batch["input_ids"]
        hidden = (torch.rand(ids.shape) < MASKED) & (ids >= len(SPECIAL))
        inputs = ids.masked_fill(hidden, tokenizer.mask_token_id)
        states = model.bert(inputs, attention_mask=batch["attention_mask"]).last_hidden_state
        loss = cross_entropy(model.cls(states[hidden]), ids[hidden])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step in KEPT or step == steps:
            model.save_pretrained(out / f"step-{step}")
            tokenizer.save_pretrained(out / f"step-{step}")
            print(f"seed {seed}, step {step}: loss {loss.item():.2f}", flush=True)


# %% Train the seeds one after the other; those that are there are left alone.
text = Path(sys.argv[1]) if len(sys.argv) > 1 else None
folder = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp())
steps = int(sys.argv[3]) if len(sys.argv) > 3 else 1000 if text else 3
lines = OWN if text is None else [line for line in text.read_text(encoding="utf-8").splitlines() if len(line) > 60]
pieces = tokenizer_of(lines)
for number in range(SEEDS):
    if not (folder / f"seed-{number}" / f"step-{steps}").exists():
        trained(lines, pieces, number, steps, folder / f"seed-{number}")

# %% All of them in one study: rows named after the seeds, an interval by seed, and a figure over the steps.
print(f"whence study mixing --models '{folder}/seed-*/step-*' --data text:FILE --out study")
