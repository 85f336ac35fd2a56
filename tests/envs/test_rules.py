"""States of a game are replayed: whatever the order of branching, each one asks what it alone determines."""

import copy
import gc
import pickle
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mars_env.envs import solve_verify_correct
from mars_env.envs.game_function import GameFunction, GameOptions
from mars_env.envs.rules import ask
from mars_env.errors import ConfigError
from mars_env.types import Action, Grade, Problem

PROBLEM = Problem("p", "What is 2 + 2?", "4")
TEXTS = ["4", "Correctness: Correct", "Correctness: Wrong", ""]


def rules_of(function, max_turns=9, roles=("a",), **settings):
    options = GameOptions(
        max_turns=max_turns, roles=dict.fromkeys(roles), fields={role: ["text"] for role in roles}
    )
    return GameFunction(function, options)(**settings)


def seen(rules, state):
    return [rules.current_agent(state), *(rules.observe(state, agent) for agent in rules.possible_agents)]


STEP = st.tuples(st.integers(0, 99), st.sampled_from(TEXTS), st.booleans(), st.booleans())


@given(steps=st.lists(STEP, max_size=40))
def test_a_tree_may_branch_at_any_turn_in_any_order(steps):
    """Each state of a tree that grows anywhere asks what a fresh play of its replies asks."""
    rules = solve_verify_correct(rounds=4, accept_after=2, give_up_after=3)
    states = [rules.start(PROBLEM)]
    for place, text, has_feedback, is_read_at_once in steps:
        parent = states[place % len(states)]
        if rules.current_agent(parent) is None:
            continue
        child = rules.apply(parent, Action(text), Grade.wrong("no"))
        states.append(rules.with_feedback(child, f"of state {len(states)}" if has_feedback else ""))
        if is_read_at_once:
            rules.current_agent(states[-1])
    for state in reversed(states):
        fresh = rules.start(PROBLEM)
        for reply in state.replies():
            fresh = rules.with_feedback(rules.apply(fresh, reply.action, reply.grade), reply.feedback)
        assert seen(rules, fresh) == seen(rules, state)
        assert rules.final(fresh) == rules.final(state)
        for copied in (copy.deepcopy(state), pickle.loads(pickle.dumps(state))):
            assert copied.replies() == state.replies() and seen(rules, copied) == seen(rules, state)


def test_a_reply_is_parsed_once_however_often_the_tree_branches():
    parsed = []

    def parse(text):
        parsed.append(text)
        return {"length": len(text)}

    def measured(problem):
        reply = yield ask("a", text="", parse=parse)
        while True:
            reply = yield ask("a", text=f"{reply.info['length']}", parse=parse)

    rules = rules_of(measured)
    state = rules.start(PROBLEM)
    for text in ("x", "yy"):
        action = Action(text)
        state = rules.apply(state, action, None, rules.note(state, action))
    children = [rules.apply(state, Action("zzz"), None, {"length": 3}) for _ in range(5)]
    assert {rules.observe(child, "a_0")["text"] for child in children} == {"3"}
    assert parsed == ["x", "yy"]


def test_a_tree_takes_memory_in_proportion_to_its_nodes():
    def path(problem):
        reply = yield ask("a", text="")
        while True:
            reply = yield ask("a", text=reply.text)

    def bytes_of(nodes):
        """A comb: a spine of 50 states, and all other nodes on its last one."""
        rules = rules_of(path, max_turns=100)
        gc.collect()
        tracemalloc.start()
        state = rules.start(PROBLEM)
        for _ in range(50):
            state = rules.apply(state, Action("x" * 1000), None)
        leaves = [rules.apply(state, Action("y"), None) for _ in range(nodes)]
        assert {rules.current_agent(leaf) for leaf in leaves} == {"a_0"}
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return used

    small, large = bytes_of(100), bytes_of(300)
    assert (large - small) / 200 < 3000


def plain_answer(problem):
    return (yield ask("a", text="")).text


def ungraded_answer(problem):
    return (yield ask("a", text="", graded=False))


def asking(make):
    """A game that asks forever, with what a function makes."""

    def asked(problem):
        while True:
            yield make()

    return asked


BROKEN = [
    *(plain_answer, ungraded_answer),
    asking(lambda: ask("a", text="")),  # without an end
    asking(lambda: 3),
    asking(lambda: ask("b", text="")),  # there is no such role
    asking(lambda: ask("a", txt="")),  # nor such a field
    asking(lambda: ask("a", text=[1])),
    asking(lambda: ask("a", text=str(1 / 0))),
    asking(lambda: ask("a", text="", parse=lambda text: {"first": text[5]})),
    asking(lambda: ask("a", text="", parse=len)),
]


@pytest.mark.parametrize("function", BROKEN)
def test_a_broken_game_is_one_sentence_with_its_name_and_line(function):
    rules = rules_of(function, max_turns=2)
    with pytest.raises(ConfigError) as caught:
        state = rules.start(PROBLEM)
        while rules.current_agent(state) is not None:
            state = rules.apply(state, Action("x"), None)
        rules.final(state)
    name, first = function.__name__.replace("_", "-"), function.__code__.co_firstlineno
    places = [f"the game {name} (test_rules.py, line {line})" for line in range(first, first + 5)]
    assert str(caught.value).startswith((*places,))


def test_a_game_that_continues_differently_when_it_is_replayed_is_named():
    played = []

    def counted(problem):
        played.append(0)
        yield ask("a", text=str(len(played)))
        yield ask("a", text="")

    rules = rules_of(counted)
    state = rules.start(PROBLEM)
    first, second = (rules.apply(state, Action("x"), None) for _ in range(2))
    assert rules.current_agent(first) == "a_0"
    with pytest.raises(ConfigError, match=r"the game counted \(test_rules.py, line \d+\)"):
        rules.current_agent(second)
