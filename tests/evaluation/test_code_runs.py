"""Real runs on code, stored: compared without votes on texts, baselines that say what they counted."""

import pytest
from sandboxes import WORKING

import mars_env
from mars_env.agents import make_agents
from mars_env.evaluation import Report
from mars_env.models import ScriptedModel
from mars_env.problems.code import code_problem_from_row
from mars_env.rollout import read_run

pytestmark = pytest.mark.skipif(
    not any(found.works for found in WORKING.values()), reason="no sandbox works on this machine"
)

READS = {
    "id": "times", "prompt": "Read a number and print it times 2.", "mode": "stdin",
    "tests": [{"input": f"{n}", "output": f"{n * 2}"} for n in (2, 3)], "public_tests": 1,
}  # fmt: skip
ASSERTS = {
    "id": "plus", "prompt": "Write f(x), which adds 2.", "entry_point": "f", "tests": ["assert f(1) == 3"]
}  # fmt: skip


def script(right):
    """Programs of which every other text differs and does the same: right ones in so many of four samples."""

    def say(prompt, sample, seed):
        text = prompt[-1]["content"]
        if "Correctness:" in text:
            return "Correctness: Wrong"
        number = 2 + (seed % 4 >= right)
        spare = f"  # {seed}"
        if "adds" in text:
            return f"```python\ndef f(x): return x + {number}{spare}\n```"
        return f"```python\nprint(int(input()) * {number}){spare}\n```"

    return ScriptedModel(say)


def played(out, problems, right):
    env = "programs-solve-verify-correct"
    agents = make_agents(script(right), mars_env.make(env, problems=problems).possible_agents)
    return mars_env.evaluate(
        env, agents=agents, problems=problems, samples=4, out=out, baselines=True, schedule="training"
    )


def test_stored_runs_on_code(tmp_path):
    problems = [code_problem_from_row(row) for row in (READS, ASSERTS)]
    reports = [played(tmp_path / name, problems, right) for name, right in (("a", 1), ("b", 3))]
    for report in reports:
        [vote] = [baseline for baseline in report.baselines if "majority" in baseline.name]
        assert vote.detail.split(" votes ")[1].startswith("by outputs for public inputs or text")
        assert not [name for name in report.metrics if "maj" in name]
    compared = mars_env.compare(tmp_path / "a", tmp_path / "b")
    assert not [name for name in compared.rows if "maj" in name]
    before, after = (report.metrics["solver_accuracy"].estimate.value for report in reports)
    assert compared.rows["solver_accuracy"].difference.value == pytest.approx(after - before)
    assert len(read_run(tmp_path / "a").trees) == 8
    assert Report.model_validate_json((tmp_path / "a" / "report.json").read_text()) == reports[0]
