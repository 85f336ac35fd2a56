"""The miniature of subset-sum: its language, its rewards, its baselines, and a small run of everything."""

import random

import pytest
from turns import turn

pytest.importorskip("torch")


from mars_env.miniature.model import build_tokenizer
from mars_env.miniature.protocol import SPECIAL
from mars_env.types import Completion
from studies.common.subset_sum import GRADER, subset_sum_problems
from studies.sums import protocol
from studies.sums.protocol import honest_report
from studies.sums.warm_start import subsets_with_sum

PROBLEM = subset_sum_problems(seed=3)[0]
NUMBERS, TARGET = PROBLEM.metadata["numbers"], PROBLEM.metadata["target"]


def test_a_token_is_a_number_or_a_word_and_what_is_written_is_read_back():
    tokenizer = build_tokenizer(protocol.VOCABULARY, SPECIAL, protocol.PATTERN)
    rng = random.Random(0)
    for problem in subset_sum_problems()[:200]:
        numbers, target = protocol.read_statement(problem.statement)
        assert (list(numbers), target) == (problem.metadata["numbers"], problem.metadata["target"])
        chosen = sorted(rng.sample(numbers, rng.randint(1, 5)))
        written = protocol.stream(chosen)
        ids = tokenizer(written)["input_ids"]
        assert len(ids) == len(chosen) and tokenizer.decode(ids) == written
        assert protocol.read(protocol.shown(written), protocol.ANSWER_TOKENS) == written
        report = protocol.report(numbers, target, chosen)
        assert len(tokenizer(report)["input_ids"]) < protocol.REPORT_TOKENS
        assert protocol.read(report, protocol.REPORT_TOKENS) == report
        assert report.endswith("Correct") == (tuple(chosen) in subsets_with_sum(numbers, target))
        grade = GRADER.grade_sync(problem, protocol.shown(written))
        assert report.endswith("Correct") == (grade.verdict == "CORRECT")


def rewarded(answer, report):
    text = protocol.shown(protocol.stream(answer))
    judged = turn("0", None, Completion(text), grade=GRADER.grade_sync(PROBLEM, text))
    said = {"verdict": "Correct" if report.endswith("Correct") else "Wrong"}
    return honest_report(turn("0.0", None, Completion(report), info=said), (judged,), PROBLEM)


def test_the_verifier_is_paid_for_what_it_states():
    right, wrong = subsets_with_sum(NUMBERS, TARGET)[0], NUMBERS[:1]
    assert rewarded(right, protocol.report(NUMBERS, TARGET, right)) == 1.0
    assert rewarded(wrong, protocol.report(NUMBERS, TARGET, wrong)) == 1.0
    assert rewarded(wrong, protocol.report(NUMBERS, TARGET - 1, wrong)) == 0.0  # the verdict alone is right
    assert rewarded(wrong, protocol.report(NUMBERS, TARGET, right)) == 0.0
    assert rewarded(wrong, "") == 0.0
