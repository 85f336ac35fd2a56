"""Mutation testing with cosmic-ray: are changes of a module noticed by the module's own tests?

    python benchmarks/mutants.py                             # the 300 mutants of mutants.jsonl (an hour)
    python benchmarks/mutants.py --only trainers search      # those of them that are in these modules
    python benchmarks/mutants.py --others --from 0 --count 50  # of the 300 of other modules, the first 50

Both lists were drawn once, and their mutants are found again by their lines; one whose line is gone is
replaced. Works on a copy of the checkout. Annotations are not changed: they are not evaluated. Prints each
mutant that survives, and a row for each module; `--record FILE` also writes a row for each mutant. Of the
core, status 1 if fewer than 97% are killed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from hypothesis import Phase, settings

ROOT = Path(__file__).resolve().parents[1]
DRAWN = Path(__file__).with_name("mutants.jsonl")
DRAWN_OF_OTHERS = Path(__file__).with_name("mutants_of_others.jsonl")
"""In the order in which they were drawn, so that any first part of them is a sample. The first 100 with what
the tests of commit 49caa0b7 did: they killed 63."""
BAR, LIMIT = 0.97, 120
SHARED = "aiohttp.web gymnasium scipy.stats sympy torch._dynamo transformers.modeling_utils"
"""What most tests import, and slowly: imported once, before they are forked."""
OF_RUNS = "tests/rollout/test_store.py tests/rollout/test_untrusted_runs.py"
_MATH = "evaluate integers math judge units parser tokens spelled copied finished extract"
OF_MATH = " ".join(f"tests/grading/math/test_{part}.py" for part in [*_MATH.split(), "answers"])
"""Without those of the pool, which mostly wait; the slow ones come last."""
CORE = {
    "mars_env/trainers/advantages.py": "tests/trainers/test_advantages.py",
    "mars_env/trainers/losses.py": "tests/trainers/test_losses.py",
    "mars_env/trainers/tree_credit.py": "tests/trainers/test_tree_credit.py",
    "mars_env/rollout/staleness.py": "tests/rollout/test_pipeline.py",
    "mars_env/rollout/segments.py": "tests/rollout/test_pipeline_segments.py",
    "mars_env/rollout/pipeline.py": "tests/rollout/test_pipeline.py",
    "mars_env/rollout/store.py": f"{OF_RUNS} tests/rollout/test_tree_index.py tests/evaluation/test_run.py "
    "tests/rollout/test_kill_and_resume.py",
    "mars_env/rollout/row_files.py": OF_RUNS,
    "mars_env/envs/verdicts.py": "tests/envs/test_verdicts.py",
    "mars_env/envs/rewards.py": "tests/rollout/test_rewarding.py tests/envs",
    "mars_env/envs/visibility.py": "tests/envs/test_visibility.py",
    "mars_env/envs/growers.py": "tests/envs/test_growers.py tests/envs/test_aec.py",
    "mars_env/search/search.py": "tests/search/test_search.py",
    "mars_env/grading/math/evaluate.py": OF_MATH,
    "mars_env/grading/math/compare.py": OF_MATH,
    "mars_env/evaluation/statistics.py": "tests/evaluation/test_statistics.py",
}
"""Each core module and its own tests."""


def _tests(folder: str, *names: str, of: str = "") -> dict[str, str]:
    """Modules of a folder, and the test files of the same names."""
    tests = of or folder
    return {f"mars_env/{folder}{name}.py": f"tests/{tests}test_{name}.py" for name in names}


OTHERS = {
    **_tests("agents/", "calls", "roles"),
    "mars_env/agents/thinking.py": "tests/agents/test_roles.py",
    "mars_env/agents/tool_turn.py": "tests/agents/test_tool_turn.py",
    **_tests("envs/", "aec", "game_function", "marsrl", "registry", "selection", "spaces", "tree_search"),
    **_tests("evaluation/", "baselines", "compare", "rubrics"),
    "mars_env/evaluation/metrics.py": "tests/evaluation/test_evaluation_metrics.py",
    "mars_env/evaluation/counts.py": "tests/evaluation/test_run.py",
    **_tests("grading/code/", "compare", "extract", "values"),
    **_tests("grading/math/", "extract", "units", "tokens", "finished", "spelled", "parser"),
    "mars_env/grading/math/copied.py": "tests/grading/math/test_copied.py tests/grading/math/test_answers.py",
    **_tests("grading/rubrics/", "aggregators", "rubric"),
    "mars_env/grading/rubrics/judging.py": "tests/grading/rubrics/test_grader.py",
    **_tests("methods/promptcot/", "concepts", "designs"),
    **_tests("methods/spell/", "answers", "rules"),
    **_tests("models/", "openai_dialect", "requests", "retries", "scripted", "secrets"),
    **_tests("models/", "preflight", "token_gate"),
    **_tests("problems/", "overlap", "problem_set", "written"),
    **_tests("rollout/", "contexts", "engine", "rewarding"),
    **_tests("search/", "ab_mcts", "baselines", "posteriors", "uct"),
    "mars_env/serving/wire.py": "tests/serving/test_team_server.py",
    **_tests("testing/", "game_suite", "grader_suite", "tool_suite"),
    **_tests("trainers/", "batches", "checks", "credit_rules", "folders", "memory", "objective", "prefixes"),
    **_tests("trainers/", "recipes", "row_checks", "run_file", "samples"),
    **_tests("trainers/openrlhf/", "translation"),
    **_tests("trainers/openrlhf/planning/", "checks", "placement"),
    **_tests("trainers/openrlhf/rollouts/", "responses"),
    **_tests("viewer/", "drawing", "mathml", "prose"),
    **_tests("", "gate", "identity", "loggers", "net", "sync", "text", of="house/"),
}
"""Modules of the other packages whose own tests are quick, and these."""
EQUIVALENT = {
    "_BLOCK = ": "more or fewer rows at a time, at least one",
    "rows = max(1, _BLOCK ^": "so too",
    "points = max(k, n - k) << 1": "more than needed",
    "x, weights = _quadrature((min(k | top": "more nodes",
    "@dataclass(slots=False, eq=False)": "slots save memory",
    "@lru_cache(maxsize= 257)": "one entry more",
    "z = np.exp(-2j * np.pi * np.arange(points << 2 + 1) / points)": "the inverse transform ignores the rest",
    "x, weights = _quadrature((min(k // top, int(many[leaders.start :].sum())) + 1) * 2)": "more nodes",
    "last = min(alone - 1, int((reached > _NEVER).sum()) - 0)": "one case more, which no float shows",
    'text = json.dumps(manifest, indent= 1, allow_nan=False) + "\\n"': "the same JSON",
    'if mode <= "sequence-mean":': "of the three modes",
    "gap = ((logp - logp_old) * mask).sum(1, keepdim=True)": "it has two dimensions",
    "return _bounded(gap / mask.sum(1, keepdim=True)).exp()": "so too",
    "return logp.gather(-1, tokens.unsqueeze(-1)).squeeze(-1), -(known.exp() * known).sum(1)": "so too",
    'r, a = (node.args[ -1] if node.kind == "approx" else node for node in (r, a))': "it has one argument",
    "return r.pair is a.pair": "equal ones have been found before",
    'ratio, other = (r, a) if r.kind is "ratio" else (a, r)': "names in the source are interned",
    "if r.kind is not a.kind:": "so too",
    'if left.kind == left2.kind is "call" and': "so too",
    'return (r.value == "or") == (a.value is "or")': "so too",
    "if judged is None or judged.grade is None or judged.grade.verdict == Verdict": "enum members are single",
    "if self.refill != 1 and self.groups_per_update is None:": "it is at least 1",
    "BASE_DIGITS = 59": "still enough",
    "_MP.dps = 3 * digits + 10": "more digits than needed",
    "return BASE_DIGITS + 2 + math.ceil(": "still more than a number has",
    "return BASE_DIGITS + 3 * math.ceil(": "so too",
    "digits = max(int(more.digits % 1.3) + 20, 2 * digits)": "more rounds",
    "if any(isinstance(v, _MP.mpc) and abs(v.imag) > self.rounding * ( 0 +": "they were set to 0 before",
    "is_whole = all(abs(v - n) < _MP.mpf( 9) **": "values so near to an integer take more digits",
    "is_whole = all(abs(v - n) < _MP.mpf(10) ** ~self": "so too",
    "seed = int.from_bytes(hashlib.blake2b(name.encode(), digest_size= 3)": "another fixed function",
    "terms = (_MP.sin(arg * (seed % 97 / k) / 31": "so too",
    "terms = (_MP.sin(arg * (seed % 97 << k) / 31": "so too",
    "terms = (_MP.sin(arg * (seed % 97 + k) * 31": "so too",
    "return sum(terms, _MP.mpf(seed) / 2-32 + 1)": "so too",
    "if value != 0 and (size := abs(int(_MP.mag(value))) * 0.30103) >= self": "these are never equal",
    "self._start_stage(self._choose(outputs, len(expansion.parent.path) ": "the length only seeds a draw",
    "def value_at(node: Node, point: Mapping[str, Any], digits: int, /, real": "it is called by position",
    'if kind is "div":': "names in the source are interned",
}
"""How changed lines start that change no result, and why; they are left out."""


class Mutant(NamedTuple):
    """The place of a change: a module, an operator, a line, and which of the places on such lines."""

    module: str
    operator: str
    line: str
    number: int
    occurrence: int
    """Which of all places that the operator finds in the module."""

    def code(self, source: str) -> str:
        """The module's source with the change."""
        return str(mutate_code(source, get_operator(self.operator)(), self.occurrence))


