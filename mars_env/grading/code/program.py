"""Runs inside the program's sandbox: loads the program and lets others call its functions.

This file is sent into sandboxes unchanged. It shares a process with the program, which can therefore do
anything with it; nothing here knows the expected results.
"""

from __future__ import annotations

import builtins
import os
import stat
import struct
import sys
import types

from mars_env.grading.code import values

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is slow to import
    from collections.abc import Callable
    from typing import Any

DATA_FD, CHANNEL_FD = 3, 4
PROGRAM, CASE, ASKED = "program.py", "case", "asked"
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
_MODULES = [
    "bisect",
    "collections",
    "copy",
    "datetime",
    "fractions",
    "functools",
    "heapq",
    "io",
    "itertools",
    "json",
    "math",
    "operator",
    "os",
    "random",
    "re",
    "statistics",
    "string",
    "sys",
    "time",
    "typing",
]


def load(prelude: bool, imports: list[str], wanted: str = "") -> dict[str, Any]:
    """Run the program's module and return its names.

    Args:
        prelude: Whether to add the names that LeetCode and LiveCodeBench import for every program.
        imports: Import lines that the problem promises; they run first.
        wanted: The function that the problem asks for: one that is added is no answer.
    """
    with open(PROGRAM, "rb") as file:  # noqa: PTH123  (pathlib is slow to import)
        source = file.read()
    if b"\0" in source:
        raise SyntaxError("source code cannot contain null bytes")
    module = types.ModuleType("solution")  # not __main__: code under its guard must not run here
    module.__file__ = os.path.join(os.getcwd(), PROGRAM)  # noqa: PTH109, PTH118
    sys.modules["solution"] = module
    namespace = module.__dict__
    if prelude:
        import_common_names(source.decode("utf-8", "replace"), namespace, wanted)
    exec("\n".join(imports), namespace)  # noqa: S102
    exec(compile(source, PROGRAM, "exec", dont_inherit=True), namespace)  # noqa: S102
    return namespace


def import_common_names(source: str, namespace: dict[str, Any], wanted: str = "") -> None:
    """Import the well-known names that occur in the source, before it runs, and raise two limits.

    They are those that LiveCodeBench imports for every program, and a few more. No built-in name
    is replaced. The `wanted` function is `Given`: the program may call it, but does not define it so.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 50_000))  # as LiveCodeBench does
    sys.set_int_max_str_digits(50_000)  # likewise
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in source).split()) - set(dir(builtins))
    for module_name in _STARRED.split():
        module = __import__(module_name)
        public = getattr(module, "__all__", None) or [name for name in dir(module) if name[0] != "_"]
        namespace.update({name: getattr(module, name) for name in words.intersection(public)})
    for module_name, names in _PLACES.items():
        for name in words.intersection(names.split()):
            namespace[name] = getattr(__import__(module_name), name)
    for module_name in words.intersection(_MODULES):
        namespace[module_name] = __import__(module_name)
    if callable(namespace.get(wanted)):
        namespace[wanted] = Given(namespace[wanted])


class Given:
    """A function of a library under the name of the one that the problem asks for."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call it."""
        return self.function(*arguments, **keywords)


def script() -> None:
    """Run the program as a script, with the common names imported."""
    with open(PROGRAM, "rb") as file:  # noqa: PTH123
        source = file.read()
    namespace = sys.modules["__main__"].__dict__
    try:
        if b"\0" in source:
            raise SyntaxError("source code cannot contain null bytes")
        import_common_names(source.decode("utf-8", "replace"), namespace)
        exec(compile(source, PROGRAM, "exec", dont_inherit=True), namespace)  # noqa: S102
    except Exception as error:
        show(error)
        raise SystemExit(1) from None


def find(namespace: dict[str, Any], name: str, method: bool) -> Any:
    """The function to call; a method of a new ``Solution`` if there is such a class."""
    if "Solution" in namespace and (method or name not in namespace):
        instance = namespace["Solution"]()
        if hasattr(instance, name):
            return getattr(instance, name)
    if name not in namespace or isinstance(namespace[name], Given):
        raise NameError(f"the program defines no function {name!r}")
    return namespace[name]


