"""whence why: the picture in a terminal and out of one, JSON, the page, and one sentence for what cannot be."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import numpy as np
import pytest
from rich.cells import cell_len

import whence
from tests import tiny, towers
from tests.families import build
from whence.cli import run
from whence.plot.terminal_why import picture
from whence.plot.why import chance

TEXT = "Paris is the capital of [MASK]."
TEMPLATE = "{% for m in messages %}[CLS] {{ m.content }} [SEP]{% endfor %} lou"
CHAT = [{"role": "user", "content": "ada bo"}, {"role": "assistant", "content": "cy"}]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """A tiny Llama in a folder, with a chat template."""
    folder, tokenizer = tmp_path_factory.mktemp("decoder"), tiny.tokenizer()
    tokenizer.chat_template = TEMPLATE
    build("llama").save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def called(monkeypatch, capsys):
    """called(*arguments): exit code, standard output and error."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments):
        code = run(["why", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A tiny ViT in a folder with its processor, and a picture."""
    from PIL import Image
    from transformers import AutoModelForImageClassification
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    folder = tmp_path_factory.mktemp("classifier")
    towers.build("vit", AutoModelForImageClassification).save_pretrained(folder)
    ViTImageProcessorPil(size=towers.SIDE).save_pretrained(folder)
    pixels = np.random.RandomState(0).randint(0, 256, (40, 50, 3)).astype("uint8")
    Image.fromarray(pixels).save(folder / "a.png")
    return str(folder)


def test_a_picture_is_a_file(called, classifier, tmp_path):
    page = tmp_path / "page.html"
    code, said, _ = called(f"{classifier}/a.png", "--model", classifier, "--out", str(page))
    assert code == 0 and re.search(r"“LABEL_\d” is predicted with", said) and "[CLS]" in said
    assert page.read_text().count("data:image/png;base64,") == 1
    code, said, _ = called(f"{classifier}/a.png", "--model", classifier, "--json")
    assert code == 0 and json.loads(said)["predicts"] == "class"
    for wrong in (["a word"], [str(page)]):
        code, _, error = called(*wrong, "--model", classifier)
        assert code == 2 and "is no file of a picture" in error and "\n" not in error.strip()
    code, _, error = called("ada bo", "--image", f"{classifier}/a.png")
    assert code == 2 and "reads no pictures, and one was given" in error


def in_a_terminal(columns, *arguments):
    """What `whence why` writes to a terminal of so many columns, without the progress bar's lines."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    setting = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    setting |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    command = [sys.executable, "-m", "whence", "why", *arguments]
    written = b""
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=subprocess.DEVNULL, env=setting) as process:
        os.close(terminal)
        try:
            while data := os.read(screen, 65536):
                written += data
        except OSError:  # how a terminal ends on Linux
            pass
    os.close(screen)
    assert process.returncode == 0
    return written.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_shades_the_text(columns):
    shown = in_a_terminal(columns, TEXT)
    lines = COLOURS.sub("", shown).splitlines()
    assert all(cell_len(line) <= columns for line in lines)
    assert "[CLS] paris is the capital of [MASK] . [SEP]" in lines  # a text to read, not a table
    shaded = [re.search(rf"\x1b\[([0-9;]*)m{word}\x1b", shown)[1] for word in ("paris", "capital")]
    assert all("48;2;" in style for style in shaded) and shaded[0] != shaded[1]
    assert any(set("▁▂▃▄▅▆▇█") & set(line) and line.startswith("layer 0") for line in lines)


def test_out_of_a_terminal_there_are_numbers(called, builtin):
    code, out, err = called(TEXT)
    assert code == 0 and "\x1b" not in out and not err
    assert all(cell_len(line) <= 80 for line in out.splitlines())
    ds = whence.why(builtin, TEXT, spans="word")
    assert f"“{ds.predicted_token.item()}” is predicted at “[MASK]” with {100 * ds.probability.item():.0f} %" in out
    for token, share in zip(ds.source_token.values, ds.share[0, 0].values, strict=True):
        assert re.search(rf"(^|   ){re.escape(token)} {re.escape(_number(share))}(   |$)", out, re.M), token
    best = [f"{token} " for token in ds.alternative_token.values[0]]
    assert all(token in out for token in best)
    own = ds.share.sel(source=6).values[0] / ds.logit.item()
    assert f"{100 * own[3]:.0f} % at 3" in out
    settled = next(layer for layer in range(7) if (own[layer:] >= 0.5).all())
    assert f"half of it from layer {settled} on" in out


def _number(value):
    digits = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2g}" if abs(value) < 0.095 else f"{value:.2f}"
    return digits.replace("-", "−")


