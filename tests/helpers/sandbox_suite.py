"""The contract suite for sandbox backends: what each must do, and a proof of each guarantee it declares.

For your own backend::

    @pytest.mark.parametrize("check", sandbox_suite.checks_for(MyBackend()), ids=lambda check: check.name)
    async def test_my_backend(check):
        await check.prove(MyBackend())

A check runs one small hostile program and looks at what it achieved, from outside where possible.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import sandbox_evasions  # noqa: F401  (this adds its checks)
from sandbox_checks import CHECKS, PROGRAMS, Check, execute, must_be_fine, proves, run_python

from mars_env.sandbox import Backend, Ended, Guarantee, Job, Limits


def checks_for(backend: Backend) -> list[Check]:
    """The checks that this backend must pass: the common ones and those of its guarantees.

    Example:
        >>> from mars_env.sandbox import Bubblewrap, Unsafe
        >>> len(checks_for(Bubblewrap())) > len(checks_for(Unsafe()))
        True
    """
    wanted = [c for c in CHECKS if c.guarantee is None or c.guarantee in backend.guarantees]
    return sorted(wanted, key=lambda check: check.guarantee is not None)


def checks_for_another_user(backend: Backend) -> list[Check]:
    """Where all checks have passed for one user: those of guarantees, the first alone where no file, process
    or privilege of the user decides it."""
    checks = {}
    for check in checks_for(backend):
        if check.guarantee is not None:
            alike = check.guarantee in (Guarantee.CPU, Guarantee.WALL, Guarantee.OUTPUT)
            checks.setdefault(check.guarantee if alike else check.name, check)
    return list(checks.values())


# --- what every backend does ---


@proves()
async def echoes_standard_input(backend: Backend) -> None:
    result = await run_python(backend, "import sys; print(len(sys.stdin.read()))", stdin=b"x" * (5 << 20))
    assert result.stdout == b"5242880\n", result
    result = await run_python(backend, "a = input(); b = input(); print(b, a)", stdin=b"one\ntwo")
    assert result.stdout == b"two one\n", result


@proves()
async def tells_exit_codes(backend: Backend) -> None:
    for source, code in [
        ("import sys; sys.exit(7)", 7),
        ("raise SystemExit('no')", 1),
        ("exit()", 0),
        ("1/0", 1),
        ("import os; os._exit(9)", 9),
        ("def f(:", 1),
        ("import sys; sys.exit(True)", 1),
    ]:
        result = await run_python(backend, source)
        assert (result.ended, result.exit_code) == (Ended.EXITED, code), (source, result)


@proves()
async def passes_arguments_and_environment(backend: Backend) -> None:
    source = "import os, sys; print(*sys.argv[1:], os.environ['TOKEN'], __name__)"
    job = Job(source=source, arguments=("a b", "'{0}'"), environment={"TOKEN": "e"})
    result = await execute(backend, job)
    assert result.stdout == b"a b '{0}' e __main__\n", result


@proves()
async def shows_a_traceback_of_the_program_alone(backend: Backend) -> None:
    result = await run_python(backend, "def f():\n    return [][1]\nf()")
    said = result.stderr.decode()
    assert said.count("  File ") == 2 and "IndexError" in said and "return [][1]" in said, result


@proves()
async def keeps_bytes_as_they_are(backend: Backend) -> None:
    if "remote" in backend.name:
        return  # its protocol carries text
    result = await run_python(
        backend, r"import sys; sys.stdout.buffer.write(b'\xff\x00\xfe'); sys.stderr.write('\u00e9')"
    )
    assert result.stdout == b"\xff\x00\xfe" and result.stderr == "é".encode(), result


@proves()
async def gives_all_of_a_large_output(backend: Backend) -> None:
    result = await run_python(backend, "print('y' * (4 << 20))")
    assert result.ok and len(result.stdout) == (4 << 20) + 1, (result.ended, len(result.stdout))


@proves()
async def puts_files_where_the_program_is(backend: Backend) -> None:
    files = {"a.txt": b"one", "b/c.txt": b"two", "helper.py": b"x = 3"}
    job = Job(
        source="import helper; print(open('a.txt').read(), open('b/c.txt').read(), helper.x)", files=files
    )
    result = await execute(backend, job)
    assert result.stdout == b"one two 3\n", result


@proves(Guarantee.NETWORK)
async def reaches_no_socket(backend: Backend) -> None:
    name = f"\0mars-env-{secrets.token_hex(8)}"
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as abstract,
        tempfile.TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
    ):
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        abstract.bind(name)
        abstract.listen()
        datagram.bind(f"{folder}/socket")
        datagram.setblocking(False)
        source = PROGRAMS["reaches_no_socket"]
        await must_be_fine(
            backend,
            source,
            port=tcp.getsockname()[1],
            name=name,
            path=f"{folder}/socket",
            udp=udp.getsockname()[1],
        )
        for end in (udp, datagram):
            with contextlib.suppress(BlockingIOError):
                raise AssertionError(f"a datagram arrived: {end.recv(10)!r}")


@proves(Guarantee.HOST_FILES)
async def reads_no_file_of_the_host(backend: Backend) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as canary:
        canary.write("secret")
        canary.flush()
        Path(canary.name).chmod(0o644)
        source = PROGRAMS["reads_no_file_of_the_host"]
        packages = next((p for p in sys.path if p.endswith("site-packages")), "/nowhere")
        await must_be_fine(
            backend, source, canary=canary.name, library=str(Path(__file__)), packages=packages
        )


@proves(Guarantee.HOST_FILES)
async def changes_no_file_of_the_host(backend: Backend) -> None:
    with tempfile.TemporaryDirectory() as folder:
        canary = Path(folder, "canary")
        canary.write_text("as it was")
        Path(folder).chmod(0o777)
        canary.chmod(0o666)
        before = canary.stat()
        source = PROGRAMS["changes_no_file_of_the_host"]
        await must_be_fine(backend, source, folder=folder, canary=str(canary))
        after = canary.stat()
        assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns), after
        assert canary.read_text() == "as it was"
        assert [p.name for p in Path(folder).iterdir()] == ["canary"], after


@proves(Guarantee.ENVIRONMENT)
async def sees_no_environment_of_the_host(backend: Backend) -> None:
    secret = secrets.token_hex(8)
    source = PROGRAMS["sees_no_environment_of_the_host"]
    with patch.dict(os.environ, MARS_ENV_SUITE_SECRET=secret):
        await must_be_fine(backend, source, private=Guarantee.HOST_FILES in backend.guarantees)


@proves(Guarantee.SIGNALS)
async def harms_no_process_of_the_host(backend: Backend) -> None:
    bystander = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.DEVNULL
    )
    try:
        source = PROGRAMS["harms_no_process_of_the_host"]
        await must_be_fine(backend, source, pid=bystander.pid, suite=os.getpid())
        assert bystander.poll() is None, "a process of the host was killed"
        state = Path(f"/proc/{bystander.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state in "SRD", f"a process of the host is in state {state}"
        assert os.getpriority(os.PRIO_PROCESS, bystander.pid) < 19 or os.getpriority(os.PRIO_PROCESS, 0) == 19
    finally:
        bystander.kill()
        bystander.wait()


@proves(Guarantee.SIGNALS)
async def tells_signals(backend: Backend) -> None:
    for source, number in [
        ("os.kill(os.getpid(), 9)", signal.SIGKILL),
        ("os.abort()", signal.SIGABRT),
        ("ctypes.string_at(0)", signal.SIGSEGV),
    ]:
        result = await run_python(backend, source)
        assert (result.ended, result.signal) == (Ended.KILLED, number), (source, result)


@proves(Guarantee.NO_SURVIVORS)
async def leaves_nothing_alive(backend: Backend) -> None:
    token = f"survivor-{secrets.token_hex(8)}"
    source = PROGRAMS["leaves_nothing_alive"]
    result = await run_python(backend, source, token=token)
    assert result.ended is Ended.EXITED and result.stdout.endswith(b"done\n"), result
    alive = processes_with(token)
    assert not alive, f"{len(alive)} processes survived"


def processes_with(token: str, part: Literal["cmdline", "environ"] = "cmdline") -> list[int]:
    """Pids of this machine's other processes whose command line, or environment, contains a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # it has just ended, or may not be read
                if token.encode() in (entry / part).read_bytes():
                    found.append(int(entry.name))
    return found


@proves(Guarantee.NO_SURVIVORS)
async def cancelling_kills(backend: Backend) -> None:
    token = f"cancelled-{secrets.token_hex(8)}"
    source = f"import time\nopen('f', 'w').write({token!r})\ntime.sleep(600)"
    before = _folders()
    task = asyncio.ensure_future(
        execute(backend, Job(source=source, environment={"TOKEN": token}), Limits(idle_seconds=300))
    )
    await asyncio.sleep(0.5)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert not processes_with(token, "environ"), "the program survived"
    assert _folders() <= before, "a folder was left"


def _folders() -> set[str]:
    return {p.name for p in Path(tempfile.gettempdir()).glob(f"mars-env-sandbox-{os.getpid()}-*")}
