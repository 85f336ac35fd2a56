import pytest
import torch
import toy_training


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Two threads of torch under contention are many times slower."""
    torch.set_num_threads(1)


@pytest.fixture
def toy():
    """The toy run, whose module is also a script."""
    return toy_training
