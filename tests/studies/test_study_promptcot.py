"""The study of PromptCoT 2.0: its figures by hand."""

import math

import pytest

import studies.promptcot.study as study
from mars_env.methods.promptcot.designs import score_design
from studies.promptcot import grammar


def test_every_drawn_problem_is_one_of_the_language_and_has_its_concepts():
    assert grammar.values("3+1*2-2*3") == [3, 4, 8 % 5, 1, 3]
    assert [grammar.values(text) for text in ("3/2", "3+4", "5+1", "3*1", "", "3+", "٣+1")] == [None] * 7
    for design in grammar.designs(7, 60):
        found = grammar.values(design.problem)
        assert design.concepts[-1] == f"={found[-1]}" and grammar.follows(design)
        assert grammar.GrammarWriting().read("".join(grammar.GrammarWriting().parts(design)))


async def test_the_likelihood_of_a_problem_is_the_importance_estimate():
    both = study.new_designers(3)
    held = grammar.designs(1, 3)
    scores = [(await score_design(both.problem, both.writing, grammar.bare(d))) for d in held]
    characters = sum(len(d.problem) + 1 for d in held)
    plain = math.exp(sum(s.problem for s in scores) / characters)
    assert await study.likelihood_given(both, [grammar.bare(d) for d in held]) == pytest.approx(plain)
    bound = math.exp(sum(s.joint for s in scores) / characters)
    assert await study.likelihood(both, held, 2, 0) >= bound * (1 - 1e-6)
