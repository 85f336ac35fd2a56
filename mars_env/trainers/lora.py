"""LoRA adapters, with peft's layers and files: several policies on one base model (docs/training.md)."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mars_env.checks import require_integer
from mars_env.errors import ConfigError, MarsError, StoreError, explained
from mars_env.lazy import needs
from mars_env.models.batching import lock_of
from mars_env.seeds import derive_seed

with needs("hf,lora", "LoRA adapters need torch and peft"):
    import safetensors.torch
    import torch
    from torch import Tensor

WEIGHTS = "adapter_model.safetensors"


@dataclass(slots=True, eq=False)
class _Shared:
    """What the adapters of one base have in common; `active`: the adapter; None: the base; empty: unknown."""

    base: Any
    peft: Any
    layers: tuple[Any, ...]
    active: str | None = ""


class Adapter:
    """One adapter on a base model that others share; it replaces a model in `Policy` and in `HFModel`.

    Each forward pass holds the base's lock and first activates the adapter. Its parameters and state are its
    own; all other attributes are those of the base. `name` is None for the base alone.
    """

    def __init__(self, shared: _Shared, name: str | None) -> None:
        self._shared = shared
        self.name = name

    def __repr__(self) -> str:
        return f"Adapter({self.name!r})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copy and pickle ask for such names before __init__ has run
            raise AttributeError(name)
        return getattr(self._shared.base, name)

    @property
    def shared_base(self) -> Any:
        """The module that all adapters of this base run."""
        return self._shared.base

    @property
    def base(self) -> "Adapter":
        """The base without adapters: the reference of a KL term (`Policy.reference`) that costs no memory."""
        return Adapter(self._shared, None)

    @property
    def rank(self) -> int:
        """Rank of the update of each weight matrix."""
        return self._shared.peft.peft_config[self.name].r

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """The base's forward pass with this adapter."""
        return self._run(self._shared.base, *args, **inputs)

    def get_decoder(self) -> Callable[..., Any]:
        """The forward pass without the output layer."""
        return partial(self._run, self._shared.base.get_decoder())

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """The adapter's weights, named as in its file; or those of the base if this is the base."""
        if self.name is None:
            yield from self._shared.base.named_parameters()
            return
        pattern = re.compile(rf"\.(lora_[AB])\.{re.escape(self.name)}\.weight")
        for name, parameter in self._shared.peft.named_parameters():
            match = pattern.search(name)
            if match and match.end() == len(name):
                yield f"{name[: match.start()]}.{match[1]}.weight", parameter

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """The values of `named_parameters`."""
        return (parameter for _, parameter in self.named_parameters())

    def state_dict(self) -> dict[str, Tensor]:
        """The adapter's weights by name."""
        return {name: parameter.detach() for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Replace the adapter's weights in place; a `ConfigError` if they do not fit."""
        parameters = dict(self.named_parameters())
        if {n: p.shape for n, p in parameters.items()} != {n: value.shape for n, value in state.items()}:
            raise ConfigError(f"weights of another base or rank than the adapter {self.name!r}")
        with torch.no_grad():
            for name, value in state.items():
                parameters[name].copy_(value)

    def save_pretrained(self, directory: str | Path) -> None:
        """Write the adapter as peft does, which transformers and vLLM read, too."""
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        config = self._shared.peft.peft_config[self.name]
        base = self._shared.base.name_or_path  # peft notes it with the first adapter alone
        is_path = base and Path(base).exists()  # a relative path would mean another folder elsewhere
        config.base_model_name_or_path = str(Path(base).absolute()) if is_path else base
        config.save_pretrained(str(directory))
        tensors = {name: value.cpu().contiguous() for name, value in self.state_dict().items()}
        safetensors.torch.save_file(tensors, directory / WEIGHTS, metadata={"format": "pt"})

    def load_pretrained(self, directory: str | Path) -> None:
        """Load what `save_pretrained` wrote, in place; a `StoreError` if nothing is there."""
        path = Path(directory) / WEIGHTS
        if not path.is_file():
            raise StoreError(f"there is no adapter in {directory}: {WEIGHTS} is missing")
        self.load_state_dict(safetensors.torch.load_file(path))

    def _run(self, module: Any, *args: Any, **inputs: Any) -> Any:
        with self.switched_on():
            return module(*args, **inputs)

    @contextmanager
    def switched_on(self) -> Iterator[None]:
        """No other adapter is used in here: for a backward pass that computes layers again."""
        with lock_of(self):
            self._switch_on()
            yield

    def _switch_on(self) -> None:
        if self._shared.active == self.name:
            return
        names = [] if self.name is None else [self.name]
        for layer in self._shared.layers:
            # Not peft's set_adapter: it freezes the other adapters, one of which may be in its backward pass.
            layer._active_adapter = names
        if self._shared.layers[0].active_adapters != names:
            raise MarsError("adapters cannot be switched with this version of peft: install an earlier one")
        self._shared.active = self.name


def linear_layers(model: Any) -> dict[str, torch.nn.Linear]:
    """The linear layers of a model by name, without its output layer."""
    output = model.get_output_embeddings()
    return {n: m for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and m is not output}


def add_adapters(model: Any, names: Sequence[str], rank: int = 16, *, seed: int = 0) -> dict[str, Adapter]:
    """Put LoRA adapters on a model, which is frozen and shared. At first each computes what the base does.

    All linear layers but the output layer have one (arXiv 2106.09685), scaled by 2. A mixture's experts that
    are one parameter, and its router, have none. There is no dropout, because it would make the first
    importance ratio differ from 1.

    Args:
        model: A causal language model of transformers, in any floating type. Its layers are changed in
            place, so use it through the adapters from then on.
        names: One for each policy, e.g. the roles.
        rank: Of the update of each weight matrix.
        seed: Of the initial values, together with the adapter's name.

    Raises:
        ConfigError: A name is wrong, the model has no linear layer, or it has adapters already.
    """
    with needs("lora", "LoRA adapters need peft"):
        from peft import LoraConfig, get_peft_model
        from peft.tuners.lora import LoraLayer
    require_integer(rank, "rank")
    _validate_names(names)
    if any(isinstance(module, LoraLayer) for module in model.modules()):
        raise ConfigError("this model has adapters already: name all of them in one call")
    if not (linear := linear_layers(model)):
        raise ConfigError(f"{type(model).__name__} has no linear layer (torch.nn.Linear) for an adapter")

    def config() -> LoraConfig:
        return LoraConfig(
            r=rank,
            lora_alpha=2 * rank,
            target_modules=list(linear),
            lora_dropout=0.0,
            bias="none",
            task_type="CAUSAL_LM",
        )

    peft = None
    for name in names:
        with torch.random.fork_rng():  # peft draws from torch's global generator
            torch.manual_seed(derive_seed(seed, "adapter", name))
            with explained(ConfigError, f"adapters cannot be put on {type(model).__name__}", ValueError):
                if peft is None:
                    peft = get_peft_model(model, config(), adapter_name=name)
                else:
                    peft.add_adapter(name, config())
    layers = tuple(module for module in model.modules() if isinstance(module, LoraLayer))
    shared = _Shared(model, peft, layers)
    adapters = {name: Adapter(shared, name) for name in names}
    for adapter in adapters.values():
        for parameter in adapter.parameters():
            parameter.requires_grad_(True)  # peft sets it for the first adapter only
    return adapters


def _validate_names(names: Sequence[str]) -> None:
    if not names or len(set(names)) < len(names):
        raise ConfigError("give each adapter a name, and each name once")
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
            raise ConfigError(f"adapter {name!r}: a name may hold letters, digits, _ and -")
