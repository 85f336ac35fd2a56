"""The local trainer's whole step (sampling and update) beside TRL's GRPOTrainer, on one thread.

    python benchmarks/trainer.py [--size small] [--rounds 5] [--steps 10]
    python benchmarks/trainer.py --update [--size large] [--rounds 3] [--steps 1]

Both play 8 prompts of 24 tokens, 8 samples each, at most 64 tokens, with the same new Qwen3 model, and do one
update of GRPO's loss with the same rewards. Workloads: `full` (every row has 64 tokens), `early` (a third of
the rows end before), `uniform` (as `early`, but half of the groups teach nothing) and `marsrl` (as `full`,
with the prompts of three roles by turns). `floor` is the arithmetic of `full` in plain PyTorch.

`--update` times the local trainer's update alone, also on `long` (prompts of 512 tokens) and on `tools` (8
chains of 4 calls). Every measurement is a fresh process, and the contenders take turns; medians over steps
and rounds (least to greatest). Needs 'mars-env[trl]'.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

GROUPS, GROUP, PROMPT, LIMIT = 8, 8, 24, 64
SIZES = {"small": (96, 192, 3, 160), "large": (768, 2048, 12, 8000)}
"""Width, feed-forward width, layers, vocabulary: 0.3 million parameters, and 98 million."""
WORKLOADS = ("full", "early", "uniform", "marsrl")
UPDATES = ("full", "marsrl", "long", "tools")
WAYS = ("plain", "shared", "lean")
ROLES = (PROMPT, PROMPT + LIMIT, PROMPT + 2 * LIMIT)
"""Tokens of the prompts of Solver, Verifier and Corrector."""
END = 1
FIRST = 0x4E00


def new_model(shape: tuple[int, int, int, int]) -> tuple[Any, Any]:
    """A model from nothing, and its tokenizer: one character a token, so that text and tokens correspond."""
    from mars_env.miniature.model import ModelSize, build_model, build_tokenizer

    hidden, feed_forward, layers, tokens = shape
    names = ["<|pad|>", "<|end|>", *(chr(FIRST + i) for i in range(tokens - 2))]
    tokenizer = build_tokenizer(names, names[:2], f"[{chr(FIRST)}-{chr(FIRST + tokens)}]")
    return build_model(0, tokens, ModelSize(hidden, feed_forward, layers)), tokenizer


def model_of(size: str, workload: str) -> tuple[Any, Any]:
    """The model and its tokenizer. In `full` the end token is never sampled."""
    import torch

    model, tokenizer = new_model(SIZES[size])
    if workload in ("full", "marsrl"):
        with torch.no_grad():  # one dimension of the hidden state is large, and the end token dislikes it
            model.get_input_embeddings().weight[:, 0] = 8.0
            head = model.get_output_embeddings().weight
            head[:, 0] = 0.0
            head[END] = 0.0
            head[END, 0] = -120.0
    return model, tokenizer


def prompts_of(tokens: int, workload: str) -> list[str]:
    """The prompts for a vocabulary, all different: 24 characters each, or those of three roles by turns."""
    lengths = ROLES if workload == "marsrl" else (PROMPT,)
    drawn = [(i, lengths[i % len(lengths)]) for i in range(400)]
    return [
        "".join(chr(FIRST + (17 * i + 31 * j * (i % 5 + 1)) % (tokens - 2)) for j in range(length))
        for i, length in drawn
    ]


def reward(prompt: str, text: str, workload: str) -> float:
    """Whether the first character is even; in `uniform` half of the prompts always get 0."""
    if workload == "uniform" and ord(prompt[0]) % 2:
        return 0.0
    return float(bool(text) and ord(text[0]) % 2 == 0)


class Clock:
    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []
        self.tokens = 0
        self._mark = (time.process_time(), time.perf_counter())

    def tick(self) -> None:
        now = (time.process_time(), time.perf_counter())
        cpu, wall = now[0] - self._mark[0], now[1] - self._mark[1]
        self.rows.append({"cpu": cpu, "wall": wall, "tokens": self.tokens})
        self._mark, self.tokens = now, 0


def task(
    model: tuple[Any, Any],
    workload: str,
    steps: int,
    config: Any,
    sampled: Callable[[int], None],
    right: Callable[[str, str], float],
) -> tuple[Any, Any, Any, Any]:
    """What `mars_env.trainers.train` takes; `sampled` gets the number of tokens of each request."""
    from mars_env.envs import Game, GroupedSettings, solve
    from mars_env.models import HFModel
    from mars_env.problems import ProblemSet
    from mars_env.trainers import RunSettings
    from mars_env.trainers.team import make_team
    from mars_env.types import Action, Grade, Problem, Sampling

    class Solver:
        policy = "model"

        def __init__(self, model: Any) -> None:
            self.model = model

        async def act(self, observation: Any, n: int, seed: int) -> list[Action]:
            sampling = Sampling(temperature=1.0, max_tokens=LIMIT, seed=seed)
            found = await self.model.complete(str(observation["problem"]), n, sampling)
            sampled(sum(len(completion.token_ids) for completion in found))
            return [Action(completion.text, (completion,)) for completion in found]

    class FirstCharacter:
        async def grade(self, problem: Problem, text: str) -> Grade:
            return Grade.correct() if right(problem.statement, text) else Grade.wrong("odd")

    game, playing = Game(solve(), FirstCharacter()), HFModel(model, name="model")
    settings = RunSettings(
        steps=steps, problems_per_step=GROUPS, rollouts=GroupedSettings(group=GROUP, branches=1), train=config
    )
    team = make_team(settings, game.rules.possible_agents, [playing], agent=lambda _, own: Solver(own))
    texts = prompts_of(model[0].config.vocab_size, workload)
    problems = ProblemSet("characters", [Problem(str(i), text, None) for i, text in enumerate(texts)])
    return game, team, problems, settings


LEAN: dict[str, Any] = {"gradient_checkpointing": True, "most_logits": 2**21, "token_budget": 1024}


def lean(size: str, workload: str, steps: int, clock: Clock) -> None:
    """As `ours`, with an update that saves memory."""
    ours(size, workload, steps, clock, LEAN)


def ours(size: str, workload: str, steps: int, clock: Clock, settings: dict[str, Any] | None = None) -> None:
    """The library's own training loop: environment, agents, grader, rewards, update."""
    from mars_env.trainers import TrainConfig, train

    class Log:
        def start(self, step: int) -> None:
            pass

        def log(self, step: int, figures: Any) -> None:
            clock.tick()

        def close(self) -> None:
            pass

    def sampled(tokens: int) -> None:
        clock.tokens += tokens

    def right(prompt: str, text: str) -> float:
        return reward(prompt, text, workload)

    config = TrainConfig(learning_rate=1e-6, **settings or {})
    made = task(model_of(size, workload), workload, steps, config, sampled, right)
    asyncio.run(train(*made, loggers=[Log()]))


