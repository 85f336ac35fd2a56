"""What the launcher adds to the workers of OpenRLHF's engines."""

from openrlhf.trainer.ray.vllm_worker_wrap import WorkerWrap

from mars_env.models.vllm_worker import WorkerExtension


class TeamWorker(WorkerWrap, WorkerExtension):  # type: ignore[misc]
    """OpenRLHF's methods that take new weights, and the checksums of those that are there."""


EXTENSION = f"{__name__}.{TeamWorker.__name__}"
