"""verifiers (0.4): teams as environments that verifiers runs and prime-rl trains (docs/other-trainers.md).

verifiers finds an environment as an installed package, such as this one, whose ``__all__`` names its parts. A
turn of a team is a run of one of verifiers' agents, and so a trace.
"""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pydantic import Field, PositiveInt

from mars_env.agents.registry import as_agent, roles_of
from mars_env.api import load_problems
from mars_env.envs import GroupedSettings, grouped, spec
from mars_env.envs.game import make_game
from mars_env.errors import ConfigError, ModelError
from mars_env.gate import safe_messages
from mars_env.grading import check_reference
from mars_env.lazy import needs
from mars_env.models.openai_dialect import message_text
from mars_env.models.requests import NO_LIMIT, finish_reason, is_messages, plain_chat
from mars_env.net import request
from mars_env.problems import ProblemSet
from mars_env.rollout import Job, groups_of
from mars_env.rollout.engine import play
from mars_env.seeds import derive_seed
from mars_env.sync import gather_all
from mars_env.trainers.advantages import turn_key
from mars_env.trainers.config import TrainConfig, estimator_of
from mars_env.types import Completion, Message, Prompt, Sampling, Tree, Turn, role_of

with needs("verifiers", "environments for verifiers need it"):
    import verifiers.v1 as vf

__all__ = ["TeamEnv", "TeamTaskset", "TurnHarness", "load_environment"]

Advantage = Literal["group_normalised", "mean_centred", "leave_one_out"]

_ANSWER_BYTES = 64 * 2**20

PLUGIN = "mars-env-verifiers"
"""The id under which verifiers finds this package."""


class TeamTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """What is played: ``--env.taskset.*``."""

    id: vf.ID = PLUGIN
    env_id: str = "aime-solve-verify-correct"
    """Id of a mars_env environment; ``my_module:my-set-my-game`` imports my_module first."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of its game, as for `mars_env.make`."""
    problems: str | None = None
    """Another problem set, or a problem file, than the id names."""
    problem_options: dict[str, Any] = Field(default_factory=dict)
    """Options of the set's loader."""
    samples: PositiveInt = 1
    """Episodes of each problem, each a separate task: the n of avg@n."""
    seed: int | None = None
    """With a seed, an episode is that of `mars_env.evaluate` with the same seed, and each request carries a
    seed; None draws anew each time, which training needs."""


class TeamData(vf.TaskData):  # type: ignore[misc]
    """An episode of a problem: its place in the set, and which sample it is. It holds no reference."""

    place: int
    sample: int


class TeamTask(vf.Task[TeamData]):  # type: ignore[misc]
    """An episode of a problem; `TeamEnv` judges it."""


class TeamTaskset(vf.Taskset[TeamTask, TeamTasksetConfig]):  # type: ignore[misc]
    """The problems of an environment."""

    def __init__(self, config: TeamTasksetConfig) -> None:
        super().__init__(config)
        self.problems: ProblemSet = load_problems(
            config.problems or spec(config.env_id).problems, check=check_reference, **config.problem_options
        )
        self.INFINITE = self.problems.endless

    def load(self) -> Iterator[TeamTask]:
        """A task for every sample of every problem."""
        for place, problem in enumerate(self.problems):
            for sample in range(self.config.samples):
                data = TeamData(id=problem.id, prompt=problem.statement, place=place, sample=sample)
                yield TeamTask(data, self.config.task)


class TurnData(vf.TaskData):  # type: ignore[misc]
    """What an agent reads in one turn, and the seed of its answer."""

    seed: int | None = None


class TurnHarness(vf.Harness[vf.HarnessConfig]):  # type: ignore[misc]
    """Plays a turn: one chat completion, asked for in this process, through verifiers' interception."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Ask for the completion; the interception notes it in the trace."""
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        else:
            messages += [message.model_dump(exclude_none=True) for message in prompt or ()]
        body: dict[str, Any] = {"model": ctx.model, "messages": messages}
        if isinstance(data, TurnData) and data.seed is not None:
            body["seed"] = data.seed
        options: dict[str, Any] = {"json": body, "headers": {"Authorization": f"Bearer {secret}"}}
        # The agent's own timeouts hold.
        answer = await request("POST", f"{endpoint}/chat/completions", _ANSWER_BYTES, None, **options)
        failed = answer.status != 200
        words = answer.body[:2000].decode("utf-8", "replace")
        return vf.ProgramResult(exit_code=int(failed), stdout="", stderr=words if failed else "")


