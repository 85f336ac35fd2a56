"""The command line, in a process of its own or in this one, and Python in a process of its own."""

import io
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from mars_env import cli


def command(*arguments):
    """The command line of a call of mars-env."""
    return [sys.executable, "-m", "mars_env", *map(str, arguments)]


def call_cli(*arguments, code=0, **how):
    """Call mars-env in this process, which need not import everything again.

    It must end with this exit status; returns its output, or its errors if it fails.
    """
    printed, errors, status = invoke(*arguments, **how)
    assert status == code, errors + printed
    return printed if code == 0 else errors


def invoke(*arguments, input=""):
    """Call mars-env in this process; returns its output, its errors and its exit status."""
    out, err, stdin = (io.TextIOWrapper(io.BytesIO(data), "utf-8") for data in (b"", b"", input.encode()))
    argv = ["mars-env", *map(str, arguments)]
    before = signal.getsignal(signal.SIGTERM)
    changed = mock.patch.multiple(sys, argv=argv, path=[*sys.path], stdin=stdin)
    with changed, redirect_stdout(out), redirect_stderr(err):
        try:
            status = cli.main()
        except SystemExit as ended:
            status = ended.code
    signal.signal(signal.SIGTERM, before)
    out.seek(0)
    err.seek(0)
    return out.read(), err.read(), status or 0


def run_python(code, *arguments, **options):
    """What a new interpreter does with this code: its status, its output and its errors."""
    given = {"capture_output": True, "text": True, "timeout": 800, **options}
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], **given)
