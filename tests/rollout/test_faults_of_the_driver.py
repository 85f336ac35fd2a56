"""Faults around the engine: graders that hang, a full disk, signals to the command line."""

import asyncio
import os
import signal
import subprocess
import time
from dataclasses import replace

import pytest
from command_line import command
from full_disk import full_disk
from messages import raises
from sums_team import game, stored, sums, team, told

import mars_env
from mars_env.agents import make_agents
from mars_env.errors import StoreError
from mars_env.grading.math.grader import MathGrader
from mars_env.grading.math.pool import VerdictLimits
from mars_env.models import ScriptedModel
from mars_env.rollout import Job, Store, collect, read_run
from mars_env.types import Problem

PROBLEMS = sums(6)
GAME = game()
TEAM = team()


async def test_a_grader_that_hangs_on_one_problem_is_given_up_as_unknown():
    class Hanging(MathGrader):
        async def grade(self, problem, text):
            if problem.id == "sum/2":
                await asyncio.Event().wait()
            return await super().grade(problem, text)

    game = replace(GAME, grader=Hanging(), grading_timeout=0.2)
    async with asyncio.timeout(20):
        trees = await collect(game, TEAM, list(map(Job, PROBLEMS)), seed=1)
    for tree in trees:
        assert not tree.fault and tree.final
        for turn in tree.turns:
            hung = tree.problem.id == "sum/2"
            assert (turn.reward is None) == hung
            if turn.grade is not None and hung:
                assert turn.grade.verdict == "UNKNOWN"
                assert turn.grade.reason.startswith("the grader raised TimeoutError: no answer within 0.2 s")


async def test_a_grading_process_that_stands_still_is_killed_and_the_verdict_unknown():
    """Real workers, stopped by SIGSTOP: they neither work nor end."""
    problems = [Problem(f"root/{i}", "Simplify.", r"\sqrt{8}") for i in range(3)]
    grader = MathGrader(limits=VerdictLimits(wall_seconds=1.5), workers=1)
    agents = make_agents(ScriptedModel([r"\boxed{2\sqrt{2}}"]), GAME.rules.possible_agents)
    try:
        assert (await grader.grade(problems[0], r"\boxed{2\sqrt{2}}")).verdict == "CORRECT"
        stopped = grader.pool.pids()
        for pid in stopped:
            os.killpg(pid, signal.SIGSTOP)
        async with asyncio.timeout(60):
            trees = await collect(replace(GAME, grader=grader), agents, list(map(Job, problems)), seed=1)
        assert not any(tree.fault for tree in trees)
        verdicts = [turn.grade.verdict for tree in trees for turn in tree.turns if turn.grade]
        assert set(verdicts) <= {"CORRECT", "UNKNOWN"}  # a fault of ours is never WRONG
        assert verdicts.count("CORRECT") > 0  # a fresh worker took over
        assert not set(stopped) & set(grader.pool.pids())
    finally:
        grader.close()


async def test_a_full_disk_ends_the_run_in_one_sentence_and_the_run_resumes(tmp_path):
    jobs = [Job(problem, sample) for sample in range(20) for problem in PROBLEMS]

    async def run(directory):
        async for _ in stored(directory, GAME, TEAM, jobs, PROBLEMS, concurrency=16):
            pass

    await run(tmp_path / "whole")
    with full_disk(50_000), raises(StoreError):
        await run(tmp_path / "full")
    written = (tmp_path / "full" / "turns.jsonl").read_bytes()
    assert len(written) <= 50_000 and written.endswith(b"\n")
    await run(tmp_path / "full")
    whole, resumed = (read_run(tmp_path / name).trees for name in ("whole", "full"))
    assert list(map(told, resumed)) == list(map(told, whole))
    assert (tmp_path / "full" / "turns.jsonl").read_bytes().startswith(written)


