"""The proof that a sampler has the weights that are trained."""

from collections.abc import Mapping, Sequence

import numpy as np

from mars_env.errors import ModelError
from mars_env.models.checksums import Checksum
from mars_env.text import logger

log = logger(__name__)

PROBE = 32


class WeightProof:
    """Compares a sampler (`who`, in messages) with a policy after each refresh: tensor by tensor.

    A sampler may hold tensors in a form that cannot be compared: packed for a kernel, quantised, or divided.
    Of these the log-probabilities of a fixed text, the probe, must change whenever the policy's tensors have
    changed in the sampler's precision. An update that rounding loses changes neither.
    """

    def __init__(self, who: str) -> None:
        self._who = who
        self._unread: Mapping[str, Checksum] = {}
        self._before: tuple[Mapping[str, Checksum], tuple[float, ...]] | None = None
        self._logged = False
        self.share_read = 1.0
        """The share of the tensors that could be read the last time."""

    def compare(self, trained: Mapping[str, Checksum], sampled: Mapping[str, Checksum]) -> bool:
        """Compare the checksums of the tensors by name, in the sampler's precision.

        Those that `sampled` lacks cannot be read, unless they are tied to others. Returns whether all were
        read; otherwise `compare_probe` must follow. A ModelError if the sampler has another tensor of a name.
        """
        wrong = [name for name, checksum in trained.items() if sampled.get(name, checksum) != checksum]
        if wrong:
            raise ModelError(
                f"{self._who} does not have the weights that are trained: {len(wrong)} of {len(trained)} "
                f"tensors differ, {wrong[0]} for one"
            )
        read = set(sampled.values())
        self._unread = {name: checksum for name, checksum in trained.items() if checksum not in read}
        self.share_read = 1 - len(self._unread) / max(1, len(trained))
        if self._unread and not self._logged:
            self._logged = True
            log.info(
                "%s: %d of %d tensors cannot be read, %s for one: only a probe shows that they are refreshed",
                *(self._who, len(self._unread), len(trained), min(self._unread)),
            )
        return not self._unread

    def compare_probe(self, values: Sequence[float]) -> None:
        """A `ModelError` if the sampler's log-probabilities of the probe are stale or not finite."""
        before, self._before = self._before, (self._unread, tuple(values))
        stale = before is not None and before[0] != self._unread and before[1] == tuple(values)
        if stale or not np.isfinite(values).all():
            raise ModelError(
                f"{self._who} does not sample with the weights that are trained: its log-probabilities of a "
                f"fixed text {'did not change with them' if stale else 'are not finite'}"
            )


def probe_ids(vocabulary: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The prompt and the tokens of the probe, always the same and from all over the vocabulary."""
    ids = np.random.default_rng(0).integers(vocabulary, size=PROBE + 1).tolist()
    return tuple(ids[:1]), tuple(ids[1:])
