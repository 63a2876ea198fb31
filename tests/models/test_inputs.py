"""Models that read pictures and sounds: read right, or refused."""

import pytest
import torch

from tests.towers import TOWERS, build
from whence.errors import Unsupported
from whence.models.block import Batch
from whence.models.capture import trace
from whence.models.inputs import random_input
from whence.models.locate import locate, probe
from whence.models.verify import capabilities, verify

EVERYTHING = {"attention", "attention throughout", "rows", "values", "norms", "neurons", "secant", "derivatives"}


@pytest.mark.parametrize("name", TOWERS)
def test_every_part_is_found_and_sums_to_the_whole(name):
    checks = verify(locate(build(name).double()))
    assert capabilities(checks) >= EVERYTHING, [check for check in checks if not check.passed]


@pytest.mark.parametrize("name", TOWERS)
def test_states_are_those_the_model_gives_and_it_comes_back_as_it_was(name):
    model = build(name).double()
    batch = random_input(model, 11)
    with torch.no_grad():
        expected = model(**_double(batch), output_hidden_states=True)
    anatomy = locate(model)
    seen = trace(anatomy, batch)
    with torch.no_grad():
        again = model(**_double(batch), output_hidden_states=True)
    assert torch.equal(again[0], expected[0])
    assert seen.output.shape[1] == batch.ids.shape[1]
    for block, states in zip(seen.blocks[:-1], expected.hidden_states[1:-1], strict=True):
        torch.testing.assert_close(block.output, states, atol=1e-5, rtol=1e-5)


def _double(batch):
    return {name: values.double() for name, values in batch.inputs.items()}


def test_tokens_are_counted_in_the_pass():
    """One for every patch, and [CLS]; a frame for every step of the convolutions."""
    assert probe(build("vit")).ids.shape == (1, 17)
    assert probe(build("siglip_vision_model")).ids.shape == (1, 16)
    assert probe(build("dinov2_with_registers")).ids.shape == (1, 21)
    assert probe(build("wav2vec2")).ids.shape == (1, 11)


def test_ids_of_what_is_no_token_are_negative():
    batch = Batch.of_inputs({"pixel_values": torch.zeros(1, 3, 8, 8)}, 5)
    assert batch.ids.tolist() == [[-1] * 5]
    assert bool(batch.mask.all())


def test_a_model_that_reads_neither_is_refused_by_name():
    from transformers import TimesformerConfig, TimesformerModel

    config = TimesformerConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    with pytest.raises(Unsupported, match="Timesformer"):
        locate(TimesformerModel(config))
