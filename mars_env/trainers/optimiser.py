"""The optimiser of a policy: AdamW on its weights, or on float32 copies of them in the host's memory."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from mars_env.trainers.config import TrainConfig


class Optimiser:
    """AdamW with a warm-up, for the trained weights of a model; `weights` is what it changes, by name.

    With `TrainConfig.offload` it keeps float32 copies of the weights, their gradients and AdamW's moments in
    the host's memory. A gradient leaves the device as soon as it is computed.
    """

    def __init__(self, model: Any, config: TrainConfig) -> None:
        self.weights: Mapping[str, torch.nn.Parameter] = trained_parameters(model)
        self._config = config
        self._copied: tuple[tuple[torch.nn.Parameter, torch.nn.Parameter], ...] = ()
        if config.offload:
            on_device = self.weights
            self.weights = {
                name: torch.nn.Parameter(parameter.detach().float().cpu().clone())
                for name, parameter in on_device.items()
            }
            self._copied = tuple(zip(on_device.values(), self.weights.values(), strict=True))
            for parameter, copy in self._copied:
                parameter.register_post_accumulate_grad_hook(partial(_moved, copy))  # type: ignore[no-untyped-call]
        parameters = [*self.weights.values()]
        groups = [  # matrices decay, vectors (norms and biases) do not
            {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
            {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
        ]
        fused = parameters[0].device.type in ("cpu", "cuda")
        self.adamw = torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=fused)

    def clip(self) -> Tensor:
        """Scale the gradients down to `TrainConfig.max_grad_norm`; returns their norm before."""
        return torch.nn.utils.clip_grad_norm_(self.weights.values(), self._config.max_grad_norm)

    def step(self, updates: int) -> None:
        """One update, after so many."""
        for group in self.adamw.param_groups:
            group["lr"] = self.rate(updates)
        self.adamw.step()
        self.write_back()

    def rate(self, updates: int) -> float:
        """The learning rate after so many updates: a linear warm-up, then constant."""
        return self._config.learning_rate * min(1.0, (updates + 1) / max(1, self._config.warmup_updates))

    def tensors(self) -> dict[str, Tensor]:
        """Its state as named tensors: ``"exp_avg.model.norm.weight"`` and so on.

        Copies of float32 weights are left out, since the model has the same values.
        """
        pairs = zip(self.weights, self._copied, strict=False)
        copies = {f"weight.{name}": copy for name, (own, copy) in pairs if own.dtype != copy.dtype}
        moments = {
            f"{kind}.{name}": tensor
            for name, parameter in self.weights.items()
            for kind, tensor in self.adamw.state.get(parameter, {}).items()
        }
        return {name: tensor.detach().cpu().contiguous() for name, tensor in {**copies, **moments}.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the state that `tensors` gave, with or without `offload`, once the model has its weights."""
        with torch.no_grad():
            for name, (own, copy) in zip(self.weights, self._copied, strict=False):
                copy.copy_(tensors.get(f"weight.{name}", own))
        self.write_back()
        names = {parameter: name for name, parameter in self.weights.items()}
        order = [parameter for group in self.adamw.param_groups for parameter in group["params"]]
        kinds = ("step", "exp_avg", "exp_avg_sq")
        state = {
            index: {kind: tensors[f"{kind}.{names[parameter]}"] for kind in kinds}
            for index, parameter in enumerate(order)
            if f"step.{names[parameter]}" in tensors
        }
        groups = self.adamw.state_dict()["param_groups"]
        self.adamw.load_state_dict({"state": state, "param_groups": groups})

    @torch.no_grad()
    def write_back(self) -> None:
        """Bring the copies' values to the model, rounded to its type."""
        for parameter, copy in self._copied:
            parameter.copy_(copy)


def _moved(copy: torch.nn.Parameter, parameter: Tensor) -> None:
    assert parameter.grad is not None
    moved = parameter.grad.detach().to(copy.device, torch.float32)
    copy.grad = moved.clone() if copy.grad is None else copy.grad.add_(moved)
    parameter.grad = None


def trained_parameters(model: Any) -> dict[str, torch.nn.Parameter]:
    """The parameters that require gradients, by name; tied ones once."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}
