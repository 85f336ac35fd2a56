"""Small runs, written in one line each."""

from small_runs import _episode as _episode
from small_runs import run as run
