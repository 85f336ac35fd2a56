"""Which processes run where on a cluster, and how long each step may take."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from mars_env.errors import ConfigError, explained


class Place(BaseModel, frozen=True, extra="forbid"):
    """Processes of one kind, and what each needs of its machine."""

    count: NonNegativeInt
    """How many."""
    cpus: NonNegativeFloat = 1.0
    gpus: NonNegativeFloat = 0.0
    resources: Mapping[str, PositiveFloat] = {}
    """Resources that the cluster defines, by name: ``ray start --resources '{"sandbox": 1}'``."""
    labels: Mapping[str, str] = {}
    """Labels that its machine must have: ``ray start --labels zone=a``."""

    def describe(self) -> str:
        """What one process asks for, such as ``4 CPU, 1 sandbox``."""
        wants = {"CPU": self.cpus, "GPU": self.gpus, **self.resources}
        parts = [f"{amount:g} {name}" for name, amount in wants.items() if amount]
        parts += [f"label {name}={value}" for name, value in self.labels.items()]
        return ", ".join(parts) or "nothing"


class Placement(BaseModel, frozen=True, extra="forbid"):
    """Where the processes of a run on Ray are, and how long each step may take.

    The driver, which assigns the work and writes the store, is the process that makes the fleet.
    """

    workers: Place = Place(count=2)
    """They play trees: rules, agents, rewards and, without graders, sandboxes."""
    graders: Place = Place(count=0)
    """They grade, each in its own sandbox. Without graders each worker grades what it plays."""
    engines: Place = Place(count=0)
    """They run the agents and their models, each the whole team: use them for ``vllm:`` and ``hf:`` models.
    Without engines each worker has its own team, which is right for models on servers."""
    address: str | None = None
    """Of a running cluster. Default: the environment's RAY_ADDRESS; without that, a Ray is started on this
    machine."""
    local_cpus: PositiveInt | None = None
    """CPUs of a Ray that is started on this machine; by default as many as the processes ask for."""
    runtime_env: Mapping[str, Any] = {}
    """Ray's runtime environment of all processes: ``working_dir``, ``pip``, ``env_vars`` ..."""
    wait_seconds: PositiveFloat = 120.0
    """How long a process may take to find room on the cluster and start."""
    load_seconds: PositiveFloat = 1800.0
    """How long it may then take to load its models."""
    silence_seconds: PositiveFloat = 300.0
    """A worker that does not answer for this long is killed and replaced."""
    attempts: PositiveInt = Field(default=3, ge=2)
    """A tree whose worker is lost this many times is discarded. Its last attempt is played alone."""

    @property
    def cpus(self) -> int:
        """CPUs that all processes together ask for."""
        return max(1, math.ceil(sum(p.count * p.cpus for p in (self.workers, self.graders, self.engines))))


def as_placement(workers: str | int | Placement, address: str | None = None) -> Placement:
    """A placement from the forms that users may give.

    Args:
        workers: How many workers (``2`` or ``"ray:2"``), a file with a placement in JSON
            (``"ray:cluster.json"``), or a placement.
        address: Replaces the placement's own.

    Raises:
        ConfigError: It is none of these, or the file is not a placement.

    Example:
        >>> as_placement("ray:4").workers.count, as_placement("ray:4", "10.0.0.1:6379").address
        (4, '10.0.0.1:6379')
    """
    found = workers if isinstance(workers, Placement) else _read_placement(str(workers))
    if found.workers.count < 1:
        raise ConfigError("a run on Ray needs at least one worker")
    return found if address is None else found.model_copy(update={"address": address})


def _read_placement(given: str) -> Placement:
    path = given.removeprefix("ray:")
    if path.isascii() and path.isdigit():
        return Placement(workers=Place(count=int(path)))
    if path in ("", given):
        raise ConfigError(f"workers are given as ray:COUNT or ray:FILE.json, got {given!r}")
    with explained(ConfigError, f"the placement {path} cannot be used", OSError, ValueError):
        return Placement.model_validate_json(Path(path).read_text(encoding="utf-8"))
