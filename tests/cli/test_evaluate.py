import pytest
from command_line import call_cli

import mars_env


def test_a_dry_run_plays_nothing_and_says_what_is_sampled_and_paid_at_most():
    dry = ["evaluate", "aime-solve-verify-correct", "--agents", "scripted:x", "--dry-run"]
    said = call_cli(*dry, "--n", 2)
    assert "200 episodes, at most 4,400 model calls" in said and "baselines" not in said
    assert "the baselines take about twice that again" in call_cli(*dry, "--baselines")
    agents = ["--agents", "http://localhost:1/v1#m?max_tokens=1000000", "--limit", 3, "--price", "1,2"]
    said = call_cli("evaluate", "arithmetic-solve", *agents, "--dry-run")
    assert "3,000,000 sampled tokens ($6.00" in said  # audit E7


@pytest.mark.parametrize("name", ["aime", "arithmetic", "programs", "reports"])
def test_printed_problems_are_a_file_of_the_same_problems(tmp_path, name):
    path = tmp_path / "printed.jsonl"
    path.write_text(call_cli("problems", name, "--limit", 3, "--jsonl"))
    printed, first = mars_env.load_problems(path), mars_env.load_problems(name, n=3)
    assert list(printed) == list(first)
    assert (printed.name, printed.generated) == (first.name, first.generated)


def test_a_module_may_hold_the_team_as_a_dict(call, tmp_path):
    """Audit E7: in Python it worked, not on the command line."""
    (tmp_path / "dict_team.py").write_text(
        "team = dict.fromkeys(('solver', 'verifier', 'corrector'), lambda seen: '5')\n"
    )
    arguments = ["arithmetic-solve-verify-correct", "--agents", "dict_team:team", "--limit", 2]
    assert "2 problems x 1 sample" in call("evaluate", *arguments)[0]
