"""Doctests are collected from all modules but these, which only OpenRLHF's own environment can import."""

_ROOM = "mars_env/trainers/openrlhf"
collect_ignore = [
    f"{_ROOM}/{module}.py"
    for module in ("actors", "experience", "generator", "several", "trainer", "__main__")
]
