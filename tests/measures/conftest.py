"""What tests of measures share."""

import pytest
import torch


@pytest.fixture(scope="module")
def one_thread():
    """For thousands of tiny matrices: threads would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
