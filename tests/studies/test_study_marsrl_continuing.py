"""The miniature's agents: a forced first piece, and a Solver that is continued after its cut."""

import asyncio

from messages import raises

from mars_env.errors import ConfigError
from mars_env.miniature import protocol
from mars_env.miniature.agents import LIMITS, MiniatureAgent
from mars_env.types import Completion
from studies.marsrl.continuing import ContinuingSolver, remaining

CHAIN = protocol.Chain(882, (("-", 27), ("+", 5), ("-", 60), ("+", 99)))
STATEMENT = (
    "Work modulo 1000. Start with a = 882. Then b = a - 27, c = b + 5, d = c - 60, e = d + 99. What is e?"
)
FIRST = "a: = 882\nb: - 27 = 855\nc: + 05 = 860\nd: - 60 = 800\ne: + 9"


class Model:
    """Says what it is given, in turn, and keeps what it was asked."""

    def __init__(self, *texts):
        self.texts, self.asked = list(texts), []

    async def complete(self, prompt, n, sampling):
        assert n == 1
        self.asked.append((prompt, sampling))
        text, reason = self.texts.pop(0)
        stream = protocol.flip(text)
        return [Completion(stream, reason, completion_tokens=len(protocol.pieces(text)))]


def attempt(model, **options):
    solver = ContinuingSolver(model, **options)
    return asyncio.run(solver.act({"problem": STATEMENT}, 1, seed=0))[0]


def test_a_forced_piece_is_read_and_written_but_not_sampled():
    model = Model(("a: = 882 | 882 ok\n", "stop"))
    verifier = MiniatureAgent("verifier", model, forced=protocol.CHECK)
    [action] = asyncio.run(verifier.act({"problem": STATEMENT, "solution": "", "truncated": 0}, 1, 0))
    [(prompt, sampling)] = model.asked
    assert prompt.endswith(protocol.VERIFY + protocol.CHECK)
    assert sampling.max_tokens == LIMITS["verifier"] - 1
    assert action.text == "Check:\na: = 882 | 882 ok\n"
    assert "Check" not in action.completions[0].text
    with raises(ConfigError):
        MiniatureAgent("verifier", model, forced="Look:")


def test_own_text_is_continued_from_the_very_token_of_the_cut():
    model = Model((FIRST, "length"), ("9 = 899\n\\boxed{899}", "stop"))
    action = attempt(model, tokens=138)
    prompts = [prompt for prompt, _ in model.asked]
    assert prompts[0] == protocol.chain_prompt(CHAIN)
    assert prompts[1] == prompts[0] + protocol.flip(FIRST)
    assert action.text.endswith("e: + 99 = 899\n\\boxed{899}") and not action.truncated
    assert len(action.completions) == 2
    seeds = {sampling.seed for _, sampling in model.asked}
    assert len(seeds) == 2


def test_a_number_that_was_cut_in_its_middle_is_put_together_in_the_stream():
    model = Model(("a: = 882\nb: - 27 = 55", "length"), ("8\n", "stop"))
    assert attempt(model, tokens=138).text == "a: = 882\nb: - 27 = 855\n"


def test_the_rest_is_asked_for_as_a_new_problem():
    model = Model((FIRST, "length"), ("a: = 800\nb: + 99 = 899\n\\boxed{899}", "stop"))
    action = attempt(model, tokens=138, afresh=True)
    assert model.asked[1][0] == protocol.chain_prompt(protocol.Chain(800, (("+", 99),)))
    assert action.text == FIRST + "\na: = 800\nb: + 99 = 899\n\\boxed{899}"


def test_a_wrong_value_is_taken_as_it_is_for_nobody_verifies():
    wrong = FIRST.replace("800", "801")
    assert remaining(CHAIN, wrong) == protocol.Chain(801, (("+", 99),))
    assert remaining(CHAIN, "") is None
    assert remaining(CHAIN, "a: = 882\n") is None
    assert remaining(CHAIN, FIRST + "9 = 899\n") is None


def test_no_more_tokens_are_spent_than_there_are():
    size = len(protocol.pieces(FIRST))
    model = Model((FIRST, "length"), ("9 = 8", "length"))
    action = attempt(model, tokens=size + 3)
    assert [sampling.max_tokens for _, sampling in model.asked] == [min(39, size + 3), 3]
    assert action.truncated and len(action.completions) == 2
