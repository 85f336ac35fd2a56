"""A limit on the size of files, in the place of a full disk: a write is cut short, the next fails."""

import resource
from contextlib import contextmanager


@contextmanager
def full_disk(size):
    """No file of this process may grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