def _seat() -> vf.AgentConfig:
    return vf.AgentConfig(runtime=vf.SubprocessConfig())


class TeamConfig(vf.EnvConfig):  # type: ignore[misc]
    """The seats of a team, one a role, and how its trees grow: ``--env.*``.

    Each seat may have its own model, client, sampling and limits.
    """

    solver: vf.AgentConfig = _seat()
    verifier: vf.AgentConfig = _seat()
    corrector: vf.AgentConfig = _seat()
    coder: vf.AgentConfig = _seat()
    group: PositiveInt = 1
    """Samples of one agent on one input; above 1 an episode is a tree of grouped rollouts (MarsRL)."""
    branches: PositiveInt = 1
    """Outputs of each group that are continued, where `group` is above 1."""
    advantage: Advantage = "group_normalised"
    """How the turns of a group are compared; a turn without a group of two gets no advantage."""


class TeamEnv(vf.Env[TeamConfig]):  # type: ignore[misc]
    """A mars_env team as an environment of verifiers: an episode is a tree of turns, a turn a trace."""

    def __init__(self, config: TeamConfig) -> None:
        super().__init__(config)
        taskset: Any = self.taskset
        if not isinstance(taskset, TeamTaskset):
            raise ConfigError(f"TeamEnv plays the tasks of {PLUGIN}, not those of {config.taskset.id!r}")
        self._tasks = taskset
        env_spec = spec(taskset.config.env_id, **taskset.config.settings)
        self.game = make_game(env_spec, kind=taskset.problems[0].kind)
        if config.group > 1:
            grown = GroupedSettings(group=config.group, branches=config.branches)
            self.game = replace(self.game, grower=grouped(grown))
        self._prompts = roles_of(self.game.rules)
        self.roles = tuple(dict.fromkeys(map(role_of, self.game.rules.possible_agents)))
        if missing := [role for role in self.roles if role not in type(config).model_fields]:
            raise ConfigError(f"the role {missing[0]!r} has no seat: give a subclass of TeamConfig one")

    def slots(self, task: vf.Task, n: int = 1) -> list[Any]:
        """Plan n episodes of a task; with a seed they would all be the same one."""
        if n > 1 and self._tasks.config.seed is not None:
            raise ConfigError(f"with a seed all {n} are the same: give the taskset samples={n}, or no seed")
        return super().slots(task, n)

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        """Play one tree, and write rewards and advantages to the traces of its turns.

        A ModelError if a turn could not be played: the episode failed, and has no score.
        """
        seed = self._tasks.config.seed
        models = {role: SeatModel(getattr(agents, role), seeded=seed is not None) for role in self.roles}
        names = self.game.rules.possible_agents
        team = {name: as_agent(models[role_of(name)], name, roles=self._prompts) for name in names}
        job = Job(self._tasks.problems[task.data.place], task.data.sample)
        tree = await play(self.game, team, job, seed=secrets.randbits(62) if seed is None else seed)
        record_tree(tree, self.config.advantage)
        if tree.fault:
            raise ModelError(tree.fault)


@dataclass(frozen=True, slots=True)
class TracedCompletion(Completion):
    """A completion that knows the trace it was read from, and keeps it when a field is replaced."""

    trace: vf.Trace | None = field(default=None, compare=False, repr=False)


class SeatModel:
    """A seat of a verifiers environment as a `mars_env.types.Model`: a sample is a run of its agent."""

    def __init__(self, seat: vf.Agent, *, seeded: bool) -> None:
        self.name = str(seat.config.model)
        self._seat, self._seeded = seat, seeded

    async def complete(self, prompt: Prompt, n: int, sampling: Sampling) -> list[Completion]:
        """Run the agent n times on one prompt. How it samples is the run's affair, but for the seed."""
        runs = [self._seat.run(self._task(prompt, sample, sampling)) for sample in range(n)]
        return [self._completion(trace) for trace in await gather_all(runs)]

    def _task(self, prompt: Prompt, sample: int, sampling: Sampling) -> vf.Task:
        if isinstance(prompt, str):
            messages: Sequence[Message] = [{"role": "user", "content": prompt}]
        elif is_messages(prompt):
            messages = prompt
        else:
            raise ModelError(f"{self.name}: verifiers asks for chats, so token ids cannot be a prompt")
        kinds = {"system": vf.SystemMessage, "user": vf.UserMessage, "assistant": vf.AssistantMessage}
        seed = None
        if self._seeded and sampling.seed is not None:
            seed = derive_seed(sampling.seed, sample) >> 32  # as HTTPModel: a server's seeds have 31 bits
        typed = [kinds[message["role"]](content=message["content"]) for message in safe_messages(messages)]
        return vf.Task(TurnData(name=plain_chat(messages)[-60:], prompt=typed, seed=seed))

    def _completion(self, trace: vf.Trace) -> Completion:
        if not trace.ok or not trace.assistant_messages:
            why = trace.last_error.message if trace.last_error else f"it stopped: {trace.stop_condition}"
            raise ModelError(f"{self.name}: {why}"[:500])
        return completion_of(trace)


