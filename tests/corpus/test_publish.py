"""A published run says what it is, is read by datasets, and leaves this machine only when it is told to."""

import json

import datasets
import huggingface_hub
import pytest
import yaml

import whence
from tests import tiny
from whence.errors import BadInput


@pytest.fixture
def run(tmp_path):
    return whence.run(tiny.model(), tiny.texts(5), ["mixing", "attention"], out=tmp_path / "run", maps=True)


def head(card):
    return yaml.safe_load(card.split("---")[1])


def test_every_table_that_the_card_names_is_read_by_datasets(run, tmp_path):
    card = whence.publish(run, "A title: with a colon", license="cc-by-4.0")
    about = head((tmp_path / "run/README.md").read_text())
    assert card == f"{run}/README.md" and (about["pretty_name"], about["license"]) == (
        "A title: with a colon",
        "cc-by-4.0",
    )
    opened = whence.open_run(run)  # the card does not disturb it
    found = {}
    for config in about["configs"]:
        name = config["config_name"]
        found[name] = datasets.load_dataset(run, name, split="train", cache_dir=str(tmp_path / "cache")).to_pandas()
        assert len(found[name])
    assert set(found) == {"tokens", "pairs", "sentences", "moments", "maps"}
    assert found["sentences"].labels.map(json.loads).tolist() == opened.sentences.labels.map(dict).tolist()
    assert (found["tokens"].mixing_attn_w == opened.tokens.mixing_attn_w).all()


def test_the_card_says_where_the_numbers_come_from(run, tmp_path):
    whence.publish(run)
    card, manifest = (tmp_path / "run/README.md").read_text(), whence.open_run(run).manifest
    said = (manifest["model"]["weights_sha256"], manifest["corpus"]["sha256"], manifest["versions"]["torch"])
    assert all(value in card for value in said)
    assert "kobayashi2021" in card and "| `mixing` |" in card and "license" not in head(card)
    assert "5 sentences" in card


def test_runs_of_predictions_have_cards_too(tmp_path):
    folder = whence.run(whence.load(), ["Paris is the capital of [MASK]."], ["why"], out=tmp_path / "run")
    whence.publish(folder)
    card = (tmp_path / "run/README.md").read_text()
    assert {config["config_name"] for config in head(card)["configs"]} == {"tokens", "pairs", "sentences"}
    assert "`share`" in card and "`dependence`" in card


def test_nothing_leaves_the_machine_unless_it_is_told_to(run, monkeypatch):
    sent = []
    api = huggingface_hub.HfApi
    monkeypatch.setattr(api, "create_repo", lambda self, *names, **options: sent.append(options) or "https://hub/a/b")
    monkeypatch.setattr(api, "upload_folder", lambda self, **options: sent.append(options))
    whence.publish(run)
    assert not sent
    assert whence.publish(run, push_to_hub="a/b") == "https://hub/a/b"
    made, uploaded = sent
    assert made["private"] is True and made["repo_type"] == uploaded["repo_type"] == "dataset"
    assert {"journal.jsonl", ".lock"} <= set(uploaded["ignore_patterns"]) and uploaded["repo_id"] == "a/b"


def test_what_cannot_be_published_is_refused(run, tmp_path, monkeypatch):
    with pytest.raises(BadInput, match="organisation/name, and 'mine' was given"):
        whence.publish(run, push_to_hub="mine")

    def stop(done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        whence.run(tiny.model(), tiny.texts(9), ["mixing"], out=tmp_path / "half", part_size=2, progress=stop)
    with pytest.raises(BadInput, match="is not finished"):
        whence.publish(tmp_path / "half")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(BadInput, match="cannot be written on the Hub"):
        whence.publish(run, push_to_hub="a/b")