def trl(size: str, workload: str, steps: int, clock: Clock) -> None:
    """TRL's GRPOTrainer with transformers' generate."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    class Ticks(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            clock.tick()

    def rewards(prompts: list[str], completions: list[str], completion_ids: Any, **_: Any) -> list[float]:
        clock.tokens += sum(map(len, completion_ids))
        return [reward(p, c, workload) for p, c in zip(prompts, completions, strict=True)]

    model, tokenizer = model_of(size, workload)
    prompts = [{"prompt": text} for text in prompts_of(SIZES[size][3], workload)]
    with tempfile.TemporaryDirectory() as folder:
        GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            train_dataset=Dataset.from_list(prompts),
            reward_funcs=rewards,
            callbacks=[Ticks()],
            args=GRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=GROUPS * GROUP,
                num_generations=GROUP,
                max_completion_length=LIMIT,
                max_steps=steps,
                learning_rate=1e-6,
                lr_scheduler_type="constant",
                temperature=1.0,
                beta=0.0,
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
                save_strategy="no",
                logging_steps=10**6,
                report_to=[],
                disable_tqdm=True,
            ),
        ).train()


def floor(size: str, workload: str, steps: int, clock: Clock) -> None:
    """The arithmetic of `full` in plain PyTorch: a cache of fixed size, one update, no bookkeeping."""
    import torch
    from torch.nn import functional as F
    from transformers import StaticCache

    model, tokenizer = model_of(size, workload)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    texts = prompts_of(SIZES[size][3], workload)
    model.eval()
    step_of = plain_step(model)
    for step in range(steps):
        prompts = torch.tensor(tokenizer(texts[step * GROUPS : (step + 1) * GROUPS])["input_ids"])
        with torch.no_grad():
            cache = StaticCache(config=model.config, max_cache_len=PROMPT + LIMIT)
            read = model(input_ids=prompts, past_key_values=cache, use_cache=True, logits_to_keep=1)
            keys = [layer.keys.repeat_interleave(GROUP, 0) for layer in cache.layers]
            values = [layer.values.repeat_interleave(GROUP, 0) for layer in cache.layers]
            logits, found = read.logits[:, -1].repeat_interleave(GROUP, 0), []
            for at in range(PROMPT, PROMPT + LIMIT):
                found.append(torch.multinomial(logits.softmax(-1), 1))
                if at < PROMPT + LIMIT - 1:
                    logits = step_of(found[-1], at, keys, values)
        ids = torch.cat([prompts.repeat_interleave(GROUP, 0), *found], 1)
        advantages = torch.where(ids[:, PROMPT] % 2 == 0, 1.0, -1.0)[:, None]
        hidden = model.get_decoder()(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        logits = model.get_output_embeddings()(hidden[:, PROMPT - 1 :])
        logp = -F.cross_entropy(logits.flatten(0, 1), ids[:, PROMPT:].flatten(), reduction="none")
        ratio = (logp - logp.detach()).exp().view(-1, LIMIT)
        optimiser.zero_grad()
        (-torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        clock.tokens = GROUPS * GROUP * LIMIT
        clock.tick()


def plain_step(model: Any) -> Callable[..., Any]:
    """A decoding step of a Qwen3 model with fused kernels and caches of fixed size."""
    import torch
    from torch.nn import functional as F

    decoder, eps = model.get_decoder(), model.config.rms_norm_eps

    def norm(x: Any, layer: Any) -> Any:
        return F.rms_norm(x, (x.shape[-1],), layer.weight, eps)

    def step(tokens: Any, at: int, keys: Any, values: Any) -> Any:
        x = F.embedding(tokens, decoder.embed_tokens.weight)
        cos, sin = decoder.rotary_emb(x, torch.tensor([[at]]))
        half = cos.shape[-1] // 2

        def turned(y: Any) -> Any:
            return y * cos[:, :, None] + torch.cat((-y[..., half:], y[..., :half]), -1) * sin[:, :, None]

        for layer, k, v in zip(decoder.layers, keys, values, strict=True):
            inner, mlp = layer.self_attn, layer.mlp
            y = norm(x, layer.input_layernorm)
            shape = (len(x), 1, -1, inner.head_dim)
            k[:, :, at] = turned(norm(inner.k_proj(y).view(shape), inner.k_norm))[:, 0]
            v[:, :, at] = inner.v_proj(y).view(shape)[:, 0]
            query = turned(norm(inner.q_proj(y).view(shape), inner.q_norm)).transpose(1, 2)
            heard = F.scaled_dot_product_attention(query, k[:, :, : at + 1], v[:, :, : at + 1])
            x = x + inner.o_proj(heard.reshape(len(x), 1, -1))
            y = norm(x, layer.post_attention_layernorm)
            x = x + mlp.down_proj(F.silu(mlp.gate_proj(y)) * mlp.up_proj(y))
        return model.lm_head(norm(x, decoder.norm))[:, 0]

    return step


CONTENDERS = {"ours": ours, "lean": lean, "trl": trl, "floor": floor}


def rows_of(workload: str, tokens: int, times: int = 1) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Prompt and completion of each row of an update; every length `times` as long."""
    import numpy as np

    draw = np.random.default_rng(1)

    def text(length: int) -> tuple[int, ...]:
        return tuple(draw.integers(2, tokens, length * times).tolist())

    if workload == "tools":
        rows = []
        for prompt in [text(64)] * GROUP:
            for _ in range(4):
                rows.append((prompt, text(32)))
                prompt = (*prompt, *rows[-1][1], *text(32))  # what it wrote, and the tool's result
        return rows
    lengths = {"full": (PROMPT,) * 3, "marsrl": ROLES, "long": (512,)}[workload]
    return [(prompt, text(LIMIT)) for prompt in map(text, lengths) for _ in range(GROUP)]