def completion_of(trace: vf.Trace) -> TracedCompletion:
    """The completion of a trace of one turn; with token ids where the client gives them (prime-rl's does).

    verifiers knows only the ends ``stop``, ``length`` and ``tool_calls``; a filter or server cut off others.
    """
    message, call = trace.assistant_messages[-1], trace.calls[-1]
    text = message_text({"content": message.content, "reasoning": message.reasoning_content})
    usage = call.usage
    sampled = usage.completion_tokens if usage else 0
    branch = trace.branches[-1]
    read = branch.sampled_mask.index(True) if any(branch.sampled_mask) else len(branch.token_ids)
    ids = tuple(branch.token_ids[read:])
    settings, reason = call.sampling, call.finish_reason
    limit = Sampling(max_tokens=(settings.max_tokens if settings is not None else None) or NO_LIMIT)
    return TracedCompletion(
        trace=trace,
        text=text,
        finish_reason=finish_reason(reason, len(ids) or sampled, limit) if reason else "content_filter",
        prompt_ids=tuple(branch.token_ids[:read]) if ids else (),
        token_ids=ids,
        logprobs=tuple(branch.logprobs[read:]),
        temperature=1.0 if settings is None or settings.temperature is None else settings.temperature,
        prompt_tokens=usage.input_tokens if usage else read,
        completion_tokens=len(ids) or sampled,
    )


def record_tree(tree: Tree, advantage: Advantage | None) -> None:
    """Write what is known of a tree's turns to the traces of their completions.

    The reward is the turn's own. One that is unknown makes the trace, and with it the episode, a failed one:
    verifiers would count its absence as 0. The advantage, if there is one, goes to each sampled token of the
    trace and, like the turn's place in the tree, to ``trace.info["mars_env"]``.
    """
    advantages = estimator_of(TrainConfig(advantage=advantage))(groups_of([tree])) if advantage else {}
    answer = next((turn for turn in tree.turns if turn.id == tree.final), None)
    score = answer.grade.score if answer is not None and answer.grade is not None else None
    for turn in tree.turns:
        credit = advantages.get(turn_key(turn))
        for completion in turn.action.completions:
            trace = getattr(completion, "trace", None)
            if trace is None:  # a sample that was lost has none
                continue
            trace.info["mars_env"] = {**_place(turn), "advantage": credit}
            if score is not None:
                trace.record_metric("team_score", score)
            if turn.reward is None:
                reason = "" if turn.grade is None else f": {turn.grade.reason}"
                trace.record_error(vf.TaskError(f"the reward of turn {turn.id} is unknown{reason}"))
                continue
            trace.record_reward("reward", turn.reward)
            if credit is not None:
                for node in trace.nodes:
                    if any(node.mask):
                        node.advantages = [credit] * sum(node.mask)


def load_environment(env_id: str, *, config: Mapping[str, Any] | None = None, **taskset: Any) -> TeamEnv:
    """A mars_env environment for verifiers, of an id as for `mars_env.make`.

    `config` is more of `TeamConfig`, e.g. ``{"group": 8, "branches": 2}``; `taskset` of `TeamTasksetConfig`.
    """
    return TeamEnv(TeamConfig(taskset=TeamTasksetConfig(env_id=env_id, **taskset), **(config or {})))


def _place(turn: Turn) -> dict[str, Any]:
    verdict = None if turn.grade is None else str(turn.grade.verdict)
    note = json.loads(json.dumps(dict(turn.info), default=str))
    return {
        "tree": turn.tree_id, "turn": turn.id, "parent": turn.parent_id, "group": turn.group_id,
        "agent": turn.agent, "problem": turn.problem_id, "verdict": verdict, "note": note,
    }  # fmt: skip
