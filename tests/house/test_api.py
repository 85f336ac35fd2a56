import json
import logging
from dataclasses import replace

import pytest
from messages import raises
from rows import write_rows
from two_turns import TwoTurns

import mars_env
from mars_env.agents import GenerativeJudge, Solver
from mars_env.agents.thinking import Thinking
from mars_env.api import prepare
from mars_env.envs.solve_verify_correct import Schedule
from mars_env.envs.specs import EnvSpec
from mars_env.envs.tree_search import TreeSearchSettings
from mars_env.errors import ConfigError, ProblemError, StoreError
from mars_env.grading.rubrics import Rubric, RubricGrader
from mars_env.identity import identity_of
from mars_env.models import HTTPModel, ScriptedModel
from mars_env.rollout.store import differences
from mars_env.types import Problem, Sampling

TOWER = r"\dfrac{5^{(5^{(5^{(5^5)})}-4)}-5}{16}"


def test_a_reference_that_nothing_can_be_compared_with_is_refused_when_loaded(tmp_path):
    rows = [{"id": "a", "problem": "1 + 1?", "answer": "2"}, {"id": "b", "problem": "?", "answer": TOWER}]
    with raises(ProblemError):
        mars_env.load_problems(write_rows(tmp_path / "p.jsonl", rows))
    with raises(ProblemError):
        mars_env.make("aime-solve", problems=write_rows(tmp_path / "p.jsonl", rows))


def test_make_says_that_its_problems_are_generated(caplog):
    with caplog.at_level(logging.INFO, logger="mars_env"):
        mars_env.make("aime-solve")
        mars_env.make("aime-solve", problems=[Problem("p", "1 + 1?", "2")])
    assert [record.message for record in caplog.records if "generated" in record.message] == [
        "aime-solve: the problems are generated; pass problems= to play a real set"
    ]


def test_problems_may_be_a_name_a_file_a_set_or_a_list(tmp_path):
    row = {"id": "a", "problem": "1 + 1?", "answer": "2"}
    given = ("arithmetic", write_rows(tmp_path / "p.jsonl", [row]), str(tmp_path / "p.jsonl"))
    for problems in (*given, mars_env.load_problems("aime", n=3), [Problem("p", "1 + 1?", "2")]):
        env = mars_env.make("aime-solve", problems=problems)
        env.reset(seed=0)
        assert env.observe("solver_0")["problem"]


def test_baselines_need_a_solver(tmp_path):
    class Checkers(TwoTurns):
        possible_agents = ("checker_0", "buyer_0")

    mars_env.register_rules("nobody-solves", Checkers)
    with raises(ConfigError):
        mars_env.evaluate("aime-nobody-solves", agents=lambda o: "1", limit=1, baselines=True)


def _solver(**options):
    return Solver(ScriptedModel([r"\boxed{1}"], **options.pop("model", {})), **options)


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("prompt", {"prompt": "B: {{ problem }}"}),
        ("prompt", {"prompt": lambda seen: seen["problem"]}),
        ("system", {"system": "B"}),
        ("thinking", {"thinking": None}),
        ("thinking", {"thinking": Thinking(opened=True)}),
        ("sampling", {"sampling": Sampling(max_tokens=9)}),
        ("sampling", {"sampling": Sampling(stop=("#",))}),
        ("policy", {"policy": "b"}),
        ("model.name", {"model": {"name": "b"}}),
    ],
)
def test_a_run_with_another_agent_is_another_run(tmp_path, name, other):
    def play(**options):
        agents = _solver(**{"prompt": "A: {{ problem }}", "system": "A", "policy": "a", **options})
        return mars_env.evaluate("arithmetic-solve", agents=agents, limit=1, out=tmp_path)

    play()
    with raises(StoreError):
        play(**other)
    assert play().counts.episodes == 1


