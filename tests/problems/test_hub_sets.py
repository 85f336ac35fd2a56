"""The real sets, read from local files of the hub's schemas; the rows are made up."""

import asyncio

import pytest
from aiohttp import web
from http_app import served
from hub_rows import MATHEMATICS as ROWS
from rows import write_rows

from mars_env import load_problems
from mars_env.errors import ProblemError
from mars_env.problems.hub_math import MATH_SETS

DAPO = ROWS["dapo-math-17k"][0]
EMPTY = DAPO["prompt"][0]["content"].replace("Find $x$.", "")

EXPECTED = {
    "aime24": [("aime24/60", "25"), ("aime24/61", "204")],
    "aime25": [("aime25/0", "70"), ("aime25/1", "336")],
    "beyondaime": [("beyondaime/0", "41472"), ("beyondaime/1", "-3")],
    "math500": [("math500/precalculus/9001", "\\left( 3, \\frac{\\pi}{2} \\right)")],
    "gsm8k": [("gsm8k/test/0", "1234"), ("gsm8k/test/1", "-5")],
    "dapo-math-17k": [("dapo-math-17k/uuid-1", "34"), ("dapo-math-17k/uuid-2", "-3")],
}


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
@pytest.mark.parametrize("name", sorted(ROWS))
def test_rows_of_the_hub_become_problems(tmp_path, name, suffix):
    path = write_rows(tmp_path / f"local{suffix}", ROWS[name])
    problems = load_problems(name, source=path)
    assert [(p.id, p.reference) for p in problems] == EXPECTED[name]
    assert problems.name == name and not problems.generated
    assert problems.revision.startswith(f"local copy local{suffix}")
    assert problems.licence == problems[0].metadata["licence"] != "unknown"
    assert name != "math500" or problems[0].metadata["level"] == 2
    for problem in problems:
        assert "Remember" not in problem.statement and "step by step" not in problem.statement
        assert "solution" not in problem.metadata, "worked solutions stay out"
        assert problem.metadata.get("integer", False) is (name != "math500")


def test_dapo_merges_duplicates_and_leaves_contradictions_out(tmp_path):
    problems = load_problems("dapo-math-17k", source=write_rows(tmp_path / "d.jsonl", ROWS["dapo-math-17k"]))
    assert problems.notes == "3 duplicate rows merged, 1 problem with contradictory answers left out"
    assert [p.statement for p in problems] == ["Find $x$.", "Find $y$."]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("aime25", {"id": "0", "problem": "Find.", "answer": "about 7"}),
        ("aime24", {"id": 60, "problem": "Find."}),
        ("gsm8k", {"question": "How many?", "answer": "It is 7."}),
        ("dapo-math-17k", {"prompt": "Find."}),
        ("dapo-math-17k", {"prompt": [{"role": "user", "content": "Find."}], "extra_info": {"index": "i"}}),
        ("dapo-math-17k", {**DAPO, "prompt": [{"role": "user", "content": EMPTY}]}),
    ],
)
def test_bad_rows_are_named(tmp_path, name, row):
    with pytest.raises(ProblemError):
        load_problems(name, source=write_rows(tmp_path / "bad.jsonl", [row]))


@pytest.mark.parametrize("name", ["gsm8k", "math500"])
def test_datasets_rows_go_through_the_same_conversion(name, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="the hub needs the extra 'datasets'")
    path = write_rows(tmp_path / "hub.parquet", ROWS[name])
    original, asked = datasets.load_dataset, []

    def load_dataset(repo, config, *, split, revision):
        asked.append((repo, config, split, revision))
        files = {split: str(path)}
        return original("parquet", data_files=files, split=split, cache_dir=str(tmp_path / "cache"))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:1")
    hub_set = MATH_SETS[name]
    with pytest.raises(ProblemError):
        load_problems(name)
    assert asked == [(hub_set.repo, hub_set.config, hub_set.default, hub_set.revision)]
    monkeypatch.setitem(hub_set.splits, hub_set.default, len(ROWS[name]))
    problems = load_problems(name)
    assert [(p.id, p.reference) for p in problems] == EXPECTED[name]
    assert problems.revision == f"{hub_set.repo}@{hub_set.revision}, split {hub_set.default}"
    assert problems.place(problems[0].id) == f"{hub_set.repo}, split {hub_set.default}, row 1"


async def test_a_hub_that_does_not_answer_is_asked_once(monkeypatch):
    """Then its libraries read their cache alone; if it answers, whatever that is, they ask it themselves."""
    datasets = pytest.importorskip("datasets", reason="the hub needs the extra 'datasets'")
    import huggingface_hub

    offline, requests = [], []

    def load_dataset(*args, **kwargs):
        offline.append((datasets.config.HF_HUB_OFFLINE, huggingface_hub.is_offline_mode()))
        raise ConnectionError("not in the cache")

    async def forbidden(request):
        requests.append(request.method)
        return web.Response(status=403)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    async with served({"HEAD /": forbidden}) as url:
        for name in ("aime25", "humaneval"):  # as a split, and as files
            monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
            with pytest.raises(ProblemError):
                await asyncio.to_thread(load_problems, name)
            monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:1")
            with pytest.raises(ProblemError):
                load_problems(name)
    assert offline == [(False, False), (True, True)] * 2 and requests == ["HEAD"] * 2
    assert not datasets.config.HF_HUB_OFFLINE and not huggingface_hub.is_offline_mode()
