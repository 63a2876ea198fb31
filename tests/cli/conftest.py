"""Commands run in this process, with the built-in model that all tests share."""

import pytest


@pytest.fixture(autouse=True)
def _loaded_once(loaded_once): ...
