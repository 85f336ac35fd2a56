"""Any algorithm of TreeQuest as a drop-in: ``algorithm="treequest:ABMCTSM"``.

TreeQuest is optional (AB-MCTS-M needs ``treequest[abmcts-m]``). Its algorithms have no pending counts, so a
wave may ask for one node several times. They sample from the global generators, which are seeded for each
choice and restored after it: not for two threads at once. AB-MCTS-M's Markov chains take seconds per choice
and cannot be seeded.
"""

import importlib
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from mars_env.errors import ConfigError, MissingExtra
from mars_env.search.algorithm import Algorithm, Ask
from mars_env.seeds import derive_seed


class TreeQuest(Algorithm):
    """One of them, as ``"ABMCTSM"`` or ``"algos.best_first_search.BestFirstSearchAlgo"``."""

    def __init__(self, name: str, options: Mapping[str, Any], agents: Sequence[str], seed: int) -> None:
        self._name = name
        self._algorithm = _make(name, options)
        self._state = self._algorithm.init_tree()
        self._agents = list(agents)
        self._seed = seed
        self._draws = 0
        self._chosen: Any = None
        self._trials: dict[int, Any] = {}  # pending ones, by ask id
        self._ids: dict[int, int | None] = {-1: None}  # node id by TreeQuest's index of the node

    def choose(self, rng: np.random.Generator) -> tuple[int | None, str] | None:
        """Its own choice, seeded by its number, so that a search can be repeated."""
        with _seeded(derive_seed(self._seed, "treequest", self._draws)):
            trial = self._next_trial()
        if trial is None:
            return None
        self._chosen = trial
        return self._ids[trial.node_to_expand], trial.action

    def add(self, ask: Ask) -> None:
        """Keep the trial that was chosen."""
        assert self._chosen is not None
        self._trials[ask.id], self._chosen = self._chosen, None
        self._draws += 1

    def score(self, ask: Ask, score: float) -> None:
        """Tell it; it may discard the result of a trial that it no longer wants."""
        index = len(self._state.tree) - 1
        trial = self._trials.pop(ask.id)
        self._state = self._algorithm.tell(self._state, trial.trial_id, (ask.id, score))
        if len(self._state.tree) - 1 > index:
            self._ids[index] = ask.id

    def drop(self, ask: Ask) -> None:
        """Forget the trial; TreeQuest need not know."""
        del self._trials[ask.id]

    def _next_trial(self) -> Any:
        store = self._state.trial_store
        if not hasattr(store, "next_nodes"):
            self._state, trial = self._algorithm.ask(self._state, self._agents)
            return trial
        # Algorithms with a queue accept as many results for a node and an action as the queue holds.
        waiting = sum(map(len, store.next_nodes.values()))
        self._state, trials = self._algorithm.ask_batch(self._state, max(waiting, 1), self._agents)
        pending = [(trial.node_to_expand, trial.action) for trial in self._trials.values()]
        for trial in trials:
            key = (trial.node_to_expand, trial.action)
            queued = [node.expand_idx for node in store.next_nodes[trial.action]]
            if pending.count(key) < queued.count(trial.node_to_expand):
                return trial
        return None


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    # TreeQuest knows no other source of randomness.
    before, before_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(before_numpy)  # noqa: NPY002


def _make(name: str, options: Mapping[str, Any]) -> Any:
    module, _, attribute = f"treequest.{name}".rpartition(".")
    try:
        algorithm = getattr(importlib.import_module(module), attribute)
        return algorithm(**options)
    except ImportError as error:
        advice = "pip install 'treequest[abmcts-m]' brings it"
        raise MissingExtra(f"treequest:{name} cannot be loaded ({error}): {advice}") from error
    except AttributeError as error:
        raise ConfigError(f"TreeQuest has no {name!r}: name a class, such as treequest:ABMCTSM") from error
    except (TypeError, ValueError, AssertionError) as error:
        raise ConfigError(f"treequest:{name} does not take the options {dict(options)}: {error}") from error
