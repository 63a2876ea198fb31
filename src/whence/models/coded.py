"""What a tokenizer makes of a text, a pair, a chat or ids: token ids, and the characters each stands for.

A chat goes through the tokenizer's own template, which writes the special tokens itself, so none is added; ids are
taken as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from whence.errors import BadInput, Unsupported
from whence.models.vocabulary import pieces, special_ids
from whence.text.align import Span, located
from whence.text.sentence import MASK, Sentence, Turn

UNFINISHED = "\ufffd"  # what is decoded of a character's first bytes
WINDOW = 16  # tokens decoded together


@dataclass(frozen=True)
class Coded:
    """One sentence's ids; for each the text it is of (0, or 1 for the second of a pair) and its characters there."""

    sentence: Sentence
    ids: list[int]
    parts: list[int | None]
    spans: list[Span | None]
    segments: torch.Tensor | None = None
    given: bool = False  # whether some of the ids were, and not made from a text

    @property
    def last(self) -> int:
        """The last token that stands for text, or that the template or whoever gave the ids put last: some tokenizers
        add an end token after it.
        """
        own = [place for place, part in enumerate(self.parts) if part is not None]
        return len(self.ids) - 1 if self.sentence.ids or not own else own[-1]

    def open(self) -> "Coded":
        """Without what the tokenizer adds at the end, so that a text can go on."""
        end = self.last + 1
        return replace(self, ids=self.ids[:end], parts=self.parts[:end], spans=self.spans[:end], segments=None)

    def __add__(self, answer: "Coded") -> "Coded":
        """The answer's tokens behind these, its text behind this text."""
        text = self.sentence.text
        moved = [span and (span[0] + len(text), span[1] + len(text)) for span in answer.spans]
        return Coded(
            replace(self.sentence, text=text + answer.sentence.text),
            self.ids + answer.ids,
            self.parts + answer.parts,
            self.spans + moved,
            given=self.given or answer.given,
        )


def coded(tokenizer: Any, sentence: Sentence, longest: int | None = None) -> Coded:
    """The sentence as the tokenizer codes it, cut to the longest that is taken where one is named."""
    if sentence.ids:
        return _as_they_are(tokenizer, sentence)
    if sentence.turns:
        return _chat(tokenizer, sentence, longest)
    return _texts(tokenizer, sentence, longest)


def begun(tokenizer: Any, sentence: Sentence, start: int, longest: int | None = None) -> Coded:
    """The beginning of a decoder's text, as labels are coded: behind the token it starts with, open at its end.

    Nothing but what always comes first where the text is empty; ids are taken as they are, the first one included.
    """
    if sentence.ids:
        return _as_they_are(tokenizer, sentence)
    some = sentence if sentence.text else replace(sentence, text="a")
    coded = _texts(tokenizer, some, longest, target=True).open()
    if not sentence.text:
        first = next((place for place, part in enumerate(coded.parts) if part is not None), len(coded.ids))
        coded = Coded(sentence, coded.ids[:first], coded.parts[:first], coded.spans[:first])
    if coded.ids[:1] == [start]:  # Whisper's tokenizer writes it
        return coded
    return replace(coded, ids=[start, *coded.ids], parts=[None, *coded.parts], spans=[None, *coded.spans])


def begun_with(tokenizer: Any, prefix: Coded, answer: str, start: int) -> Coded:
    """The same and an answer behind it, coded as one text where that leaves its tokens as they are."""
    whole = begun(tokenizer, Sentence(prefix.sentence.text + answer), start)
    if whole.ids[: len(prefix.ids)] != prefix.ids:
        whole = prefix + _texts(tokenizer, Sentence(answer), special=False, target=True)
    if len(whole.ids) == len(prefix.ids):
        raise BadInput("The answer gives no token in this model's vocabulary; give at least one word.")
    return whole


