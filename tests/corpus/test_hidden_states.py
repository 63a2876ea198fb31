"""States on disk are those of the model; they are made once, and interrupted work goes on where it stopped."""

import copy
import errno
import itertools
import json
import os

import numpy as np
import pytest
import torch
from tokenizers.processors import TemplateProcessing

import whence
from tests.families import build
from whence.corpus import hidden_states as module
from whence.corpus.hidden_states import default_folder, states_of
from whence.corpus.store import CannotWrite
from whence.errors import BadInput, Unsupported
from whence.models.capture import trace
from whence.models.encode import encode
from whence.text.sentence import sentence

TEXTS = ["The cat sat.", ("A pair of texts", "is one sentence."), "Paris is the capital of France, they say.", "Yes."]


@pytest.fixture(scope="module")
def llama(builtin):
    """A tiny random decoder without absolute positions, over the built-in vocabulary."""
    return whence.load(build("llama", vocab_size=len(builtin.tokenizer)), builtin.tokenizer)


@pytest.fixture
def counted(monkeypatch):
    """How often the model ran; `limit` makes it fail after so many passes."""
    real, passes = module.walk, {"count": 0, "limit": None}

    def walk(*arguments, **more):
        if passes["count"] == passes["limit"]:
            raise KeyboardInterrupt
        passes["count"] += 1
        return real(*arguments, **more)

    monkeypatch.setattr(module, "walk", walk)
    return passes


def test_every_layer_of_every_token(builtin, tmp_path):
    found = states_of(builtin, TEXTS, cache=tmp_path)
    for text, start, length in zip(TEXTS, found.starts, found.lengths, strict=True):
        encoded = encode(builtin.anatomy, builtin.tokenizer, sentence(text))
        alone = trace(builtin.anatomy, encoded.batch)
        rows = slice(start, start + length)
        assert found.ids[rows].tolist() == encoded.batch.ids[0].tolist()
        assert found.special[rows].tolist() == encoded.special
        for layer, states in enumerate([alone.embedding, *(block.output for block in alone.blocks)]):
            assert np.allclose(found.layer(layer)[rows], states[0], atol=2e-5)


def test_a_second_run_reads_the_files(builtin, tmp_path, counted):
    first = states_of(builtin, TEXTS, cache=tmp_path)
    done = counted["count"]
    again = states_of(builtin, list(TEXTS), cache=tmp_path)
    assert counted["count"] == done and again.folder == first.folder


def test_anything_else_gets_a_folder_of_its_own(builtin, llama, tmp_path):
    folders = [
        states_of(builtin, TEXTS, cache=tmp_path).folder,
        states_of(builtin, TEXTS[::-1], cache=tmp_path).folder,
        states_of(builtin, TEXTS, truncate=True, cache=tmp_path).folder,
        states_of(builtin, TEXTS, embeddings="sum", cache=tmp_path).folder,
        states_of(llama, TEXTS, cache=tmp_path).folder,
    ]
    with torch.no_grad():  # fine-tuned in place, under the same name
        weight = next(llama.model.parameters())
        weight[5] += 1e-3
        folders.append(states_of(llama, TEXTS, cache=tmp_path).folder)
        weight[5] -= 1e-3
    assert len(set(folders)) == len(folders)


def test_interrupted_work_resumes(llama, tmp_path, counted, monkeypatch):
    monkeypatch.setattr(module, "PART", 2)
    texts = [f"Sentence number {number} of the corpus{' and more' * (number % 3)}." for number in range(11)]
    whole = states_of(llama, texts, cache=tmp_path / "whole")
    needed = counted["count"]
    counted |= {"count": 0, "limit": 5}
    with pytest.raises(KeyboardInterrupt):
        states_of(llama, texts, cache=tmp_path / "parts")
    (folder,) = (path for path in (tmp_path / "parts" / "states").iterdir() if path.is_dir())
    done = len(list((folder / "parts").iterdir()))
    assert 0 < done < 6 and not json.loads((folder / "manifest.json").read_text())["finished"]
    with (folder / "layer_002.float32").open("ab") as file:  # half a part was written when it happened
        file.write(b"broken")
    counted |= {"count": 0, "limit": None}
    resumed = states_of(llama, texts, cache=tmp_path / "parts")
    assert counted["count"] < needed
    for layer in range(llama.anatomy.layers + 1):
        assert np.array_equal(resumed.layer(layer), whole.layer(layer))
    assert np.array_equal(resumed.lengths, whole.lengths) and np.array_equal(resumed.ids, whole.ids)


