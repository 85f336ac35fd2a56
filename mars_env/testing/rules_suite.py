"""The contract suite for rules; run it on your own."""

import copy
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from mars_env.envs.rules import Rules, unfit_rules
from mars_env.errors import explained
from mars_env.text import raised
from mars_env.types import Action, Completion, Grade, Problem

DEFAULT_TEXTS = (
    "",
    "\\boxed{4}",
    "Fine.\nCorrectness: Correct",
    "No.\nCorrectness: Wrong",
    "é \ud800 \x00 {0} %s",
    "x" * 5000,
)
GRADES = (None, Grade.correct(), Grade.wrong("another number"), Grade.unknown("the grader was lost"))
SECRET = "the-reference-must-not-leak-4711"


def check_rules(
    rules: Rules[Any],
    problem: Problem,
    *,
    texts: Sequence[str] = DEFAULT_TEXTS,
    episodes: int = 50,
    seed: int = 0,
) -> None:
    """Play random episodes and check what every engine relies on.

    Rules are pure functions of values. Observations fit their spaces, contain nothing of the reference, and
    do not depend on grades. Episodes end within `max_turns`, and name a graded turn as the answer. Feedback
    changes nothing but observations (`mars_env.envs.rules.TakesFeedback`).

    Args:
        rules: The rules to check.
        problem: A problem on which they can be played.
        texts: What agents say; add what your rules treat specially.
        episodes: How many random episodes.
        seed: For the random episodes.

    Raises:
        AssertionError: The broken promise.
    """
    assert not (why := unfit_rules(rules)), why
    agents = rules.possible_agents
    assert agents, "possible_agents is empty"
    assert len(set(agents)) == len(agents), f"possible_agents repeats a name: {agents}"
    for agent in agents:
        named = re.fullmatch(r"[A-Za-z]\w*_[0-9]+", agent, re.ASCII)
        assert named, f"an agent's name is its role and a number, such as solver_0, got {agent!r}"
        assert "observation" not in rules.fields(agent), "PettingZoo allows no field called 'observation'"
    assert rules.max_turns >= 1, "max_turns must be at least 1"
    rng = np.random.default_rng(seed)
    for _ in range(episodes):
        _play(rules, problem, texts, rng)


def _play(rules: Rules[Any], problem: Problem, texts: Sequence[str], rng: np.random.Generator) -> None:
    metadata = {**problem.metadata, "rubric": [{"text": SECRET}]}
    secret = Problem(problem.id, problem.statement, SECRET, problem.kind, metadata)
    state = rules.start(secret)
    assert rules.final(state) is None, "there is a final answer before the first turn"
    turns = graded = 0
    blind = state  # the same episode with other grades
    while (agent := rules.current_agent(state)) is not None:
        assert agent in rules.possible_agents, f"current_agent() names {agent!r}, not one of possible_agents"
        assert turns < rules.max_turns, f"an episode continued after max_turns = {rules.max_turns}"
        _check_observations(rules, state)
        text = texts[int(rng.integers(len(texts)))]
        cut = bool(rng.integers(2))
        action = Action(text, (Completion(text, "length" if cut else "stop"),))
        submitted = rules.submission(state, action)
        assert submitted is None or isinstance(submitted, str), "submission() must return a string or None"
        drawn = int(rng.integers(1, len(GRADES)))
        grade = GRADES[drawn] if submitted is not None else None
        note: object = rules.note(state, action)
        assert isinstance(note, Mapping), f"note() returns a mapping such as {{'choice': 1}}: {note!r:.60}"
        plain = "note() must return plain data, which can be stored"
        with explained(AssertionError, plain, TypeError, ValueError):
            json.dumps(dict(note), allow_nan=False)
        before = copy.deepcopy(state)
        after = rules.apply(state, action, grade)
        assert state == before, "apply() changed the state it was given: states must be values"
        assert after == rules.apply(state, action, grade), "apply() returned two results for one input"
        assert note == rules.note(state, action), "note() returned two results for one input"
        for other in GRADES if submitted is not None else ():
            _check_blind(rules, after, _applied(rules, state, action, other))
        blind = rules.apply(blind, action, None if grade is None else GRADES[1 + drawn % 3])
        if rules.current_agent(blind) != rules.current_agent(after):
            blind = after  # a grade may decide how the episode goes on
        _check_blind(rules, after, blind)
        graded += submitted is not None
        turns += 1
        state = after if submitted is None else _informed(rules, after, text)
        blind = blind if submitted is None else _informed(rules, blind, text)
    _check_observations(rules, state)
    final: Any = rules.final(state)
    named = final is None or isinstance(final, int)
    assert named, f"final() returns the number of a graded turn or None, not {final!r:.100}"
    assert final is None or 0 <= final < graded, f"final() names graded turn {final}, but there are {graded}"


def _applied(rules: Rules[Any], state: Any, action: Action, grade: Grade | None) -> Any:
    try:
        return rules.apply(state, action, grade)
    except Exception as error:
        kind = "None: a question without a reference has no grade" if grade is None else grade.verdict.value
        raise AssertionError(f"apply() fails on the grade {kind}: {raised(error)}") from error


def _check_blind(rules: Rules[Any], state: Any, blind: Any) -> None:
    """Two states that differ in nothing but grades look the same to every agent."""
    for agent in rules.possible_agents:
        same = dict(rules.observe(blind, agent)) == dict(rules.observe(state, agent))
        assert same, f"the observation of {agent} depends on the grade of a turn: the reference leaks"


def _informed(rules: Rules[Any], state: Any, feedback: str) -> Any:
    """The state with some feedback, if the rules accept feedback."""
    inform = getattr(rules, "with_feedback", None)
    if inform is None:
        return state
    before = copy.deepcopy(state)
    informed = inform(state, feedback)
    assert state == before, "with_feedback() changed the state it was given: states must be values"
    assert informed == inform(state, feedback), "with_feedback() gave two results for one input"
    assert inform(state, "") == state, "with_feedback() changed the state without feedback"
    assert rules.current_agent(informed) == rules.current_agent(state), "feedback changed whose turn it is"
    assert rules.final(informed) == rules.final(state), "feedback changed the answer"
    return informed


def _check_observations(rules: Rules[Any], state: Any) -> None:
    for agent in rules.possible_agents:
        observation = dict(rules.observe(state, agent))
        space = spaces.Dict(dict(rules.fields(agent)))
        fits = space.contains(observation)
        assert fits, f"the observation of {agent} is not in its space: {observation!r:.300}"
        assert SECRET not in repr(observation), f"{agent} observes the reference or the rubric"
