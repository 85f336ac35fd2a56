"""Runs inside the program's sandbox: loads the program and lets others call its functions.

This file is sent into sandboxes unchanged. The program shares its process and can do anything with it, so
nothing here knows the expected results.
"""

from __future__ import annotations

import builtins
import os
import stat
import struct
import sys
import types
from functools import partial

from mars_env.grading.code import values

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is slow to import
    from collections.abc import Callable
    from typing import Any

DATA_FD, CHANNEL_FD = 3, 4
PROGRAM, CASE, REQUESTS = "program.py", "case", "requests"
DATA_FILE = "mars_env_data"
"""A file used instead of `DATA_FD` where that does not exist: with a remote executor."""

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


def _load(prelude: bool, imports: list[str], wanted: str = "") -> dict[str, Any]:
    """Run the program's module and return its names.

    Args:
        prelude: Whether to add the names that LeetCode and LiveCodeBench import for every program.
        imports: Import lines that the problem promises; they run first.
        wanted: The function that the problem asks for: one that is added is no answer.
    """
    source = _program()
    module = types.ModuleType("solution")  # not __main__: code under its guard must not run here
    module.__file__ = os.path.join(os.getcwd(), PROGRAM)  # noqa: PTH109, PTH118
    sys.modules["solution"] = module
    namespace = module.__dict__
    if prelude:
        _import_common_names(source, namespace, wanted)
    exec("\n".join(imports), namespace)  # noqa: S102
    exec(compile(source, PROGRAM, "exec", dont_inherit=True), namespace)  # noqa: S102
    return namespace


def _import_common_names(source: bytes, namespace: dict[str, Any], wanted: str = "") -> None:
    """Import the well-known names that occur in the source, before it runs, and raise two limits.

    They are those that LiveCodeBench imports for every program, and a few more. No built-in name
    is replaced. The program may call the `wanted` function, but does not define it so.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 50_000))  # as LiveCodeBench does
    sys.set_int_max_str_digits(50_000)  # likewise
    text = source.decode("utf-8", "replace")
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in text).split()) - set(dir(builtins))
    for module in map(__import__, _STARRED.split()):
        public = getattr(module, "__all__", None) or [name for name in dir(module) if name[0] != "_"]
        namespace.update({name: getattr(module, name) for name in words.intersection(public)})
    for place, names in _PLACES.items():
        for name in words.intersection(names.split()):
            namespace[name] = getattr(__import__(place), name)
    for name in words.intersection(_MODULES.split()):
        namespace[name] = __import__(name)
    if callable(namespace.get(wanted)):
        namespace[wanted] = _LibraryFunction(namespace[wanted])


class _LibraryFunction:
    """A function of a library under the name of the one that the problem asks for."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)


def _script() -> None:
    """Run the program as a script, with the common names imported."""
    namespace = sys.modules["__main__"].__dict__
    try:
        source = _program()
        _import_common_names(source, namespace)
        exec(compile(source, PROGRAM, "exec", dont_inherit=True), namespace)  # noqa: S102
    except Exception as error:
        _show_traceback(error)
        raise SystemExit(1) from None


def _find(namespace: dict[str, Any], name: str, method: bool = False) -> Any:
    """The function to call; a method of a new ``Solution`` if there is such a class."""
    if "Solution" in namespace and (method or name not in namespace):
        instance = namespace["Solution"]()
        if hasattr(instance, name):
            return getattr(instance, name)
    if name not in namespace or isinstance(namespace[name], _LibraryFunction):
        raise NameError(f"the program defines no function {name!r}")
    return namespace[name]


def _call() -> None:
    """Call one function once, as the file `CASE` says, and write its result to the data descriptor."""
    name, method, prelude, arguments = stored_value(CASE)
    try:
        result = _find(_load(prelude, [], name), name, method)(*arguments)
        data = values.encode(("result", result))
    except Exception as error:
        _show_traceback(error)
        send_data(values.encode(("raised", type(error).__name__)))
        raise SystemExit(1) from None
    send_data(data)


