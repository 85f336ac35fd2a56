"""Run by python at its start; does nothing unless the tests ask for it."""

import os

if os.environ.get("MARS_ENV_OPENRLHF_ON_CPU") == "1":
    import on_cpu

    on_cpu.install()
