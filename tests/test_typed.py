"""The tests check annotations: of shapes, of everything else, of arguments, results and fields."""

import pytest
import torch
from beartype import beartype
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, TypeCheckError
from torch import Tensor

import whence
from tests.typed import has_shape, jaxtyped
from whence.models.block import Batch
from whence.text.sentence import Sentence, Word

checked = jaxtyped(typechecker=beartype)


@checked
def product(left: Float[Tensor, "a b"], right: Float[Tensor, "b c"], wrong: bool = False) -> Float[Tensor, "a c"]:
    return left if wrong else left @ right


@checked
def length(text: str, wrong: bool = False) -> int:
    return text if wrong else len(text)


def test_shapes():
    assert product(torch.ones(2, 3), torch.ones(3, 4)).shape == (2, 4)
    with pytest.raises(TypeCheckError, match="parameters"):
        product(torch.ones(2, 3), torch.ones(2, 4))
    with pytest.raises(TypeCheckError, match="return value"):
        product(torch.ones(2, 3), torch.ones(3, 4), wrong=True)


def test_everything_else():
    assert length("abc") == 3
    for given in ((7,), ("abc", True)):
        with pytest.raises(BeartypeCallHintViolation):
            length(*given)


def test_whence_is_checked():
    with pytest.raises(BeartypeCallHintViolation):
        Word("0", 3)
    with pytest.raises(BeartypeCallHintViolation):
        Sentence("a b").word("0")
    with pytest.raises(TypeCheckError):
        Batch(torch.ones(2, 3, dtype=torch.long), torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(BeartypeCallHintViolation):
        whence.load(device=0)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (int, False),
        (list[str] | None, False),
        (Float[Tensor, "a"], True),
        (dict[str, tuple[Float[Tensor, "a"], int]] | None, True),
        ("Float[Tensor, 'a']", True),
    ],
)
def test_where_shapes_are(hint, expected):
    assert has_shape(hint) == expected