def send_data(data: bytes) -> None:
    """Write data for the grader."""
    try:
        regular = stat.S_ISREG(os.fstat(DATA_FD).st_mode)
    except OSError:
        regular = False
    with open(DATA_FD if regular else DATA_FILE, "wb", closefd=not regular) as file:
        file.write(data)


def _show_traceback(error: BaseException) -> None:
    """Print a traceback without this module's frames."""
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != PROGRAM:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def _serve() -> None:
    """Answer requests over the channel until it ends."""
    _Server(read_packet, write_packet).run(*stored_value(CASE))


def _replay() -> None:
    """Answer the requests in the file `REQUESTS`, in order; used where there is no channel."""
    requests = iter(stored_value(REQUESTS))
    answers: list[str] = []  # as strings, which are plain data for the grader

    def following() -> bytes | None:
        request: bytes | None = next(requests, None)
        if request is None:  # end at once, whatever the program is doing
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                send_data(values.encode(answers))
                os._exit(0)
        return request

    _Server(following, lambda data: answers.append(data.decode("latin-1"))).run(*stored_value(CASE))
    send_data(values.encode(answers))


class Proxy:
    """An object that is in the other process; using it sends a request there.

    Args:
        ask: Sends a request: ``ask(operation, proxy, arguments, keywords)`` returns the answer.
        handle: The object's handle.
    """

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


USES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "call": lambda target, arguments, keywords: target(*arguments, **keywords),
    "next": lambda target, arguments, keywords: next(target),
    "iter": lambda target, arguments, keywords: iter(target),
    "item": lambda target, arguments, keywords: target[arguments[0]],
    "attribute": lambda target, arguments, keywords: getattr(target, arguments[0]),
    "length": lambda target, arguments, keywords: len(target),
    "truth": lambda target, arguments, keywords: bool(target),
}
"""What each side may do with an object of the other, by the operation's name."""
_PROGRAM_USES: dict[str, Callable[[Any, Any, Any], Any]] = {
    **USES,
    "isinstance": lambda target, arguments, keywords: isinstance(arguments[0], target),
    "str": lambda target, arguments, keywords: str(target),
    "repr": lambda target, arguments, keywords: repr(target),
    "global": lambda target, arguments, keywords: target,
}


class _Server:
    """Answers requests ``(operation, target, arguments, keywords)``.

    Args:
        read: Returns the next packet, or None at the end.
        write: Sends one packet.
    """

    def __init__(self, read: Callable[[], bytes | None], write: Callable[[bytes], None]) -> None:
        self.read, self.write = read, write
        self.kept: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}
        self.of_tests: dict[int, _TestsObject] = {}
        self.namespace: dict[str, Any] = {}

    def run(self, prelude: bool, imports: list[str]) -> None:
        """Load the program, then answer until the requests end."""
        try:
            self.namespace = _load(prelude, imports)
        except Exception as error:
            _show_traceback(error)
            self.write(values.encode(("raised", *describe_exception(error))))
            return
        self.write(values.encode(("ready",)))
        self.wait()

    def wait(self) -> Any:
        """Answer requests until the tests reply to one of this side; None at the end of the conversation."""
        while (data := self.read()) is not None:
            containers: list[Any] = []
            message = values.decode(data, self.resolve, containers=containers)
            if message[0] in ("gives", "stops", "raises"):
                return message
            self.write(self.answer(message, containers))
        return None

    def answer(self, request: Any, containers: list[Any]) -> bytes:
        operation, target, arguments, keywords = request
        try:
            if operation in ("call", "isinstance", "global") and isinstance(target, str):
                target = _find(self.namespace, target)
            result = _PROGRAM_USES[operation](target, arguments, keywords)
            # The arguments are sent back too, because a function may change them in place.
            known = {id(container): number for number, container in enumerate(containers)}
            return values.encode(("result", result, arguments, keywords), self.keep, known=known)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            if isinstance(error, StopIteration) and operation == "next":
                return values.encode(("stop",))
            if not isinstance(error, StopIteration):
                _show_traceback(error)
            return values.encode(("raised", *describe_exception(error)))

    def ask(self, operation: str, target: _TestsObject, arguments: tuple[Any, ...], keywords: Any) -> Any:
        """Use an object of the tests; they may send requests themselves before they answer."""
        self.write(values.encode(("ask", operation, target, list(arguments), keywords), self.keep))
        reply = self.wait()
        if reply is None:
            raise SystemExit  # the tests have ended
        if reply[0] == "gives":
            return reply[1]
        raise StopIteration if reply[0] == "stops" else rebuild_exception(reply[1:], RuntimeError)

    def keep(self, value: Any) -> values.Handle:
        if isinstance(value, _TestsObject):
            handle: values.Handle = value._handle
            return handle
        number = self.numbers.setdefault(id(value), len(self.kept))
        self.kept[number] = value
        return values.handle_of(value, number)

    def resolve(self, handle: values.Handle) -> Any:
        if handle.number == values.NAMED:
            module, _, name = handle.kind.partition(":")
            return getattr(__import__(module), name)
        if handle.number < 0:
            return self.of_tests.setdefault(handle.number, _TestsObject(self.ask, handle))
        return self.kept[handle.number]


