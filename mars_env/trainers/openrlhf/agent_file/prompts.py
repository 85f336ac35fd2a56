"""What OpenRLHF's own command line needs for the agent file: problems as prompts, and its flags."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import ValidationError

from mars_env.errors import ConfigError
from mars_env.problems import ProblemSet
from mars_env.trainers.openrlhf.rollouts.problems import require_plain, write_rows
from mars_env.trainers.openrlhf.settings import TeamSettings

INPUT, LABEL, SOURCE = "input", "label", "datasource"
"""Fields of the prompts: a problem's id, its use (`TRAIN` or `EVALUATE`), and the name of the set."""

TRAIN, EVALUATE = "train", "evaluate"
"""The two labels: OpenRLHF does not say whether it trains or evaluates."""

AGENT_FILE: Final = Path(__file__).with_name("executor.py")
"""For ``--train.agent_func_path``."""


def read_settings(path: str | Path) -> TeamSettings:
    """The settings in a JSON file.

    Raises:
        ConfigError: The file cannot be read, its contents do not fit, or a setting has no effect with the
            agent file.
    """
    try:
        settings = TeamSettings.model_validate_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the settings {path} cannot be read: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole file"
        raise ConfigError(f"the settings {path} do not fit TeamSettings: {where}: {first['msg']}") from error
    for name in ("staleness", "groups_per_update", "concurrency", "segment_tokens", "record", "policies"):
        if getattr(settings, name):
            raise ConfigError(
                f"{name} has no effect with the agent file, which plays one policy's trees as OpenRLHF asks "
                "for them: leave it out, or use the launcher (python -m mars_env.trainers.openrlhf)"
            )
    return settings


def agent_file_flags(settings: TeamSettings, directory: str | Path) -> list[str]:
    """Write the prompts, and return the flags of OpenRLHF that belong to them.

    The number of samples per prompt is that of the largest tree; smaller trees are filled up.

    Raises:
        ConfigError: There are no problems, or OpenRLHF cannot read the directory.
        StoreError: A file cannot be written.

    Example:
        >>> import tempfile
        >>> settings = TeamSettings(env="arithmetic-solve", problems=4, group=8)
        >>> flags = agent_file_flags(settings, tempfile.mkdtemp())
        >>> flags[flags.index("--rollout.n_samples_per_prompt") + 1]
        '8'
    """
    directory = Path(directory).absolute()
    require_plain(directory)
    flags = [
        "--train.agent_func_path", str(AGENT_FILE),
        "--data.prompt_dataset", _write_prompts(settings.training_problems(), directory, TRAIN),
        "--data.input_key", INPUT,
        "--data.label_key", LABEL,
        "--rollout.n_samples_per_prompt", str(settings.rows_per_tree()),
        "--algo.advantage.estimator", "dr_grpo",
        "--algo.kl.init_coef", "0",
    ]  # fmt: skip
    if settings.eval_problems:
        evaluated = _write_prompts(settings.evaluation_problems(), directory, EVALUATE)
        flags += ["--eval.dataset", evaluated, "--eval.n_samples_per_prompt", "1"]
    return flags


def _write_prompts(problems: ProblemSet, directory: Path, label: str) -> str:
    if not len(problems):
        raise ConfigError(f"the problem set {problems.name!r} is empty: there is nothing to play")
    rows = ({INPUT: problem.id, LABEL: label, SOURCE: problems.name} for problem in problems)
    return str(write_rows(rows, directory / f"{label}.jsonl"))
