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

STDIN = [
    code_problem_from_row({
        "id": f"times/{i}", "prompt": f"Read a number and print it times {i}.", "mode": "stdin",
        "tests": [{"input": f"{n}", "output": f"{n * i}"} for n in (2, 3)], "public_tests": 1,
    })
    for i in (2, 3)
]  # fmt: skip
ASSERTS = [
    code_problem_from_row({
        "id": f"plus/{i}", "prompt": f"Write f(x), which adds {i}.", "entry_point": "f",
        "tests": [f"assert f(1) == {1 + i}"],
    })
    for i in (2, 3)
]  # fmt: skip


def script(right):
    """Programs of which every other text differs and does the same: right ones in so many of four samples."""

    def say(prompt, sample, seed):
        text = prompt[-1]["content"]
        if "Correctness:" in text:
            return "Correctness: Wrong"
        number = 2 if "times 2" in text or "adds 2" in text else 3
        number += seed % 4 >= right
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


@pytest.mark.parametrize(("problems", "counted"), [
    (STDIN, "by outputs for public inputs"), (ASSERTS, "by text"),
    (STDIN[:1] + ASSERTS[1:], "by outputs for public inputs or text"),
], ids=["stdin", "asserts", "both"])  # fmt: skip
def test_stored_runs_on_code(tmp_path, problems, counted):
    reports = [played(tmp_path / name, problems, right) for name, right in (("a", 1), ("b", 3))]
    for report in reports:
        [vote] = [baseline for baseline in report.baselines if "majority" in baseline.name]
        assert vote.detail.split(" votes ")[1].startswith(counted), vote.detail
        assert not [name for name in report.metrics if "maj" in name]
    compared = mars_env.compare(tmp_path / "a", tmp_path / "b")
    assert "solver_accuracy" in compared.rows and not [name for name in compared.rows if "maj" in name]
    assert compared.rows["solver_accuracy"].difference.value == pytest.approx(
        reports[1].metrics["solver_accuracy"].estimate.value
        - reports[0].metrics["solver_accuracy"].estimate.value
    )
    assert len(read_run(tmp_path / "a").trees) == 8
    assert Report.model_validate_json((tmp_path / "a" / "report.json").read_text()) == reports[0]
