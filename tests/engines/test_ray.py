"""A real Ray on this machine: the trees of one process, whatever happens to the others."""

import asyncio
import json
import os
import signal
import subprocess
import threading
import time
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path

import pytest
import sums_team as sums
from command_line import command
from real_engines import local_ray
from sandboxes import descendants
from sums_team import PROBLEMS, jobs, told
from waiting import PATIENCE, wait_until

import mars_env
from mars_env.distributed import CannotStart, Fleet, Place, Placement
from mars_env.errors import ConfigError, ModelError
from mars_env.rollout import Store, collect, play_all, read_run

ray = pytest.importorskip("ray")

SEED = 7


@pytest.fixture(scope="module", autouse=True)
def running():
    """One Ray for the tests of this module."""
    with local_ray(cpus=6, resources={"sandbox": 1}):
        yield


def two(cpus=1.0, **changes):
    return Placement(workers=Place(count=2, cpus=cpus), **changes)


async def play(fleet, wanted, **options):
    async with aclosing(play_all(fleet.game, fleet.agents, wanted, seed=SEED, **options)) as trees:
        found = {tree.id: tree async for tree in trees}
    return [told(found[job.tree_id]) for job in wanted]


async def both(fleet):
    """The process ids of both workers, once they have started."""
    while len(pids := await fleet.workers.pids()) < 2:
        await asyncio.sleep(0.05)
    return pids


async def alone(wanted, make_game=sums.game, make_agents=sums.team):
    """The same, played in this process."""
    return [told(tree) for tree in await collect(make_game(), make_agents(), wanted, seed=SEED)]


def is_gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until_gone(pids):
    """Wait until processes are gone; fail if they stay."""
    wait_until(lambda: all(map(is_gone, pids)))


async def test_two_workers_play_the_trees_of_one_process(tmp_path):
    wanted, heard = jobs(4), []
    with Store(tmp_path, {"seed": SEED}, PROBLEMS) as store:
        async with Fleet(sums.grouped_game, partial(sums.team, 0.03), two()) as fleet:
            workers = await both(fleet)
            trees = await play(fleet, wanted, journal=store, on_turns=heard.extend)
            again = await play(fleet, wanted, concurrency=3)
    assert trees == again == await alone(wanted, sums.grouped_game)
    assert len(set(workers)) == 2
    until_gone(workers)
    assert len(heard) == sum(len(tree.turns) for tree in trees)
    stored = sorted(read_run(tmp_path).trees, key=lambda tree: tree.id)
    assert [told(tree) for tree in stored] == sorted(trees, key=lambda tree: tree.id)


async def test_graders_have_processes_of_their_own():
    placement = two(graders=Place(count=1), cpus=0.5)
    async with Fleet(sums.game_graded_by_processes, sums.team, placement) as fleet:
        trees, workers = await play(fleet, jobs(1)), await both(fleet)
    [judge] = {turn.grade.backend for tree in trees for turn in tree.turns if turn.grade}
    assert judge not in {f"process {pid}" for pid in (os.getpid(), *workers)}
    rewards = [
        [[turn.reward for turn in tree.turns] for tree in each] for each in (trees, await alone(jobs(1)))
    ]
    assert rewards[0] == rewards[1]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "silent"])
async def test_a_worker_that_is_lost_in_mid_run_changes_nothing(how, tmp_path):
    wanted, lost = jobs(6), []
    placement = two(silence_seconds=300.0 if how is signal.SIGKILL else 4.0)
    with Store(tmp_path, {"seed": SEED}, PROBLEMS) as store:
        async with Fleet(sums.game, sums.slow_team, placement) as fleet:
            first, _ = await both(fleet)

            def strike(turns):
                if not lost and store.path.joinpath("turns.jsonl").stat().st_size > 9000:
                    lost.append(first)
                    os.kill(first, how)

            trees = await play(fleet, wanted, concurrency=8, journal=store, on_turns=strike)
            assert lost
            until_gone(lost)
    assert trees == await alone(wanted)
    turns = [json.loads(row) for row in (tmp_path / "turns.jsonl").read_text().splitlines()]
    assert len({(turn["tree"], turn["id"]) for turn in turns}) == len(turns)  # nothing was told twice
    assert len(turns) == sum(len(tree.turns) for tree in trees)


async def test_a_cluster_without_room_starts_no_worker():
    with pytest.raises(CannotStart):
        async with Fleet(sums.game, sums.team, two(cpus=64, wait_seconds=1.5)):
            raise AssertionError("it started")


async def test_one_worker_plays_where_there_is_no_room_for_two():
    async with Fleet(sums.game, sums.team, two(cpus=4)) as fleet:
        assert await play(fleet, jobs(2), concurrency=4) == await alone(jobs(2))
        assert len(await fleet.workers.pids()) == 1


