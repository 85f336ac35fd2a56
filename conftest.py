"""Doctests are collected from all modules but these, which only OpenRLHF's own environment can import."""

_ROOM = "mars_env/trainers/openrlhf"
_MODULES = ("__main__", "actors", "experience", "generator", "processes", "several", "trainer")
collect_ignore = [*(f"{_ROOM}/{module}.py" for module in _MODULES), "tests/engines/openrlhf_shim"]
