"""What OpenRLHF's own command line needs for the agent file: problems as prompts, and its flags."""

import json
from pathlib import Path
from typing import Final

from mars_env.errors import ConfigError, explained
from mars_env.files import write_atomically, writing
from mars_env.problems import ProblemSet
from mars_env.trainers.openrlhf.settings import TeamSettings

TRAIN, EVALUATE = "train", "evaluate"
"""The labels of prompts: OpenRLHF does not say whether it trains or evaluates."""

_LAUNCHER_ONLY: Final = (
    "staleness", "groups_per_update", "concurrency", "segment_tokens", "record", "policies", "batch_roles",
    "tis_cap", "dmmpt_threshold",
)  # fmt: skip

AGENT_FILE: Final = Path(__file__).with_name("executor.py")
"""For ``--train.agent_func_path``."""


def read_settings(path: str | Path) -> TeamSettings:
    """The settings in a JSON file; a `ConfigError` if one does not fit, or has no effect here."""
    with explained(ConfigError, f"the settings {path} do not fit TeamSettings", OSError, ValueError):
        settings = TeamSettings.model_validate_json(Path(path).read_text(encoding="utf-8"))
    for name in _LAUNCHER_ONLY:
        if getattr(settings, name):
            raise ConfigError(f"{name} has no effect with the agent file: leave it out, or use the launcher")
    return settings


def agent_file_flags(settings: TeamSettings, directory: str | Path) -> list[str]:
    """Write the prompts, and return the flags of OpenRLHF that belong to them.

    The number of samples per prompt is that of the largest tree; smaller trees are filled up. A directory
    that OpenRLHF cannot read raises ConfigError.

    Example:
        >>> import tempfile
        >>> settings = TeamSettings(env="arithmetic-solve", problems=4, group=8)
        >>> flags = agent_file_flags(settings, tempfile.mkdtemp())
        >>> flags[flags.index("--rollout.n_samples_per_prompt") + 1]
        '8'
    """
    directory = Path(directory).absolute()
    if any(mark in str(directory) for mark in ",@"):
        raise ConfigError(f"OpenRLHF divides names at ',' and '@': take another than {str(directory)!r}")

    def written(problems: ProblemSet, label: str) -> str:
        """A data set of the problems' ids."""
        path = directory / f"{label}.jsonl"
        rows = ({"input": problem.id, "datasource": problems.name, "label": label} for problem in problems)
        with writing(path):
            directory.mkdir(parents=True, exist_ok=True)
            write_atomically(path, "".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    flags = [
        "--train.agent_func_path", str(AGENT_FILE),
        "--data.prompt_dataset", written(settings.training_problems(), TRAIN),
        "--data.input_key", "input",
        "--data.label_key", "label",
        "--rollout.n_samples_per_prompt", str(settings.rows_per_tree()),
        "--algo.advantage.estimator", "dr_grpo",
        "--algo.kl.init_coef", "0",
    ]  # fmt: skip
    if settings.eval_problems:
        evaluated = written(settings.evaluation_problems(), EVALUATE)
        flags += ["--eval.dataset", evaluated, "--eval.n_samples_per_prompt", "1"]
    return flags
