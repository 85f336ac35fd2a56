"""What all tests share: modules that are not collected, no limits of time, how started processes take Ctrl-C.

Doctests are collected from all modules except these, which only OpenRLHF's environment can import. One more
needs verifiers, which an environment without the extra lacks.
"""

import os
import signal
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

# Studies and benchmarks stand beside the package: last, so that an installed mars_env is found first.
sys.path.append(str(Path(__file__).parent))

_TRAINER = "mars_env/trainers/openrlhf"
collect_ignore = [
    f"{_TRAINER}/workers",
    "tests/engines/openrlhf_shim",
]
if find_spec("verifiers") is None:
    collect_ignore.append("mars_env_verifiers")

if find_spec("hypothesis") is not None:
    from hypothesis import HealthCheck, settings

    # A push must fail for what it changed: its examples are the same at every run, and a busy machine is no
    # failure. HYPOTHESIS_PROFILE=explore draws others (`make explore`), and remembers the failing ones.
    timeless = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("same", derandomize=True, database=None, **timeless)
    settings.register_profile("explore", print_blob=True, **timeless)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# Background jobs of a shell, and all that they start, ignore SIGINT; tests interrupt what they start.
if (
    threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):
    signal.signal(signal.SIGINT, signal.default_int_handler)
