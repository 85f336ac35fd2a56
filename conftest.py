"""Doctests are collected from all modules but these, which only OpenRLHF's own environment can import."""

_TRAINER = "mars_env/trainers/openrlhf"
collect_ignore = [f"{_TRAINER}/__main__.py", f"{_TRAINER}/workers", "tests/engines/openrlhf_shim"]
