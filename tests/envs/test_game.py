"""Graders: async methods and others."""

import threading

from waiting import PATIENCE

import mars_env
from mars_env.testing import check_grader
from mars_env.types import Grade, Problem

PROBLEMS = [Problem(f"p{i}", f"{i} + {i}?", str(2 * i)) for i in range(8)]


class Plain:
    """A grader without async; each call waits until so many are under way."""

    def __init__(self, together=1):
        self.together = threading.Barrier(together)
        self.threads = set()

    def grade(self, problem, text):
        self.together.wait(PATIENCE)
        self.threads.add(threading.current_thread())
        return Grade.correct() if problem.reference in text.split() else Grade.wrong("another number")


def test_a_plain_method_is_a_grader_and_blocks_nothing():
    grader = Plain(together=8)
    asked = threading.current_thread()
    report = mars_env.evaluate(
        "arithmetic-solve", agents=lambda seen: seen["problem"].split()[0], problems=PROBLEMS, grader=grader
    )
    assert report.metrics["system_accuracy"].estimate.value == 1 / 8  # 0 + 0
    assert len(grader.threads) == 8 and asked not in grader.threads
    check_grader(Plain(), PROBLEMS[1], "2", "3")


async def test_a_plain_method_ends_with_the_limit_of_gradings():
    end = threading.Event()

    class Slow:
        def grade(self, problem, text):
            assert end.wait(PATIENCE)

    game = mars_env.make("arithmetic-solve", problems=PROBLEMS, grader=Slow()).game
    object.__setattr__(game, "grading_timeout", 0.1)
    grade = await game.grade(game.rules.start(PROBLEMS[0]), mars_env.types.Action("0"))
    assert grade.score is None and not end.is_set()
    end.set()
