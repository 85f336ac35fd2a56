"""`TeamServer`: a team or a search behind one OpenAI-compatible endpoint."""

import asyncio
import itertools
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

from aiohttp import web

from mars_env.checks import require_integer
from mars_env.errors import ConfigError, ContextError, ModelError, StoreError
from mars_env.evaluation.counters import Counters
from mars_env.models.preflight import preflight
from mars_env.net import Guard, Refusal, Service, read_json, start_server
from mars_env.rollout.tree_index import TreeIndex
from mars_env.serving.answering import Answerer
from mars_env.serving.chunks import EVENT_STREAM, event, write_answer
from mars_env.serving.solution import Solution, progress
from mars_env.serving.wire import ChatRequest, completion, read_request
from mars_env.sync import end_tasks, gather_all
from mars_env.text import logger, one_line
from mars_env.types import Problem, Turn

log = logger(__name__)

_HEARTBEAT = 15.0  # seconds after which a stream without progress says that it is alive
_GRACE = 4.0  # seconds that questions may take to end when the server stops; then clients get an error
_LATER = {"Retry-After": "5"}


class TeamServer(Service):
    """Serves a team's answers as chat completions (docs/how-to/serve-a-team.md).

    A request is one question; its usage is the sum over all turns. With `out`, each turn is stored as soon as
    it is finished: a request that was cut off by a kill, a lost client or a lost model is continued when it
    comes again, and one with a seed that was answered before gets the same answer.

    Args:
        answerer: The team.
        name: The model's name for clients; by default the id of the answerer.
        keys: API keys of clients; without any, only this machine is served.
        concurrency: Answers played at the same time.
        waiting: Answers that may wait; more are rejected with status 429.
        seed: Of requests that have none.
        out: Directory of the run; one that exists is continued.

    Attributes:
        max_body: Longest body of a request, in bytes; set it before `start`.
        counters: Counts what is played.
        url: What clients are given as their ``base_url``.
    """

    max_body = 4 * 2**20

    def __init__(
        self,
        answerer: Answerer,
        *,
        name: str = "",
        keys: Sequence[str] = (),
        concurrency: int = 64,
        waiting: int = 1024,
        seed: int = 0,
        out: str | Path | None = None,
    ) -> None:
        self._answerer, self.name = answerer, name or answerer.name
        self._guard = Guard(keys, "spend your tokens")
        self._room = asyncio.Semaphore(require_integer(concurrency, "concurrency"))
        self._places = concurrency + require_integer(waiting, "waiting", 0)
        self._seed = seed
        self._expected = 0
        self._numbers = itertools.count()
        self._playing: set[str] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._store = None if out is None else answerer.store(out, served=True, seed=seed)
        self._index = None if out is None else TreeIndex(out)
        self._questions: set[asyncio.Task[list[Solution]]] = set()
        self._stopping = False
        self.counters = Counters()

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Start to serve; if that fails, it is closed.

        A `ConfigError` if the address cannot be used, is open to others without a key, or the agents'
        contexts are too small for their limits.
        """
        try:
            self._guard.require(host)
            await preflight(self._answerer.agents, self._answerer.game)
            await self._answerer.require_room()
            await self._serve(host, port)
        except BaseException:
            await self.close()
            raise

    async def _serve(self, host: str, port: int) -> None:
        app = web.Application(client_max_size=self.max_body)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        # A client that goes away stops its question: with a store, it can be continued.
        self._server = await start_server(
            app, host, port, self._guard, refusal_of=_refusal, grace=_GRACE + 1, cancels=True
        )
        self.url = f"{self._server.url}/v1"

    async def close(self) -> None:
        """Stop serving: questions under way get a few seconds to end, then their clients get status 503."""
        self._stopping = True
        end = asyncio.get_running_loop().call_later(_GRACE, self._end_questions)
        await super().close()
        end.cancel()
        if self._store is not None:
            self._store.close()

    def _end_questions(self) -> None:
        for question in self._questions:
            question.cancel()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        chat = read_request(await read_json(request), self.name, self._answerer.kind)
        if chat.n > self._places:
            raise Refusal(400, f"this server gives at most {self._places} answers to a request: ask for less")
        if self._expected + chat.n > self._places:
            raise Refusal(429, "too many questions wait: ask again later", "rate_limit_error", headers=_LATER)
        self._expected += chat.n
        try:
            answer_id = f"chatcmpl-{secrets.token_hex(12)}"
            if chat.stream:
                return await self._streamed(request, chat, answer_id)
            solutions = await self._answer(chat, lambda turn: None)
            return web.json_response(completion(self.name, answer_id, solutions))
        finally:
            self._expected -= chat.n

    async def _streamed(self, request: web.Request, chat: ChatRequest, answer_id: str) -> web.StreamResponse:
        response = web.StreamResponse(headers=EVENT_STREAM)
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        answering = asyncio.create_task(self._answer(chat, lambda turn: lines.put_nowait(progress(turn))))
        answering.add_done_callback(lambda _: lines.put_nowait(None))
        try:
            await response.prepare(request)
            while (line := await _next(lines)) is not None:
                await response.write(f": {one_line(line, 300)}\n\n".encode())
            try:
                answer = completion(self.name, answer_id, answering.result())
                await write_answer(response, answer, with_usage=chat.usage)
            except ConnectionError:
                raise
            except Exception as error:  # the status has gone out already
                await response.write(event(_refusal(error).body))
            await response.write_eof()
        except ConnectionError:
            log.info("a client went away before its answer")
        finally:
            await end_tasks([answering])
        return response

    async def _answer(self, chat: ChatRequest, on_turn: Callable[[Turn], None]) -> list[Solution]:
        """All answers of a request; the first fault stops the others, and so does the server's end."""
        stops = Refusal(503, "the server stops: ask again later", "server_error", headers=_LATER)
        if self._stopping:
            raise stops
        if self._store is not None:
            self._store.write_problems([chat.problem])
        answers = gather_all(self._solution(chat, index, on_turn) for index in range(chat.n))
        question = asyncio.create_task(answers)
        self._questions.add(question)
        question.add_done_callback(self._questions.discard)
        try:
            await asyncio.wait([question])
        finally:
            await end_tasks([question])  # the client has left
        if question.cancelled():
            raise stops
        return question.result()

    async def _solution(self, chat: ChatRequest, index: int, on_turn: Callable[[Turn], None]) -> Solution:
        problem = chat.problem
        if chat.seed is None:
            return await self._play(problem, self._next_sample(problem), self._seed, on_turn)
        tree_id = f"{problem.id}#{index}"
        async with self._locks.setdefault(tree_id, asyncio.Lock()):
            if self._store is not None and self._index is not None and tree_id in self._store.finished:
                tree = await asyncio.to_thread(self._index.tree, tree_id, problem)
                return self._answerer.solution(tree)
            return await self._play(problem, index, chat.seed, on_turn)

    def _next_sample(self, problem: Problem) -> int:
        """The number of the next answer to a question; one that a kill has cut off is continued."""
        if self._store is None:
            return next(self._numbers)
        sample, taken = 0, (self._store.finished, self._playing)
        while any(f"{problem.id}#{sample}" in trees for trees in taken):
            sample += 1
        return sample

    async def _play(
        self, problem: Problem, sample: int, seed: int, on_turn: Callable[[Turn], None]
    ) -> Solution:
        tree_id = f"{problem.id}#{sample}"
        self._playing.add(tree_id)
        try:
            async with self._room:
                solution = await self._answerer.answer(
                    problem, sample=sample, seed=seed, journal=self._store, on_turn=on_turn
                )
        finally:
            self._playing.discard(tree_id)
        self.counters.count_tree(solution.tree)
        return solution

    async def _models(self, request: web.Request) -> web.Response:
        model = {"id": self.name, "object": "model", "created": 0, "owned_by": "mars_env"}
        return web.json_response({"object": "list", "data": [model]})

    async def _health(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})


async def _next(lines: asyncio.Queue[str | None]) -> str | None:
    try:
        return await asyncio.wait_for(lines.get(), _HEARTBEAT)
    except TimeoutError:
        return "playing"


def _refusal(error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, ContextError):
        return Refusal(400, str(error), code="context_length_exceeded")
    if isinstance(error, ConfigError):
        return Refusal(400, str(error))
    if isinstance(error, ModelError):
        return Refusal(502, str(error), "team_error")
    if isinstance(error, StoreError):  # a client that goes on would lose turns
        log.error("%s", error)
        return Refusal(500, f"the answer cannot be stored: {error}", "store_error")
    log.error("a request ended in an error", exc_info=error)
    return Refusal(500, f"the server failed: {type(error).__name__}", "server_error")
