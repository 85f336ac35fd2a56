"""`WeightStore`: versions of weights that a learner publishes, as safetensors on disk.

    00000012/manifest.json         which versions of which policies, with the sizes and hashes of the files
    00000012/solver.safetensors    the weights of one policy

A publication is complete or not there. Numbers only grow: a learner that resumes from an older checkpoint
publishes under a new number, so the lost weights do not count as newer. Nothing is pickled.
"""

import asyncio
import hashlib
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from io import BufferedReader
from pathlib import Path
from typing import Annotated, Literal, Protocol, cast

from pydantic import BaseModel, Field, NonNegativeInt, PositiveInt, ValidationError

from mars_env.checks import require_integer
from mars_env.errors import StoreError, explained
from mars_env.files import open_regular
from mars_env.lazy import needs
from mars_env.trainers.checkpoints import numbered, remove_folder, whole_folder
from mars_env.trainers.local import Policy

with needs("hf", "the weight store needs torch and safetensors"):
    import safetensors
    import safetensors.torch
    from torch import Tensor

Tensors = dict[str, dict[str, Tensor]]
"""Weights by policy and name."""

MANIFEST = "manifest.json"
MANIFEST_BYTES = 2**20
"""No manifest is longer."""

_NUMBER = re.compile(r"([0-9]{8})")
_PolicyName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,199}$")]


class PolicyWeights(BaseModel, frozen=True, extra="forbid"):
    """The weights of one policy in a publication: their version, and the size and hash of their file."""

    version: NonNegativeInt
    size: NonNegativeInt
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Publication(BaseModel, frozen=True, extra="forbid"):
    """What was published together: one version of each policy. A `store` made again has another name."""

    format: Literal[1] = 1
    store: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    number: PositiveInt
    policies: dict[_PolicyName, PolicyWeights]

    def newer_than(self, other: "Publication | None") -> bool:
        """Whether these weights come after others: a higher number, or another store."""
        return other is None or other.store != self.store or other.number < self.number


class Weights(Protocol):
    """Where a sampler gets its weights: a `WeightStore` whose folder it can read, or a `Connection`."""

    async def fetch(self, publication: Publication) -> Tensors:
        """The weights of a publication.

        Raises:
            StoreError: They are no longer there, or are not what the manifest says.
        """


class WeightStore:
    """A folder of publications, of which the newest `keep` stay. One process publishes, many read.

    Raises:
        ConfigError: `keep` is below 1.
    """

    def __init__(self, path: str | Path, *, keep: int = 2) -> None:
        self.path, self._keep = Path(path), require_integer(keep, "keep")

    def publish(self, policies: Mapping[str, Policy]) -> Publication:
        """Publish the present weights of some policies, and remove what is older than the newest `keep`.

        Raises:
            StoreError: The store cannot be written, or another learner publishes into it.
        """
        last = self.newest()
        number = (last.number if last is not None else 0) + 1
        files = {}
        with explained(StoreError, f"the weights cannot be published in {self.path}", OSError, ValueError):
            with whole_folder(self.path / f"{number:08d}") as draft:
                for name, policy in policies.items():
                    path = draft / f"{name}.safetensors"
                    safetensors.torch.save_model(policy.model, str(path))  # tied weights once
                    size = path.stat().st_size
                    files[name] = PolicyWeights(version=policy.version, size=size, sha256=_sha256(path))
                store = last.store if last is not None else secrets.token_hex(16)
                publication = Publication(store=store, number=number, policies=files)
                (draft / MANIFEST).write_text(publication.model_dump_json(), encoding="utf-8")
            for _, old in numbered(self.path, _NUMBER)[self._keep :]:
                remove_folder(old)
        return publication

    def newest(self) -> Publication | None:
        """The newest complete publication; None if there is none.

        Raises:
            StoreError: Its manifest cannot be read.
        """
        for _, folder in numbered(self.path, _NUMBER):
            unreadable = explained(StoreError, f"publish again: {folder}", OSError, ValidationError)
            # It may be removed meanwhile: then there is a newer one, which the next look finds.
            with unreadable, suppress(FileNotFoundError), open_regular(folder / MANIFEST) as file:
                return Publication.model_validate_json(file.read(MANIFEST_BYTES))
        return None

    async def fetch(self, publication: Publication) -> Tensors:
        """See `Weights`."""
        return {
            name: await asyncio.to_thread(read_tensors, self.file(publication.number, name), wanted)
            for name, wanted in publication.policies.items()
        }

    def file(self, number: int, policy: str) -> Path:
        """Where the weights of a policy are, if they are still there."""
        return self.path / f"{number:08d}" / f"{policy}.safetensors"


def read_tensors(path: Path, wanted: PolicyWeights) -> dict[str, Tensor]:
    """Read a file of weights, if it is the one that a manifest describes.

    Raises:
        StoreError: It is not there, or is another one.
    """
    faults = (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError)
    with explained(StoreError, f"fetch the newest weights: {path}", *faults):
        if (path.stat().st_size, _sha256(path)) != (wanted.size, wanted.sha256):
            raise StoreError(f"{path.name}: its size or hash is not the manifest's: fetch it again")
        state: dict[str, Tensor] = safetensors.torch.load_file(path)
        with safetensors.safe_open(path, framework="pt") as file:
            tied = {name: same for name, same in (file.metadata() or {}).items() if same in state}
        return {**state, **{name: state[same] for name, same in tied.items()}}


def _sha256(path: Path) -> str:
    with open_regular(path) as file:
        return hashlib.file_digest(cast(BufferedReader, file), "sha256").hexdigest()
