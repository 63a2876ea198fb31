"""Numbers that were asked for, in whatever form."""

import numpy as np
import pytest

from whence.choice import numbers
from whence.errors import BadInput


@pytest.mark.parametrize("asked", [3, np.int64(3), [3], (3,), range(3, 4), np.array([3]), {3}])
def test_one_number(asked):
    assert numbers("layer", asked) == [3]


@pytest.mark.parametrize("asked", ["1", ["1"], 1.5, [1.5], [True], None, b"1"])
def test_what_is_none(asked):
    with pytest.raises(BadInput, match="A layer is a whole number, and"):
        numbers("layer", asked)