async def test_what_cannot_be_made_or_sent_is_told_as_it_is():
    with pytest.raises(ConfigError):
        async with Fleet(sums.game, sums.broken_team, two()):
            raise AssertionError("it started")
    lock = threading.Lock()
    with pytest.raises(ConfigError):
        Fleet(sums.game, lambda: {"solver_0": lock}, two())


async def test_cancelling_leaves_no_worker():
    pids, begun = set(), asyncio.Event()

    async def run():
        async with Fleet(sums.game, sums.slow_team, two()) as fleet:
            pids.update(await both(fleet))
            await play(fleet, jobs(1000), on_turns=lambda turns: begun.set())

    task = asyncio.create_task(run())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(pids) == 2
    until_gone(pids)


def test_programs_run_in_the_graders_sandboxes():
    placement = two(graders=Place(count=1, resources={"sandbox": 1}))
    solve = "scripted:```python\ndef f(x):\n    return 0\n```"
    report = mars_env.evaluate("programs-solve", agents=solve, limit=2, workers=placement)
    local = mars_env.evaluate("programs-solve", agents=solve, limit=2)
    assert report.json_text() == local.json_text() and not report.counts.unknown


def evaluate(directory, *more, **options):
    """An evaluation by the command line, in a process of its own."""
    called = command(
        "evaluate", "arithmetic-solve-verify-correct", "--agents", "sums_team:slow_model", "--limit", 10,
        "--n", 10, "--seed", 2, "--set", "schedule=training", "--out", directory, *more,
    )  # fmt: skip
    return subprocess.Popen(called, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)


def well_ended(process, run):
    """What a run holds whose process ended well."""
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    return list(map(told, read_run(run).trees))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The evaluation without a stop."""
    run = tmp_path_factory.mktemp("whole") / "run"
    return well_ended(evaluate(run), run)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda how: how.name)
def test_a_stopped_driver_leaves_no_process_and_its_run_goes_on(how, whole, tmp_path):
    """The command line starts a Ray of its own; resumed in one process, the run is as it would have been."""
    run = tmp_path / "run"
    process = evaluate(run, "--workers", "ray:2", start_new_session=True)
    turns = run / "turns.jsonl"
    family, workers = {}, 0
    while workers < 2 or not (turns.exists() and turns.read_bytes().count(b"\n") > 40):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
        # Agents look up now and then whether their parent lives.
        family = {pid: name for pid, name in command_lines(process.pid).items() if "Agent" not in name}
        workers = sum("ray::Host" in name for name in family.values())
    process.send_signal(how)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == (130 if how is signal.SIGINT else -signal.SIGKILL), said
    assert "Traceback" not in said
    until_gone(family)
    assert well_ended(evaluate(run), run) == whole


def test_the_command_line_joins_a_cluster_and_leaves_it_as_it_was(tmp_path):
    address = ray.get_runtime_context().gcs_address
    called = command(
        "evaluate", "arithmetic-solve-verify-correct", "--agents", "sums_team:slow_model", "--limit", 4,
        "--out", tmp_path, "--workers", "ray:2", "--ray-address", address, "--json",
    )  # fmt: skip
    done = subprocess.run(called, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["episodes"] == 4
    wait_until(lambda: ray.available_resources().get("CPU") == 6)


def command_lines(pid):
    """Of a process's children, and theirs, by process id."""
    found = {}
    for child in descendants(pid):
        with suppress(OSError):  # it has ended
            found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
    return found


def test_a_worker_has_vllm(checkpoint, tmp_path):
    """vLLM in a worker; greedy, it says what transformers say."""
    spec = f"{{}}:{checkpoint}?temperature=0&max_tokens=24"
    options = {"limit": 4, "seed": 1}
    placement = Placement(workers=Place(count=1))
    there = mars_env.evaluate(
        "arithmetic-solve", agents=spec.format("vllm") + "&eager=true", workers=placement,
        out=tmp_path / "vllm", **options,
    )  # fmt: skip
    here = mars_env.evaluate(
        "arithmetic-solve", agents=spec.format("hf") + "&dtype=float32", out=tmp_path / "hf",
        **options,
    )  # fmt: skip
    assert there.counts == here.counts
    texts = [
        [(tree.id, turn.id, turn.text) for tree in read_run(tmp_path / name).trees for turn in tree.turns]
        for name in ("vllm", "hf")
    ]
    assert texts[0] == texts[1] and all(text for *_, text in texts[0])


def test_workers_ask_the_servers_before_a_run(tmp_path):
    agents = "http://127.0.0.1:9/v1#x?attempts=1"
    with pytest.raises(ModelError):
        mars_env.evaluate("arithmetic-solve", agents=agents, workers=two(), limit=2, out=tmp_path / "run")