def call() -> None:
    """Call one function once, as the file `CASE` says, and write its result to the data descriptor."""
    with open(CASE, "rb") as file:  # noqa: PTH123
        name, method, prelude, arguments = values.decode(file.read())
    try:
        result = find(load(prelude, [], name), name, method)(*arguments)
        data = values.encode(("result", result))
    except Exception as error:
        fail(error)
    send(data)


def send(data: bytes) -> None:
    """Write data for the grader outside."""
    try:
        regular = stat.S_ISREG(os.fstat(DATA_FD).st_mode)
    except OSError:
        regular = False
    with open(DATA_FD if regular else DATA_FILE, "wb", closefd=not regular) as file:
        file.write(data)


def fail(error: BaseException) -> None:
    """Show the traceback of the program's own frames, report what was raised, and exit."""
    show(error)
    data = values.encode(("raised", type(error).__name__))
    send(data)
    raise SystemExit(1)


def show(error: BaseException) -> None:
    """Print a traceback without this module's frames."""
    import traceback

    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != PROGRAM:
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def serve() -> None:
    """Serve calls over the channel until it ends."""
    with open(CASE, "rb") as file:  # noqa: PTH123
        prelude, imports = values.decode(file.read())
    Server(read, write).serve(prelude, imports)


def replay() -> None:
    """Answer the requests in the file `ASKED`, in order; used where there is no channel."""
    with open(CASE, "rb") as file:  # noqa: PTH123
        prelude, imports = values.decode(file.read())
    with open(ASKED, "rb") as file:  # noqa: PTH123
        asked = iter(values.decode(file.read()))
    answers: list[str] = []  # as texts, which are plain data for the grader

    def following() -> bytes | None:
        request: bytes | None = next(asked, None)
        if request is None:
            leave(values.encode(answers))
        return request

    Server(following, lambda data: answers.append(data.decode("latin-1"))).serve(prelude, imports)
    send(values.encode(answers))


def leave(data: bytes) -> None:
    """Write data and end at once, whatever the program is doing."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        send(data)
        os._exit(0)


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


class Lent(Proxy):
    """An object of the tests in the program's hands: a function passed to it, an iterator, any object."""

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask("assign", self, (name, value), {})