def describe_exception(error: BaseException) -> tuple[str, Any, str]:
    """The name of an exception's built-in class, its text, and ``module:name`` of a nearer standard class."""
    try:
        known = [c for c in type(error).__mro__ if _imported(f"{c.__module__}:{c.__name__}") is c]
        name = next(c.__name__ for c in known if c.__module__ == "builtins")
        home = "" if known[0].__module__ == "builtins" else f"{known[0].__module__}:{known[0].__name__}"
        # A KeyError's text is how its key is written.
        text = error.args[0] if isinstance(error, KeyError) and error.args else ""
        return name, text[:2000] if text and type(text) is str else str(error)[:2000], home
    except Exception:
        return "Exception", "", ""


def _imported(home: str) -> Any:
    """What has a name in a module of the standard library that is imported here; None if nothing has."""
    module, _, name = home.partition(":")
    standard = module == "builtins" or module.partition(".")[0] in sys.stdlib_module_names
    return getattr(sys.modules.get(module), name, None) if standard else None


def rebuild_exception(described: Any, other: type[Exception]) -> BaseException:
    """The described exception: of its built-in class if its own is not imported here.

    It is of the class `other` if it would end a loop: an iterator on this side must not end because something
    on the other side did.
    """
    name, text, home = described
    for kind in (_imported(str(home)), _imported(f"builtins:{name}")):
        wanted = isinstance(kind, type) and issubclass(kind, (Exception, SystemExit, KeyboardInterrupt))
        if not wanted or issubclass(kind, (StopIteration, StopAsyncIteration)):
            continue
        new: Any = kind.__new__
        for make in (kind, partial(new, kind)):  # some want more arguments
            try:
                error: BaseException = make(text)
                return error
            except Exception:
                continue
    return other(f"{name}: {text}")


def read_packet() -> bytes | None:
    """One packet from the channel; None at its end."""
    head = _receive(4)
    return None if head is None else _receive(struct.unpack("<I", head)[0])


def _receive(size: int) -> bytes | None:
    pieces = bytearray()
    while len(pieces) < size:
        piece = os.read(CHANNEL_FD, min(size - len(pieces), 1 << 20))
        if not piece:
            return None
        pieces += piece
    return bytes(pieces)


def write_packet(data: bytes) -> None:
    """Send one packet."""
    view = memoryview(struct.pack("<I", len(data)) + data)
    while view:
        view = view[os.write(CHANNEL_FD, view) :]