def answered(tokenizer: Any, prompt: Coded, answer: str) -> Coded:
    """A prompt and its answer, coded as one text where that leaves the prompt's tokens as they are."""
    whole = replace(prompt.sentence, text=prompt.sentence.text + answer, words=())
    together = _texts(tokenizer, whole, special=False)
    kept = [token for token, part in zip(prompt.ids, prompt.parts, strict=True) if part is not None]
    if together.ids[: len(kept)] == kept and len(together.ids) > len(kept):
        behind = len(kept)
        text = len(prompt.sentence.text)
        spans = [span and (max(0, span[0] - text), span[1] - text) for span in together.spans[behind:]]
        tail = Coded(Sentence(answer), together.ids[behind:], together.parts[behind:], spans)
    else:
        tail = _texts(tokenizer, Sentence(answer), special=False)
    if not tail.ids:
        raise BadInput("The answer gives no token in this model's vocabulary; give at least one word.")
    return prompt + tail


def followed(tokenizer: Any, prompt: Coded, ids: Sequence[int]) -> Coded:
    """A prompt and the ids that follow it; a space between them is seen only where both are decoded together."""
    before, whole = plain(tokenizer, prompt.ids), plain(tokenizer, [*prompt.ids, *ids])
    text = whole.removeprefix(before) if whole.startswith(before) else plain(tokenizer, ids)
    return prompt + coded(tokenizer, Sentence(text, ids=tuple(ids)))


def plain(tokenizer: Any, ids: Sequence[int]) -> str:
    """The text that ids stand for, special tokens left out."""
    own = [ids[place] for place in _with_text(tokenizer, ids)]
    return tokenizer.decode(own, clean_up_tokenization_spaces=False) if own else ""


