"""The store of a run: a directory of append-only files that survives being killed at any moment."""

import errno
import fcntl
import gc
import json
import os
import platform
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any
from weakref import WeakValueDictionary

from mars_env.envs.growers import turn_path
from mars_env.envs.rewards import with_rewards
from mars_env.errors import StoreError
from mars_env.files import atomic_draft, write_atomically, writing
from mars_env.identity import identity_changes
from mars_env.rollout import records
from mars_env.rollout import row_files as files
from mars_env.rollout.engine import LEFT_OUT, add_turns
from mars_env.text import brief, describe_error, logger
from mars_env.types import Problem, Tree, Turn

log = logger(__name__)

# Made once, not for each row. NaN is not JSON: numbers are checked before they come here.
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode

_MANIFEST_BYTES = 1 << 24

FORMAT = 3
"""Of the files of a run; its manifest says it. Another one cannot be read."""

MANIFEST = "manifest.json"
"""What was run, ``must_match`` and ``may_change`` when it is continued, and versions."""
PROBLEMS = "problems.jsonl"
"""The problems, references included."""
TURNS = "turns.jsonl"
"""A row for every turn, written as soon as its expansion is finished."""
TEXTS = "texts.jsonl"
"""The texts of the messages that models were sent, each once, by ids that the rows of turns name."""
TREES = "trees.jsonl"
"""A row for every finished tree: its answer, fault and team rewards, and its `Written` turns."""
LOCK = "writing.lock"
"""Empty; locked by the process that writes the run."""
SYNC = "MARS_ENV_SYNC"
"""Environment variable: with 1, a tree is on the disk, not only with the system, before the next one ends."""


@dataclass(frozen=True, slots=True)
class Run:
    """A stored run: its manifest, its finished trees, and all of its problems by id."""

    manifest: Mapping[str, Any]
    trees: tuple[Tree, ...]
    problems: Mapping[str, Problem] = field(default_factory=dict)


