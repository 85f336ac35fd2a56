"""Runs inside the tests' sandbox: an assert-style suite against a program in another sandbox.

This file is sent into sandboxes unchanged. Nothing of the program is in this process: its functions are
proxies that exchange plain data, so a test compares values of Python's own types with its expectations.
"""

from __future__ import annotations

import builtins
import select
import sys
import time
import types

from mars_env.grading.code import program as channel
from mars_env.grading.code import values

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing itself is slow to import
    from collections.abc import Callable
    from typing import Any

SUITE = "suite"  # the job's file
NAME = "suite"  # the tests' module
_MODULES = frozenset(
    {"bisect", "collections", "copy", "datetime", "functools", "heapq", "itertools", "math", "operator"}
    | {"random", "re", "string", "sys"}
)


class ProgramError(Exception):
    """The program raised an exception of a class that it defines itself."""


class ProgramGone(BaseException):
    """The program ended or sent invalid data. It is not an Exception, so that no test catches it as one.

    Its `kind` is ``unasked`` if no request was under way, and the tests had not waited for long before.
    """

    def __init__(self, why: str, kind: str = "gone") -> None:
        super().__init__(why)
        self.kind = kind


class _ProgramObject(channel.Proxy):
    shown = False  # whether a value is being shown to people: then the program is not asked

    def __hash__(self) -> int:
        return hash(self._handle.number)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __str__(self) -> str:
        return self._text("str")

    def __repr__(self) -> str:
        return self._text("repr")

    def _text(self, operation: str) -> str:
        if _ProgramObject.shown:
            return super().__repr__()
        text = self._ask(operation, self, (), {})
        if type(text) is not str:
            raise TypeError("the text of an object must be a str")
        return text


class _Session(channel.Peer):
    """The tests' side of the conversation.

    Once the tests have waited for `patience` seconds in all, the program's end is its own fault, even if no
    request was under way.
    """

    proxy, other, gone = _ProgramObject, ProgramError, ProgramGone
    last_call = ""  # with its result, for people

    def __init__(self, patience: float) -> None:
        super().__init__()
        self.patience = patience
        self.under_way = self.used = False

    def keep(self, value: Any) -> Any:
        if isinstance(value, _Function):  # the program's own, by name, whatever it is in that process
            return self.ask("global", value.__name__, (), {})
        if not isinstance(value, channel.Proxy) and (name := _library_name(value)) is not None:
            return values.Handle(values.NAMED, name)
        return super().keep(value)

    def use(self, operation: str, target: Any, arguments: Any, keywords: Any) -> Any:
        if not any(target is each for each in self.kept):
            raise TypeError("the tests did not pass this object to the program")
        if operation not in ("attribute", "assign"):
            return channel.USES[operation](target, *arguments, **keywords)
        # Only attributes of the tests' own objects: a frame or a module would reveal everything else.
        name = arguments[0]
        if type(target).__module__ != NAME or not isinstance(name, str) or name.startswith("_"):
            raise AttributeError(name)
        return getattr(target, name) if operation == "attribute" else setattr(target, name, arguments[1])

    def exchange(self, message: bytes, sent: list[Any]) -> Any:
        """The answer to a request, or to being loaded; without one the program is to blame."""
        outermost = not self.under_way
        self.used |= bool(message)
        if message and outermost and self.patience > 0:
            closed = select.poll()
            closed.register(channel.CHANNEL_FD, 0)
            if closed.poll(0):
                raise ProgramGone("the program ended before the request", "unasked")
        began = time.monotonic()
        self.under_way = True
        try:
            if message:
                self.write(message)
            return self.receive(sent)
        except OSError as error:
            raise ProgramGone("the program ended before it answered") from error
        except (ValueError, TypeError, LookupError, MemoryError, RecursionError, OverflowError) as error:
            raise ProgramGone("the program sent something that is not a value") from error
        finally:
            if outermost:
                self.under_way = False
                self.patience -= time.monotonic() - began

    def ask(self, operation: str, target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if operation != "call":
            return super().ask(operation, target, arguments, keywords)
        call = f"{target}({', '.join(map(_short, arguments))})"
        try:
            value = super().ask(operation, target, arguments, keywords)
        except ProgramGone:
            raise
        except BaseException as error:
            self.last_call = f"{call} raised {type(error).__name__}: {_short(str(error))}"
            raise
        self.last_call = f"{call} returned {_short(value)}"
        return value


def _short(value: Any) -> str:
    text = _text(value, repr)
    return text if len(text) <= 300 else text[:280] + f"... ({len(text)} characters)"


def _text(value: Any, write: Callable[[Any], str] = str) -> str:
    """A value's text, for people; the value may come from the program, such as a very long integer."""
    _ProgramObject.shown = True
    try:
        return write(value)
    except Exception as error:  # for example a list that is too deep
        return f"<{type(value).__name__}: {type(error).__name__}>"
    finally:
        _ProgramObject.shown = False


def _library_name(value: Any) -> str | None:
    """``module:name`` of a function or class in the standard library, which the program has too."""
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str) or isinstance(value, types.MethodType):
        return None
    if module != "builtins" and module not in _MODULES:
        return None
    named = getattr(sys.modules.get(module), name, None)
    return f"{module}:{name}" if named is value else None


