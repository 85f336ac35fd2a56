"""A run of Weights & Biases for each policy, all open at the same time."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any


class PolicyRun:
    """In the place of OpenRLHF's ``WandbLogger``, which logs to the one run of its process.

    A second one of OpenRLHF's ends the first policy's run; and it writes the API key into the run's settings.
    """

    def __init__(self, args: SimpleNamespace) -> None:
        import wandb

        said = args.logger.wandb
        if not wandb.api.api_key:
            wandb.login(key=said.key)
        self._table = wandb.Table
        self._samples: list[list[Any]] = []
        self._run = wandb.init(
            entity=said.org,
            project=said.project,
            group=said.group,
            name=said.run_name,
            config=_settings(args),
            reinit="create_new",
        )
        for kind in ("train", "eval"):
            self._run.define_metric(f"{kind}/global_step")
            self._run.define_metric(f"{kind}/*", step_metric=f"{kind}/global_step", step_sync=True)

    def log_train(self, global_step: int, logs_dict: Mapping[str, Any]) -> None:
        """Log the metrics of an update, and its sample (a text and its reward) where there is one."""
        sample = logs_dict.get("generated_samples")
        if sample:
            self._samples.append([global_step, *sample])
            table = self._table(columns=["global_step", "text", "reward"], data=self._samples)
            self._run.log({"train/generated_samples": table})
        self._log("train", global_step, logs_dict)

    def log_eval(self, global_step: int, logs_dict: Mapping[str, Any]) -> None:
        """Log the metrics of an evaluation."""
        self._log("eval", global_step, logs_dict)

    def close(self) -> None:
        """End this policy's run, and no other."""
        self._run.finish()

    def _log(self, kind: str, global_step: int, metrics: Mapping[str, Any]) -> None:
        known = {**metrics, "generated_samples": None, "global_step": global_step}
        self._run.log({f"{kind}/{key}": value for key, value in known.items() if value is not None})


def _settings(args: Any) -> Any:
    """Arguments as nested dictionaries, without the API key."""
    if not isinstance(args, SimpleNamespace):
        return args
    return {name: _settings(value) for name, value in vars(args).items() if name != "key"}
