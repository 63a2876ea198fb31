"""An assistant gets the numbers that the library gives, and refusals in the library's own sentences."""

import json
import os
import sys

import anyio
import numpy as np
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import whence
from whence.web.assistant import MOST, assistant
from whence.web.limits import Limits

KEYS = "The keys to the cabinet [MASK] on the table."
TOOLS = {"why", "measure", "lm_head", "list_measures"}


@pytest.fixture
def call(models):
    """What a tool answers, through the protocol, in this process."""

    def called(name, limits=None, **arguments):
        async def asked():
            async with Client(assistant(models, limits)) as client:
                return await client.call_tool(name, arguments)

        answer = anyio.run(asked)
        text = answer.content[0].text
        return text if answer.is_error else json.loads(text)

    return called


def test_why_is_what_the_library_says(models, call):
    (found,) = call("why", text=KEYS, against="is", most=3)["predicted"]
    ds = whence.why(models["whence/builtin"], KEYS, against="is").isel(predicted=0).sel(layer=0)
    assert (found["token"], found["logit"]) == ("are", round(float(ds.logit), 4))
    assert found["sources"][0] == {"token": "keys"} | {
        name: round(float(ds[name].max() if name == "share" else ds[name][2]), 4) for name in ("share", "dependence")
    }
    assert len(found["sources"]) == 3 and found["not_listed"] == ds.sizes["source"] - 3
    everything = call("why", text=KEYS, against="is", most=100)["predicted"][0]
    total = sum(source["share"] for source in everything["sources"]) + everything["constants"]
    assert total == pytest.approx(found["logit"], abs=0.01)


def test_measures_come_as_arrays_with_their_axes(models, call):
    found = call("measure", text=KEYS, measures=["attention", "mixing"], layers=[6], targets=[6])
    ds = whence.measure(models["whence/builtin"], KEYS, ["attention", "mixing"], layers=[6], targets=[6])
    attention = found["variables"]["attention"]
    assert (attention["dims"], found["target"], found["head"]) == (
        ["layer", "target", "source"],
        {"6": "[MASK]"},
        "mean",
    )
    assert np.allclose(attention["values"], ds.attention.mean("head"), atol=1e-4)
    assert np.allclose(found["variables"]["mixing"]["values"], ds.mixing, atol=1e-4)
    alone = call("measure", text=KEYS, measures=["attention"], layers=[6], targets=[6], head=3)
    assert np.allclose(alone["variables"]["attention"]["values"], ds.attention.sel(head=3), atol=1e-4)


def test_the_head_and_the_table_of_measures(models, call):
    (mask,) = call("lm_head", text="Paris is the capital of [MASK].", k=2, model="whence/builtin")["predicted"]
    ds = whence.lm_head(models["whence/builtin"], "Paris is the capital of [MASK].", k=2)
    assert list(mask["stages"]["lmhead-out"]) == ds.top.isel(layer=0, position=0, stage=-1).values.tolist()
    assert {row["measure"] for row in call("list_measures")} == set(whence.list_measures().measure)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("why", {"text": "No mask."}, "The text has no mask"),
        ("why", {"text": KEYS, "layer": 7}, "The layers are 0 to 6, and 7"),
        ("why", {"text": KEYS, "model": "other"}, "there are: whence/builtin, tiny"),
        ("measure", {"text": KEYS, "measures": ["nothing"]}, "There is no measure 'nothing'; there are:"),
        ("measure", {"text": KEYS, "measures": ["attention"], "head": 99}, "The heads are 0 to"),
        ("measure", {"text": KEYS * 3, "measures": ["norms"]}, f"an answer has at most {MOST:,}"),
    ],
)
def test_refusals_are_the_librarys_sentences(call, name, arguments, said):
    assert said in call(name, **arguments)


def test_texts_are_no_longer_than_the_server_takes(call):
    assert "at most 5 are taken; shorten it" in call("why", Limits(tokens=5), text=KEYS)


@pytest.mark.slow
def test_the_command_speaks_the_protocol():
    """Nothing but the protocol is on standard output, or the client would not understand it."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "whence", "serve", "--mcp"], env=dict(os.environ)
    )

    async def asked():
        async with Client(stdio_client(command)) as client:
            tools = await client.list_tools()
            answer = await client.call_tool("why", {"text": KEYS})
            return {tool.name for tool in tools.tools}, json.loads(answer.content[0].text)

    tools, answer = anyio.run(asked)
    assert tools == TOOLS and answer["predicted"][0]["token"] == "are"