def _with_text(tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """The places of tokens that stand for text."""
    textless, count = special_ids(tokenizer), len(tokenizer)
    return [place for place, token in enumerate(ids) if token < count and token not in textless]


def _texts(
    tokenizer: Any, sentence: Sentence, longest: int | None = None, special: bool = True, target: bool = False
) -> Coded:
    """The text, and the second of a pair; as a `target` where a tokenizer writes translations otherwise (Marian)."""
    texts = [own_mask(tokenizer, text) for text in sentence.texts]
    settings: dict[str, Any] = {"truncation": longest is not None, "max_length": longest, "verbose": False}
    settings |= {} if special else {"add_special_tokens": False}
    batch = tokenizer(text_target=texts[0], **settings) if target else tokenizer(*texts, **settings)
    ids = list(batch["input_ids"])
    segments = torch.tensor([batch["token_type_ids"]]) if "token_type_ids" in batch else None
    if tokenizer.is_fast:
        encoding = batch.encodings[0]
        parts, spans = list(encoding.sequence_ids), list(encoding.offsets)
    else:
        parts, spans = _searched(tokenizer, texts, ids)
    originals = [_originals(tokenizer, text) for text in sentence.texts]
    spans = [
        None if part is None or span is None else _original(originals[part], span)
        for part, span in zip(parts, spans, strict=True)
    ]
    return Coded(sentence, ids, parts, spans, segments)


def _chat(tokenizer: Any, sentence: Sentence, longest: int | None) -> Coded:
    """The text the template makes of it, up to where the answer begins."""
    if not getattr(tokenizer, "chat_template", None):
        raise Unsupported(
            "This tokenizer has no chat template, so how the model reads a chat is not known; give it as one text."
        )
    messages = [{"role": turn.role, "content": turn.content} for turn in sentence.turns]
    try:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # a template is a program of the model's authors and raises what it likes
        raise BadInput(f"The model's chat template refuses this chat: {str(error).splitlines()[0]}") from error
    turned = replace(sentence, text=text, turns=_found(text, sentence.turns))
    return _texts(tokenizer, turned, longest, special=False)


def _found(text: str, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """Where the content of each message stands in the templated text; templates strip white space around it."""
    cursor, placed = 0, []
    for number, turn in enumerate(turns):
        content = turn.content.strip()
        start = text.find(content, cursor)
        if start < 0:
            raise Unsupported(
                f"The model's chat template rewrites message {number}, so its characters cannot be told; give the"
                " templated chat as one text, or as token ids."
            )
        cursor = start + len(content)
        placed.append(replace(turn, span=(start, cursor)))
    return tuple(placed)


def _as_they_are(tokenizer: Any, sentence: Sentence) -> Coded:
    ids = list(sentence.ids)
    own = _with_text(tokenizer, ids)
    text = sentence.text or plain(tokenizer, ids)
    again = _texts(tokenizer, Sentence(text), special=False)
    parts: list[int | None] = [None] * len(ids)
    spans: list[Span | None] = [None] * len(ids)
    same = again.ids == [ids[place] for place in own]
    own_spans = again.spans if same else _grown(tokenizer, [ids[place] for place in own], text)
    if own_spans is None:
        parts, spans = _searched(tokenizer, [text], ids)
        return Coded(replace(sentence, text=text), ids, parts, spans, given=True)
    for place, span in zip(own, own_spans, strict=True):
        parts[place], spans[place] = 0, span
    return Coded(replace(sentence, text=text), ids, parts, spans, given=True)


def _grown(tokenizer: Any, ids: list[int], text: str) -> list[Span | None] | None:
    """Each id's characters by how the decoded text grows with it; None where it does not grow into the text.

    A model writes tokens that its tokenizer would not: two line breaks where that has one token for both. Bytes of an
    unfinished character are given the character that they become.
    """
    before = len(text) - len(tokenizer.decode(ids, clean_up_tokenization_spaces=False))  # a space the decoder drops
    ends: list[int] = []
    whole: list[bool] = []  # whether each id ends a character
    first, offset = 0, before
    for place in range(len(ids)):
        window = tokenizer.decode(ids[first : place + 1], clean_up_tokenization_spaces=False)
        ends.append(offset + len(window.rstrip(UNFINISHED)))
        whole.append(not window.endswith(UNFINISHED))
        if place - first >= WINDOW and whole[-1]:
            first = place  # one token stays as what the next is decoded behind
            offset = ends[-1] - len(tokenizer.decode(ids[place : place + 1], clean_up_tokenization_spaces=False))
    if before < 0 or ends != sorted(ends) or ends[-1:] != [len(text)]:
        return None
    starts = [0, *ends[:-1]]
    for place in reversed(range(len(ids) - 1)):
        ends[place] = ends[place] if whole[place] else ends[place + 1]
    return list(zip(starts, ends, strict=True))


def _searched(tokenizer: Any, texts: list[str], ids: list[int]) -> tuple[list[int | None], list[Span | None]]:
    """The same without offsets, as slow tokenizers have none: the pieces are searched for in the texts."""
    tokens = pieces(tokenizer, ids)
    second = len(texts[0]) + 1  # where the second text begins when both are looked through as one
    own = _with_text(tokenizer, ids)
    offsets = located(" ".join(texts), [tokens[place] for place in own], {str(tokenizer.unk_token)})
    parts: list[int | None] = [None] * len(ids)
    spans: list[Span | None] = [None] * len(ids)
    for place, span in zip(own, offsets, strict=True):
        part = int(len(texts) > 1 and span is not None and span[0] >= second)
        parts[place], spans[place] = part, span and (span[0] - second * part, span[1] - second * part)
    return parts, spans


def own_mask(tokenizer: Any, text: str) -> str:
    """[MASK] is understood by every masked model, whatever its own mask token is."""
    return text if tokenizer.mask_token is None else text.replace(MASK, tokenizer.mask_token)


def _originals(tokenizer: Any, text: str) -> list[Span] | None:
    """For each character the model read, the characters of the text it stands for; None when they are the same."""
    mask = tokenizer.mask_token
    if mask is None or len(mask) == len(MASK) or MASK not in text:
        return None
    originals: list[Span] = []
    start = 0
    for piece in text.split(MASK):
        originals += [(place, place + 1) for place in range(start, start + len(piece))]
        start += len(piece) + len(MASK)
        originals += [(start - len(MASK), start)] * len(mask)
    return originals


def _original(originals: list[Span] | None, span: Span) -> Span:
    start, end = span
    if originals is None or start >= end:
        return span
    return originals[start][0], originals[end - 1][1]
