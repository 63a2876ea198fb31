"""Which predictions are asked about: at masks, after a prompt, of an answer that is given, or of one generated now."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from whence._arguments import whole
from whence.errors import BadInput, TooLong
from whence.models.coded import Coded, answered, coded, followed
from whence.models.encode import Encoded, aligned, limit
from whence.models.load import Model
from whence.sentence.lm_head import positions_of
from whence.text.sentence import Sentence, check, sentence


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


def token_number(model: Model, token: int | str) -> int:
    """A token's number in the vocabulary; a text that is not one token is refused."""
    if not isinstance(token, str):
        return whole("number of a token", token, 0, len(model.tokenizer) - 1)
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
    for name, value in {"position": position, "token": token}.items():
        if value is not None:
            raise BadInput(f"An answer says what is predicted at each place, so it goes without {name}=.")
    if answer.given is not None and answer.generate:
        raise BadInput("An answer was given and one is to be generated; ask for one of them (answer=, generate=).")
    if isinstance(answer.given, str):
        check(answer.given, "The answer")
    elif answer.given is not None and not sentence(answer.given).ids:
        raise BadInput("An answer is a text or token ids, and a chat was given; give its last message as a text.")


def _answered(model: Model, prompt: Coded, answer: object) -> Coded:
    if isinstance(answer, str):
        return answered(model.tokenizer, prompt, answer)
    return followed(model.tokenizer, prompt, sentence(answer).ids)


def _generated(model: Model, prompt: Coded, answer: Answer) -> Coded:
    """The model's own continuation: its best token each time, or sampled by its own settings from a seed."""
    longest, whole = limit(model.anatomy, model.tokenizer), len(prompt.ids) + answer.generate
    if longest is not None and whole > longest:
        raise TooLong(
            f"The prompt and {answer.generate:,} tokens more are {whole:,}, and the model takes at most {longest:,};"
            " generate fewer (generate=) or shorten the prompt."
        )
    network, ids = model.model, torch.tensor([prompt.ids], device=model.device)
    sampling = {"do_sample": True} if answer.seed is not None else {"do_sample": False, "temperature": None}
    greedy = {} if answer.seed is not None else {"top_p": None, "top_k": None}
    with torch.random.fork_rng(), torch.no_grad():
        if answer.seed is not None:
            torch.manual_seed(answer.seed)
        row = network.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=answer.generate,
            num_beams=1,
            pad_token_id=model.tokenizer.pad_token_id or model.tokenizer.eos_token_id or 0,
            **sampling,
            **greedy,
        )[0].tolist()
    return followed(model.tokenizer, prompt, row[len(prompt.ids) :])
