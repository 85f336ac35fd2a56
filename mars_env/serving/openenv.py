"""An OpenEnv server: one agent's place in a game as an environment, the others played by given agents.

Clients (`openenv.core.GenericEnvClient`) speak JSON over a WebSocket at ``/ws``, an environment for each.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aiohttp import WSMsgType, web

from mars_env.agents.registry import as_agent, roles_of
from mars_env.envs.aec import MarsEnv
from mars_env.envs.gymnasium_view import GymnasiumView
from mars_env.errors import MarsError
from mars_env.models.scripted import ScriptedModel
from mars_env.net import UNREADABLE, Guard, Service, plain_json, start_server
from mars_env.text import describe_error
from mars_env.types import Observation

_ACTION = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_WAITING = 16
"""Messages of a client that may wait for their answers; beyond, nothing more is read from it."""


class OpenEnvSession:
    r"""One environment, as a client of OpenEnv sees it.

    Example:
        >>> import mars_env
        >>> env = mars_env.make("arithmetic-solve")
        >>> session = OpenEnvSession(GymnasiumView(env, learner="solver_0", partners={}))
        >>> answer = session.handle({"type": "reset", "data": {"seed": 0}})
        >>> sorted(answer["data"]["observation"])
        ['messages', 'problem']
        >>> session.handle({"type": "step", "data": {"text": "\\boxed{1000}"}})["data"]["done"]
        True
    """

    def __init__(self, view: GymnasiumView) -> None:
        self._view, self._steps, self._over = view, 0, True
        roles = roles_of(view.env.game.rules)
        self._player: Any = as_agent(ScriptedModel([""]), view.learner, roles=roles)

    def handle(self, message: Any) -> dict[str, Any]:
        """The answer to a message of a client, which may be an error."""
        try:
            kind, data = message["type"], message.get("data", {})
            if kind == "reset":
                return self._reset(data.get("seed"), data.get("problem"))
            if kind == "step":
                return self._step(data["text"])
            if kind == "state":
                tree = getattr(self._view.env, "tree", None)
                episode = None if tree is None else tree.id
                return {"type": "state", "data": {"episode_id": episode, "step_count": self._steps}}
            return _error("UNKNOWN_TYPE", f"there is no message {kind!r}, only reset, step, state and close")
        except MarsError as error:
            return _error("EXECUTION_ERROR", str(error))
        except UNREADABLE as error:
            return _error("VALIDATION_ERROR", f'an action is {{"text": "..."}}: {describe_error(error)}')

    def _reset(self, seed: int | None, problem: str | None) -> dict[str, Any]:
        options = None if problem is None else {"problem": problem}
        observation, info = self._view.reset(seed=seed, options=options)
        self._steps = 0
        return self._answer(observation, None, False, info)

    def _step(self, text: str) -> dict[str, Any]:
        if self._over:
            return _error("EXECUTION_ERROR", "no episode is being played: send a reset")
        observation, reward, done, _, info = self._view.step(text)
        self._steps += 1
        unknown = bool(info.get("reward_unknown"))
        return self._answer(observation, None if unknown else float(reward), done, info)

    def _answer(
        self, observation: Observation, reward: float | None, done: bool, info: dict[str, Any]
    ) -> dict[str, Any]:
        """What the learner sees: the fields of the game, and the messages that its role makes of them."""
        self._over = done
        messages = None if done else self._player.prompt(observation)
        seen = {**observation, "messages": messages}
        data = {"observation": seen, "reward": reward, "done": done, "metadata": info}
        return {"type": "observation", "data": json.loads(json.dumps(data, default=str))}


class OpenEnvServer(Service):
    """Serves sessions on one address, each with an environment of its own, which `make` makes.

    Clients play the learner; `partners` are the others, as for `mars_env.as_gymnasium`. Without `keys`, only
    this machine is served.
    """

    def __init__(
        self, make: Callable[[], MarsEnv], learner: str, partners: Any, keys: tuple[str, ...] = ()
    ) -> None:
        self._make, self._learner, self._partners = make, learner, partners
        self._guard = Guard(keys, "play with your models")
        self._new_session()  # an error in learner or partners is raised here

    def _new_session(self) -> OpenEnvSession:
        return OpenEnvSession(GymnasiumView(self._make(), learner=self._learner, partners=self._partners))

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Start to serve."""
        app = web.Application()
        app.add_routes([web.get("/ws", self._play), web.get("/health", _health), web.get("/schema", _schema)])
        self._server = await start_server(app, host, port, self._guard, grace=1.0)
        self.url = self._server.url

    async def _play(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        session = await asyncio.to_thread(self._new_session)
        messages: asyncio.Queue[str | None] = asyncio.Queue(_WAITING)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_answer(socket, messages, session))
            async for each in socket:  # also while an action is played, since that answers the client's pings
                if each.type is not WSMsgType.TEXT:
                    break
                await messages.put(each.data)
            await messages.put(None)
        return socket


async def _answer(
    socket: web.WebSocketResponse, messages: asyncio.Queue[str | None], session: OpenEnvSession
) -> None:
    """Answer messages one after the other, also when the client has gone, until None or a "close"."""
    while (text := await messages.get()) is not None:
        try:
            message = plain_json(text)
        except UNREADABLE as error:
            answer = _error("INVALID_JSON", describe_error(error))
        else:
            if isinstance(message, dict) and message.get("type") == "close":
                await socket.close()
                continue
            answer = await asyncio.to_thread(session.handle, message)
        with suppress(ConnectionResetError):
            await socket.send_json(answer)


def _error(code: str, message: str) -> dict[str, Any]:
    return {"type": "error", "data": {"message": message, "code": code}}


async def _health(_: web.Request) -> web.Response:
    return web.json_response({"status": "healthy"})


async def _schema(_: web.Request) -> web.Response:
    anything = {"type": "object"}
    return web.json_response({"action": _ACTION, "observation": anything, "state": anything})
