"""Runs untrusted programs. Knows nothing about problems or grades.

    result = await mars_env.sandbox.run("print(input())", stdin="hello")

`docs/code-grading.md` says what each backend promises, and how to add your own.
"""

from mars_env.sandbox.backends import Backend, Box, Bubblewrap, Landlock, Spawner, Unsafe
from mars_env.sandbox.jobs import Job
from mars_env.sandbox.limits import Ended, Guarantee, Limits, Result
from mars_env.sandbox.packages import OFFERED
from mars_env.sandbox.pool import Lease, Pool, close, run
from mars_env.sandbox.probe import BACKENDS, Probe, find_backend, importable, probe, probe_all
from mars_env.sandbox.remote import Remote

__all__ = [
    "BACKENDS",
    "OFFERED",
    "Backend",
    "Box",
    "Bubblewrap",
    "Ended",
    "Guarantee",
    "Job",
    "Landlock",
    "Lease",
    "Limits",
    "Pool",
    "Probe",
    "Remote",
    "Result",
    "Spawner",
    "Unsafe",
    "close",
    "find_backend",
    "importable",
    "probe",
    "probe_all",
    "run",
]
