"""What was given to an encoder-decoder: a source for the encoder, and the beginning of the decoder's text."""

from dataclasses import dataclass, replace
from typing import Any

from whence.errors import BadInput, Unsupported
from whence.models.block import Batch
from whence.models.coded import Coded, begun
from whence.models.encode import Encoded, aligned, encode, limit
from whence.models.given import encoded_of
from whence.models.load import Model
from whence.text.sentence import Sentence, check, sentence

STACKS = ("encoder", "decoder")


@dataclass(frozen=True)
class Pair:
    """The tokens of both, as the model reads them."""

    source: Encoded
    prefix: Encoded

    @property
    def batch(self) -> Batch:
        return Batch.of_both(self.source.batch, self.prefix.batch)

    @property
    def together(self) -> Encoded:
        """Both as one row of tokens, the decoder's text as the second of a pair."""
        first, second = self.source, self.prefix
        texts = first.sentence, second.sentence
        words = (*texts[0].words, *(replace(word, in_pair=True) for word in texts[1].words))
        shift = len(texts[0].words)
        moved = [[place + shift for place in places] for places in second.words_over]
        return Encoded(
            batch=self.batch,
            tokens=first.tokens + second.tokens,
            words=first.words + second.words,
            special=first.special + second.special,
            sentence=Sentence(texts[0].text, texts[1].text, words=words),
            spans=first.spans + second.spans,
            parts=first.parts + [None if part is None else 1 for part in second.parts],
            words_over=first.words_over + moved,
            last=len(first.tokens) + second.last,
        )

    @property
    def stacks(self) -> list[str]:
        """The stack of every token of both."""
        return [name for name, part in zip(STACKS, (self.source, self.prefix), strict=True) for _ in part.tokens]


def both_of(model: Model, item: object, truncate: bool = False) -> Pair:
    """The pair that was given."""
    if not isinstance(item, tuple) or len(item) != 2:
        raise BadInput(
            f"{type(model.model).__name__} has two stacks, so it reads a source and the beginning of its answer; give"
            ' both as a tuple (source, prefix), with "" as the prefix where the answer begins.'
        )
    assert model.encoder is not None
    source = encoded_of(model.encoder, item[0], truncate)
    return Pair(source, aligned(model.anatomy, model.tokenizer, prefix_of(model, item[1], truncate)))


def pair_of(model: Model, sentence: Sentence) -> tuple[str, str]:
    """Of a corpus: a source and its answer."""
    if sentence.pair is None:
        raise BadInput(
            f"{type(model.model).__name__} has two stacks, so its corpus has pairs, a source and its answer, and one"
            " text was given; name the column of the answers (--read pair=COLUMN), or give texts to model.encoder."
        )
    return sentence.text, sentence.pair


def answered(model: Model, sentence: Sentence, truncate: bool) -> Encoded:
    """A text of a corpus, as the model reads it; of an encoder-decoder the answer, with the batch of both."""
    if model.encoder is None:
        return encode(model.anatomy, model.tokenizer, sentence, truncate)
    pair = both_of(model, pair_of(model, sentence), truncate)
    return replace(pair.prefix, batch=pair.batch)


def prefix_of(model: Model, item: object, truncate: bool = False) -> Coded:
    """The beginning of an answer, behind the token that all answers start with."""
    if item == "":
        parsed = Sentence("")
    else:
        parsed = sentence(item)
        if parsed.turns or parsed.pair is not None:
            raise BadInput("The prefix is one text or token ids, and a chat or pair was given; give the text alone.")
        if not parsed.ids:
            check(parsed.text)
    longest = limit(model.anatomy, model.tokenizer) if truncate else None
    return begun(model.tokenizer, parsed, start_of(model), longest)


def start_of(model: Model) -> int:
    """The token that every answer begins with."""
    settings: tuple[Any, ...] = (getattr(model.model, "generation_config", None), model.model.config)
    for name in ("decoder_start_token_id", "bos_token_id"):
        for setting in settings:
            if isinstance(number := getattr(setting, name, None), int):
                return number
    raise Unsupported(
        f"{type(model.model).__name__} does not say which token its answers start with (decoder_start_token_id); set it"
        " in its configuration, or give the prefix as token ids."
    )
