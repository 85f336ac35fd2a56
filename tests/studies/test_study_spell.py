"""SPELL's study: its parts."""

from mars_env.methods.spell.rules import read_question
from studies.spell.lookups import clusters, easy_question, is_right, level, truth


def test_the_program_of_the_static_set_asks_easy_questions_with_right_references():
    problem = clusters(3, 1)[0]
    seen = {"documents": "\n\n".join(problem.metadata["documents"][:2]), "examples": ""}
    found = [read_question(easy_question(seen, seed)) for seed in range(50)]
    assert all(is_right(each.answer, truth(problem, each.question)) for each in found)
    assert {each.answer.isdigit() for each in found} == {True, False}
    assert 1 <= sum(level(each.question) for each in found) / 50 < 2.5
