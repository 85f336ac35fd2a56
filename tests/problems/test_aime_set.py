import collections

from mars_env import load_problems
from mars_env.problems.aime import LEVELS, TEMPLATES


def test_problems_are_complete():
    for problem in load_problems("aime", n=300):
        assert problem.kind == "math"
        assert problem.reference == str(int(problem.reference)) and 0 <= int(problem.reference) <= 999
        assert problem.metadata["source"] == "mars_env generated"
        assert problem.metadata["licence"] == "Apache-2.0"
        assert problem.metadata["generated"] is True and problem.metadata["integer"] is True
        template = TEMPLATES[problem.metadata["template"]]
        assert (problem.metadata["level"], problem.metadata["topic"]) == (template.level, template.topic)
        assert set(problem.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-/")


def test_thousands_are_distinct_of_all_templates_and_of_levels_in_equal_numbers():
    problems = list(load_problems("aime", n=3000))
    assert len({p.statement for p in problems}) > 2800
    answers = collections.Counter(p.reference for p in problems)
    assert answers.most_common(1)[0][1] < 60, "no answer is worth guessing"
    levels = collections.Counter(p.metadata["level"] for p in problems)
    assert sorted(levels) == list(LEVELS)
    assert all(500 < count < 700 for count in levels.values())
    assert {p.metadata["template"] for p in problems} == set(TEMPLATES)


def test_options_choose_templates():
    problems = load_problems("aime", n=60, level=[2, 5], topic="geometry", split="test")
    chosen = {(p.metadata["level"], p.metadata["topic"]) for p in problems}
    assert chosen == {(2, "geometry"), (5, "geometry")}
    assert problems[7].id == "aime-level25-geometry/test/0/7"
    assert problems.by_id(problems[7].id) == problems[7]
    one = load_problems("aime", n=5, template="necklaces")
    assert {p.metadata["template"] for p in one} == {"necklaces"}
    assert load_problems("aime", topic="number theory")[0].id == "aime-number_theory/train/0/0"


def test_every_template_fills_the_rarer_split():
    for name in TEMPLATES:
        assert len(load_problems("aime", n=25, template=name, split="test", seed=1)[24].statement) > 20