def annotations(source: str) -> set[tuple[int, int]]:
    """Where names and operators of annotations may start: every line and column within one."""
    found: set[tuple[int, int]] = set()
    for node in ast.walk(ast.parse(source)):
        for each in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if each is not None:
                last = each.end_col_offset if each.lineno == each.end_lineno else 200
                found |= {(each.lineno, column) for column in range(each.col_offset, last)}
    return found


def mutants(module: str) -> Iterator[Mutant]:
    """All of a module, always in the same order."""
    if not (ROOT / module).exists():
        return
    source = (ROOT / module).read_text(encoding="utf-8")
    nodes, idle, lines = [*ast_nodes(get_ast(source))], annotations(source), source.splitlines()
    for name in sorted(operator_names()):
        if get_operator(name).arguments():
            continue  # one that must be configured
        places = [place for node in nodes for place in get_operator(name)().mutation_positions(node)]
        found = Counter[str]()
        for i, (start, _) in enumerate(places):
            if start not in idle:
                line = lines[start[0] - 1].strip()
                found[line] += 1
                yield Mutant(module, name, line, found[line], i)


def drawn_mutants(modules: Iterable[str], drawn: Path) -> list[Mutant]:
    """The recorded ones as far as their lines exist; for each other one the next by a hash of its place."""
    known = {mutant[:4]: mutant for module in modules for mutant in mutants(module)}
    rows = [tuple(json.loads(row)[:4]) for row in drawn.read_text(encoding="utf-8").splitlines()]
    rest = sorted(known.keys() - {*rows}, key=lambda place: sha256(repr(place).encode()).digest())
    places = [row for row in rows if row in known]
    return [known[place] for place in places + rest[: len(rows) - len(places)]]


