"""A stored run as data sets: what is in them."""

import json
import re

import pytest
from command_line import call_cli
from rows import read_rows
from typer.testing import CliRunner

import mars_env
from mars_env.cli import app
from mars_env.errors import ConfigError
from mars_env.problems import ProblemSet
from mars_env.rollout import read_run
from mars_env.rollout.exports import write_parquet
from mars_env.seeds import derive_seed
from mars_env.types import Completion, Problem

PROBLEMS = ProblemSet("sums", [Problem(f"s{i}", f"What is {i} + {i + 1}?", str(2 * i + 1)) for i in range(6)])


class Adder:
    """Answers right or wrong by its seed, now and then cut off; keeps its prompts."""

    name = "adder"

    def __init__(self, role, prompts):
        self.role, self.prompts = role, prompts

    async def complete(self, prompt, n, sampling):
        first, second = re.search(r"What is (\d+) \+ (\d+)", prompt[-1]["content"]).groups()
        luck = derive_seed(sampling.seed, "luck") % 4
        answer = int(first) + int(second) + (luck in (0, 1))
        if self.role == "verifier":
            text = f"<think>{sampling.seed}</think>Correctness: {('Wrong', 'Correct')[luck % 2]}"
        else:
            text = f"<think>{sampling.seed}</think>It is \\boxed{{{answer}}}."
        self.prompts[text] = prompt
        return [Completion(text, "length" if luck == 3 and self.role != "verifier" else "stop")] * n


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Six problems, four samples of each, and the prompts by what was answered."""
    path, prompts = tmp_path_factory.mktemp("runs") / "run", {}
    agents = {role: Adder(role, prompts) for role in ("solver", "verifier", "corrector")}
    mars_env.evaluate(
        "aime-solve-verify-correct", problems=PROBLEMS, agents=agents, samples=4, seed=3, rounds=2, out=path
    )
    return path, prompts


def export(path, out, *options):
    """What `mars-env export` prints."""
    result = CliRunner().invoke(app, ["export", str(path), str(out), *options])
    if result.exit_code:
        raise result.exception
    return result.output


def exported(stored, tmp_path, *options):
    out = tmp_path / "rows.jsonl"
    printed = export(stored[0], out, *options)
    rows = read_rows(out)
    assert f"wrote {len(rows)} rows" in printed
    return rows


def turns_by_place(path):
    return {(turn.tree_id, turn.id): turn for tree in read_run(path).trees for turn in tree.turns}


def test_supervised_rows_are_the_right_turns_with_the_prompts_that_were_asked(stored, tmp_path):
    path, prompts = stored
    rows, turns = exported(stored, tmp_path), turns_by_place(path)
    for row in rows:
        turn = turns[row["tree"], row["turn"]]
        [answer] = row["completion"]
        assert answer == {"role": "assistant", "content": turn.action.completions[-1].text}
        assert row["prompt"] == prompts[answer["content"]]
        assert turn.reward == 1.0
        assert not turn.action.truncated
    right = [t for t in turns.values() if t.reward == 1.0 and not t.action.truncated]
    assert len(rows) == len(right) > 10
    assert {row["role"] for row in rows} == {"solver", "verifier", "corrector"}
    solver = exported(stored, tmp_path, "--role", "solver")
    assert solver == [row for row in rows if row["role"] == "solver"]


def test_pairs_are_of_one_prompt_and_no_turn_is_in_two(stored, tmp_path):
    path, prompts = stored
    rows, turns = exported(stored, tmp_path, "--format", "dpo"), turns_by_place(path)
    texts = {turn.action.completions[-1].text: turn for turn in turns.values()}
    assert len(rows) >= 4
    used = []
    for row in rows:
        [chosen], [rejected] = row["chosen"], row["rejected"]
        good, bad = texts[chosen["content"]], texts[rejected["content"]]
        assert prompts[chosen["content"]] == prompts[rejected["content"]] == row["prompt"]
        assert good.role == bad.role == row["role"]
        assert (good.reward, bad.reward) == (1.0, 0.0)
        used += [chosen["content"], rejected["content"]]
    assert len(used) == len(set(used))
    assert "solver" in {row["role"] for row in rows}


@pytest.mark.parametrize(
    "options",
    [
        ["--role", "judge"],
        ["--tokenizer", "a", "--prompt", "b:c"],
        ["--format", "samples", "--least", "0.5"],
        ["--format", "parquet"],
        ["--prompt", "mars_env.seeds:derive_seed"],
    ],
)
def test_what_makes_no_sense_is_refused(stored, tmp_path, options):
    with pytest.raises(ConfigError):
        exported(stored, tmp_path, *options)


def test_exact_prompts_are_decoded_where_token_ids_were_recorded(tmp_path):
    from mars_env.miniature import CHECKPOINT, load
    from mars_env.miniature.agents import team

    agents = team(load())
    path = tmp_path / "run"
    mars_env.evaluate("arithmetic-solve-verify-correct", agents=agents, limit=8, rounds=1, out=path)
    options = ["--role", "solver", "--role", "verifier"]
    decoded = exported((path, None), tmp_path, "--tokenizer", str(CHECKPOINT), *options)
    made = exported((path, None), tmp_path, "--prompt", "mars_env.miniature.agents:prompt", *options)
    assert decoded == made
    assert decoded


def test_the_table_holds_all_turns(stored, tmp_path):
    import pyarrow.parquet

    out = tmp_path / "turns.parquet"
    export(stored[0], out, "--format", "parquet")
    rows, turns = pyarrow.parquet.read_table(out).to_pylist(), turns_by_place(stored[0])
    assert len(rows) == len(turns)
    for row in rows:
        turn = turns[row["tree"], row["turn"]]
        grade = turn.grade
        assert row["verdict"] == (grade and str(grade.verdict))
        assert row["score"] == (grade and grade.score)
        assert (row["reward"], row["role"], row["parent"]) == (turn.reward, turn.role, turn.parent_id)
        assert row["completion_text"] == turn.action.completions[0].text
        assert json.loads(row["info"]) == dict(turn.info)
    assert sum(row["final"] for row in rows) == 24
    export(stored[0], out, "--format", "parquet", "--role", "solver", "--role", "corrector")
    chosen = pyarrow.parquet.read_table(out).to_pylist()
    assert chosen == [row for row in rows if row["role"] != "verifier"]


def test_no_model_is_loaded_because_a_run_names_it(tmp_path):
    """A stored run is data: what it names as a verifier would else be fetched from a hub."""
    run = tmp_path / "run"
    mars_env.evaluate("arithmetic-tree-search", agents=lambda o: "4", limit=1, out=run, nodes=2)
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["may_change"]["settings"]["verifier"] = "hf:somebody/anything"
    (run / "manifest.json").write_text(json.dumps(manifest))
    message = call_cli("export", run, tmp_path / "rows.jsonl", code=2)
    assert "does not decide what is loaded as verifier" in " ".join(message.split())


def test_odd_characters_and_numbers_stop_no_reader(tmp_path):
    import pyarrow.json
    import pyarrow.parquet

    from mars_env.rollout.exports import turn_rows, write_jsonl
    from mars_env.types import Action, Tree, Turn

    action, note = Action("odd \ud800", (Completion("odd \ud800"),)), {"x": float("nan")}
    turn = Turn("p#0", "0", None, "g", "solver_0", "", "p", action, info=note)
    out = tmp_path / "turns.parquet"
    assert write_parquet(turn_rows([Tree("p#0", PROBLEMS[0], (turn,))]), out) == 1
    [row] = pyarrow.parquet.read_table(out).to_pylist()
    assert row["text"] == "odd ?" and json.loads(row["info"]) == {"x": {"$float": "nan"}}
    write_jsonl([{"text": "odd \ud800 \u2028\n"}], tmp_path / "rows.jsonl")
    assert pyarrow.json.read_json(tmp_path / "rows.jsonl").to_pylist() == [{"text": "odd ? \u2028\n"}]
