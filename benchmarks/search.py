"""How long a step of a search takes, compared with TreeQuest, and what parallel expansion gains and costs.

    python benchmarks/search.py                # all of it: about three minutes on one core
    python benchmarks/search.py --quick        # smaller, in half a minute

TreeQuest (``pip install treequest``) is measured in the same run, on the same landscape: its
``step()``, which copies the tree, and its ask and tell on the tree in place. The latencies of the
parallel part are simulated on a virtual clock, so it needs neither waiting nor idle cores.
"""

from __future__ import annotations

import argparse
import heapq
import statistics
import time

import numpy as np

from mars_env.search import Search, SearchSettings

AGENTS = ("coder_0", "coder_1")


class Landscape:
    """A problem to search: fresh programs are poor, refinement can help, many lines have a low ceiling.

    Each node draws its quality from a separate generator, so that it depends only on its parent, its
    agent and its number. The score is the quality in tenths, like a fraction of passed tests.
    """

    def __init__(self, seed: int, *, hopeless: bool = False) -> None:
        self.seed = seed
        self.hopeless = hopeless  # every score is 0: the widest trees
        self.quality: dict[int | None, tuple[float, float]] = {}

    def visit(self, id: int, parent: int | None, agent: str) -> float:
        rng = np.random.default_rng((self.seed, id, 0 if parent is None else parent + 1, AGENTS.index(agent)))
        if parent is None:
            quality, ceiling = rng.beta(1, 5), rng.uniform(0.2, 1.0)
        else:
            quality, ceiling = self.quality[parent]
            helps = rng.random() < (0.35 if agent == AGENTS[0] else 0.25)
            quality += (ceiling - quality) * rng.uniform(0, 0.5) if helps else -quality * rng.uniform(0, 0.6)
            ceiling = min(1.0, ceiling * rng.uniform(0.97, 1.04))
        quality = float(np.clip(quality, 0.0, ceiling))
        self.quality[id] = (quality, ceiling)
        return 0.0 if self.hopeless else round(quality * 10) / 10


def ours(sizes: list[int], seed: int, *, hopeless: bool = False) -> dict[int, list[float]]:
    """Milliseconds of ask plus tell around each size."""
    settings = SearchSettings(calls=2 * max(sizes), stop_at=None)
    search, landscape = Search(settings, AGENTS, seed), Landscape(seed, hopeless=hopeless)
    times: dict[int, list[float]] = {size: [] for size in sizes}
    for i in range(max(sizes) + WINDOW):
        start = time.perf_counter()
        [ask] = search.ask(1)
        asked = time.perf_counter()
        score = landscape.visit(ask.id, ask.parent, ask.agent)
        resumed = time.perf_counter()
        search.tell(ask.id, score)
        record(times, i, asked - start + time.perf_counter() - resumed)
    return times


def theirs(sizes: list[int], seed: int, *, in_place: bool) -> dict[int, list[float]]:
    """The same for TreeQuest: its ask and tell in place, or its ``step()``."""
    import treequest

    np.random.seed(seed)  # noqa: NPY002  (TreeQuest draws from the global generator)
    algorithm = treequest.ABMCTSA(dist_type="beta")
    state, landscape = algorithm.init_tree(), Landscape(seed)
    times: dict[int, list[float]] = {size: [] for size in sizes}
    spent = 0.0

    def make(parent: int | None, agent: str) -> tuple[int, float]:
        nonlocal spent
        start = time.perf_counter()
        id = len(state.tree) - 1
        result = id, landscape.visit(id, parent, agent)
        spent += time.perf_counter() - start
        return result

    functions = {agent: (lambda parent, agent=agent: make(parent, agent)) for agent in AGENTS}
    for i in range(max(sizes) + WINDOW):
        spent = 0.0
        copy = not in_place and any(size <= i < size + WINDOW for size in sizes)  # the others need no copy
        start = time.perf_counter()
        if copy:
            state = algorithm.step(state, functions)
        else:
            state, trial = algorithm.ask(state, list(AGENTS))
            parent = None if trial.node_to_expand == -1 else trial.node_to_expand
            algorithm.tell(state, trial.trial_id, make(parent, trial.action))
        record(times, i, time.perf_counter() - start - spent)
    return times