def _names_used(code: types.CodeType) -> set[str]:
    inner = [_names_used(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*inner)


def _main() -> None:
    spec = channel.stored_value(SUITE)
    report = _run(spec, _Session(spec["patience"]))
    sys.stdout.flush()
    channel.send_data(values.encode(report))


def _run(spec: dict[str, Any], session: _Session) -> Any:
    """The report: ``("broken", reason)``, ``("load", exception)`` or ``("ran", outcomes)``."""
    namespace: dict[str, Any] = {"__name__": NAME}
    try:
        codes = [
            (compile(text, "<tests>", "exec", dont_inherit=True), check) for text, check in spec["tests"]
        ]
        for line in spec["imports"]:
            exec(compile(line, "<test_imports>", "exec", dont_inherit=True), namespace)  # noqa: S102
    except Exception as error:
        return "broken", f"{type(error).__name__}: {error}"[:500]
    try:
        exec(compile(spec["helpers"], "<prompt>", "exec", dont_inherit=True), namespace)  # noqa: S102
    except Exception:
        namespace = {
            name: value for name, value in namespace.items() if not isinstance(value, types.FunctionType)
        }
    try:
        answer = session.exchange(b"", [])
    except ProgramGone:
        return "load", ""
    if answer != ("ready",):
        return "load", str(answer[1])[:100] if isinstance(answer, tuple) and len(answer) == 4 else ""
    outcomes: list[Any] = []
    for code, check in codes:
        _provide(_names_used(code), spec["entry_point"], namespace, session)
        session.last_call = ""
        outcome = _attempt(code, spec["entry_point"] if check else "", namespace)
        if outcome[0] == "broken":
            return outcome
        # An exception of the program's own class cannot be caught here, where that is no class.
        shared = bool(session.proxies or session.kept)
        held = shared or "do not inherit from BaseException" in outcome[1]
        outcomes.append((*outcome, session.last_call, held))
        if outcome[0] in ("gone", "unasked") or (outcome[0] != "passed" and not spec["all"]):
            break
    if not session.used:  # so the outcome says nothing about it
        return "broken", outcomes[-1][1] or "they never use the program"
    return "ran", outcomes


def _provide(names: set[str], entry_point: str, namespace: dict[str, Any], session: _Session) -> None:
    for name in names | {entry_point} if entry_point else names:
        if name == entry_point or not (name in namespace or hasattr(builtins, name)):
            if name in _MODULES and name != entry_point:
                namespace[name] = __import__(name)
            else:
                namespace[name] = _Function(session, name, name == entry_point)


class _Function:
    def __init__(self, session: _Session, name: str, asked_for: bool) -> None:
        self._session, self.__name__, self._asked_for = session, name, asked_for

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self._session.ask("call", self.__name__, arguments, keywords)

    def __instancecheck__(self, value: Any) -> bool:
        return self._session.ask("isinstance", self.__name__, (value,), {}) is True

    def __getattr__(self, name: str) -> Any:
        """A name in a class of the program; in nothing else, as the tests may mean a module of their own."""
        if name.startswith("_") or not (self._asked_for or self.__name__[:1].isupper()):
            raise AttributeError(f"{self.__name__!r} has no attribute {name!r} for the tests")
        return getattr(self._session.ask("global", self.__name__, (), {}), name)

    def __repr__(self) -> str:
        return f"<function {self.__name__}>"


def _attempt(code: types.CodeType, candidate: str, namespace: dict[str, Any]) -> tuple[str, str]:
    """Run a test: ``passed``, ``failed`` (an assertion), ``raised``, ``gone`` or ``unasked``, and a text.

    ``broken``: the tests import a module that is not here.
    """
    try:
        exec(code, namespace)  # noqa: S102
        if candidate:
            namespace["check"](namespace[candidate])
    except AssertionError as error:
        return "failed", _text(error)[:500]
    except ProgramGone as error:
        return error.kind, str(error)
    except BaseException as error:
        is_missing = isinstance(error, ModuleNotFoundError) and error.name  # the program's has no name
        return "broken" if is_missing else "raised", f"{type(error).__name__}: {_text(error)}"[:500]
    return "passed", ""
