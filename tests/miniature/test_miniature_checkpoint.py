"""The miniature as a checkpoint: built, warm-started, shipped, loaded by transformers, played."""

import random
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the miniature needs the extra 'hf'")
transformers = pytest.importorskip("transformers", reason="the miniature needs the extra 'hf'")


from mars_env.errors import ConfigError  # noqa: E402
from mars_env.miniature import CHECKPOINT, load  # noqa: E402
from mars_env.miniature import protocol as p  # noqa: E402
from mars_env.miniature.agents import LIMITS, MiniatureAgent, prompt  # noqa: E402
from mars_env.miniature.model import build_model, build_tokenizer  # noqa: E402
from studies.marsrl.demonstrations import draw_chain, tell  # noqa: E402
from studies.marsrl.warm_start import STAGES, save, train  # noqa: E402


def test_a_built_model_is_a_small_qwen3_and_depends_on_its_seed_alone() -> None:
    model, again, other = build_model(3), build_model(3), build_model(4)
    assert sum(w.numel() for w in model.parameters()) < 170_000
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert not torch.equal(model.lm_head.weight, other.lm_head.weight)


def test_a_few_steps_of_the_warm_start_lower_the_loss_and_every_stage_runs() -> None:
    losses: dict[str, list[float]] = {}
    solve, *others = STAGES
    stages = [solve.model_copy(update={"steps": 30, "rows": 8})]
    stages += [stage.model_copy(update={"steps": 1, "rows": 12}) for stage in others]

    def heard(name: str, step: int, means: dict[str, float]) -> None:
        losses.setdefault(name, []).append(sum(means.values()))

    train(build_model(0), stages, seed=1, progress=heard)
    assert {name: len(seen) for name, seen in losses.items()} == {stage.name: stage.steps for stage in stages}
    assert sum(losses["solve"][-5:]) < 0.8 * sum(losses["solve"][:5])


def test_a_saved_model_comes_back_by_the_auto_classes(tmp_path: Path) -> None:
    model = build_model(5)
    save(model, tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert type(loaded).__name__ == "Qwen3ForCausalLM" and loaded.dtype == torch.float32
    text = p.verifier_prompt(tell(p.Chain(882, (("-", 27),))), "a: = 882\n\\boxed{882}")
    assert tokenizer(text)["input_ids"] == build_tokenizer()(text)["input_ids"]
    assert tokenizer.eos_token == p.END and tokenizer.pad_token == p.PAD
    ids = torch.tensor([tokenizer(text)["input_ids"]])
    assert torch.equal(loaded(ids).logits, model(ids).logits)


def test_the_shipped_checkpoint_is_small_and_solves_short_problems() -> None:
    assert sum(file.stat().st_size for file in CHECKPOINT.iterdir()) < 4_000_000
    model = transformers.AutoModelForCausalLM.from_pretrained(CHECKPOINT)
    tokenizer = transformers.AutoTokenizer.from_pretrained(CHECKPOINT, padding_side="left")
    rng = random.Random(7)
    chains = [chain for chain in (draw_chain(rng) for _ in range(60)) if len(chain.terms) <= p.STEPS]
    batch = tokenizer([p.solver_prompt(tell(chain)) for chain in chains], return_tensors="pt", padding=True)
    out = model.generate(**batch, do_sample=False, max_new_tokens=p.SOLUTION_TOKENS)
    texts = [
        p.flip(t)
        for t in tokenizer.batch_decode(out[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
    ]
    right = sum(f"\\boxed{{{c.values[-1]:03d}}}" in t for c, t in zip(chains, texts, strict=True))
    assert right > 0.7 * len(chains)


async def test_what_the_next_agent_reads_is_exactly_what_was_written() -> None:
    model = load()
    statement = tell(p.Chain(100, tuple(("+", 90 + i) for i in range(6))))
    [cut] = await MiniatureAgent("solver", model).act({"problem": statement}, n=1, seed=0)
    assert cut.truncated and len(cut.completions[0].token_ids) == LIMITS["solver"]
    read = model.encode(prompt("verifier", {"problem": statement, "solution": cut.text}))
    written = cut.completions[0]
    assert read[:-1] == (*written.prompt_ids, *written.token_ids)


def test_other_roles_are_refused() -> None:
    with pytest.raises(ConfigError):
        MiniatureAgent("coder", None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError):
        prompt("coder", {"problem": tell(p.Chain(1, (("+", 1),)))})
