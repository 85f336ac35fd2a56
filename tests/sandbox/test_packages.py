"""Programs may import what contest judges offer, and nothing else that is installed."""

import pytest
from sandboxes import need

from mars_env import sandbox
from mars_env.sandbox import OFFERED, Limits

LIMITS = Limits(cpu_seconds=60)


@pytest.fixture(params=["bubblewrap", "landlock"])
async def backend(request):
    need(request.param)
    return request.param


async def test_what_judges_offer_can_be_imported(backend):
    """All of it: the extra `dev` brings the extra `judges`."""
    assert set(await sandbox.importable(backend)) == set(OFFERED)
    source = (
        "import numpy, sortedcontainers, networkx, scipy.optimize, sympy\n"
        "assert numpy.linalg.inv(numpy.eye(2)).sum() == 2\n"
        "assert sortedcontainers.SortedList([3, 1]).bisect(2) == 1\n"
        "assert networkx.shortest_path(networkx.path_graph(3), 0, 2) == [0, 1, 2]\n"
        "assert scipy.optimize.brentq(lambda x: x - 1, 0, 3) == 1\n"
        "assert sympy.isprime(97)\nprint('ok')"
    )
    result = await sandbox.run(source, limits=LIMITS, backend=backend)
    assert result.stdout == b"ok\n", result


@pytest.mark.parametrize("name", ["pytest", "mars_env"])
async def test_nothing_else_can(backend, name):
    result = await sandbox.run(f"import {name}", backend=backend)
    assert b"ModuleNotFoundError" in result.stderr


async def test_a_package_cannot_be_changed(backend):
    source = (
        "import os, sortedcontainers\n"
        "folder = os.path.dirname(sortedcontainers.__file__)\n"
        "for attempt in (lambda: open(folder + '/x.py', 'w'), lambda: os.remove(folder + '/__init__.py')):\n"
        "    try:\n        attempt()\n    except OSError:\n        print('refused')"
    )
    result = await sandbox.run(source, backend=backend)
    assert result.stdout == b"refused\nrefused\n", result
