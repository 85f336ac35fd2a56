"""OpenRLHF's own command line as a function: flags in, its parsed and checked arguments out.

OpenRLHF defines its flags in the entry block of `openrlhf.cli.train_ppo_ray`, where nothing can import them.
Here that block alone is run, with its `train` replaced. OpenRLHF's files are enough: it is not imported.
"""

import ast
import contextlib
import io
import runpy
import sys
from importlib.machinery import SourceFileLoader
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import CodeType, ModuleType, SimpleNamespace

from mars_env.errors import ConfigError, MissingExtra
from mars_env.trainers.openrlhf.command_line import Flags, as_words

ENTRY = "openrlhf.cli.train_ppo_ray"

VERSION = "0.11.2"
"""The version of OpenRLHF that is supported. It pins Ray, DeepSpeed and transformers, and vLLM pins torch."""


def parsed_arguments(flags: Flags) -> SimpleNamespace:
    """OpenRLHF's arguments as its `train` receives them, nested by the dots of the flags.

    What OpenRLHF prints meanwhile is printed. Not thread-safe: OpenRLHF reads its flags from `sys.argv`.

    Raises:
        ConfigError: A flag is unknown, OpenRLHF rejects a value or a combination, or is of another version.
    """
    received: list[SimpleNamespace] = []
    entry = ModuleType("__main__")
    vars(entry).update(train=received.append)
    errors = io.StringIO()
    loader = _EntryBlock(entry.__name__, str(_source()))
    before, sys.argv = sys.argv, [ENTRY, *as_words(flags)]
    try:
        with contextlib.redirect_stderr(errors):
            loader.exec_module(entry)
    except SystemExit as stop:
        if not stop.code:  # --help
            raise
        *_, last = errors.getvalue().strip().splitlines() or [""]
        raise ConfigError(f"OpenRLHF rejects these flags: {last.partition('error: ')[2] or last}") from stop
    except Exception as error:  # its checks meet values that they do not expect, or a package is missing
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        raise ConfigError(f"OpenRLHF rejects these flags: {kind}{error}") from error
    finally:
        sys.argv = before
    if not received:
        raise ConfigError(f"{ENTRY} did not call its train(): this version of OpenRLHF is not supported")
    return received[0]


class _EntryBlock(SourceFileLoader):
    """Runs the ``if __name__ == "__main__"`` of a module, and of the rest only the standard imports."""

    def get_code(self, fullname: str) -> CodeType:
        """The code, past the cache of bytecode, which holds the whole module."""
        tree = ast.parse(self.get_data(self.path), self.path)
        tree.body = [node for node in tree.body if isinstance(node, ast.If) or _is_standard(node)]
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "openrlhf.utils.config":
                node.module = __name__  # that package would import torch
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "argparse.ArgumentParser":
                # The launcher adds and rejects flags by their whole names.
                node.keywords.append(ast.keyword("allow_abbrev", ast.Constant(False)))
        return compile(ast.fix_missing_locations(tree), self.path, "exec")


def _is_standard(node: ast.stmt) -> bool:
    if not isinstance(node, ast.Import | ast.ImportFrom):
        return False
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return all(name.partition(".")[0] in sys.stdlib_module_names for name in names)


def hierarchize(args: object) -> SimpleNamespace:
    """OpenRLHF's own function, of a module that imports nothing but the standard library."""
    config = runpy.run_path(str(_source().parents[1] / "utils" / "config.py"))
    return config["hierarchize"](args)


def _source() -> Path:
    install = f"pip install --no-deps openrlhf=={VERSION} (what training needs: docs/openrlhf.md)"
    try:
        package = distribution("openrlhf")
    except PackageNotFoundError as error:
        raise MissingExtra(f"OpenRLHF's own parser checks the flags: {install}") from error
    if package.version != VERSION:
        raise ConfigError(f"OpenRLHF {package.version} is not supported: {install}")
    return Path(str(package.locate_file(ENTRY.replace(".", "/") + ".py")))
