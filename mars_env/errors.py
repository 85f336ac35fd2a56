"""The library's errors. Each message is one sentence: what is wrong, where, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from mars_env.text import bounded, validation_message, visible


class MarsError(Exception):
    """Base of every error that mars_env raises on purpose."""

    def __str__(self) -> str:
        return bounded(visible(super().__str__()))


class ConfigError(MarsError, ValueError):
    """A setting, an id or an argument is wrong."""


class ContextError(ConfigError):
    """A prompt leaves less room than the agent's limit, and ``Sampling.overflow="refuse"`` rejects that."""


class ProblemError(MarsError, ValueError):
    """A problem or a problem file cannot be used; the message names file, line and field."""


class ModelError(MarsError):
    """A model could not answer, even after sensible retries. The turn is discarded, not scored."""


class ServerDown(ModelError):
    """No server of a model took a call for as long as it waits. The run ends; the same call continues it."""


class SandboxError(MarsError):
    """No sandbox could be started, or one was lost. Never the fault of the program in it."""


class ToolError(MarsError):
    """A tool cannot be used, whatever the arguments. The turn that called it is UNKNOWN."""


class StoreError(MarsError):
    """A stored run cannot be read, or was made with another configuration."""


class MissingExtra(MarsError, ImportError):
    """An optional dependency is not installed; the message names the extra that installs it."""


@contextmanager
def explained(error: type[Exception], what: str, *causes: type[Exception]) -> Iterator[None]:
    """Inside, one of the causes becomes an `error` that says what is wrong, and the cause's own words.

    Example:
        >>> with explained(ConfigError, "the number of samples", ValueError):
        ...     int("many")
        Traceback (most recent call last):
        mars_env.errors.ConfigError: the number of samples: invalid literal for int() with base 10: 'many'
    """
    try:
        yield
    except causes as cause:
        raise error(f"{what}: {validation_message(cause)}") from cause
