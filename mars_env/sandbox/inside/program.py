"""Runs in the fork that becomes a program."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import builtins
import errno
import gc
import marshal
import os
import resource
import sys
from _frozen_importlib_external import spec_from_file_location

from mars_env.sandbox.inside.kernel import (
    PAGE,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    SYS_LANDLOCK_RESTRICT,
    libc_call,
    load_filter,
    prctl,
    set_limit,
)

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing is slow to import
    from typing import Any

    from mars_env.sandbox.inside.boot import _Box

PRELOADED = ["bisect", "collections", "heapq", "math", "random", "re", "string", "typing"]


class _Packages:
    def __init__(self, folders: dict[str, str]) -> None:
        self.folders = folders

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        folder = self.folders.get(name)
        if folder is None:
            return None
        return spec_from_file_location(name, f"{folder}/__init__.py", submodule_search_locations=[folder])


def preload(modules: dict[str, bytes], packages: dict[str, str]) -> None:
    import _sitebuiltins

    builtins.exit = _sitebuiltins.Quitter("exit", "Ctrl-D (i.e. EOF)")
    builtins.quit = _sitebuiltins.Quitter("quit", "Ctrl-D (i.e. EOF)")
    for name in PRELOADED:
        __import__(name)
    for name, code in modules.items():
        module = type(sys)(name)
        sys.modules[name] = module
        exec(marshal.loads(code), module.__dict__)
    sys.meta_path.append(_Packages(packages))
    # Use the compiler once: its first use takes longer than a small program.
    with open("/dev/null", encoding="utf-8", errors="surrogateescape") as file:
        exec(compile("for word in file.read().split(): print(word)", "<warm>", "exec"), {"file": file})
    gc.collect()
    gc.freeze()  # a fork shares these pages


def open_streams() -> None:
    """Make the standard streams of programs; each fork sets the files behind their descriptors."""
    errors = os.dup(2)
    os.dup2(0, 2)  # a file at its start, like the others
    text: Any = {"encoding": "utf-8", "errors": "surrogateescape", "closefd": False}
    stdin, stdout = open(0, **text), open(1, "w", **text)
    stderr = open(2, "w", **{**text, "errors": "backslashreplace", "buffering": 1})
    vars(sys).update(stdin=stdin, stdout=stdout, stderr=stderr)
    vars(sys).update(__stdin__=stdin, __stdout__=stdout, __stderr__=stderr)
    os.dup2(errors, 2)
    os.close(errors)


def run_child(box: _Box, request: dict[str, Any], fd_count: int, failure_fd: int) -> None:
    """In the fork: apply the limits, then become the program; what goes wrong before goes to `failure_fd`."""
    try:
        os.dup2(failure_fd, fd_count, inheritable=False)
        failure_fd = fd_count
        _enter(box, request, failure_fd)
        if request["argv"] is not None:
            for number in (_signal.SIGPIPE, _signal.SIGXFSZ):  # the interpreter ignores them
                _signal.signal(number, _signal.SIG_DFL)
            try:
                os.execvpe(request["argv"][0], request["argv"], dict(os.environ))
            except OSError as error:
                os.write(2, f"{request['argv'][0]}: {error.strerror}\n".encode())
                os._exit(126 if error.errno == errno.EACCES else 127)
        os.close(failure_fd)
    except BaseException as error:
        os.write(failure_fd, f"{type(error).__name__}: {error}".encode()[:400])
        os._exit(125)
    _run_source(request["source"], request["arguments"], box.main)


def _enter(box: _Box, request: dict[str, Any], last_fd: int) -> None:
    limits = request["limits"]
    os.setsid()
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    if request["environment"]:
        os.environ.update(request["environment"])
    if box.confine:
        prctl(PR_SET_DUMPABLE, 1)  # otherwise it could not open its own /dev/stdin
    if not box.namespaces:
        prctl(PR_SET_PDEATHSIG, _signal.SIGKILL)
        if os.getppid() != box.me:
            os._exit(125)
    if box.ruleset is not None:
        libc_call("syscall", SYS_LANDLOCK_RESTRICT, box.ruleset, 0)
    os.closerange(last_fd + 1, 1024)
    # Whole seconds above the limit: the box counts precisely; this is for when it is slow.
    set_limit(resource.RLIMIT_CPU, int(limits["cpu_seconds"]) + 2)
    set_limit(resource.RLIMIT_FSIZE, max(limits["file_bytes"], limits["output_bytes"] + PAGE))
    set_limit(resource.RLIMIT_NOFILE, limits["open_files"])
    if box.count_processes:
        set_limit(resource.RLIMIT_NPROC, limits["processes"] + 1)
    # The kernel keeps 128 MiB of address space free below a main thread's stack.
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if request["argv"] is None:
        resource.setrlimit(resource.RLIMIT_STACK, (112 << 20 if hard == -1 else min(hard, 112 << 20), hard))
    set_limit(resource.RLIMIT_AS, limits["memory_bytes"] * 5 // 4 + (64 << 20))
    if box.filter is not None:
        load_filter(box.filter)


def _run_source(source: bytes, arguments: list[str], path: str) -> None:
    code = 0
    try:
        sys.argv = ["main.py", *arguments]
        depth = 1
        frame = sys._getframe()
        while frame.f_back is not None:
            depth, frame = depth + 1, frame.f_back
        sys.setrecursionlimit(1000 + depth)
        if b"\0" in source:  # some versions of Python drop the rest of that line
            raise SyntaxError("source code cannot contain null bytes")
        exec(compile(source, path, "exec", dont_inherit=True), vars(sys.modules["__main__"]))
    except SystemExit as error:
        code = _exit_status(error)
    except BaseException as error:
        code = 1
        _show_error(error, path)
    os._exit(_finish(code))


def _show_error(error: BaseException, path: str) -> None:
    try:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != path:
            trace = trace.tb_next
        error.__traceback__ = trace
        sys.excepthook(type(error), error, trace)
    except BaseException as second:
        os.write(2, f"{type(error).__name__}\n(its report failed: {type(second).__name__})\n".encode())


def _exit_status(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    try:
        print(error.code, file=sys.stderr)
    except BaseException:
        return 1
    return 1


def _finish(code: int) -> int:
    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        if "atexit" in sys.modules:
            sys.modules["atexit"]._run_exitfuncs()
    except SystemExit as error:
        code = _exit_status(error)
    except BaseException as error:
        _show_error(error, "")
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException:
            code = code or 120
    return code