def test_an_answer_is_a_line_for_each_token_and_a_table_of_all(called, decoder):
    code, out, _ = called("ada bo cy", "--answer", " dee ed", "--model", decoder, "--through", "generated")
    assert code == 0 and "The answer: dee ed" in out and "All of them together" in out
    ds = whence.why(whence.load(decoder), "ada bo cy", answer=" dee ed", spans="word", through="generated")
    for place, token in enumerate(("dee", "ed")):
        line = next(line for line in out.splitlines() if re.match(rf"{token} +[\d.]+ %", line))
        shares = ds.span_share[place, 0].values
        top = ds.span_text.values[int(abs(shares).argmax())]
        assert chance(ds.probability[place].item()) in line and top in line
        assert f"{100 * ds.carried_through[place].item():.0f} %" in line
    total = ds.span_share.isel(layer=0).sum("predicted").values
    table = out.split("Strongest sources")[1]
    for name, share in zip(ds.span_text.values, total, strict=True):
        if share:
            assert re.search(rf"^{re.escape(name)}.* {re.escape(_number(share))} ", table, re.M), name


def test_json_is_all_there_is_on_standard_output(called, decoder, tmp_path):
    page = tmp_path / "page.html"
    asked = ("ada bo", "--model", decoder, "--generate", "2", "--components", "--json", "--out", str(page))
    code, out, _ = called(*asked)
    found = json.loads(out)
    assert code == 0 and out.count("\n") == 1 and page.is_file()
    ds = whence.why(whence.load(decoder), "ada bo", generate=2, components=True, spans="word")
    assert (
        found["schema"] == 1 and found["layers"] == ds.layer.values.tolist() and found["answer"] == ds.attrs["answer"]
    )
    assert [source["token_id"] for source in found["sources"]] == ds.source_token_id.values.tolist()
    assert [source["is_answer"] for source in found["sources"]] == ds.source_is_answer.values.tolist()
    assert found["provenance"]["whence_version"] == ds.attrs["whence_version"]
    for place, one in enumerate(found["predicted"]):
        own = ds.isel(predicted=place)
        for name in ("share", "dependence", "bias", "logit", "probability", "span_share", "component_share"):
            assert np.allclose(one[name], own[name].values, rtol=1e-5, atol=1e-6), name
        assert one["position"] == int(own.predicted) and one["token_id"] == int(own.predicted_token_id)
        assert [row["token_id"] for row in one["alternatives"]] == own.alternative_token_id.values.tolist()
        parts = np.array(one["share"]).sum(axis=-1) + one["bias"]
        assert np.allclose(parts, one["logit"], atol=1e-4)


def test_layers_are_those_asked_for(called, decoder):
    _, out, _ = called("ada bo", "--model", decoder, "--layers", "0", "2", "--json")
    found = json.loads(out)
    assert found["layers"] == [0, 2] and len(found["predicted"][0]["share"]) == 2
    _, out, _ = called("ada bo", "--model", decoder, "--layers", "0", "2")
    assert "at layer 0 (the embeddings):" in out and "at layer 2:" in out


def test_a_chat_from_a_file(called, decoder, tmp_path):
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    code, out, _ = called("--chat", str(tmp_path / "chat.json"), "--model", decoder, "--json")
    found = json.loads(out)
    assert code == 0 and set(found["spans"]) == {"user", "assistant", "template"}
    assert found["predicted"][0]["position"] == len(found["sources"]) - 1


def test_the_same_words_for_tokens_and_spans(called, decoder):
    """A token by its text or number, spans by their characters."""
    asked = ("ada bo", "--model", decoder, "--json")
    number = str(tiny.tokenizer().convert_tokens_to_ids("cy"))
    by_text, by_number = (json.loads(called(*asked, "--token", name)[1]) for name in ("cy", f"id:{number}"))
    assert by_text["predicted"] == by_number["predicted"] and by_text["predicted"][0]["token"] == "cy"
    found = json.loads(called(*asked, "--against", "cy", "--spans", "0:3,4:6")[1])
    assert found["predicted"][0]["against"] == "cy" and {"ada", "bo"} <= set(found["spans"])