def bound(workload: str, size: str) -> float:
    """Multiplications of every row in full, over those with each distinct token once."""
    width, inner, layers, vocabulary = SIZES[size]
    rows = rows_of(workload, vocabulary)
    head = sum(len(completion) for _, completion in rows) * width * vocabulary

    def work(tokens: list[int]) -> int:
        """Of tokens, by the number of those that each attends to."""
        each = len(tokens) * (4 * width * width + 3 * width * inner) + 2 * width * sum(tokens)
        return layers * each + head

    texts = [(*prompt, *completion[:-1]) for prompt, completion in rows]
    plain = [i + 1 for text in texts for i in range(len(text))]
    distinct = [len(start) for start in {text[: i + 1] for text in texts for i in range(len(text))}]
    return work(plain) / work(distinct)


def update(way: str, size: str, workload: str, steps: int, clock: Clock) -> None:
    from mars_env.trainers import LocalTrainer, TrainConfig
    from mars_env.trainers.policy import Policy

    config = TrainConfig(shared_prefixes=way != "plain", learning_rate=1e-6, **LEAN if way == "lean" else {})
    trainer = LocalTrainer({"model": Policy(new_model(SIZES[size])[0])}, config)
    group = group_of(rows_of(workload, SIZES[size][3]))
    for _ in range(steps):
        trainer.step([group])
        clock.tokens = sum(len(turn.action.completions[0].token_ids) for turn in group.turns)
        clock.tick()