class Server:
    """Answers requests of the form ``(operation, target, arguments, keywords)``.

    Args:
        read: Returns the next packet, or None at the end.
        write: Sends one packet.
    """

    def __init__(self, read: Callable[[], bytes | None], write: Callable[[bytes], None]) -> None:
        self.read, self.write = read, write
        self.kept: dict[int, Any] = {}
        self.numbers: dict[int, int] = {}
        self.lent: dict[int, Lent] = {}
        self.namespace: dict[str, Any] = {}

    def keep(self, value: Any) -> values.Handle:
        """Keep an object for later calls, and make its handle."""
        if isinstance(value, Lent):
            handle: values.Handle = value._handle
            return handle
        number = self.numbers.setdefault(id(value), len(self.kept))
        self.kept[number] = value
        return values.handle_of(value, number)

    def serve(self, prelude: bool, imports: list[str]) -> None:
        """Load the program, then answer until the requests end."""
        try:
            self.namespace = load(prelude, imports)
        except Exception as error:
            show(error)
            self.write(values.encode(("raised", *described(error))))
            return
        self.write(values.encode(("ready",)))
        while (data := self.read()) is not None:
            given: list[Any] = []
            self.write(self.answer(values.decode(data, self.resolve, containers=given), given))

    def answer(self, request: Any, given: list[Any]) -> bytes:
        """The answer to one request; `given` are the containers in it."""
        operation, target, arguments, keywords = request
        try:
            result = self.perform(operation, target, arguments, keywords)
            # The arguments are sent back too, because a function may change them in place.
            known = {id(container): number for number, container in enumerate(given)}
            return values.encode(("result", result, arguments, keywords), self.keep, known=known)
        except StopIteration as error:
            return values.encode(("stop",) if operation == "next" else ("raised", *described(error)))
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            show(error)
            return values.encode(("raised", *described(error)))

    def call_back(self, operation: str, target: Lent, arguments: tuple[Any, ...], keywords: Any) -> Any:
        """Use an object of the tests; they may send requests themselves before they answer."""
        self.write(values.encode(("ask", operation, target, list(arguments), keywords), self.keep))
        while (data := self.read()) is not None:
            given: list[Any] = []
            message = values.decode(data, self.resolve, containers=given)
            if message[0] == "gives":
                return message[1]
            if message[0] == "stops":
                raise StopIteration
            if message[0] == "raises":
                raise rebuilt(message[1:], RuntimeError)
            self.write(self.answer(message, given))
        raise SystemExit  # the tests have ended

    def resolve(self, handle: values.Handle) -> Any:
        """The object behind a handle: one kept here, one of the tests, or one known by its name."""
        if handle.number == values.NAMED:
            module, _, name = handle.kind.partition(":")
            return getattr(__import__(module), name)
        if handle.number < 0:
            return self.lent.setdefault(handle.number, Lent(self.call_back, handle))
        return self.kept[handle.number]

    def perform(self, operation: str, target: Any, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """Carry out one request."""
        if operation == "global":
            return find(self.namespace, target, False)
        if operation in ("call", "isinstance") and isinstance(target, str):
            target = find(self.namespace, target, False)
        if operation == "isinstance":
            return isinstance(arguments[0], target)
        if operation in ("str", "repr"):
            return str(target) if operation == "str" else repr(target)
        return use(operation, target, arguments, keywords)


def use(operation: Any, target: Any, arguments: Any, keywords: Any) -> Any:
    """Call an object, iterate over it, get an item or an attribute of it, its length, or its truth value."""
    if operation == "call":
        return target(*arguments, **keywords)
    if operation == "next":
        return next(target)
    if operation == "iter":
        return iter(target)
    if operation == "item":
        return target[arguments[0]]
    if operation == "attribute":
        return getattr(target, arguments[0])
    if operation in ("length", "truth"):
        return len(target) if operation == "length" else bool(target)
    raise ValueError(f"no operation {operation!r}")


def described(error: BaseException) -> tuple[str, Any, str]:
    """The name of an exception's built-in class, its text, and ``module:name`` of a nearer standard class."""
    try:
        known = [c for c in type(error).__mro__ if loaded(f"{c.__module__}:{c.__name__}") is c]
        name = next(c.__name__ for c in known if c.__module__ == "builtins")
        home = "" if known[0].__module__ == "builtins" else f"{known[0].__module__}:{known[0].__name__}"
        # A KeyError's text is how its key is written.
        text = error.args[0] if isinstance(error, KeyError) and error.args else ""
        return name, text[:2000] if text and type(text) is str else str(error)[:2000], home
    except Exception:
        return "Exception", "", ""


def loaded(home: str) -> Any:
    """What has a name in a module of the standard library that is imported here; None if nothing has."""
    module, _, name = home.partition(":")
    standard = module == "builtins" or module.partition(".")[0] in sys.stdlib_module_names
    return getattr(sys.modules.get(module), name, None) if standard else None


def rebuilt(said: Any, other: type[Exception]) -> BaseException:
    """An exception as it was `described`: of its built-in class if its own is not loaded here.

    It is of the class `other` if it would end a loop: an iterator on this side must not end because something
    on the other side did.
    """
    name, text, home = said
    for kind in (loaded(str(home)), loaded(f"builtins:{name}")):
        if (
            isinstance(kind, type)
            and issubclass(kind, (Exception, SystemExit, KeyboardInterrupt))
            and not issubclass(kind, (StopIteration, StopAsyncIteration))
        ):
            for make in (kind, lambda said, kind=kind: kind.__new__(kind, said)):  # some want more arguments
                try:
                    return make(text)
                except Exception:
                    continue
    return other(f"{name}: {text}")


def read() -> bytes | None:
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


def write(data: bytes) -> None:
    """Send one packet."""
    view = memoryview(struct.pack("<I", len(data)) + data)
    while view:
        view = view[os.write(CHANNEL_FD, view) :]
