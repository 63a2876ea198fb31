"""Numbers that were asked for, in whatever form."""

import numpy as np
import pytest

from whence._arguments import listed, numbers, share, whole
from whence.errors import BadInput


@pytest.mark.parametrize("asked", [3, np.int64(3), [3], (3,), range(3, 4), np.array([3]), {3}])
def test_one_number(asked):
    assert numbers("layer", asked) == [3]


@pytest.mark.parametrize("asked", ["1", ["1"], 1.5, [1.5], [True], None, b"1", np.array(1.5)])
def test_what_is_none(asked):
    with pytest.raises(BadInput, match="A layer is a whole number, and"):
        numbers("layer", asked)


def test_one_or_several_names():
    assert listed("measure", "norms", str) == ["norms"] and listed("measure", ("norms",), str) == ["norms"]
    with pytest.raises(BadInput, match="A measure is asked for by name, and None was given"):
        listed("measure", None, str)


@pytest.mark.parametrize("asked", [0.05, np.float32(0.05), 1e-30, "0.5"])
def test_a_share(asked):
    assert share("level", asked) == pytest.approx(float(asked))


@pytest.mark.parametrize("asked", [0, 1, 95, -0.05, np.nan, np.inf, "much", None, [0.5, 0.5]])
def test_what_is_no_share(asked):
    with pytest.raises(BadInput, match="The level is a number between 0 and 1, and"):
        share("level", asked)


def test_zero_where_it_means_something():
    assert share("tolerance", 0, zero=True) == 0
    with pytest.raises(BadInput, match=r"from 0 to less than 1, and -0\.1 was given"):
        share("tolerance", -0.1, zero=True)


@pytest.mark.parametrize("asked", [7, 7.0, np.int32(7), np.float64(7)])
def test_a_whole_number(asked):
    assert whole("memory", asked, least=1) == 7


@pytest.mark.parametrize("asked", [0, -1, 1.5, "7", None, True, np.nan, np.inf, [7]])
def test_what_is_no_whole_number(asked):
    with pytest.raises(BadInput, match="The memory is a whole number of at least 1, and"):
        whole("memory", asked, least=1)
