"""The command line as a person meets it: pictures, one-sentence errors, exit codes."""

import io
import os
import subprocess
import sys

import pytest

from tests import tiny
from tests.families import build
from tests.page.test_page import embedded
from whence import cli
from whence.cli.shared import NETCDF

TEXT = "Paris is the capital of [MASK]."


@pytest.fixture
def called(monkeypatch, capsys, loaded_once):
    """called(*arguments, piped=b""): exit code, standard output and error, with the built-in model loaded once."""
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments, piped=b""):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
        code = cli.run(list(arguments))
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def test_explain_shows_a_picture_and_writes_a_page(tmp_path):
    """In a process of its own."""
    found = subprocess.run(
        [sys.executable, "-m", "whence", "explain", TEXT, "--out", str(tmp_path / "page.html")],
        capture_output=True,
        env=os.environ | {"COLUMNS": "80"},
        check=False,
    )
    output = found.stdout.decode()
    assert found.returncode == 0, found.stderr
    assert "capital" in output and "[MASK]" in output and "layer" in output
    assert all(len(line) <= 80 for line in output.splitlines() if "page.html" not in line)
    assert "\x1b[" not in output  # not a terminal: no colours
    page = (tmp_path / "page.html").read_text()
    assert "<html" in page and "http-equiv" in page and str(tmp_path / "page.html") in output


def test_explain_of_a_model_without_attention(called, tmp_path):
    build("mamba", pad_token_id=0).save_pretrained(tmp_path / "model")
    tiny.tokenizer().save_pretrained(tmp_path / "model")
    page = tmp_path / "page.html"
    code, out, _ = called("explain", "ada bo cy .", "--model", str(tmp_path / "model"), "--out", str(page))
    assert code == 0 and "Where 6 tokens came from" in out and "is still" in out
    assert "contribution" in page.read_text()
    code, out, _ = called("verify", str(tmp_path / "model"))
    assert code == 0 and "3 layers, none of which attends" in out and "It gives: derivatives" in out


@pytest.fixture(scope="module")
def decoder_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoder")
    build("gpt2", pad_token_id=0).save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return str(folder)


def test_explain_of_a_decoder_begins_with_what_comes_next(called, tmp_path, decoder_folder):
    page = tmp_path / "p.html"
    code, out, _ = called("explain", "ada bo cy", "--model", decoder_folder, "--out", str(page))
    assert code == 0 and "is predicted after “cy” with " in out.splitlines()[0]
    assert "<title>" in page.read_text() and "is predicted after “cy” with " in page.read_text().split("</title>")[0]


def test_explain_of_a_mask_begins_with_what_stands_there(called, tmp_path):
    code, out, _ = called("explain", TEXT, "--out", str(tmp_path / "p.html"))
    assert code == 0 and "is predicted at “[MASK]” with " in out.splitlines()[0]


