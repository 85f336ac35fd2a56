"""A set of problems that scripted models make."""

import re
from pathlib import Path

from mars_env.agents import Solver
from mars_env.methods.promptcot.designs import ChatWriting, Design, write_design
from mars_env.methods.promptcot.making import CandidateSettings, make_problems
from mars_env.methods.promptcot.references import Majority
from mars_env.models import ScriptedModel
from mars_env.problems import ProblemSet
from mars_env.types import Prompt, Sampling

MAKING = CandidateSettings(tries=60, concurrency=7, seed=3, n=6, licence="MIT")
PROTECTED = [f"What is one plus {number} ?" for number in (6, 7, 8, 9)]


def designer(prompt: Prompt, sample: int, seed: int) -> str:
    """A sum; one text in five cannot be read."""
    if seed % 5 == 0:
        return "### Problem\nWhat?"
    return f"### Rationale\nAdd {seed % 30}.\n### Problem\nWhat is one plus {seed % 30} ?"


def teacher(prompt: Prompt, sample: int, seed: int) -> str:
    """Right in three of four cases, else one too many."""
    number = int(re.findall(r"one plus (\d+)", str(prompt))[0])
    return f"\\boxed{{{number + 1 + (seed % 4 == 0)}}}"


async def make(folder: Path, tries: int = MAKING.tries) -> ProblemSet:
    """Make the set, or what is missing of it."""
    model = ScriptedModel(designer, name="designer")
    voter = Solver(ScriptedModel(teacher, name="teacher"))

    async def write(index: int, seed: int) -> Design | None:
        return await write_design(model, ChatWriting(), ("addition", str(index % 3)), Sampling(seed=seed))

    return await make_problems(
        folder,
        write,
        Majority(voter, voters=4, threshold=0.75),
        MAKING.model_copy(update={"tries": tries}),
        protected=PROTECTED,
        of={"designer": "designer"},
    )


class Writing:
    """Texts of models that know no words: concepts, then ``rationale;problem``."""

    def from_concepts(self, concepts):
        return "".join(concepts) + ":"

    def from_problem(self, concepts, problem):
        return "".join(concepts) + "/" + problem + ":"

    def parts(self, design):
        return design.rationale + ";", design.problem

    def read(self, text):
        rationale, _, problem = text.partition(";")
        return (rationale, problem) if rationale and problem and ";" not in problem else None
