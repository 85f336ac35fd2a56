import json
import logging
from dataclasses import replace

import pytest

import mars_env
from mars_env import api
from mars_env.agents import GenerativeJudge, Solver
from mars_env.api import prepare
from mars_env.envs.registry import EnvSpec
from mars_env.errors import StoreError
from mars_env.grading.rubrics import Rubric, RubricGrader
from mars_env.identity import identity_of
from mars_env.models import HTTPModel, ScriptedModel
from mars_env.types import Problem


def test_a_set_named_after_a_contest_says_once_that_it_is_generated(caplog):
    api._warn_of_aime.cache_clear()
    for env_id in ("aime-solve", "arithmetic-solve", "aime-self-refine"):
        mars_env.make(env_id)
    mars_env.make("aime-solve", problems=[Problem("p", "1 + 1?", "2")])
    [record] = [record for record in caplog.records if "generated" in record.message]
    assert record.levelno == logging.WARNING


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
        play("rounds", env_id="arithmetic-solve-verify-correct", rounds=rounds)

    def searched(nodes):
        play("nodes", env_id="arithmetic-tree-search", nodes=nodes)

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


def test_where_and_how_often_a_model_is_asked_does_not_count():
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
    assert one["must_match"] == config("http://b:2/v1#m?top_k=5")["must_match"]
    assert one["must_match"] != config("http://a:1/v1#m?top_k=6")["must_match"]
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in (("told_a", "A"), ("told_b", "B")):
        write_module(tmp_path / f"{name}.py", text)
    first, second = (
        config(f"{name}:solver")["must_match"]["agents"]["solver_0"] for name in ("told_a", "told_b")
    )
    assert first["agent"]["object"] != second["agent"]["object"]
    for agents in ("http://a:1/v1#m", "told_a:solver", "scripted:4", Solver(ScriptedModel(["4"]))):
        assert config(agents) == config(agents, elsewhere=True)


def write_module(path, text):
    path.write_text(f"PROMPT = {text!r}\ndef make(): return PROMPT\ndef solver(seen): return make()\n")
