"""The study of a real language model, here with a tiny random one: its problems, its resume, its page."""

import random

import studies.smollm2.study as study
import studies.smollm2.word_problems as words
from mars_env.envs.verdicts import read_judgement
from mars_env.grading import grader_for
from mars_env.models.tiny import tiny_model
from mars_env.types import Problem, Verdict


async def test_made_texts_are_what_they_say():
    rng, grader = random.Random(1), grader_for("math")
    for made in words.distinct(rng, 60):
        stated = Problem("p", made.text, str(made.answer))
        right = words.solution(made.worked())
        wrong = words.wrong_steps(made, rng)
        assert (await grader.grade(stated, right)).verdict is Verdict.CORRECT
        assert (await grader.grade(stated, words.solution(wrong))).verdict is Verdict.WRONG
        assert all(
            str(made.numbers[name]) in made.text for rule in made.plan for name in rule if name in "abcde"
        )
        assert read_judgement(words.report(made, made.answer)).passed
        judgement = read_judgement(words.report(made, wrong[-1][1]))
        assert not judgement.passed and not judgement.malformed
        assert not read_judgement(words.mistaken_report(made, rng)).passed


def test_no_held_out_problem_was_seen_before(tmp_path):
    one = study.Training(5, study.RECIPE, tiny_model(name=study.NAME), tmp_path)
    held = {problem.statement for problem in one.held_out}
    assert len(held) == study.RECIPE.held_out
    assert not held & {problem.statement for problem in one.training}
    assert not held & {lesson.seen["problem"] for lesson in one.lessons}
