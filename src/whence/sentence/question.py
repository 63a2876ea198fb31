"""Which predictions are asked about: at masks, after a prompt, of an answer that is given, or of one generated now."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from whence._arguments import whole
from whence.errors import BadInput, TooLong, Unsupported
from whence.models.coded import Coded, answered, begun_with, coded, followed
from whence.models.encode import Encoded, aligned, limit
from whence.models.given import has_picture, inputs_with_picture, pictured
from whence.models.given_pair import Pair, both_of, prefix_of, start_of
from whence.models.inputs import TEXT
from whence.models.load import Model
from whence.models.mixed import longer
from whence.sentence.lm_head import positions_of
from whence.text.sentence import Sentence, check, check_encodable, sentence


@dataclass(frozen=True)
class Question:
    """A text with the positions whose predictions are asked about; `tokens` are the model's best where None.

    `answer` is the place of the answer's first token, None where there is no answer.
    """

    encoded: Encoded
    positions: list[int]
    tokens: list[int] | None = None
    answer: int | None = None


@dataclass(frozen=True)
class Answer:
    """What follows the prompt: a text, ids, or so many tokens generated, by sampling where there is a seed."""

    given: object = None
    generate: int = 0
    seed: int | None = None


def question(
    model: Model,
    text: object,
    position: int | Iterable[int] | None,
    token: int | str | None,
    answer: Answer,
    truncate: bool,
) -> Question:
    if has_picture(model, text):
        return _with_picture(model, text, position, token, answer)
    parsed = sentence(text)
    longest = limit(model.anatomy, model.tokenizer) if truncate else None
    prompt = coded(model.tokenizer, parsed, longest)
    numbers = None if token is None else token_number(model, token)
    if answer.given is None and not answer.generate:
        encoded = aligned(model.anatomy, model.tokenizer, prompt)
        places = positions_of(model, encoded, position)
        return Question(encoded, places, None if numbers is None else [numbers] * len(places))
    _check(model, parsed, position, token, answer)
    prompt = prompt.open()
    continued = _generated(model, prompt, answer) if answer.generate else _answered(model, prompt, answer.given)
    encoded = aligned(model.anatomy, model.tokenizer, continued)
    places = list(range(len(prompt.ids) - 1, len(continued.ids) - 1))
    return Question(encoded, places, continued.ids[len(prompt.ids) :], len(prompt.ids))


def question_of_both(
    model: Model,
    text: object,
    position: int | Iterable[int] | None,
    token: int | str | None,
    answer: Answer,
    truncate: bool,
) -> Question:
    """Of an encoder-decoder: what follows the prefix of a pair, or the answer to a source."""
    asks = answer.given is not None or bool(answer.generate)
    pair = both_of(model, (text, "") if asks and not _is_pair(text) else text, truncate)
    numbers = None if token is None else token_number(model, token)
    if not asks:
        places = positions_of(model, pair.together, position)
        _check_places(places, len(pair.source.tokens))
        return Question(pair.together, places, None if numbers is None else [numbers] * len(places))
    _check_answer(position, token, answer)
    prefix = prefix_of(model, text[1] if _is_pair(text) else "", truncate)  # type: ignore[index]
    continued = _answered_in_decoder(model, pair, prefix, answer)
    pair = replace(pair, prefix=aligned(model.anatomy, model.tokenizer, continued))
    first = len(pair.source.tokens) + len(prefix.ids)
    places = list(range(first - 1, len(pair.together.tokens) - 1))
    return Question(pair.together, places, continued.ids[len(prefix.ids) :], first)


def _with_picture(
    model: Model, text: object, position: int | Iterable[int] | None, token: int | str | None, answer: Answer
) -> Question:
    """The same of a text with a picture in it."""
    inputs = inputs_with_picture(model, text)
    if answer.given is None and not answer.generate:
        encoded = pictured(model, inputs)
        places = positions_of(model, encoded, position)
        return Question(encoded, places, None if token is None else [token_number(model, token)] * len(places))
    _check_answer(position, token, answer)
    start = inputs[TEXT].shape[1]
    if answer.generate:
        ids = _continued(model, {name: value.to(model.device) for name, value in inputs.items()}, answer)[start:]
    else:
        given = sentence(answer.given)
        ids = model.tokenizer(given.text, add_special_tokens=False)["input_ids"] if given.text else list(given.ids)
    encoded = pictured(model, longer(inputs, ids))
    return Question(encoded, list(range(start - 1, start - 1 + len(ids))), ids, start)


def _is_pair(text: object) -> bool:
    return isinstance(text, tuple) and len(text) == 2


def _check_places(places: Iterable[int], border: int) -> None:
    if wrong := [place for place in places if place < border]:
        raise BadInput(
            f"The decoder predicts from the tokens of the prefix, which are {border} and on, and {wrong[0]} was asked"
            " for; leave position= out for what comes next."
        )


def _answered_in_decoder(model: Model, pair: Pair, prefix: Coded, answer: Answer) -> Coded:
    if answer.generate:
        return _generated(model, prefix, answer, pair.source)
    if isinstance(answer.given, str):
        return begun_with(model.tokenizer, prefix, answer.given, start_of(model))
    return followed(model.tokenizer, prefix, sentence(answer.given).ids)


def token_number(model: Model, token: int | str) -> int:
    """A token's number in the vocabulary; a text that is not one token is refused."""
    if not isinstance(token, str):
        return whole("number of a token", token, 0, len(model.tokenizer) - 1)
    check_encodable(token, "The token")
    numbers = model.tokenizer(token, add_special_tokens=False)["input_ids"]
    if len(numbers) != 1:
        raise BadInput(
            f"{token!r} is {len(numbers)} tokens, and one is asked for; within a text most tokens begin with a space,"
            " and the number of a token is taken as well."
        )
    return int(numbers[0])


