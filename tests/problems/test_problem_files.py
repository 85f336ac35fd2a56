import json

import pytest
from rows import write_rows

from mars_env import load_problems
from mars_env.errors import ProblemError
from mars_env.problems import load_set

GOOD = [
    {"id": "a", "problem": "What is 1 + 1?", "answer": "2", "level": 3},
    {"id": "b", "problem": "What is $\\frac12$ of 7?", "answer": "\\frac{7}{2}"},
]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_rows_become_problems(tmp_path, suffix):
    path = write_rows(tmp_path / f"mine.{suffix}", GOOD)
    problems = load_problems(path, licence="CC0-1.0")
    assert [p.id for p in problems] == ["a", "b"]
    assert problems[1].reference == "\\frac{7}{2}"
    assert problems[0].metadata["level"] == 3
    assert problems[0].metadata["source"] == "mine" and problems[0].metadata["licence"] == "CC0-1.0"
    assert (problems.name, problems.licence, problems.generated) == (path.name, "CC0-1.0", False)
    assert list(load_problems(str(path))[:1]) == list(load_problems(path, n=1))


def test_fields_are_mapped_and_ids_can_be_numbered(tmp_path):
    path = write_rows(
        tmp_path / "q.jsonl", [{"question": "What is 6 * 7?", "final": 42}, {"question": "2?", "final": 2.0}]
    )
    problems = load_problems(path, fields={"id": None, "problem": "question", "answer": "final"})
    assert [(p.id, p.reference) for p in problems] == [("q/0", "42"), ("q/1", "2")]


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_the_only_answer_of_a_list_is_the_answer(tmp_path, suffix):
    answers = [["\\frac12"], ["7"]]
    rows = [{"id": str(i), "problem": "?", "answer": answer} for i, answer in enumerate(answers)]
    found = [p.reference for p in load_problems(write_rows(tmp_path / f"o.{suffix}", rows))]
    assert found == ["\\frac12", "7"]
    texts = ['["\\\\frac12"]', "[1, 2]", "[1, 2)", '["']
    rows = [{"id": str(i), "problem": "?", "answer": text} for i, text in enumerate(texts)]
    found = [p.reference for p in load_set(write_rows(tmp_path / f"s.{suffix}", rows))]
    assert found == ["\\frac12", *texts[1:]]


@pytest.mark.parametrize(
    "change",
    [
        *({"answer": answer} for answer in ("", " \n", None, True, float("nan"))),
        *({"answer": answer} for answer in ([], [None], [["2"]], '["1", "2"]')),
        *({"answer": ...}, {"id": ...}, {"id": ""}, {"problem": ""}, {"id": "a"}),
    ],
)
def test_a_bad_row_is_refused(tmp_path, change):
    row = {"id": "c", "problem": "?", "answer": "2", **change}
    rows = [*GOOD, {key: value for key, value in row.items() if value is not ...}]
    with pytest.raises(ProblemError):
        load_problems(write_rows(tmp_path / "bad.jsonl", rows))


@pytest.mark.parametrize(
    "data",
    [
        b"PAR1 nothing",
        b'{"id": "a"',
        b"\n\n[1, 2]\n",
        b'{"id": "\xff"}\n',
        b"[" * 100_000,
        b'{"id": "a", "problem": "q", "answer": "2", "x": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"id": ' + b"9" * 10_000 + b"}",
        b"\n \n",
    ],
)
def test_unreadable_files(tmp_path, data):
    path = tmp_path / ("broken.parquet" if data.startswith(b"PAR1") else "broken.jsonl")
    path.write_bytes(data)
    with pytest.raises(ProblemError):
        load_problems(path)


def test_blank_lines_and_a_byte_order_mark_are_skipped(tmp_path):
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD[0]).encode() + b"\n\n" + json.dumps(GOOD[1]).encode())
    assert [p.id for p in load_problems(path)] == ["a", "b"]


def test_a_folder_is_read_in_the_order_of_its_files(tmp_path):
    write_rows(tmp_path / "2.jsonl", [GOOD[0]])
    write_rows(tmp_path / "1.parquet", [GOOD[1]])
    (tmp_path / "README.md").write_text("not a problem")
    assert [p.id for p in load_problems(tmp_path)] == ["b", "a"]


TOWER = r"\dfrac{5^{(5^{(5^{(5^5)})}-4)}-5}{16}"


def test_a_reference_that_the_check_refuses_is_named_with_its_place(tmp_path):
    rows = [*GOOD, {"id": "c", "problem": "How large?", "solution": TOWER}]
    path = write_rows(tmp_path / "tower.jsonl", [{"solution": r.get("answer", TOWER), **r} for r in rows])
    seen = []

    def check(problem):
        seen.append(problem.id)
        return "cannot be evaluated within its limits" if "5^5" in problem.reference else None

    with pytest.raises(ProblemError) as caught:
        load_problems(path, fields={"answer": "solution"}, check=check)
    assert str(caught.value) == f"{path}, line 3: field 'solution' cannot be evaluated within its limits"
    assert seen == ["a", "b", "c"]
    assert len(load_problems(path, fields={"answer": "solution"}, n=2, check=check)) == 2
