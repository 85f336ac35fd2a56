"""OpenRLHF's own command line as a function: flags in, its parsed and checked arguments out.

OpenRLHF defines its flags in the entry block of `openrlhf.cli.train_ppo_ray`, where nothing can import them.
Here that block alone is run, with its `train` replaced by a function that takes the arguments: no Ray, no
vLLM, no flash-attn and no GPU are needed, so flags can be checked on any machine.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType, SimpleNamespace

from mars_env.errors import ConfigError, MissingExtra

ENTRY = "openrlhf.cli.train_ppo_ray"
"""The only entry of OpenRLHF to reinforcement learning."""


def parse(flags: Sequence[str]) -> SimpleNamespace:
    """OpenRLHF's arguments as its `train` receives them: nested by the dots of the flags.

    What OpenRLHF prints meanwhile (recommendations, changed settings) is printed. Not to be called from
    several threads at once, since OpenRLHF reads its flags from `sys.argv`.

    Args:
        flags: What stands after ``python -m openrlhf.cli.train_ppo_ray``.

    Raises:
        MissingExtra: OpenRLHF is not installed.
        ConfigError: A flag is unknown, or OpenRLHF refuses a value or a combination.

    Example:
        With OpenRLHF installed, ``parse(["--train.batch_size", "64"]).train.batch_size`` is 64.
    """
    taken: list[SimpleNamespace] = []
    entry = ModuleType("__main__")
    vars(entry)["train"] = taken.append
    errors = io.StringIO()
    loader = _EntryBlock(entry.__name__, _source())
    with _command_line(flags):
        try:
            with contextlib.redirect_stderr(errors):
                loader.exec_module(entry)
        except AssertionError as error:
            raise ConfigError(f"OpenRLHF refuses these flags: {error}") from error
        except SystemExit as stop:
            if not stop.code:  # --help has said what was asked for
                raise
            *_, last = errors.getvalue().strip().splitlines() or [""]
            raise ConfigError(
                f"OpenRLHF refuses these flags: {last.partition('error: ')[2] or last}"
            ) from stop
    if not taken:
        raise ConfigError(f"{ENTRY} did not call its train(): this version of OpenRLHF is not supported")
    return taken[0]


class _EntryBlock(SourceFileLoader):
    """Runs the ``if __name__ == "__main__"`` of a module, and of the rest only the standard imports."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile what is needed, past the cache of bytecode, which holds the whole module."""
        tree = ast.parse(self.get_data(self.path), self.path)
        tree.body = [node for node in tree.body if isinstance(node, ast.If) or _is_standard(node)]
        return compile(tree, self.path, "exec")


def _is_standard(node: ast.stmt) -> bool:
    """Whether a statement imports from the standard library."""
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] in sys.stdlib_module_names
    return isinstance(node, ast.Import) and all(
        alias.name.partition(".")[0] in sys.stdlib_module_names for alias in node.names
    )


def _source() -> str:
    """Path of the entry's source."""
    try:
        spec = importlib.util.find_spec(ENTRY)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise MissingExtra("training with OpenRLHF needs it installed: pip install 'mars-env[openrlhf]'")
    return spec.origin


@contextlib.contextmanager
def _command_line(flags: Sequence[str]) -> Iterator[None]:
    before = sys.argv
    sys.argv = [ENTRY, *flags]
    try:
        yield
    finally:
        sys.argv = before
