"""Why a prediction is made, asked of the server: the numbers of whence.why, a second choice, an answer as it grows."""

import base64
import zlib

import numpy as np
import pytest

import whence
from tests import tiny
from tests.families import build
from tests.web.conftest import BUILTIN, Running
from tests.web.test_api import ask, finished, sentence_of
from whence.web.examples import MASKED, examples

KEYS = "The keys to the cabinet [MASK] on the table."


def reasons(client, text=KEYS, model=BUILTIN, **options):
    key, _ = finished(client, ask(client, text, ["why"], model, **options))
    return client.get(f"/api/why/{key}").json()


def shares(payload):
    variable = payload["variables"]["share"]
    planes = np.frombuffer(zlib.decompress(base64.b64decode(variable["data"])), np.uint8)
    return np.ascontiguousarray(planes.reshape(4, -1).T).view("<f4").reshape(variable["shape"])


def test_shares_are_those_of_whence_why_rather_than_the_second_choice(client, models):
    found = reasons(client, rather=True)
    expected = whence.why(models[BUILTIN], KEYS, against="is", measures="share")
    (one,) = found["predicted"]
    assert (one["token"], one["against"]) == ("are", "is")
    assert one["title"].startswith("“are” is predicted at “[MASK]” with 48")
    assert one["because"].startswith("Its lead over “is” comes mostly from “keys” (2.01)")
    np.testing.assert_allclose(shares(found), expected.share.values, atol=1e-5)
    assert one["logit"] == pytest.approx(float(expected.logit[0]), abs=1e-4)


def test_rather_than_a_named_token_or_none(client):
    (alone,) = reasons(client)["predicted"]
    assert alone["against"] == "" and alone["because"].startswith("It comes mostly from ")
    third = alone["ids"][2]
    (named,) = reasons(client, rather=True, against=third)["predicted"]
    assert named["against"] == alone["alternatives"][2][0]


def test_what_is_read_by_itself_is_not_put_together_with_arrays(client):
    key, _ = finished(client, ask(client, KEYS, ["why"], BUILTIN))
    assert "by themselves" in sentence_of(client.get(f"/api/results/{key}"))
    other, _ = finished(client, ask(client, KEYS, ["mixing"], BUILTIN))
    for address in ("why", "answer"):
        refused = client.get(f"/api/{address}/{other}")
        assert refused.status_code == 422 and "ask for the measure" in sentence_of(refused)
    saved = client.post("/api/page", json={"main": other, "why": key})
    assert "Its lead" not in saved.text and "It comes mostly from" in saved.text
    assert "alone" in sentence_of(ask(client, KEYS, ["why", "mixing"], BUILTIN))
    assert "does not write on" in sentence_of(ask(client, KEYS, ["answer"], BUILTIN))


@pytest.fixture(scope="module")
def decoding():
    running = Running({"decoder": whence.load(build("llama"), tiny.tokenizer())})
    yield running
    running.close()


def test_an_answer_grows_a_few_tokens_at_a_time_and_is_explained(decoding):
    decoder = decoding.service.models["decoder"]
    with decoding.client() as client:
        said = {"tokens": []}
        for more in (2, 1):
            asked = ask(client, "ada bo cy", ["answer"], "decoder", answer=said["tokens"], more=more)
            said = client.get(f"/api/answer/{finished(client, asked)[0]}").json()
        whole = whence.why(decoder, "ada bo cy", generate=3, measures="share")
        assert said["tokens"] == whole.predicted_token_id.values.tolist()
        found = reasons(client, "ada bo cy", "decoder", answer=said["tokens"])
        np.testing.assert_allclose(shares(found), whole.share.values, atol=1e-5)
        assert [one["place"] for one in found["predicted"]] == [one["position"] + 1 for one in found["predicted"]]
        long = ask(client, "ada", ["answer"], "decoder", answer=[1] * 399, more=8)
        assert "at most 400" in sentence_of(long)


def test_the_examples_are_answered_as_they_should_be(models):
    answers = {
        name: str(whence.why(models[BUILTIN], text, measures="share").predicted_token.values[0])
        for name, text, _ in MASKED
    }
    assert answers == {"Agreement": "are", "Coreference": "her", "Negation": "not", "A planted fact": "green"}


def test_examples_are_those_of_the_models_there_are():
    assert [row["causal"] for row in examples({True})] == [True] * 4
    masked = examples({False})
    assert [row["causal"] for row in masked] == [False] * 4 + [True]
    assert "whence serve" in masked[-1]["about"]