def test_explain_measures_what_is_asked_for(called, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    page, chart = tmp_path / "p.html", tmp_path / "c.svg"
    asked = ("--measures", "attention, norms", "--layers", "2", "5", "--targets", "1", "-3")
    code, out, err = called("explain", TEXT, *asked, "--out", str(page), "--chart", str(chart), "--open")
    assert (code, err) == (0, "") and opened == [page.as_uri()]
    assert "mean over 2 tokens" in " ".join(out.split()) and str(chart) in out and chart.read_text().startswith("<svg")
    rows = [line.split()[0] for line in out.splitlines() if line[:1] == " "]
    assert rows == ["5", "2"] and "mixes" not in out
    data = embedded(page.read_text())
    assert data["layers"] == [2, 5] and data["rows"] == [1, 6] and "mixing" not in data["variables"]


def test_explain_reads_standard_input(called, tmp_path):
    code, out, _ = called("explain", "-", "--out", str(tmp_path / "p.html"), piped="Zoë sat.".encode())
    assert code == 0 and "zoe" in out


def test_bytes_that_are_not_utf8(called, tmp_path):
    code, _, err = called("explain", "-", "--out", str(tmp_path / "p.html"), piped=b"caf\xe9")
    assert code == 2 and "not UTF-8" in err
    code, _, err = called("explain", os.fsdecode(b"caf\xe9"), "--out", str(tmp_path / "p.html"))
    assert code == 2 and "not UTF-8" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("explain", ""), "The text is empty"),
        (("explain", "word " * 700), "at most 512"),
        (("explain", "a", "--model", "nobody/nothing"), "nobody/nothing"),
        (("explain", "a", "--model", "./missing"), "no folder"),
        (("explain", "a", "--out", "missing/page.html"), "no folder 'missing'"),
        (("explain", "a", "--out", "page.pdf"), "'page.pdf' should end in .html or .htm"),
        (("lm-head", TEXT, "--chart", "missing/chart.svg"), "no folder 'missing'"),
        (("lm-head", TEXT, "--kind", "lens"), "say where to draw it: --chart"),
        (("lm-head", TEXT, "--recipe", "no-period"), "name a file of clozes"),
        (("lm-head", TEXT, "--limit", "3"), "--limit is for a corpus, and a text was given"),
        (("lm-head", TEXT, "--chart", "chart.svg", "--kind", "hits"), "there are: grid, sorted, norm; it is drawn of"),
        (("lm-head", TEXT, "--chart", "chart.svg", "--kind", "pie"), "no chart 'pie' of a text; there are: grid"),
        (("lm-head", TEXT, "--top", "0"), "at least 1, and 0"),
        (("serve", "--tokens", "0", "--no-browse"), "at least 1 token, and 0"),
        (("measure", "/", "--out", "run"), "'/' is a folder; name its files, as in '/*."),
        (("lm-head", "nothing.jsonl"), "no file 'nothing.jsonl'"),
        (("verify", "one/model", "--model", "another"), "Two models were named"),
        (("serve", "--port", "99999", "--no-browse"), "from 0 to 65535, and 99999"),
        (("explain", "a", "--dtype", "int8"), "no dtype 'int8'"),
        (("explain", "a", "--bogus"), "--bogus"),
        (("explain", "Paris", "is", "the", "capital"), "no place for 'is the capital'; put a text"),
        (("explain", "Hello", "world"), "put a text of several words in quotes, or name the"),
        (("explain", "Hello", "world"), "text of a pair with --pair."),
        (("lm-head", "Hello", "world"), "no place for 'world'; put a text of several words in quotes."),
        (("measure", "a.txt", "b.txt", "--out", "run"), "no place for 'b.txt'; name several files by one pattern"),
        (("identify", "a.txt", "b.txt"), "no place for 'b.txt'; name several files by one pattern in quotes"),
        (("report", "a", "b"), "no place for 'b'; see whence report --help."),
        (("explain", TEXT, "--measures", "nothing"), "no measure 'nothing'"),
        (("explain", TEXT, "--measures", ","), "No measure was asked for"),
        (("explain", TEXT, "--layers", "9"), "9"),
        (("explain", TEXT, "--targets", "99"), "targets 0 to 8, and 99"),
        (("explain", TEXT, "--chart", "chart.txt"), "'chart.txt' should end in .svg"),
        (("explain", TEXT, "--measures", "mixing", "--targets", "3"), "ask for a map as well, such as attention"),
        (("verify", "nobody/nothing"), "nobody/nothing"),
        (("bogus",), "bogus"),
    ],
)
def test_bad_input_gets_one_sentence_and_exit_code_2(called, arguments, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = called(*arguments)
    assert code == 2 and says in err
    assert err.startswith("whence: ") and err.count("\n") == 1
    assert not out and not list(tmp_path.iterdir())


def test_a_full_disk_is_one_sentence(called, tmp_path):
    link = tmp_path / "page.html"
    link.symlink_to("/dev/full")
    code, _, err = called("explain", "One two.", "--out", str(link))
    assert code == 2 and "cannot be written: No space left" in err and err.count("\n") == 1


def test_whoever_stops_reading(tmp_path):
    """`whence explain ... | head -1`."""
    page = tmp_path / "page.html"
    with subprocess.Popen(
        [sys.executable, "-m", "whence", "explain", TEXT, "--out", str(page)], stdout=subprocess.PIPE
    ) as process:
        process.stdout.close()
    assert process.returncode == 0 and page.is_file()


def test_a_lens_needs_layers(called, tmp_path):
    code, _, err = called("lm-head", TEXT, "--kind", "lens", "--chart", str(tmp_path / "l.svg"))
    assert code == 2 and "no chart 'lens' of a text; there are: grid" in err and "(--layer all)" in err


CLOZE = '{"masked_sentence": "Paris is the capital of [MASK].", "answer": "france"}\n'


@pytest.mark.parametrize("option", [("--position", "3"), ("--layer", "all"), ("--top", "3"), ("--truncate",)])
def test_what_is_for_one_text_is_not_left_aside_over_a_corpus(called, tmp_path, option):
    (tmp_path / "clozes.jsonl").write_text(CLOZE)
    code, out, err = called("lm-head", str(tmp_path / "clozes.jsonl"), *option)
    assert code == 2 and f"{option[0]} is for one text, and a corpus was given" in err and not out


def test_a_corpus_without_a_mask_is_no_table_of_zeros(called, tmp_path):
    (tmp_path / "plain.txt").write_text("No mask here.\n")
    code, out, err = called("lm-head", str(tmp_path / "plain.txt"))
    assert code == 2 and "1 left out: no mask" in out and "@10" not in out and "No answer could be looked for" in err


@pytest.mark.parametrize(
    ("arguments", "packages", "says"),
    [
        (("lm-head", TEXT, "--chart", "c.svg"), ["altair"], "Charts need altair: pip install 'whence[plot]'"),
        (("identify", "a.txt", "--chart", "c.pdf"), ["vl_convert"], "Charts need vl_convert"),
        (("lm-head", TEXT, "--out", "c.nc"), NETCDF, "pip install 'whence[netcdf]', or name a .csv file"),
        (("identify", "a.txt", "--out", "c.nc"), NETCDF, "Writing netCDF needs netCDF4"),
    ],
)
def test_a_package_that_is_missing_is_named_before_the_work(called, monkeypatch, tmp_path, arguments, packages, says):
    """A plain installation has neither charts nor netCDF."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("One two.\n")
    for name in packages:
        monkeypatch.setitem(sys.modules, name, None)
    code, out, err = called(*arguments)
    assert code == 2 and says in err and err.count("\n") == 1 and not out


def test_a_chart_of_the_head_opens_offline(called, tmp_path):
    code, _, err = called("lm-head", TEXT, "--chart", str(tmp_path / "c.html"))
    assert code == 0, err
    assert "cdn." not in (tmp_path / "c.html").read_text()


def test_the_builtin_model_has_a_name(called):
    code, out, err = called("verify", "whence/builtin")
    assert code == 0 and "whence/builtin: family bert, 6 layers" in out, err


def test_every_mask_is_accounted_for(called, tmp_path):
    _, out, _ = called("explain", "[MASK] [MASK] [MASK] [MASK]", "--out", str(tmp_path / "p.html"))
    assert "and 1 more: the page shows them" in out


def test_truncate(called, tmp_path):
    model = tiny.model()
    model.model.save_pretrained(tmp_path / "model")
    model.tokenizer.save_pretrained(tmp_path / "model")
    asked = ("explain", "ada " * 99, "--model", str(tmp_path / "model"), "--out", str(tmp_path / "p.html"))
    code, _, err = called(*asked)
    assert code == 2 and "at most 64" in err
    code, out, err = called(*asked, "--truncate")
    assert code == 0, err
    assert "and 24 more tokens: the page shows them" in out  # of 64, 40 are in the picture


@pytest.mark.parametrize(("most", "said"), [(0.1, True), (20, False)])
def test_a_large_page_is_said(called, monkeypatch, tmp_path, most, said):
    monkeypatch.setattr("whence.cli.explain.LARGE", most)
    code, out, err = called("explain", "One two.", "--out", str(tmp_path / "p.html"))
    assert code == 0 and "p.html" in out
    assert ("map of 5 times 5 tokens; a shorter text makes a smaller one." in err) == said


def test_contribution(called, tmp_path):
    code, out, err = called("explain", "One two.", "--contribution", "--out", str(tmp_path / "p.html"))
    assert code == 0, err
    assert '"contribution"' in (tmp_path / "p.html").read_text()
    assert "Main sources" in out


def test_a_pair(called, tmp_path):
    code, out, _ = called("explain", "One.", "--pair", "Two.", "--out", str(tmp_path / "p.html"))
    assert code == 0 and out.count("[SEP]") >= 2


def test_debug_gives_the_traceback(called, monkeypatch):
    from whence.errors import BadInput

    with pytest.raises(BadInput):
        called("explain", "", "--debug")


def test_verify(called):
    code, out, _ = called("verify")
    assert code == 0
    assert "heads sum to the projection" in out and "It gives: attention" in out and " NO " not in out


def test_bars_of_other_packages_stay_out_of_a_file():
    """Also those that are imported before the model is loaded."""
    command = "def run(_):\n    from tqdm.auto import tqdm\n    list(tqdm([1, 2]))\n    return 0\n"
    program = f"import whence.cli\n{command}whence.cli.run = run\nwhence.cli.main()"
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stderr == ""


def test_measures(called):
    code, out, _ = called("measures")
    assert code == 0 and "attention" in out and "vaswani2017" in out
