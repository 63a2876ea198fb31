"""Prompts with their answers, or chats, one JSON object per line."""

from collections.abc import Iterator

from whence.errors import BadInput
from whence.text.readers.plain import place
from whence.text.readers.rows import Row, json_rows
from whence.text.readers.skipped import Skipped
from whence.text.sentence import Sentence, check, check_names, sentence

CHAT = "messages"
ASSISTANT = "assistant"


def prompts(
    path: str, skipped: Skipped, prompt: str = "prompt", answer: str = "answer", id: str = "id"
) -> Iterator[Sentence]:
    """Each object is {"prompt": …, "answer": …} or {"messages": [{"role": …, "content": …}, …]}.

    The answer is taken as it would stand behind the prompt, with its space in front; it may be missing. Of a chat that
    the assistant ends, the last message is the answer.
    """
    for row in json_rows(path, skipped):
        try:
            read = _chat(row) if CHAT in row.cells else _prompt(row, prompt, answer)
            name = str(row.cells.get(id) or place(path, row.number))
            labels = {} if read[1] is None else {"answer": read[1]}
            parsed = Sentence(read[0].text, id=name, document=name, labels=labels, turns=read[0].turns)
            check_names(parsed)
        except BadInput as error:
            skipped.bad("malformed", str(error), row.number)
        else:
            yield parsed


def _prompt(row: Row, prompt: str, answer: str) -> tuple[Sentence, str | None]:
    if prompt not in row.cells:
        there = ", ".join(map(repr, row.cells))
        raise BadInput(f"the object has no {prompt!r} and no {CHAT!r}; its members are {there}.")
    text, said = row.cells[prompt], row.cells.get(answer)
    check(text)
    return sentence(text), None if said is None else _answer(said)


def _chat(row: Row) -> tuple[Sentence, str | None]:
    messages = row.cells[CHAT]
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise BadInput(f"{CHAT!r} is a list of messages, and {messages!r:.40} was found.")
    chat = sentence(messages)
    if chat.turns[-1].role != ASSISTANT:
        return chat, None
    if len(messages) == 1:
        raise BadInput("the chat has an answer alone; what it answers is missing.")
    return sentence(messages[:-1]), _answer(chat.turns[-1].content)


def _answer(said: object) -> str:
    check(said)
    assert isinstance(said, str)
    return said
