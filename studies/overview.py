"""The table that opens docs/results.md: the claims of all studies, judged on their ledgers.

    python -m studies.overview     # or `make results`, which writes the studies' parts, too

It runs nothing. For the two older studies, MarsRL and MARS2, which claims are in the table was decided after
they were run; their pages hold all others. Of OpenRLHF it has what the plan compares, of MarsRL from other
warm starts the plan's primary comparisons, each from every start that has it; their pages hold the rest, too.
A study whose ledger is empty has no line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from studies.common.claims import Claim, judge_all
from studies.common.ledger import LedgerRow, seed_text
from studies.common.program import DOCS, settings_of, table, write
from studies.echo import study as echo_study
from studies.mars2 import study as mars2_study
from studies.mars2_choice import study as mars2_choice_study
from studies.marsrl import study as marsrl_study
from studies.marsrl_refining import study as marsrl_refining_study
from studies.marsrl_robustness import study as marsrl_robustness_study
from studies.openrlhf import study as openrlhf_study
from studies.promptcot import study as promptcot_study
from studies.rubrics import study as rubrics_study
from studies.smollm2 import study as smollm2_study
from studies.spell import study as spell_study
from studies.sums import study as sums_study

PAGE = DOCS / "results.md"
SYSTEM, SOLVER = "system_accuracy", "solver_accuracy"


@dataclass(frozen=True, slots=True)
class Study:
    """One study in the table.

    Attributes:
        task: What is played.
        starts: How many warm starts were trained from.
        plan: The plan that was committed before the rows, as Markdown.
        check: The command that repeats rows.
        rows: The rows that the study's own page shows.
        claims: What is claimed.
    """

    task: str
    starts: str
    plan: str
    check: str
    rows: Callable[[], Sequence[LedgerRow]]
    claims: tuple[Claim, ...]


FADING = "sigmoid (RuscaRL)"


def _marsrl(text: str, figure: str, other: str, other_figure: str | None = None, arm: str = "all") -> Claim:
    return Claim(text, arm, figure, other, other_figure)


STUDIES = (
    Study(
        "[MarsRL](#marsrl-in-miniature)",
        "1, made poor on purpose",
        "none",
        "`studies.marsrl`",
        lambda: marsrl_study.LEDGER.rows(marsrl_study.settings()),
        (
            _marsrl("RL adds to the Solver", SOLVER, "none"),
            _marsrl("RL adds to the System", SYSTEM, "none"),
            _marsrl("the trained System is above its own Solver", SYSTEM, "all", SOLVER),
            _marsrl("... above a majority vote of it at equal tokens", SYSTEM, "all", "baseline_majority"),
            _marsrl(
                "... above it continued from its own cut, with a vote, at equal tokens",
                SYSTEM,
                "all, continued",
                "baseline_continuing",
                arm="all, continued",
            ),
            _marsrl(
                "... above it when a program poses the rest as a new problem, with a vote, at equal tokens",
                SYSTEM,
                "all, continued",
                "baseline_afresh",
                arm="all, continued",
            ),
            _marsrl("RL brings the team above where it was before it was made poor", SYSTEM, "before habits"),
            _marsrl("training all three beats training the Solver only", SYSTEM, "solver"),
            _marsrl(
                "training all three beats training Verifier and Corrector only", SYSTEM, "verifier+corrector"
            ),
            _marsrl("own rewards beat one shared reward", SYSTEM, "shared"),
        ),
    ),
    Study(
        "[MARS2](#mars2-in-miniature)",
        "1 for each seed and model",
        "none",
        "`studies.mars2`",
        mars2_study.shown,
        (
            Claim("RL adds to one model's own programs", "single", "pass@1", "untrained"),
            Claim("RL adds to one model's search (AB-MCTS)", "single", "search_pass@1", "untrained"),
            Claim(
                "search Pass@1: one model in two roles above one agent",
                "homogeneous",
                "search_pass@1",
                "single",
            ),
            Claim(
                "search Pass@1: two different models above one",
                "heterogeneous",
                "search_pass@1",
                "homogeneous",
            ),
            Claim(
                "search Pass@1: two different models above two equal ones",
                "heterogeneous",
                "search_pass@1",
                "equal pair",
            ),
            Claim(
                "two different models write more different programs than one",
                "heterogeneous",
                "distinct",
                "homogeneous",
            ),
            Claim(
                "... and more different right programs (in 100 problems)",
                "heterogeneous",
                "distinct_right",
                "homogeneous",
            ),
            Claim(
                "T+, all parts, above the search without them",
                "heterogeneous",
                "t-plus_pass@1",
                "heterogeneous",
                "no-feedback_pass@1",
            ),
        ),
    ),
    Study(
        "[MarsRL through OpenRLHF](openrlhf.md)",
        "1, the same",
        "[plan](results/plans/openrlhf.md)",
        "`studies.openrlhf`",
        lambda: openrlhf_study.LEDGER.rows(openrlhf_study.settings()),
        openrlhf_study.PLANNED_CLAIMS,
    ),
    Study(
        "[MarsRL from other warm starts](#marsrl-from-other-warm-starts-and-more-controls)",
        "1 of 4, the one that is named",
        "[plan](results/plans/marsrl-robustness.md)",
        "`studies.marsrl_robustness`",
        lambda: marsrl_robustness_study.LEDGER.rows(marsrl_robustness_study.settings()),
        marsrl_robustness_study.SHOWN_CLAIMS,
    ),
    Study(
        "[one agent that revises](#one-agent-that-revises)",
        "1, made poor on purpose",
        "[plan](results/plans/marsrl-refining.md)",
        "`studies.marsrl_refining`",
        marsrl_refining_study.shown,
        marsrl_refining_study.CLAIMS,
    ),
    Study(
        "[subset sums](sums.md)",
        "1 for each seed",
        "[plan](results/plans/sums.md)",
        "`studies.sums`",
        lambda: sums_study.LEDGER.rows(settings_of(sums_study.RECIPE)),
        sums_study.CLAIMS,
    ),
    Study(
        "[MARS2's final choice](final-choice.md)",
        "1 for each seed and model",
        "[plan](results/plans/mars2-choice.md)",
        "`studies.mars2_choice`",
        lambda: mars2_choice_study.LEDGER.rows(settings_of(mars2_choice_study.RECIPE)),
        mars2_choice_study.CLAIMS + mars2_choice_study.OTHER_CLAIMS,
    ),
    Study(
        "[RuscaRL's lock](ruscarl.md)",
        "1",
        "[plan](results/plans/rubrics.md)",
        "`studies.rubrics --study lock`",
        lambda: rubrics_study.LEDGER.rows(settings_of(rubrics_study.RECIPES["lock"])),
        (
            Claim("a fading scaffold opens more locks than none", FADING, "open", "no scaffold"),
            Claim("... than help that stays", FADING, "open", "constant"),
            Claim("... than help that fades slowly (claim added later)", FADING, "open", "linear decay"),
            Claim("its ratio beats plain over scaffolded", FADING, "open", "sigmoid, plain over scaffolded"),
            Claim("... scaffolded over scaffolded", FADING, "open", "sigmoid, scaffolded over scaffolded"),
        ),
    ),
    Study(
        "[a judge with a bias](rubrics.md)",
        "1 for each seed",
        "[plan](results/plans/rubrics.md)",
        "`studies.rubrics --study bias`",
        lambda: rubrics_study.LEDGER.rows(settings_of(rubrics_study.RECIPES["bias"])),
        (
            Claim("the true value falls below an honest judge's", "honest judge", "true", "biased judge"),
            Claim("... below that of the warm start", "warm start", "true", "biased judge"),
            Claim("a veto from the start brings it back", "veto, from the start", "true", "biased judge"),
            Claim("a veto after the fall brings it back", "veto, continued", "true", "biased judge"),
        ),
    ),
    Study(
        "[Echo: two processes](echo.md)",
        "1",
        "[plan](results/plans/echo.md)",
        "`studies.echo` (but for idle times)",
        lambda: echo_study.LEDGER.rows(settings_of(echo_study.RECIPE)),
        echo_study.CLAIMS,
    ),
    Study(
        "[PromptCoT 2.0](promptcot.md)",
        "1 solver; 1 pair of designers for each seed",
        "[plan](results/plans/promptcot.md)",
        "`studies.promptcot`",
        lambda: promptcot_study.LEDGER.rows(settings_of(promptcot_study.RECIPE)),
        promptcot_study.CLAIMS,
    ),
    Study(
        "[SPELL's look-ups](spell.md)",
        "1",
        "[plan](results/plans/spell.md)",
        "`studies.spell`",
        lambda: spell_study.LEDGER.rows(settings_of(spell_study.RECIPE)),
        spell_study.CLAIMS,
    ),
    Study(
        "[a real language model](smollm2.md)",
        "1 for each seed",
        "[plan](results/plans/smollm2.md)",
        "`studies.smollm2`",
        lambda: smollm2_study.LEDGER.rows(smollm2_study.settings_of(smollm2_study.RECIPE)),
        smollm2_study.CLAIMS,
    ),
)


def overview() -> str:
    """The table."""
    lines = [
        (
            found.claim.text,
            study.task,
            study.starts,
            str(found.difference.seeds),
            seed_text(found.difference, signed=True),
            found.verdict,
            study.plan,
            study.check,
        )
        for study in STUDIES
        for found in judge_all(study.rows(), study.claims)
    ]
    columns = (
        "claim",
        "task",
        "warm starts",
        "seeds",
        "effect, in points",
        "verdict",
        "plan",
        "repeat (`--check SEED`)",
    )
    return table(columns, lines)


def main() -> None:
    """Write the table into docs/results.md."""
    write(PAGE, "overview", overview())


if __name__ == "__main__":
    main()
