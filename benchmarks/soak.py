"""A day in production, in minutes: an evaluation and a training under faults, kills and outages.

    python benchmarks/soak.py --minutes 3
    python benchmarks/soak.py --hours 1
    python benchmarks/soak.py --episodes 20000

Three replicas of `faulty_server.py` fail in 5% of their answers; they and the driver are killed, and its disk
fills up. The same command continues each time. The run is then compared, turn by turn, with what the servers
have sent and with a run without faults; beside it, so are the weights of a training that suffers the like.
Status 1 if a bar is missed: 0 lost, 0 duplicated, 0 wrong, memory flat.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from mars_env.errors import StoreError
from mars_env.loggers import read_jsonl
from mars_env.rollout import read_run

ENV = "arithmetic-solve-verify-correct"
EPISODES_PER_SECOND = 30.0  # about, under faults
STEPS_PER_SECOND = 1.0  # about, that the miniature trains
SMALL_DISK = ["prlimit", "--fsize=300000:"]  # before a command: no file of it grows beyond so many bytes
FLAT = 1.15  # memory may grow by this factor after a process's start, beside the bytes of its turns
BYTES_PER_TURN = 2500  # that a finished turn may keep: the report at the end reads all of them


@dataclass
class Replica:
    """One server: its port and its log, in which it appends across restarts."""

    port: int
    log: Path
    rate: float
    process: subprocess.Popen[bytes] | None = None
    back: float = math.inf

    def start(self) -> None:
        """Start it; it takes requests some tenths of a second later."""
        self.back = math.inf
        script = Path(__file__).with_name("faulty_server.py")
        command = [sys.executable, str(script), str(self.port), str(self.log), str(self.rate)]
        self.process = subprocess.Popen(command)

    def kill(self, rest: float = math.inf) -> None:
        """End it with SIGKILL; it is due to come back after so many seconds."""
        self.back = time.monotonic() + rest
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@dataclass
class Watched:
    """What the driver's processes took, looked at twice a second: by process, seconds and MiB and so on."""

    rows: list[list[tuple[int, int, int, int]]] = field(default_factory=list)
    playing: list[list[int]] = field(default_factory=list)

    def look(self, pid: int, playing: bool) -> None:
        """Memory in KiB, descriptors, threads, children."""
        with suppress(OSError, ValueError, IndexError):  # it ends meanwhile
            status = Path(f"/proc/{pid}/status").read_text()
            memory = int(status.split("VmRSS:")[1].split()[0])
            threads = int(status.split("Threads:")[1].split()[0])
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            if playing:  # the report at the end reads all turns, and imports what it needs
                self.playing[-1].append(memory)
            self.rows[-1].append((memory, len([*Path(f"/proc/{pid}/fd").iterdir()]), threads, len(children)))

    def growth(self) -> float:
        """The largest growth of memory in one process while it plays, in MiB, after its start."""
        most = 0.0
        for rows in self.playing:
            late = rows[max(30, len(rows) // 10) :]
            if len(late) > 20:
                most = max(most, (max(late) - late[0]) / 1024)
        return most

    def peak(self, column: int) -> int:
        return max(row[column] for rows in self.rows for row in rows)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def command(ports: list[int], out: Path, episodes: int) -> list[str]:
    """The evaluation; the same each time that it is continued."""
    urls = "+".join(f"http://127.0.0.1:{port}/v1" for port in ports)
    agents = f"{urls}#m?timeout=4&patience=120&attempts=8"
    options = ["--n", str(episodes // 100), "--limit", "100", "--seed", "3", "--concurrency", "64"]
    options += ["--set", "schedule=training", "--out", str(out)]
    return [sys.executable, "-m", "mars_env", "evaluate", ENV, "--agents", agents, *options]


def played(ports: list[int], out: Path, episodes: int) -> None:
    """Run the evaluation to its end, undisturbed."""
    done = subprocess.run(command(ports, out, episodes), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the run without faults failed: {done.stderr[-2000:]}")


def disturbed(
    replicas: list[Replica], out: Path, episodes: int, every: float, outage: float
) -> tuple[Watched, Counter[str], list[str]]:
    """Run the evaluation to its end through kills, an outage and a full disk; what it took, and messages.

    A replica is killed after `every` so many seconds; the outage, of so many, and the kills of the driver
    have their place in the run by the trees that are finished.
    """
    chance, watched, events, errors = random.Random(), Watched(), Counter[str](), []
    ports = [each.port for each in replicas]
    outage_at = episodes * chance.uniform(0.36, 0.44)
    plan = [("full disk", math.inf), ("driver killed", 0.25), ("driver killed", 0.6), ("end", math.inf)]
    next_kill = time.monotonic() + every
    for name, share in plan:
        messages = out.parent / "messages.txt"  # a pipe that is read at the end stops its writer when full
        start = [*(SMALL_DISK if name == "full disk" else ()), *command(ports, out, episodes)]
        with messages.open("w") as file:
            driver = subprocess.Popen(start, stdout=subprocess.DEVNULL, stderr=file)
        watched.rows.append([])
        watched.playing.append([])
        kill_at = episodes * share * chance.uniform(0.9, 1.1)
        while driver.poll() is None:
            time.sleep(0.5)
            finished = lines_of(out / "trees.jsonl")
            watched.look(driver.pid, finished < episodes)
            if finished > kill_at:
                driver.send_signal(signal.SIGKILL)
            if name == "full disk":
                continue
            now = time.monotonic()
            for each in replicas:
                if each.back < now:
                    each.start()
            if now > next_kill:
                chance.choice(replicas).kill(rest=1.0)
                events["replica killed"] += 1
                next_kill = now + every
            if finished > outage_at:
                for each in replicas:
                    each.kill(rest=outage)
                events["outage of all"] += 1
                outage_at, next_kill = math.inf, now + outage + every
        message = messages.read_text()
        events[name] += name != "end"
        expected = {"full disk": (1, 2), "driver killed": (-signal.SIGKILL,), "end": (0,)}[name]
        if driver.returncode not in expected or "Traceback" in message:
            errors.append(f"{name}: status {driver.returncode}: {message[-500:]}")
    return watched, events, errors


def lines_of(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def timeless(run: Path) -> dict[str, tuple[int, int]]:
    """By tree: the number of its turns, and a hash of it without its times."""
    found = {}
    for tree in read_run(run).trees:
        turns = [
            (t.id, t.parent_id, t.agent, t.text, t.reward, t.grade and t.grade.verdict) for t in tree.turns
        ]
        found[tree.id] = len(turns), hash((tree.final, tree.fault, *turns))
    return found


def compared(whole: Path, out: Path, logs: list[Path]) -> dict[str, int]:
    """Turns that are lost, duplicated or wrong beside the undisturbed run, and those that no server sent."""
    expected, found = timeless(whole), timeless(out)
    sent = {hash(json.loads(line)) for log in logs for line in log.open()}
    times, unsent = Counter[tuple[str, int]](), 0
    for row in map(json.loads, (out / "turns.jsonl").open()):
        times[row["tree"], row["id"]] += 1
        unsent += bool(row["text"]) and hash(row["text"]) not in sent
    return {
        "trees": len(found),
        "turns": times.total(),
        "lost": sum(turns for name, (turns, _) in expected.items() if name not in found),
        "duplicated": sum(count - 1 for count in times.values()),
        "wrong": sum(tree != expected.get(name) for name, tree in found.items()),
        "not sent by a server": unsent,
    }


def refused(ports: list[int]) -> list[str]:
    """A folder in which nothing can be written: one error, no traceback."""
    done = subprocess.run(command(ports, Path("/proc/run"), 100), capture_output=True, text=True)
    if done.returncode in (1, 2) and "Traceback" not in done.stderr:
        return []
    return [f"a folder that is read-only: status {done.returncode}: {done.stderr[-500:]}"]


def train_command(model: Path, out: Path, steps: int) -> list[str]:
    """A training of the miniature; the same each time that it is continued."""
    flags = [f"--steps={steps}", "--problems_per_step=4", "--rollouts.group=4", "--checkpoint_every=2"]
    team = [f"--model={model}", "--team.agents=mars_env.miniature.agents:team"]
    return [sys.executable, "-m", "mars_env", "train", ENV, *team, *flags, f"--out={out}"]


def trained(folder: Path, steps: int) -> tuple[dict[str, int], list[str]]:
    """Train through a full disk and kills at random moments; what differs from an undisturbed training."""
    from mars_env.miniature import load

    miniature = load()
    miniature.module.save_pretrained(folder / "miniature")
    miniature.tokenizer.save_pretrained(folder / "miniature")
    began = time.monotonic()
    run = {"capture_output": True, "text": True}
    subprocess.run(train_command(folder / "miniature", folder / "calm", steps), check=True, **run)
    whole, errors = time.monotonic() - began, []
    command = train_command(folder / "miniature", folder / "killed", steps)
    done = subprocess.run([*SMALL_DISK, *command], **run)
    if done.returncode not in (1, 2) or "Traceback" in done.stderr:
        errors.append(f"training on a full disk: status {done.returncode}: {done.stderr[-500:]}")
    kills = 0
    for _ in range(2 + steps // 20):
        driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with suppress(subprocess.TimeoutExpired):
            driver.wait(whole * random.uniform(0.2, 0.6))
        kills += driver.poll() is None
        driver.kill()
        driver.wait()
    subprocess.run(command, check=True, **run)
    last = f"step-{steps:08d}"
    names = [path.relative_to(folder / "calm") for path in (folder / "calm" / last).rglob("*.safetensors")]
    wrong = sum((folder / "calm" / n).read_bytes() != (folder / "killed" / n).read_bytes() for n in names)
    logged = [row["step"] for row in read_jsonl(folder / "killed" / "metrics.jsonl")]
    return {
        "training: steps": len(logged),
        "training: kills": kills,
        "training: files of weights": len(names),
        "training: files that differ": wrong,
        "training: steps lost or repeated": int(logged != [*range(1, steps + 1)]),
    }, errors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--hours", type=float, default=0.0)
    parser.add_argument("--episodes", type=int, default=0, help="hundreds of them; overrides the time")
    given = parser.parse_args()
    seconds = 3600 * given.hours or 60 * given.minutes
    if given.episodes:
        seconds = given.episodes / EPISODES_PER_SECOND / 0.7
    episodes = max(200, round(seconds * 0.7 * EPISODES_PER_SECOND / 100) * 100)
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(1) as beside:
        folder = Path(name)
        training = beside.submit(trained, folder, max(10, int(seconds * 0.1 * STEPS_PER_SECOND)))
        clean = [Replica(port, folder / "clean.log", 0.0) for port in free_ports(1)]
        replicas = [Replica(port, folder / f"{i}.log", 0.05) for i, port in enumerate(free_ports(3))]
        try:
            for each in [*clean, *replicas]:
                each.start()
            time.sleep(2)
            errors = refused([replicas[0].port])
            began = time.monotonic()
            played([clean[0].port], folder / "whole", episodes)
            sound = time.monotonic() - began
            began = time.monotonic()
            every, outage = min(60.0, max(5.0, seconds / 15)), 60.0 if seconds >= 600 else 10.0
            watched, events, more = disturbed(replicas, folder / "run", episodes, every, outage)
            took = time.monotonic() - began
        finally:
            for each in [*clean, *replicas]:
                each.kill()
        try:
            figures = compared(folder / "whole", folder / "run", [each.log for each in replicas])
        except (StoreError, OSError) as error:
            raise SystemExit(f"the run cannot be read: {error}") from error
        steps, faults = training.result()
    errors += more + faults
    allowed = BYTES_PER_TURN * figures["turns"] / 2**20 + (FLAT - 1) * watched.peak(0) / 1024
    rows = {**figures, **events, "seconds without faults": round(sound), "seconds with faults": round(took)}
    rows |= {"peak MiB": watched.peak(0) // 1024, "growth MiB": round(watched.growth(), 1)}
    rows |= {"growth allowed MiB": round(allowed, 1), "descriptors": watched.peak(1)}
    rows |= {"threads": watched.peak(2), "child processes": watched.peak(3), **steps, "errors": len(errors)}
    print("| measured | value |\n|---|---:|")
    for what, value in rows.items():
        print(f"| {what} | {value:,} |")
    for each in errors:
        print(each)
    bars = ["lost", "duplicated", "wrong", "not sent by a server"]
    bars += ["training: files that differ", "training: steps lost or repeated"]
    sys.exit(any(rows[name] for name in bars) or bool(errors) or watched.growth() > allowed)


if __name__ == "__main__":
    main()
