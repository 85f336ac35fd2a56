"""The set of reports: documents without questions, for rules whose agents ask them."""

import re

import pytest

import mars_env
from mars_env import load_problems
from mars_env.methods.spell.rules import documents_of
from mars_env.problems.reports import DIVISIONS


@pytest.mark.parametrize("split", ["train", "test"])
def test_each_company_has_a_report_of_each_division_and_year(split):
    for problem in load_problems("reports", n=50, split=split):
        documents = documents_of(problem)
        figures = [re.findall(r"division (\w+), report on the year (\d+)", text) for text in documents]
        assert all(len(each) == 1 for each in figures) and len({*map(tuple, figures)}) == 5 * len(DIVISIONS)
        assert len({year for [(_, year)] in figures}) == 5
        assert all(text.startswith(problem.metadata["company"]) for text in documents)
        others = documents_of(problem, "other_documents")
        assert len(others) == len(documents) and problem.metadata["company"] not in " ".join(others)
        assert problem.metadata["company"] in problem.statement
        assert (problem.kind, problem.reference, problem.metadata["task"]) == ("open", None, "number")


def test_a_row_with_documents_is_a_cluster_and_is_played(tmp_path):
    """A problem file of documents, as docs/methods.md says; printed rows are such a file, too."""
    path = tmp_path / "clusters.jsonl"
    path.write_text(
        '{"id": "c", "problem": "Ask.", "documents": ["Profit: 17.", "Loss: 2."], '
        '"other_documents": ["Profit: 3."], "task": "number"}\n'
    )
    [problem] = load_problems(path)
    assert (problem.id, problem.statement, problem.reference, problem.kind) == ("c", "Ask.", None, "open")
    assert problem.metadata["documents"] == ["Profit: 17.", "Loss: 2."]
    assert problem.metadata["task"] == "number" and problem.metadata["source"] == "clusters"
    env = mars_env.make("reports-spell", problems=path)
    env.reset(seed=0)
    seen = env.observe("questioner_0")
    assert seen == {
        "task": "Ask.", "documents": "Document 1:\nProfit: 17.\n\nDocument 2:\nLoss: 2.", "examples": ""
    }  # fmt: skip