class Store(AbstractContextManager["Store"]):
    """Writes a run, and finds what an interrupted run with the same `must_match` has written.

    Use it as a context manager. An incomplete last line is cut off: what it described is played again.
    `must_match` identifies the run, as plain data; a run that continues it may have another `may_change`. A
    `StoreError` if the directory has another run, or other files, or is being written already.

    Attributes:
        finished: Ids of the trees that are finished without a fault.
        lost: Ids of the trees that had a fault when the run was continued; they can be played once more.
    """

    def __init__(
        self,
        path: str | Path,
        must_match: Mapping[str, Any],
        problems: Sequence[Problem],
        *,
        may_change: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = Path(path)
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        self._problems: IO[str] | None = None
        self._lock = _locked(self.path)
        try:
            self._continue({"must_match": must_match, "may_change": may_change or {}}, problems)
        except BaseException:
            self._lock.close()
            raise

    def _continue(self, identity: Mapping[str, Any], problems: Sequence[Problem]) -> None:
        self._check_identity(json.loads(_text(identity, f"the configuration of {self.path}")), problems)
        lost = self._find_written()
        if lost:
            log.warning("%s has lost turns of %d trees: these are played again", self.path, len(lost))
            lines = [line for line, row in files.rows_of(self.path / TREES) if row["tree"] not in lost]
            with writing(self.path / TREES), atomic_draft(self.path / TREES) as draft:
                draft.write_bytes(b"".join(lines))
            self._find_written()
        self._sync = os.environ.get(SYNC) == "1"
        self._texts = files.open_file(self.path / TEXTS, "a")
        self._turns = files.open_file(self.path / TURNS, "a")
        self._trees = files.open_file(self.path / TREES, "a")

    def _find_written(self) -> set[str]:
        """Find what is finished, and the turns of other trees; returns the trees that have lost turns."""
        path = self.path / TREES
        trees = files.tree_rows(path, files.recovered_rows(path))
        self.finished = {name for name, row in trees.items() if not row["fault"]}
        self.lost = trees.keys() - self.finished
        texts = _stored_texts(files.recovered_rows(self.path / TEXTS))
        self._text_ids = set(texts)
        path = self.path / TURNS
        self._unfinished, self._written = files.read_turns(
            path, files.recovered_rows(path), trees, lambda tree: tree not in self.finished, texts
        )
        for name in [name for name, row in trees.items() if row["turns"] == 0 and not row["fault"]]:
            self._written.pop(name, None)  # a recorded tree, which always may grow
        return {name for name, row in trees.items() if self._written.get(name, (0,))[0] < row["turns"]}

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        for file in (self._texts, self._turns, self._trees, self._problems, self._lock):
            if file is None:
                continue
            try:
                file.close()
            except OSError as error:  # a failed write was reported when it was made
                log.warning("%s: %s", file.name, error)

    def turns_of(self, tree_id: str) -> Mapping[str, Turn]:
        """The stored turns of a tree that is unfinished, or has a fault, by id."""
        return dict(self._unfinished.get(tree_id, {}))

    def write_problems(self, problems: Iterable[Problem]) -> None:
        """Append problems that the run does not have; they are on the disk before their turns."""
        path = self.path / PROBLEMS
        if self._problems is None:
            self._known = {row.get("id") for _, row in files.recovered_rows(path)}
            self._problems = files.open_file(path, "a")
        if new := [problem for problem in problems if problem.id not in self._known]:
            files.append(self._problems, "".join(map(_problem_line, new)), sync=True)
            self._known |= {problem.id for problem in new}

    def write_turns(self, turns: Sequence[Turn]) -> None:
        """Append the turns of one expansion in one write, after the texts of their messages."""
        if turns:
            self._write_texts(turns)
            text = "".join(_line(records.turn_to_row(turn)) for turn in turns)
            files.append(self._turns, text)
            tree = turns[0].tree_id
            count, checksum = self._written.get(tree, (0, 0))
            self._written[tree] = (count + len(turns), zlib.crc32(text.encode(), checksum))
            if tree not in self.finished:
                add_turns(self._unfinished.setdefault(tree, {}), turns)

    def _write_texts(self, turns: Sequence[Turn]) -> None:
        completions = (completion for turn in turns for completion in turn.action.completions)
        texts = {records.text_id(text): text for each in completions for _, text in each.messages}
        new = texts.keys() - self._text_ids
        files.append(self._texts, "".join(_line({"id": id, "text": texts[id]}) for id in sorted(new)))
        self._text_ids |= new

    def write_tree(self, tree: Tree, team_rewards: Mapping[str, float | None]) -> None:
        """Append that a tree is finished; one that has a fault is continued when it is played again."""
        count, checksum = self._written.get(tree.id, (0, 0))
        place = {"tree": tree.id, "problem": tree.problem.id, "final": tree.final, "fault": tree.fault}
        lines = {"turns": count, "checksum": checksum}
        row = {**place, **lines, "rewards": dict(team_rewards), "info": dict(tree.info)}
        if self._sync:
            files.append(self._turns, "", sync=True)
        files.append(self._trees, _line(row), sync=self._sync)
        if not tree.fault:
            self.finished.add(tree.id)
            self._unfinished.pop(tree.id, None)
            self._written.pop(tree.id, None)

    def _check_identity(self, identity: Mapping[str, Any], problems: Sequence[Problem]) -> None:
        manifest = self.path / MANIFEST
        if manifest.exists():
            stored = _manifest(manifest)
            if changed := identity_changes(stored["must_match"], identity["must_match"]):
                why = f"{self.path} has a run of another configuration ({'; '.join(changed)})"
                raise StoreError(f"{why}: choose another directory, or the same configuration to resume it")
            if stored["may_change"] != identity["may_change"]:
                self._grow(problems)
                _write_manifest(manifest, {**stored, **identity})
            return
        if any((self.path / name).exists() for name in (TURNS, TREES)):
            raise StoreError(f"{self.path} has turns but no {MANIFEST}: choose another directory")
        with writing(self.path / PROBLEMS):
            write_atomically(self.path / PROBLEMS, "".join(_problem_line(problem) for problem in problems))
        _write_manifest(manifest, {"format": FORMAT, **identity, "versions": _versions()})

    def _grow(self, problems: Sequence[Problem]) -> None:
        """Add problems that a continued run has got; those that both have must be the same."""
        stored, by_id = stored_problems(self.path), {problem.id: problem for problem in problems}
        both = stored.keys() & by_id.keys()
        others = [name for name in both if _problem_line(stored[name]) != _problem_line(by_id[name])]
        if others or (stored and by_id and not both):
            what = f"another problem {brief(min(others))}" if others else "other problems"
            raise StoreError(f"{self.path} has a run of {what}: choose another directory")
        self.write_problems(by_id[name] for name in by_id.keys() - stored.keys())


def write_run(path: str | Path, trees: Sequence[Tree], must_match: Mapping[str, Any]) -> Path:
    """Store trees that were played without a store, as a run that can be viewed, compared and exported.

    A run that is there already is continued. The ``title`` in `must_match` is the environment's id.

    Example:
        >>> import tempfile
        >>> from mars_env.types import Action
        >>> turn = Turn("p#0", "0", None, "g", "solver_0", "", "p", Action("4"))
        >>> tree = Tree("p#0", Problem("p", "2 + 2?", "4"), (turn,), final="0")
        >>> path = write_run(tempfile.mkdtemp(), [tree], {"title": "sums-solve"})
        >>> read_run(path).trees == (tree,)
        True
    """
    problems = {tree.problem.id: tree.problem for tree in trees}
    with Store(path, must_match, list(problems.values())) as store:
        for tree in trees:
            if tree.id not in store.finished:
                store.write_turns(tree.turns)
                store.write_tree(tree, {})
    return Path(path)


def finished_trees(path: str | Path) -> set[str]:
    """Ids of the trees that a run has finished without a fault. Its files need not exist."""
    trees = files.tree_rows(Path(path) / TREES, files.rows_of(Path(path) / TREES))
    return {name for name, row in trees.items() if not row["fault"]}


def stored_problems(path: str | Path) -> dict[str, Problem]:
    """The problems of a run by id, those without a tree too. The file is only read, and need not exist."""
    path = Path(path) / PROBLEMS
    problems = (files.read_row(path, row, records.read_problem) for _, row in files.rows_of(path))
    return {problem.id: problem for problem in problems}


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Python's collector of cycles would visit all that is being read again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_collector_paused()
def read_run(path: str | Path) -> Run:
    """Read the finished trees of a run; a `StoreError` if there is none, or a row cannot be read."""
    path = Path(path)
    if not (path / MANIFEST).exists():
        raise StoreError(f"{path} has no run in it: there is no {MANIFEST}")
    manifest = _manifest(path / MANIFEST)
    finished = files.tree_rows(path / TREES, files.rows_of(path / TREES))
    texts = _stored_texts(files.rows_of(path / TEXTS))
    turns, written = files.read_turns(
        path / TURNS, files.rows_of(path / TURNS), finished, finished.__contains__, texts
    )
    files.require_all(path / TURNS, finished.values(), written)
    problems = stored_problems(path)  # last: a run that is being written has the problems of its trees by now
    trees = [_tree(path / TREES, row, problems, turns.get(tree, {})) for tree, row in finished.items()]
    order = {problem: i for i, problem in enumerate(problems)}
    trees.sort(key=lambda tree: (order[tree.problem.id], int(tree.id.rpartition("#")[2])))
    return Run(manifest, tuple(trees), problems)


def tree_from_rows(path: Path, row: Mapping[str, Any], lines: Sequence[bytes], problem: Problem) -> Tree:
    """The tree of its last row in ``trees.jsonl`` and its lines in ``turns.jsonl``."""
    row = files.read_row(path / TREES, row, records.check_tree_row)
    rows = ((line, json.loads(line)) for line in lines)
    turns, written = files.read_turns(path / TURNS, rows, {row["tree"]: row}, lambda tree: True)
    files.require_all(path / TURNS, [row], written)
    return _tree(path / TREES, row, {problem.id: problem}, turns.get(row["tree"], {}))


def _tree(
    path: Path, row: Mapping[str, Any], problems: Mapping[str, Problem], turns: Mapping[str, Turn]
) -> Tree:
    """The tree of a row, with its problem and those stored turns that are in it; every parent must be one."""
    info = row["info"]
    left_out = info.get(LEFT_OUT, [])
    turns = _without(turns, left_out) if left_out else turns
    name = f"{path}: tree {row['tree']!r}"
    if row["problem"] not in problems:
        raise StoreError(f"{name} is of the problem {row['problem']!r}, which is not stored")
    for turn in turns.values():
        if turn.parent_id is not None and turn.parent_id not in turns:
            raise StoreError(f"{name} has turn {turn.id!r} of a parent that is not stored")
        if turn.problem_id != row["problem"]:
            raise StoreError(f"{name} has turn {turn.id!r} of another problem")
    if row["final"] is not None:
        answer = turns.get(row["final"])
        if answer is None or (answer.grade is None and answer.accepts is not None):
            raise StoreError(f"{name} has the answer {row['final']!r}, which is no stored turn that answers")
    ordered = tuple(sorted(turns.values(), key=lambda turn: turn_path(turn.id)))
    tree = Tree(row["tree"], problems[row["problem"]], ordered, row["final"], row["fault"], info)
    return with_rewards(tree, row["rewards"])


def _without(turns: Mapping[str, Turn], left_out: Collection[str]) -> dict[str, Turn]:
    """The turns without those left out, except where a run that continues the tree has built on one."""
    remaining = {id: turn for id, turn in turns.items() if id not in left_out}
    for turn in [*remaining.values()]:
        while (parent := turn.parent_id) is not None and parent in turns and parent not in remaining:
            turn = remaining[parent] = turns[parent]
    return remaining


def _stored_texts(rows: Iterable[tuple[bytes, Mapping[str, Any]]]) -> dict[str, str]:
    """The texts of messages by id; a row that is none is left out, since they are for readers alone."""
    pairs = ((row.get("id"), row.get("text")) for _, row in rows)
    return {id: text for id, text in pairs if isinstance(id, str) and isinstance(text, str)}


def _line(row: Mapping[str, Any]) -> str:
    # ASCII: a text may hold lone surrogates
    return _text(row, f"the row of {row.get('id') or row.get('tree')!r}") + "\n"


def _problem_line(problem: Problem) -> str:
    row = records.problem_to_row(problem)
    try:
        return _encode(row) + "\n"
    except (ValueError, TypeError, RecursionError):
        pass  # a reference may hold NaN and infinities: a program can be asked for them
    return _line({**row, **{name: records.tagged(row[name]) for name in ("reference", "metadata")}})


def _text(value: object, what: str) -> str:
    try:
        return _encode(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"{what} cannot be stored, since it is not plain data: {error}") from error


def _write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    with writing(path):
        write_atomically(path, json.dumps(manifest, indent=2, allow_nan=False) + "\n")


_LOCKS: WeakValueDictionary[Path, IO[str]] = WeakValueDictionary()
"""Of the runs that this process writes: a lock of the system does not keep a process from itself."""


def _locked(path: Path) -> IO[str]:
    """The lock file of a run, locked until it is closed or this process ends, however it ends."""
    advice = "wait until it has ended, or choose another directory"
    taken = StoreError(f"the run {path} is being written already: {advice}")
    held = _LOCKS.get(path.resolve())
    if held is not None and not held.closed:
        raise taken
    file: IO[str] = files.open_file(path / LOCK, "a")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # not inherited by child processes
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            file.close()
            raise taken from error
        log.warning("%s cannot be locked: let no other process write it (%s)", path, describe_error(error))
    _LOCKS[path.resolve()] = file
    return file


def _manifest(path: Path) -> dict[str, Any]:
    """Only its format and two parts are required; nothing else in it is trusted."""
    try:
        with files.open_file(path, "rb") as file:
            text = file.read(_MANIFEST_BYTES + 1)
        if len(text) > _MANIFEST_BYTES:
            raise ValueError(f"it is longer than {_MANIFEST_BYTES:,} bytes")
        manifest = json.loads(text)
        if not isinstance(manifest, dict):
            raise ValueError("it is no JSON object")
        records.check_plain(manifest)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path} is not the manifest of a run: {describe_error(error)}") from error
    if manifest.get("format") != FORMAT:
        versions = manifest.get("versions")
        by = versions.get("mars-env", "unknown") if isinstance(versions, dict) else "unknown"
        kind = f"the format {brief(manifest.get('format'))} of mars_env {brief(by)}, not {FORMAT}"
        raise StoreError(f"{path.parent} has a run in {kind}: read it with that version")
    if not all(isinstance(manifest.get(name), dict) for name in ("must_match", "may_change")):
        raise StoreError(f"{path} is not the manifest of a run: it does not say what was run")
    return manifest


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in ("mars-env", "numpy", "mpmath", "math-verify", "torch", "transformers", "vllm"):
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions
