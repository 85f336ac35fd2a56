"""Runs inside the program's sandbox: loads the program and lets others call its functions.

This file is sent into sandboxes unchanged. The program shares its process and can do anything with it, so
nothing here knows the expected results.
"""

from __future__ import annotations

import builtins
import os
import stat
import sys
import types
from functools import cache, partial

from mars_env.grading.code import values

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is slow to import
    from collections.abc import Callable
    from typing import Any

DATA_FD, CHANNEL_FD = 3, 4
PROGRAM, CASE = "program.py", "case"
DATA_FILE = "mars_env_data"  # instead of `DATA_FD` where that does not exist: with a remote executor

_STARRED = "typing string re collections heapq bisect math random itertools functools operator io sys"
"""Modules of which every public name is promised; that of a later one counts."""
_PLACES = {
    "copy": "deepcopy",
    "dataclasses": "dataclass",
    "datetime": "date timedelta timezone",
    "json": "dump dumps load loads",
    "statistics": "fmean mean median median_high median_low mode multimode pstdev pvariance stdev variance",
}
"""Names in modules that are slow to import, so only for a program that uses one."""
_MODULES = """bisect collections copy datetime fractions functools heapq io itertools json math operator os
random re statistics string sys time typing"""


def _program() -> bytes:
    with open(PROGRAM, "rb") as file:  # noqa: PTH123  (pathlib is slow to import)
        source = file.read()
    if b"\0" in source:
        raise SyntaxError("source code cannot contain null bytes")
    return source


def stored_value(path: str) -> Any:
    """The value in a file of the job."""
    with open(path, "rb") as file:  # noqa: PTH123
        return values.decode(file.read())


def _load(prelude: bool, imports: list[str]) -> dict[str, Any]:
    source = _program()
    module = types.ModuleType("solution")  # not __main__: code under its guard must not run here
    module.__file__ = os.path.join(os.getcwd(), PROGRAM)  # noqa: PTH109, PTH118
    sys.modules["solution"] = module
    namespace = module.__dict__
    if prelude:
        _offer_common_names(source)
    exec("\n".join(imports), namespace)  # noqa: S102
    exec(compile(source, PROGRAM, "exec", dont_inherit=True), namespace)  # noqa: S102
    return namespace


def _offer_common_names(source: bytes) -> None:
    """Make built-in what LiveCodeBench imports for every program, and a few more names; set its two limits.

    No other built-in name is replaced, and a program that uses such a name has not defined it.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 50_000))
    sys.set_int_max_str_digits(50_000)
    text = source.decode("utf-8", "replace")
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in text).split()) - set(dir(builtins))
    offered = vars(builtins)
    for module in map(__import__, _STARRED.split()):
        public = getattr(module, "__all__", None) or [name for name in dir(module) if name[0] != "_"]
        offered.update({name: getattr(module, name) for name in words.intersection(public)})
    for place, names in _PLACES.items():
        for name in words.intersection(names.split()):
            offered[name] = getattr(__import__(place), name)
    offered.update({name: __import__(name) for name in words.intersection(_MODULES.split())})


def _script() -> None:
    try:
        source = _program()
        _offer_common_names(source)
        exec(compile(source, PROGRAM, "exec", dont_inherit=True), vars(sys.modules["__main__"]))  # noqa: S102
    except Exception as error:
        _show_traceback(error)
        raise SystemExit(1) from None


def _find(namespace: dict[str, Any], name: str, method: bool = False) -> Any:
    if "Solution" in namespace and (method or name not in namespace):
        instance = namespace["Solution"]()
        if hasattr(instance, name):
            return getattr(instance, name)
    if name not in namespace:
        raise NameError(f"the program defines no function {name!r}")
    return namespace[name]


def _call() -> None:
    name, method, prelude, arguments = stored_value(CASE)
    try:
        result = _find(_load(prelude, []), name, method)(*arguments)
        data = values.encode(("result", result))
    except Exception as error:
        _show_traceback(error)
        send_data(values.encode(("raised", type(error).__name__)))
        raise SystemExit(1) from None
    send_data(data)


def send_data(data: bytes) -> None:
    """Write to `DATA_FD`, or to `DATA_FILE`."""
    try:
        regular = stat.S_ISREG(os.fstat(DATA_FD).st_mode)
    except OSError:
        regular = False
    with open(DATA_FD if regular else DATA_FILE, "wb", closefd=not regular) as file:
        file.write(data)


def _show_traceback(error: BaseException) -> None:
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != PROGRAM:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


class Proxy:
    """An object that is in the other process; using it sends a request there."""

    def __init__(self, ask: Callable[..., Any], handle: values.Handle) -> None:
        self.__dict__.update(_ask=ask, _handle=handle)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call it there."""
        return self._ask("call", self, arguments, keywords)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._ask("attribute", self, (name,), {})

    def __getitem__(self, key: Any) -> Any:
        return self._ask("item", self, (key,), {})

    def __iter__(self) -> Any:
        return self._ask("iter", self, (), {})

    def __next__(self) -> Any:
        return self._ask("next", self, (), {})

    def __bool__(self) -> bool:
        return self._handle.plain or self._ask("truth", self, (), {}) is True

    def __len__(self) -> int:
        if self._handle.plain:  # not asked, because list() wants to know before it iterates
            raise TypeError(f"object of type {self._handle.kind!r} has no len()")
        length = self._ask("length", self, (), {})
        if type(length) is not int:
            raise TypeError("a length must be an integer")
        return length

    def __repr__(self) -> str:
        return f"<{self._handle.kind} object>"