def test_only_a_pass_is_in_memory(llama, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BATCH_BYTES", 20 * 4 * 64 * 4)  # twenty tokens
    sizes, real = [], module._Writer._layers
    monkeypatch.setattr(
        module._Writer, "_layers", lambda self, batch: sizes.append(batch.ids.numel()) or real(self, batch)
    )
    found = states_of(llama, ["A corpus of many sentences."] * 30, cache=tmp_path)
    assert max(sizes) <= 20 and isinstance(found.layer(1), np.memmap)


def test_progress_counts_sentences(llama, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PART", 2)
    seen = []
    states_of(llama, ["One sentence."] * 5, cache=tmp_path, progress=lambda done, of: seen.append((done, of)))
    assert seen == [(0, 5), (2, 5), (4, 5), (5, 5)]


def test_the_sum_before_the_norm(builtin, tmp_path):
    found = states_of(builtin, TEXTS, embeddings="sum", cache=tmp_path)
    output = states_of(builtin, TEXTS, cache=tmp_path)
    inside = builtin.model.bert.embeddings
    encoded = encode(builtin.anatomy, builtin.tokenizer, sentence(TEXTS[1]))
    ids, segments = encoded.batch.ids, encoded.batch.segments
    total = inside.word_embeddings(ids) + inside.token_type_embeddings(segments)
    total = (total + inside.position_embeddings(torch.arange(ids.shape[1])))[0]
    rows = slice(found.starts[1], found.starts[1] + found.lengths[1])
    assert np.allclose(found.layer(0)[rows], total.detach(), atol=1e-5)
    assert np.allclose(
        inside.LayerNorm(torch.from_numpy(found.layer(0)[rows].copy())).detach(), output.layer(0)[rows], atol=1e-4
    )
    assert np.array_equal(found.layer(6), output.layer(6))


def test_without_a_norm_sum_and_output_are_one(llama, tmp_path):
    both = [states_of(llama, TEXTS, embeddings=kind, cache=tmp_path).layer(0) for kind in ("sum", "output")]
    assert np.array_equal(*both)


def test_a_narrower_sum_is_refused(builtin, tmp_path):
    narrow = whence.load(build("electra", vocab_size=len(builtin.tokenizer)), builtin.tokenizer)
    with pytest.raises(Unsupported, match="24 wide"):
        states_of(narrow, TEXTS, embeddings="sum", cache=tmp_path)
    assert states_of(narrow, TEXTS, cache=tmp_path).width == 64


def test_a_single_token_is_refused(smollm2_like, tmp_path):
    with pytest.raises(BadInput, match=r"Sentence 2 \('Yes'\) is a single token"):
        states_of(smollm2_like, ["Two words.", "Yes"], cache=tmp_path)


@pytest.fixture
def smollm2_like(llama, builtin):
    """A decoder whose tokenizer adds nothing around the text."""
    bare = copy.deepcopy(builtin.tokenizer)
    bare.backend_tokenizer.post_processor = TemplateProcessing(single="$A", pair="$A $B:1", special_tokens=[])
    return whence.load(llama.model, bare)


def test_states_that_are_not_finite_are_refused(llama, tmp_path):
    weight = llama.anatomy.blocks[1].mlp.down_proj.weight
    kept = weight.detach().clone()
    with torch.no_grad():
        weight.fill_(float("inf"))
        try:
            with pytest.raises(Unsupported, match="layer 2 are not all finite"):
                states_of(llama, TEXTS, cache=tmp_path)
        finally:
            weight.copy_(kept)


def test_a_folder_that_cannot_be_written(llama, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        states_of(llama, TEXTS, cache=tmp_path / "file")


def test_where_states_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("WHENCE_CACHE", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.delenv("WHENCE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "whence"


@pytest.mark.parametrize("lengths", [(3, 9, 30), (9, 30, 3), (30, 9, 3)])
def test_order_is_kept_whatever_the_lengths(llama, tmp_path, lengths):
    texts = [" ".join(["word"] * length) for length in lengths]
    found = states_of(llama, texts, cache=tmp_path)
    assert found.lengths.tolist() == [length + 2 for length in lengths]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("layer_002.float32", "changed"),
        ("layer_002.float32", "cut short"),
        ("ids.int32", "gone"),
        ("lengths.int32", "changed"),
        ("manifest.json", "cut short"),
        ("manifest.json", "gone"),
        ("parts/00000.json", "changed"),
        ("parts/00000.json", "gone"),
    ],
)
def test_damaged_states_are_made_again(llama, tmp_path, name, damage):
    wanted = np.array(states_of(llama, TEXTS, cache=tmp_path).layer(2))
    (folder,) = (path for path in (tmp_path / "states").iterdir() if path.is_dir())
    data = (folder / name).read_bytes()
    changed = {"changed": data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "cut short": data[:-9]}
    (folder / name).unlink() if damage == "gone" else (folder / name).write_bytes(changed[damage])
    assert np.array_equal(states_of(llama, TEXTS, cache=tmp_path).layer(2), wanted)
    assert (folder / name).read_bytes() == data


def test_only_a_damaged_part_is_made_again(llama, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PART", 2)
    texts = [f"Sentence number {number} of the corpus." for number in range(7)]
    found = states_of(llama, texts, cache=tmp_path)
    file = found.folder / "layer_001.float32"
    data = file.read_bytes()
    place = 4 * found.width * int(found.starts[3])
    file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    written, real = [], module._Writer.write
    monkeypatch.setattr(
        module._Writer, "write", lambda self, part, token: written.append(part.number) or real(self, part, token)
    )
    states_of(llama, texts, cache=tmp_path)
    assert written == [1] and file.read_bytes() == data


def test_a_full_disk_is_one_sentence_and_the_work_resumes(llama, tmp_path, monkeypatch):
    def full(self, encoded):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(module._Writer, "_states", full)
        with pytest.raises(CannotWrite, match=r"cannot be written \(No space left .*start the same run again"):
            states_of(llama, TEXTS, cache=tmp_path)
    assert len(states_of(llama, TEXTS, cache=tmp_path).lengths) == len(TEXTS)


def test_a_corpus_that_changes_while_it_is_read_is_refused(llama, tmp_path):
    readings = itertools.count()

    class Changing:
        def __iter__(self):
            return iter(TEXTS if next(readings) == 0 else TEXTS[::-1])

    with pytest.raises(BadInput, match="The corpus was changed while it was read"):
        states_of(llama, Changing(), cache=tmp_path)
    found = states_of(llama, TEXTS, cache=tmp_path)
    fresh = states_of(llama, TEXTS, cache=tmp_path / "fresh")
    assert np.array_equal(found.layer(2), fresh.layer(2)) and np.array_equal(found.ids, fresh.ids)
