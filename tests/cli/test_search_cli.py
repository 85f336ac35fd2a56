"""A tree search on the command line: two endpoints in one tree."""

import json

import openai_server
import pytest
from command_line import call_cli

import mars_env
from mars_env.rollout import read_run


class CodeServer(openai_server.Server):
    """Answers short programs and keeps what it was asked."""

    prompts = ()

    async def _answer(self, request):
        body = await request.json()
        self.prompts = (*self.prompts, body["messages"][-1]["content"])
        return await super()._answer(request)

    @staticmethod
    def _text(rng, judging, known):
        if judging:
            return openai_server.Server._text(rng, judging, known)
        body = rng.choice(["print(sum(map(int, input())))", "print(input())", "print(1 / 0)"])
        return f"Let us see.\n```python\n{body}\n```"


def test_two_models_behind_two_endpoints_in_one_tree(tmp_path):
    private = [
        test["input"]
        for problem in mars_env.load_problems("programs")[:2]
        for test in problem.reference["tests"]
        if not test["public"] and len(test["input"]) > 8
    ]
    with CodeServer() as one, CodeServer() as two:
        out = tmp_path / "run"
        agents = f"coder_0={one.url}#first,coder_1={two.url}#second"
        options = ["--limit", 2, "--agents", agents, "--set", "nodes=12", "--seed", 4, "--out", out, "--json"]
        report = json.loads(call_cli("evaluate", "programs-tree-search", *options))
        assert one.calls > 0 and two.calls > 0
        calls, tokens = one.calls + two.calls, one.completion_tokens + two.completion_tokens
        prompts = one.prompts + two.prompts
    assert any("<feedback>" in prompt and "Expected output:" in prompt for prompt in prompts)
    assert any("<feedback>" in prompt and "ZeroDivisionError" in prompt for prompt in prompts)
    assert private and not any(test.strip() in prompt for prompt in prompts for test in private)
    trees = read_run(out).trees
    assert {turn.policy for tree in trees for turn in tree.turns} == {"first", "second"}
    figures = {name: figure["estimate"]["value"] for name, figure in report["metrics"].items()}
    assert figures["calls"] * len(trees) == pytest.approx(calls)
    assert figures["tokens"] * len(trees) == pytest.approx(tokens)
    assert figures["share:coder_0"] + figures["share:coder_1"] == pytest.approx(1)
    assert 0 < figures["system_accuracy"] == figures["search_pass@n"] <= 1
    assert report["metrics"]["system_accuracy"]["title"].startswith("Search Pass@1")
    assert any("public tests" in note for note in report["notes"])