def test_a_disk_that_takes_nothing_from_the_start(tmp_path):
    with full_disk(0), raises(StoreError):
        Store(tmp_path, {"seed": 1}, [])
    assert not (tmp_path / "manifest.json").exists()
    with Store(tmp_path, {"seed": 1}, PROBLEMS):
        pass


def begun(url, directory):
    """A process that plays a run."""
    called = command(
        *("evaluate", "arithmetic-solve-verify-correct", "--agents", f"{url}#m", "--limit", 20, "--n", 5),
        *("--seed", 2, "--concurrency", 8, "--set", "schedule=training", "--out", directory),
    )
    return subprocess.Popen(called, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(url, directory):
    """The run of that command, begun or gone on with, without a process of its own."""
    mars_env.evaluate(
        "arithmetic-solve-verify-correct", agents=f"{url}#m", limit=20, samples=5, seed=2, concurrency=8,
        schedule="training", out=directory,
    )  # fmt: skip
    return list(map(told, read_run(directory).trees))


def when_some_turns_are_stored(process, directory, turns=40):
    file, until = directory / "turns.jsonl", time.monotonic() + 60
    while process.poll() is None and time.monotonic() < until:
        if file.exists() and file.read_bytes().count(b"\n") >= turns:
            return
        time.sleep(0.01)
    raise AssertionError(f"the run ended before it was to be stopped: {process.communicate()[1]}")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda how: how.name)
def test_a_run_that_is_stopped_goes_on_as_if_it_had_not_been(chaos, tmp_path, how):
    url = chaos.start(seconds=0.01).url
    expected = finished(url, tmp_path / "whole")
    stopped = tmp_path / "stopped"
    process = begun(url, stopped)
    when_some_turns_are_stored(process, stopped)
    process.send_signal(how)
    _, said = process.communicate(timeout=60)
    if how is signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 128 + how
        assert "keeps the finished part, and the same command continues it" in " ".join(said.split())
        assert "Traceback" not in said
    left = (stopped / "turns.jsonl").read_bytes()
    assert left.endswith(b"\n") or how is signal.SIGKILL
    assert finished(url, stopped) == expected
    stored = (stopped / "turns.jsonl").read_bytes()
    assert stored.startswith(left[: left.rfind(b"\n") + 1])
    assert stored.count(b"\n") == sum(len(tree.turns) for tree in expected)


def test_a_run_is_stopped_within_seconds_though_the_server_hangs(chaos, tmp_path):
    url = chaos.start("hang", rate=1.0).url
    process = begun(url, tmp_path / "run")
    until = time.monotonic() + 60
    while not (tmp_path / "run" / "turns.jsonl").exists() and time.monotonic() < until:
        time.sleep(0.02)
    time.sleep(0.5)  # the calls are under way
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)  # the server would hang for longer
    assert process.returncode == 130 and "Traceback" not in said, said


async def test_an_agent_that_hangs_is_given_up_after_its_time():
    """Its tree says so and has no answer; its finished turns are kept."""

    class Stuck:
        policy = TEAM["verifier_0"].policy
        cancelled = 0

        async def act(self, observation, n, seed):
            if observation["problem"] != PROBLEMS[2].statement:
                return await TEAM["verifier_0"].act(observation, n, seed)
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1

    game, stuck, jobs = replace(GAME, turn_timeout=0.2), Stuck(), list(map(Job, PROBLEMS))
    expected = list(map(told, await collect(game, TEAM, jobs, seed=1)))

    async with asyncio.timeout(20):
        trees = await collect(game, {**TEAM, "verifier_0": stuck}, jobs, seed=1)
    assert stuck.cancelled == 1
    for tree, sound in zip(map(told, trees), expected, strict=True):
        if tree.id == "sum/2#0":
            assert tree.final is None
            assert tree.fault == "verifier_0 at turn 0.0: TimeoutError: no action within 0.2 s"
            assert tree.turns == sound.turns[:1]
        else:
            assert tree == sound
