"""Draws the pictures of README and of the site's first page into docs/pictures, for light and dark screens.

    python scripts/draw_pictures.py           # writes them
    python scripts/draw_pictures.py --check   # fails if one of them is not what this program draws

`episode*.svg` shows the recorded episode in `episode.json` (`scripts/record_episode.py`), wide and narrow.
Each `game-*.svg` is a tree of turns, played here with scripted agents on one problem.
"""

import argparse
import asyncio
import json
import random
import sys
from html import escape
from pathlib import Path

import mars_env
from mars_env import Problem, Verdict
from mars_env.agents import assign_agents
from mars_env.envs import GroupedSettings, grouped
from mars_env.rollout import Job, collect
from mars_env.types import role_of

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
sys.path.insert(0, str(ROOT / "examples" / "games"))

THEMES = {
    "light": {"paper": "#ffffff", "ink": "#1f2430", "faint": "#5d667a", "line": "#c3cad9", "card": "#f6f8fc"},
    "dark": {"paper": "#0d1117", "ink": "#e6eaf2", "faint": "#9aa5bb", "line": "#3a4458", "card": "#171d29"},
}
GREEN, RED = "#2da44e", "#e5534b"
BLUE, VIOLET, ORANGE = "#4472ca", "#9a5fc7", "#d9822b"
ROLES = {
    **dict.fromkeys(("solver", "coder", "debater"), BLUE),
    **dict.fromkeys(("verifier", "judge", "forecaster"), VIOLET),
    **dict.fromkeys(("corrector", "finisher"), ORANGE),
}
SANS = "font-family=\"system-ui, 'DejaVu Sans', sans-serif\""
MONO = "font-family=\"ui-monospace, 'DejaVu Sans Mono', monospace\""


def text(x, y, words, fill, size=13, font=SANS, more=""):
    return (
        f'<text x="{x:g}" y="{y:g}" fill="{fill}" font-size="{size}" {font} xml:space="preserve"{more}>'
        f"{escape(words)}</text>"
    )


def box(x, y, width, height, round, fill, edge="none"):
    place = f'x="{x:g}" y="{y:g}" width="{width}" height="{height}" rx="{round}"'
    return f'<rect {place} fill="{fill}" stroke="{edge}"/>'


def ring(x, y, radius, fill, edge, width):
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"'
    return f'<circle {place} fill="{fill}" stroke="{edge}" stroke-width="{width}"/>'


def line(x1, y1, x2, y2, colour, width=1):
    place = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {place} stroke="{colour}" stroke-width="{width}"/>'


def svg(width, height, title, parts, theme):
    paper = box(0, 0, width, height, 8, theme["paper"])
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
    return "\n".join([f'{head} role="img"><title>{escape(title)}</title>', paper, *parts, "</svg>", ""])


def wrapped(words, width):
    lines = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def outcome(turn):
    if turn["grade"] is None:
        return f"says: {turn['verdict']}", GREEN if turn["verdict"] == "Correct" else RED
    return ("✓ right", GREEN) if turn["grade"] == "CORRECT" else ("✗ wrong", RED)


def card(turn, x, y, width, height, theme):
    """One turn: who acts, what it writes, its result and its reward."""
    role, colour = role_of(turn["agent"]), ROLES[role_of(turn["agent"])]
    parts = [
        box(x, y, width, height, 6, theme["card"], theme["line"]),
        box(x, y, 5, height, 2, colour),
        text(x + 16, y + 24, role.capitalize(), colour, 15, more=' font-weight="bold"'),
    ]
    for number, written in enumerate(turn["text"].split("\n")):
        parts.append(text(x + 16, y + 50 + 18 * number, written, theme["ink"], 12.5, MONO))
    if turn["truncated"]:
        last = y + 50 + 18 * len(turn["text"].split("\n"))
        parts.append(text(x + 16, last, "… cut off at its limit", theme["faint"], 12))
    foot = y + height - 14
    result, colour = outcome(turn)
    parts.append(text(x + 16, foot, result, colour, 13, more=' font-weight="bold"'))
    reward = f"reward {turn['reward']:g}"
    parts.append(text(x + width - 12, foot, reward, theme["faint"], 12, more=' text-anchor="end"'))
    return parts


