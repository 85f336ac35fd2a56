import asyncio
import json
import random
from dataclasses import dataclass, replace
from itertools import pairwise

import aiohttp
import pytest
from full_disk import full_disk
from messages import raises
from rich.console import Console
from sums_team import sums, told
from turns import turn

from mars_env.agents import make_agents
from mars_env.envs import Game, SolveVerifyCorrect
from mars_env.envs.solve_verify_correct import TRAINING
from mars_env.errors import ConfigError, ModelError
from mars_env.grading.math.grader import MathGrader
from mars_env.loggers import Logger
from mars_env.models import HTTPModel
from mars_env.players import assign_agents
from mars_env.rollout import Job, Slots, Store, collect, play_all
from mars_env.rollout.monitor import Monitor, Trace, live_view, prometheus_text, reporting
from mars_env.rollout.store import finished_trees
from mars_env.types import Action, Completion, Grade

PROBLEMS = sums(8)


class PartGrader:
    """Knows nothing of one problem."""

    async def grade(self, problem, text):
        if problem.id == "sum/2":
            return Grade.unknown("worker 17 was lost")
        return Grade.correct() if text == problem.reference else Grade.wrong("another number")


@dataclass
class Player:
    policy: str = "player"

    async def act(self, observation, n, seed):
        await asyncio.sleep(0.002)
        if "7 + 7" in observation["problem"] and "solution" in observation:
            raise ModelError("m: no answer after 6 attempts")
        rng = random.Random(seed)
        if "report" in observation or "solution" not in observation:
            text = str(int(observation["problem"].split()[2]) * 2 + rng.randrange(2))
        else:
            text = f"Hm.\nCorrectness: {rng.choice(['Correct', 'Wrong'])}"
        return [Action(text, (Completion(text, completion_tokens=5),)) for _ in range(n)]


GAME = Game(SolveVerifyCorrect(TRAINING), PartGrader())
JOBS = [Job(problem, sample) for sample in range(3) for problem in PROBLEMS]


async def played(monitor, concurrency=4, on_tree=lambda tree: None):
    agents = monitor.watch(assign_agents(GAME.rules, Player()))
    trees = []
    async for tree in play_all(GAME, agents, JOBS, seed=2, concurrency=concurrency):
        monitor.record_tree(tree)
        on_tree(tree)
        trees.append(tree)
    return trees


async def test_figures_are_those_of_the_trees():
    monitor = Monitor(len(JOBS))
    trees = await played(monitor)
    figures = monitor.figures()
    turns = [turn for tree in trees for turn in tree.turns]
    verdicts = [turn.info["verdict"] for turn in turns if "verdict" in turn.info]
    solved = [turn.grade.score for turn in turns if turn.role == "solver" and turn.grade.score is not None]
    assert figures["trees/finished"] == figures["trees/total"] == 24
    assert figures["turns/finished"] == len(turns)
    assert figures["turns/in_flight"] == figures["in_flight/solver_0"] == figures["seconds/left"] == 0
    assert figures["turns/per_second"] == pytest.approx(len(turns), abs=1)  # in under a second
    assert figures["tokens/per_second"] == pytest.approx(5 * len(turns), abs=5)
    assert figures["accepted/verifier"] == verdicts.count("Correct") / len(verdicts)
    assert figures["correct/solver"] == sum(solved) / len(solved)
    assert figures["unknown/worker N was lost"] == sum(
        turn.grade is not None and turn.grade.score is None for turn in turns
    )
    assert figures["fault/ModelError"] == figures["trees/faulty"] == 3
    assert 0 <= figures["idle_share"] < 0.9


async def test_graded_turns_of_unfinished_trees_count():
    monitor, seen = Monitor(1), []
    assert not monitor.begun

    def verifier(observation):
        seen.append((monitor.figures(), monitor.begun))
        return "Correctness: Wrong"

    team = {"solver": lambda observation: "0", "verifier": verifier, "corrector": lambda observation: "14"}
    agents = monitor.watch(assign_agents(GAME.rules, team))
    [tree] = [
        tree
        async for tree in play_all(GAME, agents, [Job(PROBLEMS[7])], seed=0, on_turns=monitor.record_turns)
    ]
    assert seen[0][0]["correct/solver"] == seen[0][0]["trees/finished"] == 0 and seen[0][1]
    before = monitor.figures()
    monitor.record_tree(tree)  # counts each turn once
    after = monitor.figures()
    assert all(after[name] == before[name] for name in before if name.startswith(("correct/", "accepted/")))
    assert after["correct/corrector"] == 1 and after["trees/finished"] == 1


