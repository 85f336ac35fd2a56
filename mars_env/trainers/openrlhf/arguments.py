"""OpenRLHF's own command line as a function: flags in, its parsed and checked arguments out.

OpenRLHF defines its flags in the entry block of `openrlhf.cli.train_ppo_ray`, where nothing can import them.
Here that block alone is run, with its `train` replaced by a function that takes the arguments. Nothing of
OpenRLHF is imported: its files are enough (``pip install --no-deps openrlhf==0.11.2``). So flags can be
checked on any machine, without Ray, vLLM, torch, flash-attn or a GPU.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace

from mars_env.errors import ConfigError, MissingExtra
from mars_env.trainers.openrlhf.command_line import Flags, as_words

ENTRY = "openrlhf.cli.train_ppo_ray"
"""The only entry of OpenRLHF to reinforcement learning."""


def parse(flags: Flags) -> SimpleNamespace:
    """OpenRLHF's arguments as its `train` receives them: nested by the dots of the flags.

    What OpenRLHF prints meanwhile (recommendations, changed settings) is printed. Not to be called from
    several threads at once, since OpenRLHF reads its flags from `sys.argv`.

    Args:
        flags: Those of ``python -m openrlhf.cli.train_ppo_ray``.

    Raises:
        MissingExtra: OpenRLHF is not installed.
        ConfigError: A flag is unknown, or OpenRLHF refuses a value or a combination.

    Example:
        With OpenRLHF's files there, ``parse({"--train.batch_size": ["64"]}).train.batch_size`` is 64.
    """
    taken: list[SimpleNamespace] = []
    entry = ModuleType("__main__")
    vars(entry)["train"] = taken.append
    vars(entry)["hierarchize"] = _hierarchize
    errors = io.StringIO()
    loader = _EntryBlock(entry.__name__, str(_source()))
    with _command_line(flags):
        try:
            with contextlib.redirect_stderr(errors):
                loader.exec_module(entry)
        except AssertionError as error:
            raise ConfigError(f"OpenRLHF refuses these flags: {error}") from error
        except Exception as error:  # its checks meet values that they do not expect, or a package is missing
            raise ConfigError(f"OpenRLHF refuses these flags: {type(error).__name__}: {error}") from error
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
        return compile(ast.fix_missing_locations(_Changed().visit(tree)), self.path, "exec")


class _Changed(ast.NodeTransformer):
    """Leaves out the import of `_hierarchize`, which would import torch on its way, and abbreviations.

    What the launcher adds or refuses it knows by the whole name: ``--ckpt.output`` would be replaced by the
    default of ``--ckpt.output_dir``, and ``--reward.clip`` not be refused.
    """

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Make a parser that takes whole names only."""
        if ast.unparse(node.func) == "argparse.ArgumentParser":
            node.keywords.append(ast.keyword("allow_abbrev", ast.Constant(False)))
        return self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        """Keep every other import."""
        return None if node.module == "openrlhf.utils.config" else node


def _is_standard(node: ast.stmt) -> bool:
    """Whether a statement imports from the standard library."""
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").partition(".")[0] in sys.stdlib_module_names
    return isinstance(node, ast.Import) and all(
        alias.name.partition(".")[0] in sys.stdlib_module_names for alias in node.names
    )


def _hierarchize(args: object) -> SimpleNamespace:
    """OpenRLHF's own: ``openrlhf/utils/config.py`` imports nothing but the standard library."""
    path = _source().parents[1] / "utils" / "config.py"
    config = ModuleType("openrlhf.utils.config")
    SourceFileLoader(config.__name__, str(path)).exec_module(config)
    made: SimpleNamespace = config.hierarchize(args)
    return made


def _source() -> Path:
    """Path of the entry's source, found without an import."""
    path = ENTRY.replace(".", "/") + ".py"
    try:
        found = Path(str(distribution("openrlhf").locate_file(path)))
    except PackageNotFoundError:
        found = None
    if found is None or not found.exists():
        raise MissingExtra(
            "OpenRLHF's own parser checks the flags: pip install --no-deps openrlhf==0.11.2 is enough"
            " here (what training needs: docs/openrlhf.md)"
        )
    return found


def parser_help() -> str:
    """What OpenRLHF's own ``--help`` says of its flags.

    Raises:
        MissingExtra: OpenRLHF's files are not there.
    """
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        parse({"--help": []})
    return output.getvalue()


@contextlib.contextmanager
def _command_line(flags: Flags) -> Iterator[None]:
    before = sys.argv
    sys.argv = [ENTRY, *as_words(flags)]
    try:
        yield
    finally:
        sys.argv = before
