"""Every backend proves what it declares, as whoever runs the tests and as an ordinary user."""

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import sandbox_suite
from sandboxes import need, skip_or_fail

from mars_env.errors import ConfigError, SandboxError
from mars_env.sandbox import BACKENDS, Bubblewrap, Guarantee, Landlock, Limits, Pool, Unsafe, find_backend
from mars_env.sandbox import backends as backends_module

ALL_CHECKS = [
    pytest.param(name, check, id=f"{name}-{check.name}")
    for name, make in BACKENDS.items()
    for check in sandbox_suite.checks_for(make())
]


@pytest.mark.parametrize(("name", "check"), ALL_CHECKS)
@pytest.mark.filterwarnings("ignore:the sandbox 'unsafe':RuntimeWarning")
async def test_contract(name, check):
    need(name)
    await check.prove(BACKENDS[name]())


def test_bubblewrap_declares_all_and_landlock_all_but_a_private_view_of_processes():
    assert Bubblewrap().guarantees == frozenset(Guarantee)
    assert frozenset(Guarantee) - Landlock().guarantees == {Guarantee.PRIVATE_PROCESSES}


_AS_USER = """
import asyncio, sys
from mars_env.sandbox import BACKENDS, probe
from sandbox_suite import checks_for_another_user
async def main():
    backend = BACKENDS[sys.argv[1]]()
    found = await probe(backend)
    if not found.works:
        print("SKIP", found.why)
        return
    for check in checks_for_another_user(backend):
        try:
            await check.prove(backend)
        except AssertionError as error:
            print("FAILED", check.name, error)
    print("DONE")
asyncio.run(main())
"""


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
def test_contract_as_an_ordinary_user(name):
    if os.geteuid() != 0:
        pytest.skip("the tests themselves run as an ordinary user")
    python = shutil.which(f"python3.{sys.version_info.minor}", path="/usr/bin:/usr/local/bin")
    if python is None:
        pytest.skip("there is no interpreter of this version that an ordinary user may run")
    packages = next(p for p in sys.path if p.endswith("site-packages"))
    folders = [Path(backends_module.__file__).parents[2], Path(sandbox_suite.__file__).parent, packages]
    path = os.pathsep.join(map(str, folders))
    done = subprocess.run(
        [python, "-c", _AS_USER, name],
        user=65534,
        group=65534,
        extra_groups=[],
        env={"PYTHONPATH": path, "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=850,
    )
    if "SKIP" in done.stdout:
        skip_or_fail(name, done.stdout.strip(), user=65534)
    if "Permission denied" in done.stderr or "ModuleNotFoundError" in done.stderr:
        pytest.skip(f"an ordinary user cannot read what it needs: {done.stderr.strip().splitlines()[-1]}")
    assert done.stdout.split("\n")[:-1] == ["DONE"], done.stdout + done.stderr


async def test_auto_never_picks_unsafe_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr(backends_module.shutil, "which", lambda name: None)
    monkeypatch.setattr(backends_module, "landlock_abi", lambda: 0)
    with pytest.raises(SandboxError):
        await find_backend("auto")
    with pytest.raises(ConfigError):
        await find_backend("docker")


async def test_auto_picks_landlock_where_name_spaces_are_closed(monkeypatch):
    need("landlock")
    monkeypatch.setattr(backends_module.shutil, "which", lambda name: "/bin/false")
    assert (await find_backend("auto")).name == "landlock"


async def test_unsafe_warns():
    backends_module._warn_unsafe.cache_clear()
    with pytest.warns(RuntimeWarning, match="protects nothing"):
        await Pool(Unsafe()).run("print(1)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pool = Pool(Unsafe())
        result = await pool.run("print(1)")
        assert Guarantee.HOST_FILES in result.missing
        await pool.aclose()


@pytest.mark.parametrize("name", ["bubblewrap", "landlock"])
async def test_the_files_of_a_job_are_not_charged_to_its_program(name):
    need(name)
    backend = {"bubblewrap": Bubblewrap, "landlock": Landlock}[name]()
    limits = Limits(disk_bytes=1 << 20, files=20)
    files = {"large": bytes(3 << 20), **{f"small/{i}": b"x" for i in range(40)}}
    wait = "open('made', 'wb').write(bytes({})); import time; time.sleep(0.3); print('done')"
    for made, ended in ((1 << 18, "exited"), (2 << 20, "disk limit")):
        job = sandbox_suite.Job(source=wait.format(made), files=files)
        result = await sandbox_suite.execute(backend, job, limits)
        assert result.ended.value == ended, result


async def test_a_sandbox_that_does_not_start_says_why(monkeypatch):
    monkeypatch.setattr(backends_module, "_bubblewrap_options", lambda root, packages: ("--no-such-option",))
    need("bubblewrap")
    with pytest.raises(SandboxError):
        await sandbox_suite.execute(Bubblewrap(), sandbox_suite.Job(source="1"))
