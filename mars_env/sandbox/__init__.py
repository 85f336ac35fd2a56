"""Runs untrusted programs. `docs/code-grading.md` says what each backend promises."""

from mars_env.sandbox.backends import OFFERED as OFFERED
from mars_env.sandbox.backends import Backend as Backend
from mars_env.sandbox.backends import Box as Box
from mars_env.sandbox.backends import Bubblewrap as Bubblewrap
from mars_env.sandbox.backends import Landlock as Landlock
from mars_env.sandbox.backends import Spawner as Spawner
from mars_env.sandbox.backends import Unsafe as Unsafe
from mars_env.sandbox.jobs import Job as Job
from mars_env.sandbox.limits import Ended as Ended
from mars_env.sandbox.limits import Guarantee as Guarantee
from mars_env.sandbox.limits import Limits as Limits
from mars_env.sandbox.limits import Result as Result
from mars_env.sandbox.pool import Lease as Lease
from mars_env.sandbox.pool import Pool as Pool
from mars_env.sandbox.pool import close as close
from mars_env.sandbox.pool import run as run
from mars_env.sandbox.probe import BACKENDS as BACKENDS
from mars_env.sandbox.probe import Probe as Probe
from mars_env.sandbox.probe import find_backend as find_backend
from mars_env.sandbox.probe import importable as importable
from mars_env.sandbox.probe import probe as probe
from mars_env.sandbox.probe import probe_all as probe_all
from mars_env.sandbox.remote import Remote as Remote
