"""What is kept: bounded by bytes, least recently used first; parts of one sentence merge, others do not."""

import threading

import numpy as np
import pytest
import xarray
from hypothesis import given
from hypothesis import strategies as st

import whence
from whence.errors import BadInput
from whence.web.results import ANYWAY, Gone, Results, key, merge, weight


def dataset(values=10, text="a", name="x", ids=(1, 2)):
    attrs = {"model": "m", "revision": "", "text": text, "pair": "", "measures": name, "parameters": "{}"}
    data = {name: ("n", np.zeros(values, np.float32))}
    return xarray.Dataset(data, {"target_token_id": ("target", list(ids))}, attrs)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 50_000)), max_size=40), st.integers(0, 600_000))
def test_the_bytes_are_counted_and_bounded(entries, limit):
    results = Results(limit)
    for name, size in entries:
        results.put(str(name), dataset(size))
        assert results.bytes == sum(weight(one) for one in results._kept.values())
        assert results.bytes <= limit or len(results) == 1
        assert str(name) in results


def test_the_least_recently_used_goes_first():
    results = Results(3 * (ANYWAY + 1000))
    for name in "abc":
        results.put(name, dataset())
    results.get("a")
    results.put("d", dataset())
    assert [name in results for name in "abcd"] == [True, False, True, True]
    with pytest.raises(Gone, match="measure the sentence again"):
        results.get("b")


def test_many_threads_leave_the_count_right():
    results = Results(10 * (ANYWAY + 1000))

    def work(seed):
        for number in np.random.default_rng(seed).integers(0, 30, 300):
            results.put(str(number), dataset())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results.bytes == sum(weight(one) for one in results._kept.values()) <= results.limit


def test_merged_parts_keep_their_provenance():
    found = merge([dataset(name="x"), dataset(name="y"), dataset(name="x")])
    assert set(found.data_vars) == {"x", "y"} and found.attrs["measures"] == "x,y"


@pytest.mark.parametrize("other", [dataset(text="b"), dataset(ids=(1, 3)), dataset(ids=(1, 2, 3))])
def test_other_sentences_do_not_merge(other):
    with pytest.raises(BadInput, match="different sentences"):
        merge([dataset(), other])


def test_keys_tell_contents_apart():
    assert key("a", ["b"]) == key("a", ["b"])
    assert len({key("a", "b"), key("ab"), key(["a", "b"]), key("b", "a"), key("a", None), key("a", "None")}) == 6


def test_analyses_of_one_variable_from_two_results_stand_side_by_side(builtin):
    asked = (["mixing", "norms"], "block")
    found = merge([whence.measure(builtin, "Paris is a city.", names) for names in asked])
    assert found.analysis.values.tolist()[-1] == "block_n"
    assert bool(found.mixing.notnull().all()) and bool(found.norms.notnull().all())
