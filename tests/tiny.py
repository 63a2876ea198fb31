"""A corpus and a model that take no time: random words, a random BERT, its tokenizer by whole words."""

import random

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import whence
from tests.families import build
from whence.models.load import Model
from whence.text.sentence import Mention, Sentence, Word

WORDS = ["ada", "bo", "cy", "dee", "ed", "fay", "gus", "hal", "ivy", "jo", "kim", "lou"]
SPECIAL = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, ".": 5, ",": 6}


def tokenizer() -> PreTrainedTokenizerFast:
    vocabulary = SPECIAL | {word: number for number, word in enumerate(WORDS, len(SPECIAL))}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "pad", "cls", "sep", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=inner, **names)


def model(family: str = "bert", **more) -> Model:
    return whence.load(build(family, **({"pad_token_id": 0} | more)), tokenizer())


def texts(count: int, seed: int = 0, longest: int = 9) -> list[str]:
    chosen = random.Random(seed)
    return [" ".join(chosen.choices(WORDS, k=chosen.randint(1, longest))) + " ." for _ in range(count)]


def annotated(count: int, seed: int = 0) -> list[Sentence]:
    """Sentences of documents of three, with parts of speech, a chain of governors and one entity said twice."""
    chosen = random.Random(seed)
    found = []
    for number in range(count):
        words = [*chosen.choices(WORDS, k=chosen.randint(3, 7)), "."]
        text, spans = " ".join(words), []
        for word in words:
            start = spans[-1][1] + 1 if spans else 0
            spans.append((start, start + len(word)))
        tags = [chosen.choice(["NOUN", "PRON", "VERB"]) for _ in words[:-1]] + ["PUNCT"]
        parts = tuple(
            Word(*span, {"upos": tag, "deprel": "dep"}, governor=place - 1 if place else None)
            for place, (span, tag) in enumerate(zip(spans, tags, strict=True))
        )
        mentions = (Mention("e1", (0,)), Mention("e1", (2,)))
        found.append(Sentence(text, id=f"s{number}", document=f"d{number // 3}", words=parts, mentions=mentions))
    return found