def _check(model: Model, parsed: Sentence, position: object, token: object, answer: Answer) -> None:
    """An answer follows a decoder's prompt, and says itself where and what is predicted."""
    if not model.anatomy.causal:
        raise BadInput("A masked model gives no answer after a prompt; put [MASK] where it is to predict.")
    if parsed.pair is not None:
        raise BadInput("An answer follows one text, and a pair was given; give the prompt as one text.")
    _check_answer(position, token, answer)


def _check_answer(position: object, token: object, answer: Answer) -> None:
    for name, value in {"position": position, "token": token}.items():
        if value is not None:
            raise BadInput(f"An answer says what is predicted at each place, so it goes without {name}=.")
    if answer.given is not None and answer.generate:
        raise BadInput("An answer was given and one is to be generated; ask for one of them (answer=, generate=).")
    if isinstance(answer.given, str):
        check(answer.given, "The answer")
    elif isinstance(answer.given, list) and not answer.given:
        raise BadInput("The answer is empty; give at least one token.")
    elif answer.given is not None and not sentence(answer.given).ids:
        raise BadInput("An answer is a text or token ids, and a chat was given; give its last message as a text.")


def _answered(model: Model, prompt: Coded, answer: object) -> Coded:
    if isinstance(answer, str):
        return answered(model.tokenizer, prompt, answer)
    return followed(model.tokenizer, prompt, sentence(answer).ids)


def _generated(model: Model, prompt: Coded, answer: Answer, source: Encoded | None = None) -> Coded:
    """The model's own continuation: its best token each time, or sampled by its own settings from a seed."""
    longest, whole = limit(model.anatomy, model.tokenizer), len(prompt.ids) + answer.generate
    if longest is not None and whole > longest:
        raise TooLong(
            f"The prompt and {answer.generate:,} tokens more are {whole:,}, and the model takes at most {longest:,};"
            " generate fewer (generate=) or shorten the prompt."
        )
    row = _continued(model, _inputs(model, torch.tensor([prompt.ids], device=model.device), source), answer)
    return followed(model.tokenizer, prompt, row[len(prompt.ids) :])


def _continued(model: Model, inputs: dict[str, Tensor], answer: Answer) -> list[int]:
    """The ids with those of the answer behind them."""
    sampling = {"do_sample": True} if answer.seed is not None else {"do_sample": False, "temperature": None}
    greedy = {} if answer.seed is not None else {"top_p": None, "top_k": None}
    with torch.random.fork_rng(), torch.no_grad():
        if answer.seed is not None:
            torch.manual_seed(answer.seed)
        row: list[int] = model.model.generate(
            **inputs,
            max_new_tokens=answer.generate,
            num_beams=1,
            pad_token_id=model.tokenizer.pad_token_id or model.tokenizer.eos_token_id or 0,
            **sampling,
            **greedy,
        )[0].tolist()
    return row


def _inputs(model: Model, ids: Tensor, source: Encoded | None) -> dict[str, Tensor]:
    """What is generated from: the prompt, or a source and the prefix of its answer."""
    if source is None:
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if source.batch.inputs is not None:
        raise Unsupported(
            f"{type(model.model).__name__} generates from sounds in a way of its own; give what it said (answer=)."
        )
    read = source.batch.ids.to(model.device)
    return {"input_ids": read, "attention_mask": torch.ones_like(read), "decoder_input_ids": ids}
