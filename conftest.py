"""Doctests are collected from all modules except these, which only OpenRLHF's environment can import.

One more needs verifiers, which an environment without the extra lacks.
"""

from importlib.util import find_spec

_TRAINER = "mars_env/trainers/openrlhf"
collect_ignore = [f"{_TRAINER}/__main__.py", f"{_TRAINER}/workers", "tests/engines/openrlhf_shim"]
if find_spec("verifiers") is None:
    collect_ignore.append("mars_env/trainers/verifiers.py")
