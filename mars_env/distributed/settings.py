"""Which processes run where on a cluster, and how long each step may take."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, NonNegativeFloat, PositiveFloat, PositiveInt

from mars_env.errors import ConfigError, explained


class Place(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """Processes of one kind, and what each needs of its machine."""

    count: PositiveInt
    """How many."""
    cpus: NonNegativeFloat = 1.0
    """CPUs of each."""
    gpus: NonNegativeFloat = 0.0
    """GPUs of each."""
    resources: Mapping[str, PositiveFloat] = {}
    """Resources that the cluster defines, by name: ``ray start --resources '{"sandbox": 1}'``."""
    labels: Mapping[str, str] = {}
    """Labels that its machine must have: ``ray start --labels zone=a``."""

    def describe(self) -> str:
        """Such as ``4 CPU, 1 sandbox``."""
        wants = {"CPU": self.cpus, "GPU": self.gpus, **self.resources}
        parts = [f"{amount:g} {name}" for name, amount in wants.items() if amount]
        parts += [f"label {name}={value}" for name, value in self.labels.items()]
        return ", ".join(parts) or "nothing"


class RaySettings(BaseModel, frozen=True, extra="forbid", use_attribute_docstrings=True):
    """A Ray cluster, and how long its processes may take."""

    address: str | None = None
    """Of a running cluster. Default: the environment's RAY_ADDRESS; without that, a Ray is started on this
    machine, with as many CPUs as the processes ask for."""
    runtime_env: Mapping[str, Any] = {}
    """Ray's runtime environment of all processes: ``working_dir``, ``pip``, ``env_vars`` ..."""
    wait_seconds: PositiveFloat = 120.0
    """How long a process may take to find room on the cluster and start."""
    load_seconds: PositiveFloat = 1800.0
    """How long it may then take to load its models."""
    silence_seconds: PositiveFloat = 300.0
    """A process that does not answer for this long is killed and replaced."""


class Placement(RaySettings, frozen=True):
    """Where the processes of an evaluation are."""

    workers: Place = Place(count=2)
    """They act, each with a whole team. They also grade, each in a sandbox of its own, unless graders do."""
    graders: Place | None = None
    """They grade instead of the workers, each in a sandbox of its own."""


class RaySamplers(Place, RaySettings, frozen=True):
    """Processes on Ray in which the agents of a training act, each with the whole team."""

    count: PositiveInt = 2
    """How many."""
    concurrency: PositiveInt = 64
    """Acts under way for each sampler, on average. Further acts wait for whichever sampler ends one first, so
    fast samplers do more than slow ones."""
    refresh: Literal["newest", "demanded"] = "newest"
    """``"newest"``: samplers use new weights as soon as there are any. ``"demanded"``: each act is sampled by
    the oldest weights that may act on it, so a run repeats whatever the timing."""


def as_placement(workers: str | int | Placement, address: str | None = None) -> Placement:
    """A placement, given one, how many workers (``2`` or ``"ray:2"``), or its file (``"ray:cluster.json"``).

    Example:
        >>> as_placement("ray:4").workers.count, as_placement("ray:4", "10.0.0.1:6379").address
        (4, '10.0.0.1:6379')
    """
    placement = workers if isinstance(workers, Placement) else _parse_placement(str(workers))
    return placement if address is None else placement.model_copy(update={"address": address})


def _parse_placement(text: str) -> Placement:
    path = text.removeprefix("ray:")
    is_count = path.isascii() and path.isdigit()
    if path in ("", text) and not is_count:
        raise ConfigError(f"workers are given as ray:COUNT or ray:FILE.json, got {text!r}")
    with explained(ConfigError, f"the placement {path} cannot be used", OSError, ValueError):
        if is_count:
            return Placement(workers=Place(count=int(path)))
        return Placement.model_validate_json(Path(path).read_text(encoding="utf-8"))
