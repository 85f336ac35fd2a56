"""A day in production, in minutes: an evaluation and a training under faults, kills and outages.

    python benchmarks/soak.py --minutes 3
    python benchmarks/soak.py --hours 1

Three replicas of `faulty_server.py` fail in thirty ways in 5% of their answers. One at a time is killed and
started again, all of them rest once for some seconds, the driver gets SIGKILL, and its disk fills up. The
same command continues each time. The run is then compared, turn by turn, with what the servers have sent and
with a run without faults. Status 1 if a bar is missed: 0 lost, 0 duplicated, 0 wrong, memory flat.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mars_env.errors import StoreError
from mars_env.rollout import read_run

ENV = "arithmetic-solve-verify-correct"
TURNS_PER_SECOND = 40.0
"""About how many turns a run plays under faults on one core; decides how long the run is."""
FLAT = 1.15
"""Memory may grow by this factor after the start of a process, beside the bytes of its turns."""
BYTES_PER_TURN = 2500
"""What a finished turn may keep in memory: the report at the end reads all of them."""


@dataclass
class Replica:
    """One server: its port and its log, in which it appends across restarts."""

    port: int
    log: Path
    rate: float
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it takes requests some tenths of a second later."""
        script = Path(__file__).with_name("faulty_server.py")
        command = [sys.executable, str(script), str(self.port), str(self.log), str(self.rate)]
        self.process = subprocess.Popen(command)

    def kill(self) -> None:
        """End it with SIGKILL."""
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
        """Memory in KiB, descriptors, threads, children of a process."""
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
        """The largest value of a column."""
        return max(row[column] for rows in self.rows for row in rows)


def free_ports(count: int) -> list[int]:
    """Ports that nothing uses now."""
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
    return [
        sys.executable,
        "-m",
        "mars_env.cli",
        "evaluate",
        ENV,
        "--agents",
        agents,
        *options,
        "--out",
        str(out),
    ]


def played(ports: list[int], out: Path, episodes: int) -> None:
    """Run the evaluation to its end, undisturbed."""
    done = subprocess.run(command(ports, out, episodes), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"the run without faults failed: {done.stderr[-2000:]}")


def small_disk() -> None:
    """Let the files of this process grow by no more than they may have now."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))


def disturbed(
    replicas: list[Replica], out: Path, episodes: int, seconds: float, outage: float
) -> tuple[Watched, Counter[str], list[str]]:
    """Run the evaluation to its end through kills, an outage and a full disk; what it took, and messages."""
    chance, watched, events, errors = random.Random(), Watched(), Counter[str](), []
    ports = [each.port for each in replicas]
    began = time.monotonic()
    plan = [("full disk", 0.0), ("driver killed", 0.25), ("driver killed", 0.6), ("end", 9.9)]
    rested = False
    every = min(60.0, max(5.0, seconds / 12))
    next_kill = began + every
    for name, until in plan:
        limit = small_disk if name == "full disk" else None
        driver = subprocess.Popen(
            command(ports, out, episodes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=limit,
        )
        watched.rows.append([])
        watched.playing.append([])
        end = began + seconds * until * chance.uniform(0.9, 1.1)
        while driver.poll() is None:
            time.sleep(0.5)
            trees = out / "trees.jsonl"
            finished = trees.read_bytes().count(b"\n") if trees.exists() else 0
            watched.look(driver.pid, finished < episodes)
            now = time.monotonic()
            if name == "driver killed" and now > end:
                driver.send_signal(signal.SIGKILL)
            if name == "full disk":
                continue
            if now > next_kill:
                one = chance.choice(replicas)
                one.kill()
                time.sleep(1)
                one.start()
                events["replica killed"] += 1
                next_kill = now + every
            if not rested and now > began + seconds * 0.4:
                rested = True
                for each in replicas:
                    each.kill()
                time.sleep(outage)
                for each in replicas:
                    each.start()
                events["outage of all"] += 1
        message = driver.communicate()[1]
        events[name] += name != "end"
        expected = {"full disk": (1, 2), "driver killed": (-signal.SIGKILL, 0), "end": (0,)}[name]
        if driver.returncode not in expected or "Traceback" in message:
            errors.append(f"{name}: status {driver.returncode}: {message[-500:]}")
        if name == "end" or driver.returncode == 0:
            break
    return watched, events, errors


def timeless(tree: Any) -> tuple[Any, ...]:
    """A tree without its times."""
    turns = [(t.id, t.parent_id, t.agent, t.text, t.reward, t.grade and t.grade.verdict) for t in tree.turns]
    return tree.id, tree.final, tree.fault, turns


def compared(whole: Path, out: Path, logs: list[Path]) -> dict[str, int]:
    """Turns that are lost, duplicated or wrong beside the undisturbed run, and those that no server sent."""
    expected = {tree.id: timeless(tree) for tree in read_run(whole).trees}
    found = {tree.id: timeless(tree) for tree in read_run(out).trees}
    lines = [json.loads(line) for line in (out / "turns.jsonl").read_text().splitlines()]
    times = Counter((row["tree"], row["id"]) for row in lines)
    sent = {json.loads(line) for log in logs for line in log.read_text().splitlines()}
    texts = [row["text"] for row in lines if row["text"]]
    return {
        "trees": len(found),
        "turns": len(lines),
        "lost": sum(len(tree[3]) for name, tree in expected.items() if name not in found),
        "duplicated": sum(count - 1 for count in times.values()),
        "wrong": sum(tree != expected.get(name) for name, tree in found.items()),
        "not sent by a server": sum(text not in sent for text in texts),
    }


def refused(ports: list[int]) -> list[str]:
    """A folder in which nothing can be written: one error, no traceback."""
    done = subprocess.run(command(ports, Path("/proc/run"), 100), capture_output=True, text=True)
    if done.returncode in (1, 2) and "Traceback" not in done.stderr:
        return []
    return [f"a folder that is read-only: status {done.returncode}: {done.stderr[-500:]}"]


def main() -> None:
    """Run the soak and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--hours", type=float, default=0.0)
    given = parser.parse_args()
    seconds = 3600 * given.hours or 60 * given.minutes
    episodes = max(200, int(seconds * 0.6 * TURNS_PER_SECOND / 4 / 100) * 100)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
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
            outage = 30.0 if seconds >= 600 else 10.0
            watched, events, more = disturbed(replicas, folder / "run", episodes, seconds * 0.5, outage)
            took = time.monotonic() - began
        finally:
            for each in [*clean, *replicas]:
                each.kill()
        try:
            figures = compared(folder / "whole", folder / "run", [each.log for each in replicas])
        except (StoreError, OSError) as error:
            raise SystemExit(f"the run cannot be read: {error}") from error
    errors += more
    allowed = BYTES_PER_TURN * figures["turns"] / 2**20 + (FLAT - 1) * watched.peak(0) / 1024
    rows = {**figures, **events, "seconds without faults": round(sound), "seconds with faults": round(took)}
    rows |= {"peak MiB": watched.peak(0) // 1024, "growth MiB": round(watched.growth(), 1)}
    rows |= {"growth allowed MiB": round(allowed, 1), "descriptors": watched.peak(1)}
    rows |= {"threads": watched.peak(2), "child processes": watched.peak(3), "errors": len(errors)}
    print("| measured | value |\n|---|---:|")
    for what, value in rows.items():
        print(f"| {what} | {value:,} |")
    for each in errors:
        print(each)
    bars = [figures[name] for name in ("lost", "duplicated", "wrong", "not sent by a server")]
    sys.exit(bool(any(bars) or errors or watched.growth() > allowed))


if __name__ == "__main__":
    main()
