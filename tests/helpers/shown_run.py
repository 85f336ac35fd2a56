"""A run that has everything a page shows: formulas, programs, thinking, searches, cut and UNKNOWN turns."""

from random import Random

from turns import turn

from mars_env.types import Action, Completion, Grade, Problem, Tree, Turn

STATEMENT = (
    "Find the number of pairs $(a,b)$ of positive integers with $a+b=1000$ where neither has a zero digit.\n"
    "\\[\\sum_{i=1}^n \\binom{n}{i} \\equiv 0 \\pmod{7}\\]"
)


def solution(number):
    return (
        f"We count the complement. Let $x = \\frac{{{number}}}{{2}}$ and note that $x^2+1$ is odd.\n"
        "There are $10^{2}$ cases with a zero in the tens place.\nSo the number of pairs is\n"
        f"\\[ 999 - 99 - 162 = 738. \\]\nTherefore \\boxed{{{number}}}."
    )


def completion(rng, text, asked, thinking="", reason="stop"):
    n = rng.randrange(60, 200)
    written = f"<think>{thinking}</think>\n\n{text}" if thinking else text
    logprobs = tuple(-round(rng.expovariate(3), 3) for _ in range(n))
    messages = (("system", "You solve problems."), ("user", f"{asked}\nEnd with \\boxed{{}}."))
    return Completion(
        written,
        reason,
        (1, 2),
        tuple(range(n)),
        logprobs,
        prompt_tokens=20,
        completion_tokens=n,
        messages=messages,
    )


def made_turn(rng, tree, id, agent, text, grade=None, *, asked="", thinking="", reason="stop", **known):
    return Turn(
        tree, id, id.rpartition(".")[0] or None, f"{tree}/{id}", agent, "model", tree.rpartition("#")[0],
        Action(text, (completion(rng, text, asked, thinking, reason),)), grade,
        reward=None if grade is None or grade.score is None else grade.score, **known,
    )  # fmt: skip


def episode(rng, number):
    """A solution, a verification, and if it was rejected a correction and its verification."""
    problem = Problem(f"sum-{number}", STATEMENT, "738")
    tree, right, accepted = f"sum-{number}#0", rng.random() < 0.5, rng.random() < 0.5
    wrong = Grade.wrong("731 is not 738")
    grade = (
        Grade.unknown("the worker was lost") if rng.random() < 0.03 else Grade.correct() if right else wrong
    )
    reason = "length" if rng.random() < 0.05 else "stop"
    text = solution(738 if right else 731)
    thinking = "Let me think about $a$ and $b$. " * 20
    turns = [
        made_turn(rng, tree, "0", "solver_0", text, grade, asked=STATEMENT, thinking=thinking, reason=reason)
    ]
    told = {"verdict": "Correct" if accepted else "Wrong", "malformed": False}
    said = f"The count of $10^2$ looks fine.\nCorrectness: {told['verdict']}"
    asked = f"{STATEMENT}\n<solution>\n{text}\n</solution>"
    turns.append(made_turn(rng, tree, "0.0", "verifier_0", said, asked=asked, info=told))
    if not accepted:
        fixed = rng.random() < 0.6
        better = text.replace("zero in the tens", "zero in the units").replace(
            "731", "738" if fixed else "730"
        )
        grade = Grade.correct() if fixed else wrong
        turns.append(made_turn(rng, tree, "0.0.0", "corrector_0", better, grade, asked=asked))
        told = {"verdict": "Correct", "malformed": False}
        turns.append(made_turn(rng, tree, "0.0.0.0", "verifier_0", "Correctness: Correct", info=told))
    final = [turn.id for turn in turns if turn.grade is not None][-1]
    return Tree(tree, problem, tuple(turns), final=final)


