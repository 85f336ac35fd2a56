"""What a reader sees of each metric of the library."""

from __future__ import annotations

from collections.abc import Mapping

from mars_env.evaluation.statistics import Scale

TITLES: Mapping[str, tuple[str, Scale]] = {
    "solver_accuracy": ("Solver accuracy, avg@n", "rate"),
    "system_accuracy": ("System accuracy, avg@n", "rate"),
    "gain": ("System minus Solver, paired", "difference"),
    "search_pass@n": ("Search Pass@N, any node", "rate"),
    "node_accuracy": ("Nodes right", "rate"),
    "verifier_precision": ("Verifier precision (errors)", "rate"),
    "verifier_recall": ("Verifier recall (errors)", "rate"),
    "acceptance_precision": ("Verifier precision (acceptance)", "rate"),
    "acceptance_recall": ("Verifier recall (acceptance)", "rate"),
    "verifier_accuracy": ("Verifier accuracy", "rate"),
    "malformed": ("Verdicts malformed", "rate"),
    "fix_rate": ("Corrector fix rate (wrong to right)", "rate"),
    "break_rate": ("Corrector break rate (right to wrong)", "rate"),
    "rounds": ("Verifications an episode", "amount"),
    "nodes": ("Nodes a tree", "amount"),
    "depth": ("Depth of a tree", "amount"),
    "calls": ("Model calls an episode", "amount"),
    "solver_tokens": ("Tokens a first attempt", "amount"),
    "tokens": ("Tokens an episode", "amount"),
    "judging_tokens": ("of these, for judging", "amount"),
    "prompt_tokens": ("Prompt tokens an episode", "amount"),
}
"""Title and scale by name."""

NAMED_TITLES: Mapping[str, tuple[str, Scale]] = {
    "share": ("Share of nodes, {}", "rate"),
    "right": ("Nodes right, {}", "rate"),
    "answers": ("Share of final answers, {}", "rate"),
    "accuracy": ("Turns right, {}", "rate"),
    "reward": ("Mean reward, {}", "value"),
}
"""Of an agent or a role, whose name stands after a colon in the metric's name."""