def group_of(rows: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> Any:
    """The rows as turns of one group; every second one has a reward."""
    from mars_env.types import Action, Completion, Group, Turn

    turns = [
        Turn(
            "t", str(i), None, "g", "solver_0", "model", "p", reward=float(i % 2),
            action=Action("", (Completion("", prompt_ids=p, token_ids=c, logprobs=(-1.0,) * len(c)),)),
        )
        for i, (p, c) in enumerate(rows)
    ]  # fmt: skip
    return Group("g", tuple(turns))


def measure(whole: str, contender: str, size: str, workload: str, steps: int) -> dict[str, Any]:
    """One measurement in this process; the first step warms up and is left out."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    clock = Clock()
    if whole == "update":
        update(contender, size, workload, steps + 1, clock)
    else:
        CONTENDERS[contender](size, workload, steps + 1, clock)
    gc.collect()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    medians = {name: statistics.median(row[name] for row in clock.rows[1:]) for name in clock.rows[0]}
    return medians | {"peak": peak}


def child(whole: str, contender: str, size: str, workload: str, steps: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--size", size, "--steps", str(steps), "--groups", str(GROUPS)]
    command += ["--only", whole, contender, workload]
    environment = {
        **os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
        "TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(f"{contender} failed:\n{found.stderr[-2000:]}")
    measured: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return measured


def spread(values: list[float], digits: int) -> str:
    """Median (least to greatest)."""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--groups", type=int, default=GROUPS, help="prompts of a whole step")
    parser.add_argument("--workload", choices=(*WORKLOADS, "long", "tools"), action="append")
    parser.add_argument("--update", action="store_true", help="the update alone")
    parser.add_argument("--only", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    globals()["GROUPS"] = chosen.groups
    if chosen.only:
        whole, contender, workload = chosen.only
        print(json.dumps(measure(whole, contender, chosen.size, workload, chosen.steps)))
        return
    workloads = chosen.workload or list(UPDATES if chosen.update else WORKLOADS)
    whole = "update" if chosen.update else "step"
    contenders, beside_whom = (WAYS, "plain") if chosen.update else (tuple(CONTENDERS), "trl")
    plan = [
        (workload, contender)
        for workload in workloads
        for contender in contenders
        if contender not in ("floor", "lean") or workload == "full" or chosen.update
    ]
    found: dict[tuple[str, str], list[dict[str, Any]]] = {key: [] for key in plan}
    load = [os.getloadavg()[0]]
    for _ in range(chosen.rounds):
        for workload, contender in plan:
            row = child(whole, contender, chosen.size, workload, chosen.steps)
            found[workload, contender].append(row)
            print(workload, contender, json.dumps(row), file=sys.stderr)  # an interrupted run is not lost
            load.append(os.getloadavg()[0])
    print(
        f"{chosen.rounds} rounds of {chosen.steps} steps, {platform.processor() or platform.machine()}, "
        f"{os.cpu_count()} cores, load averages {min(load):.0f} to {max(load):.0f}\n"
    )
    columns = "workload | | CPU s a step | wall s | tokens sampled | peak MiB"
    print(f"| {columns} | CPU time of {beside_whom} over it |")
    print("|---|---|---|---|---|---|---|")
    for workload, contender in plan:
        rows = found[workload, contender]
        beside = found[workload, beside_whom]
        ratios = [theirs["cpu"] / row["cpu"] for theirs, row in zip(beside, rows, strict=True)]
        print(
            f"| {workload} | {contender} | {spread([r['cpu'] for r in rows], 2)} "
            f"| {spread([r['wall'] for r in rows], 2)} | {statistics.median(r['tokens'] for r in rows):,.0f} "
            f"| {statistics.median(r['peak'] for r in rows):,.0f} "
            f"| {'' if contender == beside_whom else spread(ratios, 2)}"
            f"{f', bound {bound(workload, chosen.size):.2f}' if contender == 'shared' else ''} |"
        )


if __name__ == "__main__":
    main()
