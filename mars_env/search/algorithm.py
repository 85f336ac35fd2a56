"""`Algorithm`: what to implement for a new search policy."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict


class Options(BaseModel):
    """The base of the options of an algorithm."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that `agent` make a new node, numbered from 0; without a parent a fresh start at the root."""

    id: int
    parent: int | None
    agent: str


class Algorithm(Protocol):
    """Where a tree grows next: all that a new search policy must implement, or inherit.

    `choose` samples and changes nothing: a search is resumed by repeating the other calls in their order.
    """

    def choose(self, rng: np.random.Generator) -> tuple[int | None, str] | None:
        """Parent and agent of the next node; None while it needs more results before it can choose."""

    def add(self, ask: Ask) -> None:
        """The node was asked for: it counts as pending, so that other asks go elsewhere."""

    def score(self, ask: Ask, score: float) -> None:
        """The node exists, with a score in [0, 1]; it is no longer pending."""

    def drop(self, ask: Ask) -> None:
        """The node was lost: it is no longer pending, and nothing was observed."""
