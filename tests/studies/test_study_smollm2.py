"""The study of a real language model, here with a tiny random one: its problems, its resume, its page."""

import json
import random
from collections import Counter
from functools import partial

import pytest
import torch
from messages import raises
from tiny_checkpoint import varied

import studies.smollm2.study as study
import studies.smollm2.word_problems as words
from mars_env.envs import Game
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


def test_demonstrations_are_honest_and_corrections_right():
    mix = {"solver": 0.4, "verifier": 0.35, "corrector": 0.25}
    found = words.lessons(3, 400, mix)
    counts = Counter(one.role for one in found)
    assert all(abs(counts[role] / 400 - share) < 0.08 for role, share in mix.items())
    told = [read_judgement(one.text).passed for one in found if one.role == "verifier"]
    assert 0.35 < sum(told) / len(told) < 0.65
    for one in found:
        boxed = one.text.partition("\\boxed{")[2]
        if one.role == "verifier":
            same = (
                one.seen["solution"].partition("\\boxed{")[2] == f"{one.text.split('=')[-1].split(',')[0]}}}"
            )
            assert same == read_judgement(one.text).passed
        elif one.role == "corrector":
            kept = one.seen["solution"].endswith("{" + boxed)
            assert not read_judgement(one.seen["report"]).passed
            assert kept == (f"not {boxed[:-1]}." in one.seen["report"])
    assert words.lessons(3, 400, mix) == found != words.lessons(4, 400, mix)


def test_no_held_out_problem_was_seen_before(tmp_path):
    one = study.Training(5, study.RECIPE, tiny_model(name=study.NAME), tmp_path)
    held = {problem.statement for problem in one.held_out}
    assert len(held) == study.RECIPE.held_out
    assert not held & {problem.statement for problem in one.training}
    assert not held & {lesson.seen["problem"] for lesson in one.lessons}


def last_weights(place):
    [found] = (place / "rewarded").glob("step-00000002/*/model.safetensors")
    return found.read_bytes()


def played(place):
    torch.set_num_threads(1)
    return study.STUDY.made(study.ARMS, Run(0, study.QUICK, place), ORIGIN, None)


@pytest.mark.slow
def test_a_killed_seed_continues_to_the_same_rows_and_weights(tmp_path, monkeypatch):
    """It is stopped in each of its stages, once between two checkpoints."""
    monkeypatch.setattr(study, "Game", partial(Game, rewards=dict.fromkeys(study.SYSTEMS, varied)))
    whole = played(tmp_path / "whole")
    real, logged, kills = study.write_run, study.JsonlLogger.log, []

    class Killed(BaseException):
        pass

    def write_run(path, *rest):
        if "taught-0-8-2" in path.name and "evaluation" not in kills:
            kills.append("evaluation")
            raise Killed
        return real(path, *rest)

    def log(self, step, values):
        stage = self.path.stem
        if step == 2 and stage not in kills:
            kills.append(stage)
            raise Killed
        logged(self, step, values)

    monkeypatch.setattr(study, "write_run", write_run)
    monkeypatch.setattr(study.JsonlLogger, "log", log)
    for _ in range(3):
        with pytest.raises(Killed):
            played(tmp_path / "killed")
    again = played(tmp_path / "killed")
    assert kills == ["taught", "evaluation", "rewarded"]
    assert [(row.arm, row.figures) for row in again] == [(row.arm, row.figures) for row in whole]
    assert [row.detail["episodes"] for row in again] == [row.detail["episodes"] for row in whole]
    assert again[-1].detail["curve"] == whole[-1].detail["curve"]
    assert last_weights(tmp_path / "killed" / "0") == last_weights(tmp_path / "whole" / "0")
    first = next((tmp_path / "whole" / "0" / "taught").glob("step-*/*/model.safetensors")).read_bytes()
    assert first != last_weights(tmp_path / "whole" / "0"), "nothing was trained: this shows nothing"
    text = study.page([row.model_copy(update={"settings": "s"}) for row in whole])
    assert "| MarsRL improves the System |" in text and "one seed only" in text
    for row in whole:
        for told in row.detail["episodes"]:
            assert f"    PROBLEM ({told['answer']}): {told['problem']}\n" in text


def test_a_seed_is_not_continued_by_other_code(tmp_path):
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "commit.json").write_text(json.dumps("1" * 40))
    with raises(ConfigError):
        played(tmp_path)


def test_other_weights_are_refused(tmp_path):
    tmp_path.joinpath("model.safetensors").write_bytes(b"other")
    with raises(ConfigError):
        study.checked(tmp_path)
