"""Designs: R by hand and by the chain rule, and what texts can be read."""

import pytest
from letters import Writing

from mars_env.errors import ContextError
from mars_env.methods.promptcot.designs import (
    ChatWriting,
    Design,
    Scored,
    best_rationale,
    is_readable,
    rationales,
    score_design,
    write_design,
)
from mars_env.models import HFModel, ScriptedModel
from mars_env.types import Completion, Sampling


async def test_the_score_of_a_design_is_that_of_its_two_parts(tiny_pair):
    model, design = HFModel(tiny_pair), Design(("a", "b"), "1+2?", "xyz")
    scored = await score_design(model, Writing(), design)
    ids = model.encode("ab:")
    head, tail = model.encode("xyz;"), (*model.encode("1+2?"), model.tokenizer.eos_token_id)
    assert scored.rationale == pytest.approx(sum(model.logprobs(ids, head)), abs=1e-3)  # log p(z|c)
    assert scored.problem == pytest.approx(sum(model.logprobs(ids + head, tail)), abs=1e-3)  # log p(x|z,c)
    assert scored.joint == scored.rationale + scored.problem
    texts = (await model.score("ab:", "xyz;", end=False), await model.score(ids + head, "1+2?"))
    assert scored.joint == pytest.approx(sum(sum(text.logprobs) for text in texts), abs=1e-3)


TABLE = {"aaaa": (-1.0, -9.0), "bbbb": (-4.0, -2.0), "cccc": (-2.0, -4.0), "dddd": (-6.0, -0.5)}


class Judge:
    """Scores of four characters of the rationale and two of the problem, by a table."""

    def written(self, prompt, *texts, end=True):
        return Completion("", token_ids=(0,) * len(texts[0]))

    async def score(self, prompt, *texts, end=True):
        rationale, problem = TABLE[texts[0][:4]]
        return Completion("", logprobs=(rationale, 0.0, 0.0, 0.0, 0.0, problem, 0.0))


async def test_the_best_rationale_has_the_largest_sum_and_not_the_largest_part():
    candidates = [Design(("c",), "x", z) for z in ("aaaa", "bbbb", "cccc", "dddd")]
    best, scores = await best_rationale(Judge(), Writing(), candidates)
    assert scores == [-10.0, -6.0, -6.0, -6.5]
    assert best.rationale == "bbbb"  # the first of equals; neither of its parts is the likeliest
    assert Scored(-4.0, -2.0).joint == -6.0


async def test_candidates_beyond_the_context_are_left_out():
    class Narrow(Judge):
        async def score(self, prompt, *texts, end=True):
            if texts[0].startswith("bbbb"):
                raise ContextError("too long")
            return await super().score(prompt, *texts, end=end)

    candidates = [Design(("c",), "x", z) for z in ("aaaa", "bbbb", "dddd")]
    assert await best_rationale(Narrow(), Writing(), candidates) == (candidates[2], [-10.0, -6.5])
    assert await best_rationale(Narrow(), Writing(), candidates[1:2]) is None


async def test_rationales_that_the_problem_model_could_not_write_are_left_out():
    texts = ["fine", "with ; in it", "cut off in the middle", " also fine \n"]
    model = ScriptedModel(lambda prompt, sample, seed: texts[sample])
    found = await rationales(model, Writing(), Design(("c",), "x"), 4, Sampling(max_tokens=5))
    assert [design.rationale for design in found] == ["fine", "also fine"]


async def test_thinking_is_no_part_of_a_rationale_or_of_a_design():
    texts = ["<think>Is it 2?</think>\n\nAsk.", "Hm.</think>Ask.", "<think>Ask.", "Ask. <think>Or not"]
    model = ScriptedModel(lambda prompt, sample, seed: texts[sample])
    found = await rationales(model, ChatWriting(), Design(("c",), "Why?"), 4, Sampling())
    assert [design.rationale for design in found] == ["Ask.", "Ask."]
    whole = "### Rationale\nAsk.\n### Problem\nWhy?"
    for text, design in (
        (f"<think>### Problem\nHm.</think>\n{whole}", Design(("c",), "Why?", "Ask.")),
        (f"<think>{whole}", None),
        (f"{whole}\n<think>So 4.", None),
    ):
        assert await write_design(ScriptedModel([text]), ChatWriting(), ["c"], Sampling()) == design


@pytest.mark.parametrize(
    "text",
    [
        "",
        "### Rationale\nonly",
        "### Problem\nWhat?\n### Rationale\nafter",
        "### Rationale\n\n### Problem\nWhat?",
        "### Rationale\nso\n### Problem\n \n",
        "### Rationale\nso\n### Problem\nWhat?\n### Problem\nWhich?",
        "### Rationale\nso\n### Problem\nWhat? ### Rationale\nmore",
        "Sure!\n### Rationale\nso\n### Problem\nWhat?",
    ],
)
async def test_texts_without_one_rationale_and_one_problem_are_unreadable(text):
    assert ChatWriting().read(text) is None
    assert await write_design(ScriptedModel([text]), ChatWriting(), ["c"], Sampling()) is None


async def test_a_text_that_was_cut_off_is_no_design():
    text = "### Rationale\nso\n### Problem\nWhat is the sum of all of them?"
    model = ScriptedModel([text])
    design = await write_design(model, ChatWriting(), ["sums"], Sampling())
    assert design == Design(("sums",), "What is the sum of all of them?", "so")
    assert await write_design(model, ChatWriting(), ["sums"], Sampling(max_tokens=8)) is None


def test_a_design_that_would_be_read_otherwise_is_not_readable():
    writing = ChatWriting()
    assert is_readable(writing, Design(("c",), "What?", "So."))
    assert is_readable(writing, Design(("c",), "What?\n", " So."))  # white space around them does not matter
    for rationale in ("", " \n", "So.\n### Problem\nWhy?", "### Rationale\nSo."):
        assert not is_readable(writing, Design(("c",), "What?", rationale))
