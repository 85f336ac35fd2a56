"""Grade texts that models and people wrote, and compare the verdicts with what their authors say of them.

    git clone https://github.com/openai/grade-school-math
    git clone https://github.com/microsoft/ToRA
    git clone https://github.com/QwenLM/Qwen2.5-Math
    git clone https://github.com/ZubinGou/math-evaluation-harness
    python scripts/check_real_answers.py . --show 20

It reads GSM8K's test set with the completions of four models (OpenAI), the completions of two more (ToRA),
eight completions each of 100 problems of MATH (Qwen), and the 5,000 solutions of MATH's test set. A source
that is absent, at another commit, or of another size than `SOURCES` says is an error.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from mars_env.grading.math.extract import extract_answer
from mars_env.grading.math.grader import MathGrader
from mars_env.types import Problem

TORA = "src/outputs/llm-agents/{}/gsm8k/test_tora_-1_seed0_t0.0_s0_e1319.jsonl"


SOURCES = {
    "grade-school-math": ("3101c7d5072418e28b9008a6636bde82a006892c", 6595),
    "ToRA": ("213c1c995038c73fab10343814df7a42f990f026", 2638),
    "Qwen2.5-Math": ("a45202bd16f1ec06f433442dc1152d0074773465", 800),
    "math-evaluation-harness": ("db77bc6bb2a17c90ed2d63e88ebd8c40a82858c5", 5000),
}
"""By folder of a clone: its commit, and how many texts it has."""


class Labelled(NamedTuple):
    """A text, its problem and reference, and whether its authors call it right."""

    source: str
    statement: str
    reference: str
    text: str
    right: bool


def main(
    folder: Annotated[Path, typer.Argument(help="Where the clones lie.")],
    show: Annotated[int, typer.Option(help="So many disagreements of each source are printed.")] = 0,
    only: Annotated[
        list[str] | None, typer.Option("--source", help="Read this clone only; may be given more than once.")
    ] = None,
) -> None:
    """Print, for each source, how many texts are graded as their authors say."""
    grader, console = MathGrader(), Console()
    counts: Counter[tuple[str, bool, str]] = Counter()
    printed: Counter[str] = Counter()
    for row in labelled(folder, only or list(SOURCES)):
        grade = grader.grade_sync(Problem("p", row.statement, row.reference), row.text)
        verdict = str(grade.verdict)
        counts[row.source, row.right, verdict] += 1
        if (verdict == "CORRECT") != row.right and printed[row.source] < show:
            printed[row.source] += 1
            console.print_json(data={**row._asdict(), "text": row.text[-200:], "reason": grade.reason})
    table = Table("source", "right", "of them CORRECT", "wrong", "of them CORRECT", "UNKNOWN")
    for source in dict.fromkeys(source for source, *_ in counts):
        figures: list[int] = []
        for right in (True, False):
            texts = sum(n for key, n in counts.items() if key[:2] == (source, right))
            figures += [texts, counts[source, right, "CORRECT"]]
        figures.append(sum(counts[source, right, "UNKNOWN"] for right in (True, False)))
        table.add_row(source, *(f"{figure:,}" for figure in figures))
    console.print(table)


def labelled(folder: Path, sources: list[str]) -> Iterator[Labelled]:
    for name in sources:
        if name not in SOURCES:
            raise typer.BadParameter(f"{name} is no source; the sources are {', '.join(SOURCES)}")
        commit, expected = commit_of(folder / name), SOURCES[name][0]
        if commit != expected:
            raise typer.BadParameter(f"{folder / name} has {commit}: check out {expected}")
    for name in sources:
        count = 0
        for row in READERS[name](folder / name):
            count += 1
            yield row
        if count != SOURCES[name][1]:
            raise typer.BadParameter(f"{name} has {count} texts, not {SOURCES[name][1]}")


def commit_of(clone: Path) -> str:
    if not (clone / ".git").exists():
        return "no clone"
    command = ("git", "-C", str(clone), "rev-parse", "HEAD")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() or result.stderr.strip()


def of_openai(clone: Path) -> Iterator[Labelled]:
    """GSM8K's solutions, and completions of four models."""
    for row in rows(clone / "grade_school_math/data/example_model_solutions.jsonl"):
        reference = row["ground_truth"].rpartition("A:")[2].strip()
        yield Labelled("GSM8K, solutions", row["question"], reference, row["ground_truth"], right=True)
        for name, model in row.items():
            if isinstance(model, dict):
                text, right = model["solution"], model["is_correct"]
                yield Labelled(f"GSM8K, {name}", row["question"], reference, text, right)


def of_tora(clone: Path) -> Iterator[Labelled]:
    """Programs for GSM8K, followed by a sentence with a box."""
    for model in ("tora-70b-v1.0", "tora-code-34b-v1.0"):
        for row in rows(clone / TORA.format(model)):
            right = number(row["pred"][0]) == number(row["gt"])
            yield Labelled(f"GSM8K, {model}", row["question"], row["gt"], row["code"][0], right)


def of_qwen(clone: Path) -> Iterator[Labelled]:
    """Eight completions for each of 100 problems of MATH."""
    for row in rows(clone / "evaluation/data/eval_rm_maj_example/math_cot_100.jsonl"):
        for text, right in zip(row["code"], row["score"], strict=True):
            yield Labelled("MATH, Qwen's example", row["question"], row["gt"], text, right)


def of_math(clone: Path) -> Iterator[Labelled]:
    """The solutions of MATH's test set; the reference is their last box, with those joined to it."""
    for row in rows(clone / "data/math/test.jsonl"):
        reference = extract_answer(row["solution"], strict=True).answer
        if reference is not None:
            yield Labelled("MATH, solutions", row["problem"], reference, row["solution"], right=True)


READERS = dict(zip(SOURCES, (of_openai, of_tora, of_qwen, of_math), strict=True))


def rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def number(text: str) -> float | None:
    try:
        return float(text.replace(",", "").replace("$", ""))
    except ValueError:
        return None


if __name__ == "__main__":
    typer.run(main)