def arrow(x1, y1, x2, y2, theme):
    dx, dy = (6, 0) if y1 == y2 else (0, 6)
    sides = f"{x2 - dx - dy / 1.5:g},{y2 - dy - dx / 1.5:g} {x2 - dx + dy / 1.5:g},{y2 - dy + dx / 1.5:g}"
    return [
        line(x1, y1, x2 - dx, y2 - dy, theme["faint"], 1.5),
        f'<polygon points="{x2},{y2} {sides}" fill="{theme["faint"]}"/>',
    ]


def episode(recorded, theme, *, narrow):
    """The recorded episode: the problem, then turn after turn, side by side or one below the other."""
    turns, margin, gap = recorded["turns"], 14, 22
    width = 360 if narrow else 960
    lines = wrapped(recorded["problem"]["statement"], 44 if narrow else 118)
    parts = [text(margin, 28 + 19 * n, words, theme["ink"], 14) for n, words in enumerate(lines)]
    top = 28 + 19 * len(lines)
    tallest = max(turn["text"].count("\n") + 1 + turn["truncated"] for turn in turns)
    across = 1 if narrow else len(turns)
    card_width = (width - 2 * margin - gap * (across - 1)) // across
    x, y = margin, top
    for number, turn in enumerate(turns):
        rows = turn["text"].count("\n") + 1 + turn["truncated"] if narrow else tallest
        height = 74 + 18 * rows
        if number and narrow:
            parts += arrow(width // 2, y - gap, width // 2, y, theme)
        elif number:
            parts += arrow(x - gap, y + height // 2, x, y + height // 2, theme)
        parts += card(turn, x, y, card_width, height, theme)
        x, y = (x, y + height + gap) if narrow else (x + card_width + gap, y)
    bottom = y if narrow else y + height + gap
    answer = recorded["problem"]["reference"]
    closing = f"The team's answer is the accepted correction: {answer}. The reference is {answer}."
    closing = wrapped(closing, 46 if narrow else 118)
    parts += [text(margin, bottom + 6 + 18 * n, words, theme["faint"], 13) for n, words in enumerate(closing)]
    title = "A recorded episode: the Solver is wrong, the Verifier says so, the Corrector repairs it"
    return svg(width, bottom + 18 * len(closing) + 4, title, parts, theme)


def scripted(observation, seed):
    """Plays any role: right with probability 0.4, as its seed says."""
    drawn = random.Random(seed)
    right = drawn.random() < 0.4
    if "feedback" in observation and "kind" not in observation:  # a Verifier
        passed = right or drawn.random() < 0.2
        return f"Step by step.\nCorrectness: {'Correct' if passed else 'Wrong'}"
    return r"\boxed{4}" if right else rf"\boxed{{{drawn.choice('1235')}}}"


def refining(observation, seed):
    return r"\boxed{4}" if random.Random(seed).random() < 0.3 else rf"\boxed{{{seed % 3}}}"


def games():
    """By the name of a picture: the game, its settings, who plays, and the fewest turns to show."""
    import debate  # noqa: F401 (each registers its game)
    import forecast  # noqa: F401
    import relay  # noqa: F401

    team = {"schedule": "training"}
    marsrl = {**team, "grower": grouped(GroupedSettings(group=4, branches=2))}
    return {
        "solve": ("solve", {}, scripted, 1),
        "self-refine": ("self-refine", {"revisions": 2}, refining, 3),
        "solve-verify-correct": ("solve-verify-correct", {"rounds": 3, "accept_after": 1}, scripted, 5),
        "grouped-rollouts": ("solve-verify-correct", marsrl, scripted, 30),
        "tree-search": ("tree-search", {"nodes": 10, "agents": 2}, refining, 10),
        "debate": ("debate", {}, scripted, 3),
        "forecast": ("forecast", {}, scripted, 2),
        "relay": ("relay", {}, refining, 2),
    }


def played(game, settings, player, turns):
    """A tree that a game grows on one problem: of 40, the first that ends well if there is one.

    That is: it has enough turns, its answer is right, and, unless it is short, its first turn is wrong.
    """
    problem = Problem("sum", "What is 2 + 2?", "4")
    env = mars_env.make(f"arithmetic-{game}", problems=[problem], **settings)
    players = assign_agents(env, player)
    first = None
    for sample in range(40):
        [tree] = asyncio.run(collect(env.game, players, [Job(problem, sample)], seed=0))
        first = first or tree
        verdicts = {turn.id: turn.grade.verdict for turn in tree.turns if turn.grade}
        right = tree.final is None or verdicts[tree.final] is Verdict.CORRECT
        begins_wrong = turns <= 2 or verdicts["0"] is Verdict.WRONG
        if len(tree.turns) >= turns and right and begins_wrong:
            return tree
    return first


def layout(tree):
    """Each turn's place: its depth, and its height among the leaves."""
    children = {}
    for turn in tree.turns:
        children.setdefault(turn.parent_id, []).append(turn.id)
    places, leaves = {}, iter(range(len(tree.turns)))

    def put(turn_id, depth):
        below = [put(child, depth + 1) for child in children.get(turn_id, ())]
        height = sum(below) / len(below) if below else float(next(leaves))
        places[turn_id] = depth, height
        return height

    for root in children[None]:
        put(root, 0)
    return places


def drawn_tree(tree, theme):
    """A tree of turns from left to right; the ring says right or wrong, the double ring is the answer."""
    width, height, places = 240, 132, layout(tree)
    deepest = max(depth for depth, _ in places.values())
    tall = max(row for _, row in places.values())
    crowded = tall > 12
    radius = 3.2 if crowded else 9 if tall > 3 else 12
    root = (22.0, height / 2)

    def at(turn_id):
        depth, row = places[turn_id]
        x = 22 + (width - 50) * (depth + 1) / (deepest + 1)
        return x, (height / 2 if not tall else 18 + (height - 36) * row / tall)

    parts, shapes = [], []
    for turn in tree.turns:
        x, y = at(turn.id)
        px, py = at(turn.parent_id) if turn.parent_id is not None else root
        parts.append(line(px, py, x, y, theme["line"]))
        right = None if turn.grade is None else turn.grade.verdict is Verdict.CORRECT
        edge = theme["line"] if right is None else GREEN if right else RED
        shapes.append(ring(x, y, radius, ROLES[turn.role], edge, 1.5 if crowded else 2.5))
        if turn.id == tree.final:
            shapes.append(ring(x, y, radius + 4, "none", edge, 1.5))
        if not crowded:
            bold = ' text-anchor="middle" font-weight="bold"'
            shapes.append(
                text(x, y + 4, turn.role[0].upper(), "#ffffff", 11 if radius > 9 else 9.5, more=bold)
            )
    problem = box(14, height / 2 - 8, 16, 16, 3, theme["faint"])
    return svg(width, height, f"{len(tree.turns)} turns of one tree", [*parts, problem, *shapes], theme)


def pictures():
    recorded = json.loads((PICTURES / "episode.json").read_text(encoding="utf-8"))
    trees = {name: played(*game) for name, game in games().items()}
    drawn = {}
    for theme, colours in THEMES.items():
        drawn[f"episode-{theme}.svg"] = episode(recorded, colours, narrow=False)
        drawn[f"episode-narrow-{theme}.svg"] = episode(recorded, colours, narrow=True)
        drawn |= {f"game-{name}-{theme}.svg": drawn_tree(tree, colours) for name, tree in trees.items()}
    return drawn


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    drawn = pictures()
    there = {path.name: path.read_text(encoding="utf-8") for path in PICTURES.glob("*.svg")}
    stale = sorted(name for name in drawn.keys() | there.keys() if drawn.get(name) != there.get(name))
    if check:
        if stale:
            sys.exit(f"not as drawn: {', '.join(stale)}: run python scripts/draw_pictures.py")
        return
    for name in stale:
        if name in drawn:
            (PICTURES / name).write_text(drawn[name], encoding="utf-8")
        else:
            (PICTURES / name).unlink()


if __name__ == "__main__":
    main()