async def test_watching_changes_nothing():
    watched = {tree.id: told(tree) for tree in await played(Monitor())}
    plain = await collect(GAME, assign_agents(GAME.rules, Player()), JOBS, seed=2)
    assert watched == {tree.id: told(tree) for tree in plain}


async def test_turns_in_flight_and_the_time_left_are_told_while_it_plays():
    monitor, seen = Monitor(len(JOBS)), []
    await played(monitor, on_tree=lambda tree: seen.append(monitor.figures()))
    assert 1 <= max(row["turns/in_flight"] for row in seen) <= 4
    assert [row["trees/finished"] for row in seen] == list(range(1, 25))
    assert seen[5]["seconds/left"] == pytest.approx(seen[5]["seconds/elapsed"] * 18 / 6, rel=0.01)


async def test_an_idle_engine_is_seen():
    monitor = Monitor()
    [agent] = monitor.watch({"a": Player()}).values()
    await agent.act({"problem": "What is 1 + 1?"}, 1, 0)
    await asyncio.sleep(0.2)
    assert monitor.figures()["idle_share"] > 0.8


async def test_the_live_view_says_what_is_the_matter():
    monitor = Monitor(len(JOBS), finished=0)
    await played(monitor)
    console = Console(width=150, color_system=None)
    with console.capture() as shown:
        console.print(live_view(monitor.figures()))
    text = shown.get()
    assert all(word in text for word in ("24/24", "turns/s", "accepts", "UNKNOWN", "discarded")), text
    with console.capture() as shown:
        console.print(Monitor())
    assert "0 episodes" in shown.get() and "left" not in shown.get()


async def test_metrics_go_to_a_logger_and_to_prometheus():
    class Log(Logger):
        rows, ended = [], False

        def log(self, step, values):
            self.rows.append((step, dict(values)))

        def close(self):
            self.ended = True

    monitor, log = Monitor(len(JOBS)), Log()
    async with reporting(monitor, logger=log, every=0.01, port=0) as port:
        await played(monitor)
        async with aiohttp.request("GET", f"http://127.0.0.1:{port}/metrics") as response:
            assert response.content_type == "text/plain"
            text = await response.text()
    assert 'mars_env_trees{of="finished"} 24.0\n' in text
    assert 'mars_env_unknown{of="worker N was lost"}' in text
    assert text.count("# TYPE mars_env_trees gauge") == 1
    assert log.ended and len(log.rows) > 2
    step, values = log.rows[-1]
    assert step == values["rollout/turns/finished"] == monitor.figures()["turns/finished"]
    with pytest.raises(aiohttp.ClientError):
        async with aiohttp.request("GET", f"http://127.0.0.1:{port}/metrics"):
            pass


async def test_a_trace_shows_every_turn_in_a_row_of_its_own(tmp_path):
    with Trace(tmp_path / "trace.json") as trace:
        trees = await played(Monitor(trace=trace))
    events = json.loads((tmp_path / "trace.json").read_text())
    acts = [event for event in events if event["ph"] == "X"]
    names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    done = [event for event in acts if "error" not in event["args"]]
    assert len(done) == sum(len(tree.turns) for tree in trees)
    assert [event["args"]["error"] for event in acts if event not in done] == ["ModelError"] * 3
    assert all(names[event["pid"]] == event["name"] and event["dur"] >= 2000 for event in done)
    assert {event["name"] for event in events if event["ph"] == "i"} == {tree.id for tree in trees}
    rows = {}
    for event in acts:
        rows.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    assert len(rows) <= 3 * 4  # as many rows as turns were under way
    for spans in rows.values():
        spans.sort()
        assert all(one[1] <= two[0] for one, two in pairwise(spans))


