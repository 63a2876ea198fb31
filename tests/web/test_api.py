"""What the server answers: the right numbers, and one sentence with the right status for everything else."""

import json
import struct

import numpy as np
import pytest

import whence
from tests import tiny
from tests.web.conftest import BUILTIN, SOON, TINY, wait_until
from whence.errors import BadInput
from whence.models.load import Model
from whence.page.payload import payload
from whence.plot import flattened
from whence.web.jobs import Cancelled
from whence.web.limits import Limits
from whence.web.service import Ask, Service
from whence.web.unasked import PLAN

TEXT = "Paris is the capital of [MASK]."


def ask(client, text=TEXT, measures=("attention", "mixing"), model=TINY, **more):
    return client.post("/api/measure", json={"model": model, "text": text, "measures": list(measures), **more})


def finished(client, answer):
    """The key of a result, however long it takes, and the names of the events on the way."""
    found = answer.json()
    if answer.status_code == 200:
        return found["key"], []
    assert answer.status_code == 202, answer.text
    names = [name for name, _ in events(client, found["ticket"])]
    return found["key"], names


def events(client, ticket):
    text = client.get(f"/api/jobs/{ticket}/events").text
    retry, *parts = text.strip().split("\n\n")
    assert retry == "retry: 500"
    for part in parts:
        name, data = part.split("\n")
        yield name.removeprefix("event: "), json.loads(data.removeprefix("data: "))