def search(rng, number):
    """A search for a program; its last node is right."""
    problem = Problem(f"code-{number}", "Read n, print the sum of 1..n.", {"tests": [1]}, kind="code")
    tree = f"code-{number}#0"
    turns = []
    for id in ("0", "0.0", "0.1", "0.1.0", "0.1.0.0", "1", "1.0", "1.1", "2"):
        right = id == "0.1.0.0"
        failed = Grade.wrong("test 2 failed", score=0.5, feedback="Test 2: expected 55, got 45")
        program = (
            "def main():\n    n = int(input())  # read\n    total = 0\n"
            f"    for i in range(n{' + 1' if right else ''}):\n        total += i * {len(id)}\n"
            "    print('sum', total)\n\nmain()\n"
        )
        turns.append(made_turn(
            rng, tree, id, f"coder_{len(id) % 2}", f"Here:\n```python\n{program}```\nIt loops.",
            Grade.correct() if right else failed, search_score=1.0 if right else 0.5,
            info={"call": len(turns)},
        ))  # fmt: skip
    return Tree(tree, problem, tuple(turns), final="0.1.0.0")


def shown_run(turns, seed=0):
    """Two searches, then episodes until there are so many turns."""
    rng = Random(seed)
    trees = [search(rng, 0), search(rng, 1)]
    while sum(len(tree.turns) for tree in trees) < turns:
        trees.append(episode(rng, len(trees)))
    return trees


def branched(depth):
    """A search that refines its first child so many times, each time beside a second try."""
    turns, above = [], ""
    for _ in range(depth):
        ids = [f"{above}{i}" for i in range(2)]
        turns += [turn(id, None, Completion(id), agent="coder_0", tree="p#0", search_score=0.5) for id in ids]
        above = f"{above}0."
    return Tree("p#0", Problem("p", "?", {"tests": [1]}), tuple(turns))


MARK = "window.owned=1"
SCRIPT, IMAGE = f"<script>{MARK}</script>", f"<img src=x onerror={MARK}>"
HOSTILE = "\n".join((
    f"</noscript></pre></details></article>{SCRIPT}{IMAGE}<svg onload={MARK}>",
    f"<noscript><p title=\"</noscript>{IMAGE}\"> &lt;img src=x onerror={MARK}&gt;",
    f"$\\text{{</math></noscript>{SCRIPT}}}$ $\\href{{javascript:{MARK}}}{{x}}$ \\[\\text{{{IMAGE}}}\\]",
    "\\boxed{\\style{background:url(http://evil.example/)}{x}} http://evil.example/",
    f"[link](javascript:{MARK}) \x1b]0;owned\x07 \u202e",
    f"```python\n'</code></noscript>{SCRIPT}'\n```",
    f"```html\" onclick=\"{MARK}\n<b onclick={MARK}>\n```",
    f"<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror={MARK}&gt;\">",
    "{{ 7*7 }} {% raw %} ${x} \ud800 \x00 ]]> --></script></style>",
))  # fmt: skip


def hostile_tree(sample):
    problem = Problem(HOSTILE, HOSTILE, {HOSTILE: [HOSTILE]}, kind="code" if sample else "math")

    def turn(id, text, grade):
        completions = tuple(
            Completion(part, logprobs=(-1.0, -2.0), messages=((HOSTILE, HOSTILE),))
            for part in (HOSTILE + text, text)[: 1 + sample]
        )
        return Turn(
            f"{HOSTILE}#{sample}", id, id.rpartition(".")[0] or None, HOSTILE, HOSTILE, HOSTILE, HOSTILE,
            Action(text, completions), grade, search_score=0.5, info={"verdict": HOSTILE, HOSTILE: HOSTILE},
        )  # fmt: skip

    wrong = Grade.wrong(HOSTILE, feedback=HOSTILE)
    turns = (turn("0", HOSTILE, wrong), turn("0.0", HOSTILE + "\nmore", wrong), turn("1", "x", wrong))
    return Tree(f"{HOSTILE}#{sample}", problem, turns, final="0.0", fault=HOSTILE)
