"""What taking the LM head apart costs on clozes: against the plain forward pass, and against SciPy.

BERT-base in size, random weights; clozes as long as LAMA's. Medians of interleaved repeats, one thread. The baseline is
what one would write: the same batches, and one call of spearmanr for all stages of a sentence. Beside it, one sentence
and one pair of stages at a time.
"""

import random
from collections.abc import Sequence

import torch
from scipy.stats import spearmanr
from transformers import BertConfig, BertForMaskedLM

import whence
from benchmarks.clock import medians, one_thread
from benchmarks.norms import row
from whence.corpus.cloze import cloze
from whence.corpus.questions import Question, question
from whence.measures.lm_head.ranks import ranks, spearman
from whence.measures.lm_head.stages import scores, stages_of, states_at
from whence.models.batching import padded
from whence.models.block import Batch
from whence.models.load import Model
from whence.text.sentence import Sentence

CLOZES = 64
LENGTHS = (5, 20)  # words


def main() -> None:
    with one_thread():
        compare(bert())


def compare(model: Model) -> None:
    corpus = clozes(model, CLOZES)
    asked = [found for found, _ in (question(model, given) for given in corpus) if found is not None]
    pairs_share = 4 / CLOZES
    times = medians(
        {
            "plain": lambda: plain(model, asked),
            "cloze": lambda: cloze(model, corpus),
            "SciPy": lambda: by_sentence(model, asked),
            "pairs": lambda: by_pair(model, asked[:: CLOZES // 4]),
        },
        repeats=3,
    )
    row("plain forward pass with its head", f"{CLOZES / times['plain']:.1f} sentences/s")
    row("every stage and all correlations", f"{CLOZES / times['cloze']:.1f} sentences/s")
    row("over the plain forward pass", f"{times['cloze'] / times['plain']:.2f} x", "at most 2.5")
    row("batches, SciPy once a sentence", f"{times['SciPy'] / times['cloze']:.1f} x slower", "above 1")
    row("one sentence and pair at a time", f"{times['pairs'] / pairs_share / times['cloze']:.1f} x slower")
    correlations(model, asked[:8])


def correlations(model: Model, asked: Sequence[Question]) -> None:
    """The ranking alone, with its share of the work."""
    stages = stages_of(model.anatomy)
    states = states_at(
        model.anatomy, side_by_side(asked), range(len(asked)), [one.position for one in asked], [model.anatomy.layers]
    )
    said = scores(stages, states[0])
    times = medians({"scores": lambda: scores(stages, states[0]), "ranks": lambda: ranks(said)}, repeats=5)
    times |= medians({"scipy": lambda: [spearmanr(rows, axis=1) for rows in said[:2].numpy()]}, repeats=3)
    row("ranks, of the time the scores take", f"{times['ranks'] / times['scores']:.2f} x")
    row("SciPy's matrix of correlations", f"{times['scipy'] * 4 / times['ranks']:.1f} x slower than ours")
    error = max(
        abs(spearman(rows)[0, -1].item() - spearmanr(rows[0].numpy(), rows[-1].numpy()).statistic) for rows in said
    )
    row("largest difference from SciPy's", f"{error:.0e}", "at most 1e-06")


def side_by_side(asked: Sequence[Question]) -> Batch:
    return padded([one.batch for one in asked], 0)


def plain(model: Model, asked: Sequence[Question]) -> None:
    """transformers' own pass over the same batches."""
    order = sorted(asked, key=lambda one: len(one.ids))
    with torch.no_grad():
        for start in range(0, len(order), 32):
            batch = side_by_side(order[start : start + 32])
            model.model(input_ids=batch.ids, attention_mask=batch.mask.long(), token_type_ids=batch.segments)


def by_sentence(model: Model, asked: Sequence[Question]) -> None:
    """Batches of 32 sorted by length; one call of spearmanr with all stages of a sentence."""
    stages, order = stages_of(model.anatomy), sorted(asked, key=lambda one: len(one.ids))
    for start in range(0, len(order), 32):
        some = order[start : start + 32]
        positions = [one.position for one in some]
        states = states_at(model.anatomy, side_by_side(some), range(len(some)), positions, [model.anatomy.layers])
        for said in scores(stages, states[0]).numpy():
            spearmanr(said, axis=1)


def by_pair(model: Model, asked: Sequence[Question]) -> None:
    """One sentence, one pass; one pair of stages, one correlation."""
    stages = stages_of(model.anatomy)
    for one in asked:
        states = states_at(model.anatomy, one.batch, [0], [one.position], [model.anatomy.layers])
        said = scores(stages, states[0])[0].numpy()
        for first in said:
            for second in said:
                spearmanr(first, second)


def clozes(model: Model, count: int) -> list[Sentence]:
    """Random whole words around a mask."""
    draw = random.Random(0)
    words = sorted(word for word in model.tokenizer.get_vocab() if word.isascii() and word.isalpha())
    found = []
    for _ in range(count):
        text = draw.choices(words, k=draw.randint(*LENGTHS))
        answer, text[draw.randrange(len(text))] = draw.choice(words), "[MASK]"
        found.append(Sentence(f"{' '.join(text)}.", labels={"answer": answer}))
    return found


def bert() -> Model:
    torch.manual_seed(0)
    return whence.load(BertForMaskedLM(BertConfig()).eval(), whence.load().tokenizer)


if __name__ == "__main__":
    main()