def unpacked(body):
    """The header and the arrays, as the page reads them."""
    (length,) = struct.unpack("<I", body[:4])
    header, rest = json.loads(body[4 : 4 + length]), body[4 + length :]
    arrays = {}
    for name, row in header["variables"].items():
        kind = {"int16": "<i2", "float32": "<f4"}[row["kind"]]
        values = np.frombuffer(rest, kind, int(np.prod(row["shape"])), row["data_at"]).astype(np.float32)
        if "scale_at" in row:
            scale = np.frombuffer(rest, "<f4", values.size // int(np.prod(row["shape"][-2:])), row["scale_at"])
            values = (values.reshape(len(scale), -1) * scale[:, None]).ravel()
        arrays[name] = values.reshape(row["shape"])
    return header, arrays


def sentence_of(answer):
    """Every refusal is one sentence."""
    body = answer.json()
    assert list(body) == ["error"] and body["error"].endswith(".") and "\n" not in body["error"], body
    return body["error"]


def test_what_can_be_asked_for(client, models):
    found = client.get("/api/about").json()
    assert [row["name"] for row in found["models"]] == [BUILTIN, TINY]
    assert found["models"][0]["layers"] == 6 and found["models"][0]["mask"]
    assert set(found["models"][0]["measures"]) <= set(found["measures"])
    assert set(PLAN) <= set(found["measures"])
    stages = {name: row["stage"] for name, row in found["measures"].items()}
    assert stages["mixing"] == 0 and stages["attention"] == 4 and stages["value_zeroing"] is None
    assert [name for name, row in found["measures"].items() if row["view"] == "flow"] == ["decomposition"]
    assert found["measures"]["contribution"]["most"] == 40 and "{tokens}" in found["measures"]["contribution"]["offer"]


def test_without_its_feed_forward_a_model_has_its_flow_by_norms(monkeypatch):
    """As where it is known by its output alone: there is no decomposition to wait for."""
    given = Model.gives.fget
    monkeypatch.setattr(Model, "gives", property(lambda model: given(model) - {"neurons", "secant"}))
    model = tiny.model()
    (described,) = Service({"experts": model}, Limits()).about()["models"]
    assert not {"decomposition", "block"} & set(described["measures"]) and "norms" in described["measures"]
    flows = payload(whence.measure(model, "ada bo cy .", ["attention", "norms", "mixing"]))["flows"]
    assert flows[0] == "attnresln_n"


def test_how_long_contribution_takes_is_learnt(client):
    guessed = {row["name"]: row["pace"] for row in client.get("/api/about").json()["models"]}
    finished(client, ask(client, "on and " * 30, ["contribution"]))
    found = {row["name"]: row["pace"] for row in client.get("/api/about").json()["models"]}
    assert found[TINY] != guessed[TINY] and 0 < found[TINY] * 62**2 < 60


def test_results_are_what_measure_gives(client, models):
    key, _ = finished(client, ask(client, measures=["attention", "effective", "mixing", "norms"], model=BUILTIN))
    answer = client.get(f"/api/results/{key}")
    header, arrays = unpacked(answer.content)
    expected = flattened(whence.measure(models[BUILTIN], TEXT, ["attention", "effective", "mixing", "norms"]))
    assert [token["text"] for token in header["tokens"]] == expected["target_token"].values.tolist()
    assert set(arrays) == set(expected.data_vars)
    for name, values in arrays.items():
        assert np.allclose(values, expected[name].values, atol=1e-6), name


def test_long_texts_travel_as_steps(client, models):
    text = " ".join(["the keys to the cabinet are on the table"] * 12)
    key, _ = finished(client, ask(client, text))
    header, arrays = unpacked(client.get(f"/api/results/{key}").content)
    expected = whence.measure(models[TINY], text, ["attention"])["attention"].values
    assert header["variables"]["attention"]["kind"] == "int16"
    assert np.abs(arrays["attention"] - expected).max() < 1e-4


def test_one_layer_of_a_text_too_long_for_all(client, models):
    key, _ = finished(client, ask(client, measures=["map"], layer=2))
    expected = whence.measure(models[TINY], TEXT, ["attention"])["attention"].sel(layer=2)
    for head, values in [("mean", expected.mean("head")), *((place, expected.sel(head=place)) for place in range(4))]:
        header, arrays = unpacked(client.get(f"/api/map/{key}/{head}").content)
        assert header["layers"] == [2] and header["head_maps"] == ["attention"] and header["heads"] == 1
        assert np.allclose(arrays["attention"], values.values[None, None], atol=1e-6)
    assert "There is no head 4" in sentence_of(client.get(f"/api/map/{key}/4"))
    other, _ = finished(client, ask(client))
    assert "ask for the measure 'map'" in sentence_of(client.get(f"/api/map/{other}/mean"))
    assert "name it (layer)" in sentence_of(ask(client, measures=["map"]))
    assert "asked for alone" in sentence_of(ask(client, measures=["map", "mixing"], layer=1))
    found = ask(client, measures=["map"], layer=9).json()
    assert "layer" in (found.get("error") or events(client, found["ticket"])[-1][1]["error"])


def test_a_pair_is_read_as_one(client):
    key, _ = finished(client, ask(client, pair="London is not."))
    header, _ = unpacked(client.get(f"/api/results/{key}").content)
    assert [token["text"] for token in header["tokens"]].count("[SEP]") == 2
    assert header["attrs"]["pair"] == "London is not."


def test_parts_are_put_together_and_known_arrays_left_out(client):
    one, _ = finished(client, ask(client, measures=["attention", "mixing"]))
    two, _ = finished(client, ask(client, measures=["norms", "value_rank"]))
    header, arrays = unpacked(client.get(f"/api/results/{one},{two}?have=attention,mixing").content)
    assert "attention" not in arrays and "attn_n" in arrays
    assert {"attention", "attn_n"} <= set(header["styles"])
    assert header["panels"] == ["left", "whence", "flow", "maps", "heads", "compare"]
    assert header["attrs"]["measures"] == "attention,mixing,norms,value_rank"


def test_parts_of_different_sentences_are_refused(client):
    one, _ = finished(client, ask(client))
    two, _ = finished(client, ask(client, "Rome is not.", ["norms"]))
    answer = client.get(f"/api/results/{one},{two}")
    assert answer.status_code == 422 and "different sentences" in sentence_of(answer)


@pytest.mark.parametrize("measures", [["value_rank"], ["expansion"], ["lm_head"], ["contribution"], ["rollout_attn_w"]])
def test_every_kind_of_measure_can_be_read(client, measures):
    key, _ = finished(client, ask(client, measures=measures))
    header, _ = unpacked(client.get(f"/api/results/{key}").content)
    assert header["attrs"]["measures"]
    assert client.get(f"/api/netcdf/{key}").status_code == 200
    assert client.post("/api/page", json={"main": key}).status_code == 200


def test_the_head_is_asked_for_alone_and_where_there_is_a_token(client):
    assert "alone" in sentence_of(ask(client, measures=["lm_head", "mixing"]))
    assert "positions 0 to 8" in sentence_of(ask(client, measures=["lm_head"], positions=[40]))
    assert "no mask" in sentence_of(ask(client, "No gap.", measures=["lm_head"]))


def test_the_same_content_is_measured_once(client, server):
    text = "Only once."
    first, _ = finished(client, ask(client, text))
    again = ask(client, text, ["mixing", "attention"])  # the order of names does not matter
    assert again.status_code == 200 and again.json() == {"state": "done", "key": first, "ticket": None}
    others = [ask(client, text, truncate=True), ask(client, "Only once!"), ask(client, text, model=BUILTIN)]
    assert len({first, *(finished(client, other)[0] for other in others)}) == 4


def test_progress_is_told(client, started):
    running = started(Limits(patience=0.0))
    with running.client() as found:
        answer = ask(found, "The cat sat on the mat because it was tired.", ["contribution"], BUILTIN)
        assert answer.status_code == 202
        told = list(events(found, answer.json()["ticket"]))
    assert told[-1][0] == "done" and told[-1][1]["key"] == answer.json()["key"]
    progress = [data for name, data in told if name == "progress" and data["of"]]
    assert progress and all(0 <= row["done"] <= row["of"] for row in progress)


def test_a_job_can_be_cancelled(started):
    running = started(Limits(patience=0.0))
    text = " ".join(["the keys to the cabinet are on the table"] * 6)
    with running.client() as found:
        ticket = ask(found, text, ["contribution"], BUILTIN).json()["ticket"]
        job = running.service.jobs.of(ticket)
        wait_until(lambda: job.running)
        assert found.delete(f"/api/jobs/{ticket}").status_code == 204
        assert found.delete(f"/api/jobs/{ticket}").status_code == 410
        assert isinstance(job.finished.exception(SOON), Cancelled)
        assert ask(found).status_code in (200, 202)  # the worker goes on
        assert len(running.service.results) <= 1


def test_too_many_jobs_are_told_to_come_back(started):
    running = started(Limits(patience=0.0, waiting=2))
    text = " ".join(["the keys to the cabinet are on the table"] * 6)
    with running.client() as found:
        answers = [ask(found, f"{number} {text}", ["contribution"], BUILTIN) for number in range(6)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(refused) >= 3
        assert int(refused[0].headers["Retry-After"]) >= 1 and "waiting" in sentence_of(refused[0])
        for answer in answers:
            if answer.status_code == 202:
                found.delete(f"/api/jobs/{answer.json()['ticket']}")


# Refusals


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "not JSON"),
        (b"\xff\xfe", 400, ""),
        (b"[" * 100_000, 400, ""),
        (b"[1]", 422, ""),
        (b"", 422, "missing"),
        (b'{"model":"tiny","measures":["mixing"]}', 422, "'text' is missing"),
        (b'{"model":"tiny","text":"","measures":["mixing"]}', 422, "'text'"),
        (b'{"model":"tiny","text":"  ","measures":["mixing"]}', 422, "empty"),
        (b'{"model":"tiny","text":"\\ud800 a","measures":["mixing"]}', 422, "Unicode"),
        (b'{"model":"tiny","text":7,"measures":["mixing"]}', 422, "'text'"),
        (b'{"model":"tiny","text":"a","measures":[]}', 422, "'measures'"),
        (b'{"model":"tiny","text":"a","measures":["nonsense"]}', 422, "no measure 'nonsense'"),
        (b'{"model":"../../etc","text":"a","measures":["mixing"]}', 422, "no model '../../etc'"),
        (b'{"model":"tiny","text":"a","measures":["mixing"],"error":NaN}', 422, "'error'"),
        (b'{"model":"tiny","text":"a","measures":["mixing"],"revision":"x"}', 422, "no field 'revision'"),
        (b'{"model":"tiny","text":"\\ud800","measures":["mixing"],"\\udfff":1}', 422, ""),
    ],
)
def test_bodies_that_cannot_be_used(client, body, status, said):
    answer = client.post("/api/measure", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status and said in sentence_of(answer)


def test_a_text_longer_than_the_model_takes(client):
    answer = ask(client, "word " * 600)
    assert answer.status_code == 422 and "at most 512" in sentence_of(answer)
    cut, _ = finished(client, ask(client, "word " * 600, truncate=True, measures=["mixing"]))
    assert len(unpacked(client.get(f"/api/results/{cut}").content)[0]["tokens"]) == 512


def test_a_text_longer_than_the_explorer_takes(started):
    with started(Limits(tokens=20)).client() as found:
        answer = ask(found, "word " * 30)
        assert answer.status_code == 413 and "32 tokens" in sentence_of(answer)


def test_a_megabyte(client):
    answer = ask(client, "a" * 2**20)
    assert answer.status_code == 413 and "262,144" in sentence_of(answer)


def test_a_megabyte_without_a_length(client):
    def pieces():
        for _ in range(64):
            yield b"a" * 2**14

    answer = client.post("/api/measure", content=pieces(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413 and "at most" in sentence_of(answer)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Dest": "script"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/about"])
def test_other_sites_and_names_are_refused(client, headers, path):
    answer = client.get(path, headers=headers)
    assert answer.status_code == 403
    sentence_of(answer)


def test_the_page_itself_may_ask(client, server):
    assert client.get("/api/about", headers={"Origin": server.address}).status_code == 200
    assert client.get("/", headers={"Host": "localhost:1234"}).status_code == 200


def test_a_link_on_another_page_may_be_followed(client):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/", "/page.css", "/modules/page.js", "/api/about", "/nothing"])
def test_every_answer_has_the_policy(client, path):
    headers = client.get(path).headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_only_known_modules_are_handed_out(client):
    assert "export" in client.get("/modules/page.js").text
    for name in ("nothing.js", "..%2F..%2F__init__.py", "%2e%2e/app.py", "page.css"):
        assert client.get(f"/modules/{name}").status_code in (404, 410)


def test_there_is_no_script_in_the_page(client):
    text = client.get("/").text
    assert text.count("<script") == 1 and '<script type="module" src="/modules/live/live.js"></script>' in text
    assert "style=" not in text and "http" not in text


def test_wrong_addresses_and_methods(client):
    assert client.get("/nothing").status_code == 404
    answer = client.put("/api/measure")
    assert answer.status_code == 405 and "PUT" in sentence_of(answer) and answer.headers["Allow"] == "POST"
    for path in (
        "/api/results/zz",
        "/api/results/" + "0" * 32,
        "/api/jobs/none/events",
        "/api/jobs/" + "x" * 16 + "/events",
        "/api/netcdf/" + "0" * 32,
    ):
        assert client.get(path).status_code in (410, 422)


# What leaves


def test_netcdf_is_the_whole_dataset(client, models, tmp_path):
    import xarray

    one, _ = finished(client, ask(client))
    two, _ = finished(client, ask(client, measures=["norms"]))
    answer = client.get(f"/api/netcdf/{one},{two}")
    path = tmp_path / "whence.nc"
    path.write_bytes(answer.content)
    expected = whence.measure(models[TINY], TEXT, ["attention", "mixing", "norms"])
    with xarray.open_dataset(path, engine="netcdf4") as found:
        assert set(found.data_vars) == set(expected.data_vars)
        assert np.array_equal(found["attention"].values, expected["attention"].values)
        assert found["target_token"].values.tolist() == expected["target_token"].values.tolist()
        assert found.attrs["model"] == TINY and found.attrs["text"] == TEXT


def test_the_saved_page_holds_both_sentences(client):
    one, _ = finished(client, ask(client))
    two, _ = finished(client, ask(client, "London is the capital of [MASK]."))
    answer = client.post("/api/page", json={"main": one, "edited": two, "state": "view=perturb"})
    assert answer.headers["Content-Disposition"] == 'attachment; filename="whence.html"'
    data = json.loads(answer.text.split('id="data">')[1].split("</script>")[0])
    assert data["state"] == "view=perturb" and data["beside"]["edited"]["tokens"][1]["text"] == "london"


def test_a_page_of_what_is_gone(client):
    answer = client.post("/api/page", json={"main": "0" * 32})
    assert answer.status_code == 410 and "measure" in sentence_of(answer)


def test_a_read_only_explorer_measures_its_examples_and_nothing_else(models):
    service = Service(models, Limits(examples_only=True))
    shown = [row["text"] for row in service.about()["examples"] if not row["causal"]]
    assert shown and all(service.ask(Ask(model=BUILTIN, text=text, measures=["mixing"]))[0] for text in shown)
    with pytest.raises(BadInput, match="read-only and shows its examples"):
        service.ask(Ask(model=BUILTIN, text=TEXT, measures=["mixing"]))
    service.jobs.close()
