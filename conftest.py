"""What all tests share: modules that are not collected, no limits of time, how started processes take Ctrl-C.

Doctests are collected from all modules except these, which only OpenRLHF's environment can import. One more
needs verifiers, which an environment without the extra lacks.
"""

import signal
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

# Studies and benchmarks stand beside the package: last, so that an installed mars_env is found first.
sys.path.append(str(Path(__file__).parent))

_TRAINER = "mars_env/trainers/openrlhf"
collect_ignore = [
    f"{_TRAINER}/__main__.py",
    f"{_TRAINER}/workers",
    "tests/engines/openrlhf_shim",
]
if find_spec("verifiers") is None:
    collect_ignore.append("mars_env/trainers/verifiers.py")

if find_spec("hypothesis") is not None:  # a busy machine is no failure
    from hypothesis import HealthCheck, settings

    settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("untimed")

# Background jobs of a shell, and all that they start, ignore SIGINT; tests interrupt what they start.
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):
    signal.signal(signal.SIGINT, signal.default_int_handler)