def test_the_page_is_opened(called, monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.chdir(tmp_path)
    code, out, _ = called(TEXT, "--open")
    assert code == 0 and opened == [(tmp_path / "why.html").as_uri()] and str(tmp_path / "why.html") in out


def test_a_model_without_shares_is_explained_by_dependence(called, tmp_path):
    build("gpt_oss").save_pretrained(tmp_path / "experts")
    tiny.tokenizer().save_pretrained(tmp_path / "experts")
    asked = ("ada bo", "--model", str(tmp_path / "experts"))
    code, _, err = called(*asked)
    assert code == 2 and "ask for 'dependence' alone (--measures)" in err
    code, out, _ = called(*asked, "--measures", "dependence", "--out", str(tmp_path / "page.html"))
    assert code == 0 and "depends most on" in out and "Length of the derivative" in out


def test_the_first_token_of_a_decoder_is_labelled_where_it_is_a_sink(smollm2):
    ds = whence.why(smollm2, "The capital of France is", measures="share", spans="word")
    plain = picture(ds, [0], 80, True).plain
    share = ds.share[0, 0].values
    assert "“Paris” is predicted after “is”" in plain and "The – first token (sink)" in plain
    assert f"The first token (sink) has {share[0]:.2f} and is left out of the scale." in plain
    assert f" {abs(share[1:]).max():.2f}\n" in plain  # where the scale ends


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("Hello", "world"), "no place for 'world'; put a text of several words in quotes"),
        (("Paris is",), "The text has no mask; put [MASK]"),
        (("Paris is", "--generate", "3"), "put [MASK] where it is to predict"),
        ((TEXT, "--chat", "chat.json"), "A text and a chat were given"),
        (("--chat", "none.json"), "There is no file 'none.json'"),
        (("--chat", "bad.json"), "'bad.json' is not JSON"),
        (("--chat", "dict.json"), "should be a list of messages"),
        (("--chat", "chat.json"), "no chat template"),
        ((TEXT, "--layers", "0", "9"), "layers 0 to 6, and 9"),
        ((TEXT, "--spans", "chapter"), "there are: word, line"),
        ((TEXT, "--spans", "3:5,7"), "Characters are given as in 0:17,40:52"),
        ((TEXT, "--spans", "turn"), "or other spans (--spans)"),
        ((TEXT, "--token", "id:x"), "as in id:3000"),
        ((TEXT, "--token", "nonsensical words"), "tokens, and one is asked for"),
        ((TEXT, "--measures", "norms"), "there are: share, dependence"),
        ((TEXT, "--through", "generated"), "ask for an answer (--answer, --generate)"),
        ((TEXT, "--memory-limit", "1e-6"), "or allow more (--memory-limit)"),
        ((TEXT, "--out", "page.pdf"), "should end in .html or .htm"),
        ((TEXT, "--alternatives", "0"), "at least 1"),
        (("word " * 700 + "[MASK]",), "at most 512"),
        (("",), "The text is empty"),
    ],
)
def test_refused_in_one_sentence(called, monkeypatch, tmp_path, arguments, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chat.json").write_text(json.dumps(CHAT))
    (tmp_path / "bad.json").write_text("[{")
    (tmp_path / "dict.json").write_text("{}")
    code, out, err = called(*arguments)
    assert code == 2 and says in err and not out
    assert err.startswith("whence: ") and err.count("\n") == 1 and "=)" not in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("ada", "--answer", ""), "The answer is empty"),
        (("ada", "--answer", "  "), "The answer is empty"),
        (("ada", "--answer", "bo", "--generate", "2"), "ask for one of them (--answer, --generate)"),
        (("ada", "--answer", "bo", "--position", "0"), "goes without --position"),
        (("ada", "--generate", "10000"), "the model takes at most 64; generate fewer (--generate)"),
        (("ada bo " * 40,), "at most 64"),
        (("ada", "--token", "id:999999"), "number of a token is a whole number of at most"),
        (("ada", "--against", "ada bo"), "is 2 tokens, and one is asked for"),
        (("ada", "--position", "9"), "positions 0 to"),
    ],
)
def test_what_a_decoder_cannot_be_asked_is_one_sentence(called, decoder, arguments, says):
    code, out, err = called(*arguments, "--model", decoder)
    assert code == 2 and says in err and not out
    assert err.startswith("whence: ") and err.count("\n") == 1 and "=)" not in err
