"""There is one training loop, and one settings class of a run."""

import re
import subprocess
import sys
from pathlib import Path

import mars_env

TRAINERS = Path(mars_env.__file__).parent / "trainers"
ELSEWHERE = ("openrlhf", "miniature")
"""OpenRLHF drives its own loop, with flags of its own; the miniature's warm start is supervised."""


def sources():
    return {
        path.relative_to(TRAINERS).as_posix(): path.read_text(encoding="utf-8")
        for path in TRAINERS.rglob("*.py")
        if path.relative_to(TRAINERS).parts[0] not in ELSEWHERE
    }


def where(pattern):
    """The modules in which a pattern is found, once for each time."""
    return sorted(name for name, text in sources().items() for _ in re.findall(pattern, text, re.MULTILINE))


def test_there_is_one_train_and_one_loop_that_updates():
    assert where(r"^\s*(?:async )?def train\(") == ["loop.py"]
    assert where(r"\btrainer\.step\b") == ["loop.py"]
    for path in (TRAINERS / "miniature").glob("*experiment.py"):
        assert "from mars_env.trainers.loop import train" in path.read_text(encoding="utf-8")


def test_one_class_says_what_a_run_depends_on():
    assert where(r"^    steps: PositiveInt") == ["recipes.py"]
    assert where(r"^    problems_per_step: PositiveInt") == ["recipes.py"]


def test_the_face_is_small_lazy_and_whole():
    from mars_env import trainers

    assert {"train", "RunSettings", "MARSRL", "MARS2", "make_team"} <= set(trainers.__all__)
    assert dir(trainers) == trainers.__all__
    for name in trainers.__all__:
        assert getattr(trainers, name).__doc__ or isinstance(getattr(trainers, name), trainers.RunSettings)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from mars_env.trainers import MARSRL; sys.exit('torch' in sys.modules)",
        ],
        check=False,
    )
    assert done.returncode == 0
