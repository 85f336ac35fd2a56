"""What the commands make of a stored run: the game that was played, and its report."""

from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from mars_env.cli.options import read_value
from mars_env.envs import Game, make_game
from mars_env.envs.registry import find_game, spec
from mars_env.errors import ConfigError
from mars_env.evaluation.report import REPORT, Report, RunDescription, build_report, derived_notes
from mars_env.evaluation.trees import final_answer
from mars_env.rollout import Run
from mars_env.text import logger, validation_message

log = logger(__name__)

_MOST_REPORT = 1 << 24


def stored_game(run: Run, env_id: str | None, settings: Mapping[str, Any]) -> Game:
    """The game that was played: the user's, or that of the manifest if it names nothing to import."""
    name = env_id or run.manifest["must_match"].get("title")
    if not run.trees:
        raise ConfigError("the run has no finished tree yet")
    if not isinstance(name, str) or not name:
        raise ConfigError("the run does not name its environment: give --env")
    if env_id is None and ":" in name:  # a stored run is data: it does not decide what is imported
        advice = "no module is imported because a run names it: give --env my_module:my-set-my-game"
        raise ConfigError(f"the run names {name!r}, and {advice}")
    stored = run.manifest["may_change"].get("settings") if env_id is None else None
    recorded = {k: _recorded(value) for k, value in stored.items()} if isinstance(stored, dict) else {}
    try:
        named = find_game(spec(name).game).options.parts.keys() & recorded.keys() - settings.keys()
        if named:  # a model's name, say: it would be loaded
            raise ConfigError(f"a stored run does not decide what is loaded as {', '.join(sorted(named))}")
        return make_game(spec(name, {**recorded, **settings}), kind=run.trees[0].problem.kind)
    except ConfigError as error:
        why = f"the run's environment {name!r} cannot be made again ({error})"
        raise ConfigError(f"{why}: give --env, and --set for its settings") from error


def _recorded(value: Any) -> Any:
    plain = {"True": True, "False": False, "None": None}
    return plain.get(value, read_value(value)) if isinstance(value, str) else value


def stored_report(folder: Path, run: Run) -> Report | None:
    """The report of a stored run: of its trees, with what was written with it that they do not say."""
    now, written = _made(folder, run), _written(folder / REPORT)
    return _up_to_date(written, now) if written and now else now or written


def _up_to_date(written: Report, now: Report) -> Report:
    """The written report, with the metrics of the present rewards; baselines of other trees go."""
    notes = [note for note in written.notes if note not in derived_notes(written.counts, written.baselines)]
    played = attrgetter("episodes", "turns", "completion_tokens")
    same = played(written.counts) == played(now.counts)
    baselines = written.baselines if same else ()
    return written.model_copy(
        update={
            "samples": now.samples,
            "metrics": {**(written.metrics if same else {}), **now.metrics},  # own metrics are not known here
            "counts": now.counts,
            "baselines": baselines,
            "notes": (*notes, *derived_notes(now.counts, baselines)),
            "agents": now.agents,
            "cost": written.cost if same else None,
        }
    )


def _written(path: Path) -> Report | None:
    if not path.is_file() or path.is_symlink() or path.stat().st_size >= _MOST_REPORT:
        return None
    try:
        return Report.model_validate_json(path.read_bytes())
    except ValueError as error:
        log.warning("%s is not a report and is left out: %s", path, validation_message(error))
        return None


def _made(folder: Path, run: Run) -> Report | None:
    if not run.trees:
        return None
    config = run.manifest["must_match"]
    seed = config.get("seed")
    try:
        return build_report(
            run.trees,
            RunDescription(
                title=str(config.get("title") or folder.name),
                problem_set=str(config.get("problem_set") or "its problems"),
                generated=any(problem.metadata.get("generated") for problem in run.problems.values()),
                seed=seed if isinstance(seed, int) else None,
            ),
            answer_of=final_answer if run.trees[0].problem.kind == "math" else None,
        )
    except ConfigError as error:  # a recorded run, say, may have problems that cannot be told apart
        log.warning("%s is shown without a report: %s", folder, error)
        return None