def test_a_run_with_another_function_judge_or_reward_is_another_run(tmp_path):
    def play(out, agents=lambda seen: "1", env_id="arithmetic-solve", **options):
        return mars_env.evaluate(env_id, agents=agents, limit=1, out=tmp_path / out, **options)

    def judge(**options):
        return GenerativeJudge(ScriptedModel(["Score: 5"]), **options)

    def with_judge(judge):
        play("judge", env_id="arithmetic-tree-search", nodes=2, reward_model=judge)

    def rubric(**options):
        return RubricGrader(
            ScriptedModel(['{"met": true}']), Rubric.from_rows([{"text": "Good."}]), **options
        )

    def scheduled(rounds):
        play("rounds", env_id="arithmetic-solve-verify-correct", schedule=Schedule(rounds=rounds))

    def searched(nodes):
        play("nodes", env_id="arithmetic-tree-search", schedule=TreeSearchSettings(nodes=nodes))

    scheduled(0)
    searched(2)
    play("function")
    play("reward", rewards={"solver": lambda turn, path, problem: 1.0})
    play("grader", grader=rubric())
    with_judge(judge())
    for where, again in (
        ("rounds", lambda: scheduled(3)),
        ("nodes", lambda: searched(9)),
        ("agents.solver_0.function", lambda: play("function", lambda seen: "2")),
        ("rewards.solver", lambda: play("reward", rewards={"solver": lambda turn, path, problem: 0.5})),
        ("settings.reward_model.prompt", lambda: with_judge(judge(prompt=lambda statement, text: text))),
        ("settings.reward_model.system", lambda: with_judge(judge(system="Be strict."))),
        ("grader.repeats", lambda: play("grader", grader=rubric(repeats=3))),
        ("grader.judge", lambda: play("grader", grader=replace(rubric(), judge=ScriptedModel(["{}"])))),
    ):
        with pytest.raises(StoreError) as caught:
            again()
        assert where in str(caught.value)
    play("grader", grader=rubric(timeout=9.0))  # how long a request may take does not count


def test_where_and_how_often_a_model_is_asked_does_not_count(tmp_path):
    def told(url="http://a:1/v1", **options):
        given = {"extra_body": {"user": "sk-body"}, "headers": {"X-Key": "sk-head"}, **options}
        return identity_of(Solver(HTTPModel(url, "m", **given)))

    once = told()
    assert once == told(["http://b:2/v1"], concurrency=3, attempts=1, timeout=5.0, headers={})
    assert "sk-" not in json.dumps(once)
    for other in ({"api": "completions"}, {"extra_body": {"user": "sk-other"}}, {"exact": True}):
        assert once != told(**other)
    assert once != identity_of(Solver(HTTPModel("http://a:1/v1", "n")))


def test_agents_that_a_text_names_count_without_their_address(tmp_path, monkeypatch):
    def config(agents, elsewhere=False):
        plan = {"samples": 1, "seed": 0, "concurrency": 1, "baselines": False, "elsewhere": elsewhere}
        return prepare(EnvSpec("arithmetic", "solve"), agents, limit=1, **plan).identity

    one = config("http://a:1/v1#m?top_k=5&concurrency=3")
    assert differences(one, config("http://b:2/v1#m?top_k=5")) == []
    assert differences(one, config("http://a:1/v1#m?top_k=6")) != []
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in (("told_a", "A"), ("told_b", "B")):
        write_module(tmp_path / f"{name}.py", text)
    first, second = (
        config(f"{name}:solver")["identity"]["agents"]["solver_0"] for name in ("told_a", "told_b")
    )
    assert first["agent"]["object"]["code"] != second["agent"]["object"]["code"]
    for agents in ("http://a:1/v1#m", "told_a:solver", "scripted:4", Solver(ScriptedModel(["4"]))):
        assert config(agents) == config(agents, elsewhere=True)


def write_module(path, text):
    path.write_text(f"PROMPT = {text!r}\ndef make(): return PROMPT\ndef solver(seen): return make()\n")