class _TestsObject(Proxy):
    """An object of the tests in the program's process: a function passed to it, an iterator, any object."""

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask("assign", self, (name, value), {})


USES: dict[str, Callable[..., Any]] = {
    "call": lambda target, /, *arguments, **keywords: target(*arguments, **keywords),
    "next": next,
    "iter": iter,
    "item": lambda target, key: target[key],
    "attribute": getattr,
    "length": len,
    "truth": bool,
}
"""What each side may do with an object of the other, by the operation's name."""
_PROGRAM_USES: dict[str, Callable[..., Any]] = {
    **USES,
    "isinstance": lambda target, value: isinstance(value, target),
    "str": str,
    "repr": repr,
    "global": lambda target: target,
}


@cache
def _channel(mode: str) -> Any:
    """The channel; each line of it is a value."""
    return open(CHANNEL_FD, mode, closefd=False)


class Peer:
    """One side of a conversation, in which each side asks the other to use its objects.

    A request is ``("ask", operation, target, arguments, keywords)``. Its answer is ``("result", value,
    arguments, keywords)``, ``("stop",)`` at the end of an iterator, or ``("raised", ...)``. Before a side
    answers, it may make requests itself.
    """

    proxy: type[Proxy]
    other: type[Exception] = RuntimeError
    gone: type[BaseException] = SystemExit

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.numbers: dict[int, int] = {}
        self.proxies: dict[int, Any] = {}

    def write(self, message: bytes) -> None:
        """Send one message, which contains no line break."""
        _channel("wb").write(message + b"\n")
        _channel("wb").flush()

    def use(self, operation: str, target: Any, arguments: Any, keywords: Any) -> Any:
        """Carry out a request of the other side."""
        raise NotImplementedError

    def keep(self, value: Any) -> Any:
        """The handle of an object that is not plain data: its number, inverted if it is kept there."""
        if isinstance(value, Proxy):
            return value._handle
        number = self.numbers.setdefault(id(value), len(self.kept))
        if number == len(self.kept):
            self.kept.append(value)
        return values.handle_of(value, number)

    def resolve(self, handle: values.Handle) -> Any:
        """The object for a handle: one that is kept here, or always the same proxy, to keep identity."""
        if handle.number < 0:
            return self.kept[~handle.number]
        theirs = values.Handle(~handle.number, handle.kind, handle.plain)
        return self.proxies.setdefault(handle.number, self.proxy(self.ask, theirs))

    def ask(self, operation: str, target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Send a request; the value that answers it, or what was raised there."""
        sent: list[Any] = []
        request = ("ask", operation, target, list(arguments), keywords)
        match self.exchange(values.encode(request, self.keep, containers=sent), sent):
            case ("result", value, _, _):
                return value
            case ("stop",) if operation == "next":
                raise StopIteration
            case ("raised", *described) if len(described) == 3:
                raise rebuild_exception(described, self.other)
        raise self.gone("sent something that is not an answer")

    def exchange(self, message: bytes, sent: list[Any]) -> Any:
        """Send a message; the answer to it."""
        self.write(message)
        return self.receive(sent)

    def receive(self, sent: list[Any]) -> Any:
        """One answer, after those to requests that come before it; containers in `sent` may be changed."""
        while data := _channel("rb").readline():
            containers: list[Any] = []
            message = values.decode(data, self.resolve, containers=containers, originals=sent)
            if not isinstance(message, tuple) or message[:1] != ("ask",):
                return message
            self.write(self.reply(message[1:], containers))
        raise self.gone("ended before it answered")

    def reply(self, request: Any, containers: list[Any]) -> bytes:
        """The answer to a request. The arguments are sent back too, because a function may change them."""
        operation, target, arguments, keywords = request
        numbers = {id(container): number for number, container in enumerate(containers)}
        try:
            result = self.use(operation, target, arguments, keywords)
            return values.encode(("result", result, arguments, keywords), self.keep, known=numbers)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if isinstance(error, StopIteration) and operation == "next":
                return values.encode(("stop",))
            self.failed(error)
            return values.encode(("raised", *describe_exception(error)))

    def failed(self, error: BaseException) -> None:
        """A request of the other side raised this."""


class _Server(Peer):
    proxy = _TestsObject
    namespace: dict[str, Any]

    def run(self, prelude: bool, imports: list[str]) -> None:
        try:
            self.namespace = _load(prelude, imports)
        except Exception as error:
            _show_traceback(error)
            self.write(values.encode(("raised", *describe_exception(error))))
            return
        self.write(values.encode(("ready",)))
        try:
            self.receive([])
        except SystemExit:
            return  # the tests have ended

    def use(self, operation: str, target: Any, arguments: Any, keywords: Any) -> Any:
        if operation in ("call", "isinstance", "global") and isinstance(target, str):
            target = _find(self.namespace, target)
        return _PROGRAM_USES[operation](target, *arguments, **keywords)

    def failed(self, error: BaseException) -> None:
        if not isinstance(error, StopIteration):
            _show_traceback(error)

    def resolve(self, handle: values.Handle) -> Any:
        if handle.number == values.NAMED:
            module, _, name = handle.kind.partition(":")
            return getattr(__import__(module), name)
        return super().resolve(handle)


def describe_exception(error: BaseException) -> tuple[str, Any, str]:
    """The name of an exception's built-in class, its text, and ``module:name`` of a nearer standard class."""
    try:
        classes = [c for c in type(error).__mro__ if _imported(f"{c.__module__}:{c.__name__}") is c]
        name = next(c.__name__ for c in classes if c.__module__ == "builtins")
        home = "" if classes[0].__module__ == "builtins" else f"{classes[0].__module__}:{classes[0].__name__}"
        # A KeyError's text is how its key is written.
        text = error.args[0] if isinstance(error, KeyError) and error.args else ""
        return name, text[:2000] if text and type(text) is str else str(error)[:2000], home
    except Exception:
        return "Exception", "", ""


def _imported(home: str) -> Any:
    """What has a name in a module of the standard library that is imported here; None if nothing has.

    That of `unittest` counts as nothing: a program that raises its SkipTest would skip a test.
    """
    module, _, name = home.partition(":")
    standard = module.partition(".")[0] in sys.stdlib_module_names - {"unittest"}
    return getattr(sys.modules.get(module), name, None) if standard else None


def rebuild_exception(described: Any, other: type[Exception]) -> BaseException:
    """The described exception, of its built-in class if its own is not imported here.

    It is of the class `other` if it would end a loop: an iterator must not end because one elsewhere did.
    """
    name, text, home = described
    for kind in (_imported(str(home)), _imported(f"builtins:{name}")):
        is_exception = isinstance(kind, type) and issubclass(kind, (Exception, SystemExit, KeyboardInterrupt))
        if not is_exception or issubclass(kind, (StopIteration, StopAsyncIteration)):
            continue
        new: Any = kind.__new__
        for make in (kind, partial(new, kind)):  # some want more arguments
            try:
                return make(text)
            except Exception:
                continue
    return other(f"{name}: {text}")
