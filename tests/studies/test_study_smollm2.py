"""The study of a real language model, here with a tiny random one: its problems, its resume, its page."""

import json
import random

import torch
from messages import raises

import studies.smollm2.study as study
import studies.smollm2.word_problems as words
from mars_env.envs.verdicts import read_judgement
from mars_env.errors import ConfigError
from mars_env.evaluation.provenance import Provenance
from mars_env.grading import grader_for
from mars_env.models.tiny import tiny_model
from mars_env.types import Problem, Verdict
from studies.common.study import Run

ORIGIN = Provenance("0" * 40, {})


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


def test_demonstrations_by_hand():
    made = words.WordProblem("?", {"a": 15, "c": 3, "d": 4}, ("c*d", "a+it"))
    assert words.solution(made.worked()) == "3*4=12, 15+12=27. \\boxed{27}"
    assert words.solution(made.worked(slip=-1, at=0)) == "3*4=11, 15+11=26. \\boxed{26}"
    assert words.report(made, 27) == "3*4=12, 15+12=27, the same.\nCorrectness: Correct"
    assert words.report(made, 26) == "3*4=12, 15+12=27, not 26.\nCorrectness: Wrong"


def test_no_held_out_problem_was_seen_before(tmp_path):
    one = study.Training(5, study.RECIPE, tiny_model(name=study.NAME), tmp_path)
    held = {problem.statement for problem in one.held_out}
    assert len(held) == study.RECIPE.held_out
    assert not held & {problem.statement for problem in one.training}
    assert not held & {lesson.seen["problem"] for lesson in one.lessons}


def played(place):
    torch.set_num_threads(1)
    return study.STUDY.made(study.ARMS, Run(0, study.QUICK, place), ORIGIN, None)


def test_a_seed_is_not_continued_by_other_code(tmp_path):
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "commit.json").write_text(json.dumps("1" * 40))
    with raises(ConfigError):
        played(tmp_path)


def test_other_weights_are_refused(tmp_path):
    tmp_path.joinpath("model.safetensors").write_bytes(b"other")
    with raises(ConfigError):
        study.checked(tmp_path)