async def test_what_an_earlier_run_finished_counts(tmp_path):
    assert finished_trees(tmp_path) == set()
    with Store(tmp_path, {}, PROBLEMS) as store:
        async for _ in play_all(GAME, assign_agents(GAME.rules, Player()), JOBS[:8], seed=2, journal=store):
            pass
    finished = finished_trees(tmp_path)
    assert finished == {f"sum/{i}#0" for i in range(7)}  # the eighth was discarded
    figures = Monitor(len(JOBS), finished=len(finished)).figures()
    assert figures["trees/finished"] == 7 and "seconds/left" not in figures


async def test_queues_and_idle_places_of_engines():
    slots, monitor = Slots(2), Monitor()
    monitor.measure("engine", slots)

    async def request():
        async with slots.hold():
            await asyncio.sleep(0.2)

    async with reporting(monitor):
        requests = [asyncio.create_task(request()) for _ in range(5)]  # three waves: two, two, and one
        await asyncio.sleep(0.1)
        figures = monitor.figures()
        assert (figures["queue/engine"], figures["busy/engine"]) == (3, 2)
        console = Console(width=100, color_system=None)
        with console.capture() as shown:
            console.print(live_view(figures))
        assert "engine: 3 wait, idle" in shown.get()
        await asyncio.gather(*requests)
        ended = monitor.figures()
    assert (ended["queue/engine"], ended["busy/engine"]) == (0, 0)
    idle = 0.2 / (2 * ended["seconds/elapsed"])  # one place in the last wave
    assert ended["idle/engine"] == pytest.approx(idle, abs=0.2)
    assert 'mars_env_queue{of="engine"} 0.0' in prometheus_text(ended)


async def test_the_models_of_a_team_are_measured_under_their_names():
    server = HTTPModel("http://127.0.0.1:9/v1", "m", concurrency=3)
    monitor, other = Monitor(), HTTPModel("http://127.0.0.1:9/v1", "m")
    agents = make_agents(server, ["solver_0", "verifier_0"]) | make_agents(other, ["corrector_0"])
    monitor.measure_models(agents)
    monitor.measure("grading", MathGrader(workers=2).pool)
    figures = monitor.figures()
    queues = [name for name in figures if name.startswith("queue/")]
    assert queues == ["queue/m", "queue/m 2", "queue/grading"]  # two models of one name
    assert figures["idle/m"] == figures["idle/grading"] == pytest.approx(1.0)
    assert (server.capacity, server.under_way) == (3, 0)


def test_turns_of_other_processes_are_seen(tmp_path):
    done = replace(turn("0", None, Completion("4", completion_tokens=5)), seconds=0.5)
    with Trace(tmp_path / "trace.json") as trace:
        monitor = Monitor(trace=trace)
        monitor.record_remote_acting(0, {"solver_0": 3})
        monitor.record_remote_acting(1, {"solver_0": 1, "verifier_0": 2})
        monitor.record_remote_turns([done, replace(done, id="1")])
        monitor.record_remote_acting(0, {"verifier_0": 1})
        figures = monitor.figures()
    assert figures["turns/finished"] == 2 and figures["turns/in_flight"] == 4
    assert (figures["in_flight/solver_0"], figures["in_flight/verifier_0"]) == (1, 3)
    [act] = [event for event in json.loads((tmp_path / "trace.json").read_text()) if event["ph"] == "X"]
    assert act["args"] == {"n": 2, "tokens": 10} and act["dur"] == pytest.approx(5e5)
    for process in (0, 1):
        monitor.record_remote_acting(process, {})
    assert monitor.figures()["turns/in_flight"] == 0


async def test_a_trace_on_a_full_disk_costs_no_tree(tmp_path, caplog):
    clean = await played(Monitor())
    with full_disk(1000), Trace(tmp_path / "trace.json") as trace:
        trees = await played(Monitor(trace=trace))
    assert sorted(tree.fault for tree in trees) == sorted(tree.fault for tree in clean)
    assert caplog.text.count("ends early") == 1


async def test_a_logger_that_fails_costs_no_run(caplog):
    class Failing(Logger):
        def log(self, step, values):
            raise OSError(28, "No space left on device")

        def close(self):
            raise RuntimeError("lost")

    async with reporting(Monitor(), logger=Failing()):
        pass
    assert "No space left" in caplog.text and "RuntimeError: lost" in caplog.text


@pytest.mark.parametrize("port", [70_000, -1])
async def test_a_port_that_is_none_is_one_sentence(port):
    with raises(ConfigError):
        async with reporting(Monitor(), port=port):
            pass