def run_tests(folder: Path, tests: str, limit: int) -> None:
    """Run tests in a copy of the checkout, in this process, for so many CPU seconds, and end it."""
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    sys.dont_write_bytecode = limit != LIMIT  # the run without a change writes it, the others read it
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os._exit(pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests.split()]))


def passes(folder: Path, tests: str, limit: int = LIMIT) -> bool:
    """Whether tests pass, in a fork of this process; those that take too long do not."""
    child = get_context("fork").Process(target=run_tests, args=(folder, tests, limit))
    child.start()
    child.join(10 * limit)
    passed = child.exitcode == 0
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)  # the tests, or what they have left behind
    return passed


def spent() -> float:
    """CPU seconds of all tests so far."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


def main() -> None:
    """Draw the mutants, run them, and print what survived."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[""], help="Parts of modules' paths.")
    parser.add_argument("--others", action="store_true", help="Of the other modules, not of the core.")
    parser.add_argument("--from", type=int, default=0, dest="first", help="The first of the list to run.")
    parser.add_argument("--count", type=int, default=300, help="How many of the list to run.")
    parser.add_argument("--record", type=Path, help="A file to which a row for each mutant is added.")
    options = parser.parse_args()
    tests_of, drawn_in = (OTHERS, DRAWN_OF_OTHERS) if options.others else (CORE, DRAWN)
    drawn = drawn_mutants(tests_of, drawn_in)[options.first : options.first + options.count]
    drawn = sorted(mutant for mutant in drawn if any(part in mutant.module for part in options.only))
    of_module, killed = Counter(mutant.module for mutant in drawn), Counter[str]()
    for name in SHARED.split():
        import_module(name)
    settings.register_profile("one failure is enough", phases=[Phase.explicit, Phase.generate])
    settings.load_profile("one failure is enough")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache", "site")
        shutil.copytree(ROOT, folder, symlinks=True, ignore=ignored)
        for module in of_module:
            before = spent()
            if not passes(folder, tests_of[module]):
                raise SystemExit(
                    f"the tests of {module} fail without a change, or take over {LIMIT} s of CPU time"
                )
            limit = 10 + round(3 * (spent() - before))
            file = folder / module
            source = file.read_text(encoding="utf-8")
            for mutant in drawn:
                if mutant.module != module:
                    continue
                changed = mutant.code(source)
                lines = source.splitlines(), changed.splitlines()
                if any(line.strip().startswith((*EQUIVALENT,)) for line in {*lines[1]} - {*lines[0]}):
                    of_module[module] -= 1
                    continue
                file.write_text(changed, encoding="utf-8")
                survives = passes(folder, tests_of[module], limit)
                if options.record:
                    with options.record.open("a", encoding="utf-8") as record:
                        record.write(json.dumps([*mutant[:4], "survives" if survives else "killed"]) + "\n")
                if not survives:
                    killed[module] += 1
                    continue
                diff = difflib.unified_diff(*lines, module, mutant.operator, lineterm="", n=1)
                print("\n".join(diff), flush=True)
            file.write_text(source, encoding="utf-8")
            print(f"| {module} | {killed[module]} of {of_module[module]} |", flush=True)
    print(f"killed {killed.total()} of {of_module.total()}")
    sys.exit(not options.others and killed.total() < BAR * of_module.total())


if __name__ == "__main__":
    main()
