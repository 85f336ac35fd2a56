"""Making problems: what is kept, where it is from, and that neither kills nor faults change the set."""

import json
import random
import re
from collections import Counter

import pytest

from mars_env import load_problems
from mars_env.agents import Solver
from mars_env.errors import ModelError
from mars_env.methods.promptcot.designs import ChatWriting, Design, write_design
from mars_env.methods.promptcot.making import JOURNAL, PROBLEMS, CandidateSettings, make_problems
from mars_env.methods.promptcot.references import Majority, Reference
from mars_env.models import ScriptedModel
from mars_env.types import Sampling

MAKING = CandidateSettings(tries=60, concurrency=7, seed=3, n=6, licence="MIT")
PROTECTED = [f"What is one plus {number} ?" for number in (6, 7, 8, 9)]


def designer(prompt, sample, seed):
    """A sum; one text in five cannot be read."""
    if seed % 5 == 0:
        return "### Problem\nWhat?"
    return f"### Rationale\nAdd {seed % 30}.\n### Problem\nWhat is one plus {seed % 30} ?"


def teacher(prompt, sample, seed):
    """Right in three of four cases, else one too many."""
    number = int(re.findall(r"one plus (\d+)", str(prompt))[0])
    return f"\\boxed{{{number + 1 + (seed % 4 == 0)}}}"


async def make(folder, tries=MAKING.tries):
    """Make the set, or what is missing of it."""
    model = ScriptedModel(designer, name="designer")
    voter = Solver(ScriptedModel(teacher, name="teacher"))

    async def write(index, seed):
        return await write_design(model, ChatWriting(), ("addition", str(index % 3)), Sampling(seed=seed))

    majority, making = Majority(voter, voters=4, threshold=0.75), MAKING.model_copy(update={"tries": tries})
    parts = {"protected": PROTECTED, "of": {"designer": "designer"}}
    return await make_problems(folder, write, majority, making, **parts)


def lines(folder):
    return [json.loads(line) for line in (folder / JOURNAL).read_text().splitlines()]


async def test_a_set_keeps_what_is_new_and_says_where_it_is_from(tmp_path):
    problems = await make(tmp_path / "made")
    assert list(load_problems(tmp_path / "made" / PROBLEMS)) == list(problems)
    fates = Counter(row["fate"] for row in lines(tmp_path / "made")[1:])
    assert sum(fates.values()) == 60 and fates["kept"] == len(problems)
    assert fates["unreadable"] > 3 and fates["duplicate"] > 3 and fates["contaminated"] > 0
    assert not {p.statement for p in problems} & set(PROTECTED)
    assert len({p.statement for p in problems}) == len(problems)
    unknown = [p for p in problems if p.reference is None]
    assert 0 < len(unknown) < len(problems) and f"{len(unknown)} references UNKNOWN" in problems.notes
    for problem in problems:
        origin = problem.metadata["provenance"]
        reference = origin["reference"]
        number = int(problem.statement.split()[-2])
        assert origin["concepts"][0] == "addition" and origin["rationale"] == f"Add {number}."
        assert (reference["by"], reference["voter"], reference["voters"]) == ("majority", "teacher", 4)
        assert (problem.reference is None) == (reference["agreement"] < 0.75)
        votes = reference["votes"]
        assert problem.reference in (None, max(votes, key=votes.get))


async def test_cut_off_at_any_byte_a_journal_is_completed_to_the_same(tmp_path):
    await make(tmp_path)
    journal = tmp_path / JOURNAL
    whole = journal.read_bytes()
    for cut in random.Random(0).sample(range(len(whole)), 8):
        journal.write_bytes(whole[:cut])
        await make(tmp_path)
        assert journal.read_bytes() == whole, cut


async def test_more_tries_continue_a_set(tmp_path):
    await make(tmp_path / "a", tries=21)
    longer = await make(tmp_path / "a")
    assert list(longer) == list(await make(tmp_path / "b"))
    shorter = await make(tmp_path / "b", tries=10)
    assert list(shorter) == [problem for problem in longer if int(problem.id.partition("/")[2]) < 10]


async def test_a_model_that_fails_stops_the_making_and_nothing_is_lost(tmp_path):
    calls = 0

    async def write(index, seed):
        return Design(("c",), f"What is {index} plus {seed % 7}?", "Add.")

    async def refer(statement, seed):
        nonlocal calls
        calls += 1
        if calls == 6:
            raise ModelError("the server is gone")
        return Reference("1", 1.0, {"by": "test"})

    making = CandidateSettings(tries=7, concurrency=4)
    with pytest.raises(ModelError):
        await make_problems(tmp_path, write, refer, making)
    assert len(lines(tmp_path)) == 1 + 4  # the first round
    assert len(made := await make_problems(tmp_path, write, refer, making)) == 7
    done = calls
    assert list(await make_problems(tmp_path, write, refer, making)) == list(made)
    assert calls == done  # all was there
