"""A GGUF file says whether texts begin with BOS and end with EOS."""

import pytest
from transformers import AutoTokenizer

from whence.models.pretrained import read_tokenizer

gguf = pytest.importorskip("gguf", reason="GGUF files are written with the package gguf, which is not installed")
WORDS = ["<unk>", "<s>", "</s>", "a", "b", "ab"]


@pytest.fixture
def write(tmp_path):
    def written(**ends):
        writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "llama")
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list(WORDS)
        writer.add_token_merges(["a b"])
        for name, number in (("unk", 0), ("bos", 1), ("eos", 2)):
            getattr(writer, f"add_{name}_token_id")(number)
        for name, added in ends.items():
            getattr(writer, f"add_add_{name}_token")(added)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return read_tokenizer(str(tmp_path), {"gguf_file": "tiny.gguf", "revision": None, "trust_remote_code": False})

    return written


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("eos", [False, True])
def test_texts_begin_and_end_as_the_file_says(write, bos, eos):
    tokenizer = write(bos=bos, eos=eos)
    begin, end = [1] * bos, [2] * eos
    assert tokenizer("ab").input_ids == [*begin, 5, *end]
    assert tokenizer("ab", "a").input_ids == [*begin, 5, *end, *begin, 3, *end]
    assert tokenizer("ab", add_special_tokens=False).input_ids == [5]
    assert tokenizer("ab", return_special_tokens_mask=True).special_tokens_mask == [*begin, 0, *(1 for _ in end)]


def test_a_file_that_says_nothing_leaves_the_tokenizer_as_it_is(write):
    assert write()("ab").input_ids == [5]


def test_a_real_file_that_wants_no_bos_keeps_its_tokenizer(smollm2_path):
    options = {"gguf_file": smollm2_path.name, "revision": None, "trust_remote_code": False}
    bare = AutoTokenizer.from_pretrained(smollm2_path.parent, gguf_file=smollm2_path.name)
    own = read_tokenizer(str(smollm2_path.parent), options)("The cat sat.").input_ids
    assert own == bare("The cat sat.").input_ids and own[0] == bare.convert_tokens_to_ids("The")