WINDOW = 20


def record(times: dict[int, list[float]], i: int, seconds: float) -> None:
    for size, measured in times.items():
        if size <= i < size + WINDOW:
            measured.append(1e3 * seconds)


def steps(quick: bool, seed: int) -> None:
    sizes = [50, 240] if quick else [50, 240, 1000]
    runs = 2 if quick else 3
    rows: dict[str, dict[int, list[float]]] = {}
    for run in range(runs):
        measured = {
            "ours": ours(sizes, seed + run),
            "TreeQuest ask/tell in place": theirs(sizes, seed + run, in_place=True),
            "TreeQuest step()": theirs(sizes, seed + run, in_place=False),
            "ours, every score 0": ours(sizes, seed + run, hopeless=True),
        }
        for name, times in measured.items():
            for size, values in times.items():
                rows.setdefault(name, {}).setdefault(size, []).extend(values)
    print(f"\nms a step: median [quartiles] of {runs} trees x {WINDOW} steps; 2 agents, Beta prior\n")
    print("| | " + " | ".join(f"{size:,} nodes" for size in sizes) + " |")
    print("|---" * (len(sizes) + 1) + "|")
    for name, by_size in rows.items():
        print(f"| {name} | " + " | ".join(spread(by_size[size]) for size in sizes) + " |")
    for name in ("TreeQuest ask/tell in place", "TreeQuest step()"):
        medians = [(statistics.median(rows[each][size]) for each in (name, "ours")) for size in sizes]
        ratios = [f"{other / own:.0f}x" for other, own in medians]
        print(f"| {name} / ours | " + " | ".join(ratios) + " |")


def spread(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3f} [{low:.3f}, {high:.3f}]"


def play(settings: SearchSettings, seed: int, workers: int, spread: float) -> tuple[float, float]:
    """Seconds on a virtual clock, and the best score, of one search with `workers` workers."""
    search, landscape = Search(settings, AGENTS, seed), Landscape(seed)
    latency = np.random.default_rng((seed, 1)).lognormal(0.0, spread, settings.calls)
    clock, running, waiting = 0.0, [], []  # (finish, ask) of the busy workers; asks without a worker
    while True:
        free = workers - len(running)
        waiting += search.ask(free) if free else []
        for ask in waiting[:free]:
            heapq.heappush(running, (clock + latency[ask.id], ask.id, ask))
        waiting = waiting[free:]
        if not running:
            return clock, search.scores[search.best()]
        clock, _, ask = heapq.heappop(running)
        search.tell(ask.id, landscape.visit(ask.id, ask.parent, ask.agent))


def parallel(quick: bool, seed: int) -> None:
    """Eight workers against one, with the same number of calls."""
    runs = 50 if quick else 400
    calls = 60
    print(f"\nBest score and virtual time of {runs} searches of {calls} calls; lognormal latencies\n")
    print("| latency spread | schedule | workers | speed-up | best score | loss [95% interval] |")
    print("|---|---|---|---|---|---|")
    for sigma in (0.25, 0.5):
        schedules = {
            "one by one": (1, {"wave": 1}),
            "waves of 8": (8, {"wave": 8}),
            "waves of 16": (8, {"wave": 16}),
            "as completed": (8, {"as_completed": True}),
        }
        base_time = base_best = np.array([])
        for name, (workers, schedule) in schedules.items():
            settings = SearchSettings(calls=calls, stop_at=None, **schedule)
            played = [play(settings, seed + run, workers, sigma) for run in range(runs)]
            clock, best = (np.array(column) for column in zip(*played, strict=True))
            if workers == 1:
                base_time, base_best = clock, best
            loss = base_best - best
            half = 1.96 * loss.std(ddof=1) / np.sqrt(runs)
            interval = f"{loss.mean():+.3f} [{loss.mean() - half:+.3f}, {loss.mean() + half:+.3f}]"
            speed_up = base_time.sum() / clock.sum()
            loss_text = interval if workers > 1 else ""
            print(f"| {sigma} | {name} | {workers} | {speed_up:.1f}x | {best.mean():.3f} | {loss_text} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    steps(options.quick, options.seed)
    parallel(options.quick, options.seed)


if __name__ == "__main__":
    main()
