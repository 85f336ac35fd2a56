"""The command line, and Python, in a separate process."""

import subprocess
import sys


def command(*arguments):
    """The command line of a call of mars-env."""
    return [sys.executable, "-m", "mars_env.cli", *map(str, arguments)]


def run_cli(*arguments, code=0, **how):
    """Call mars-env, which must end with this exit status; returns its output, or its errors if it fails."""
    done = _called(arguments, code, **how)
    return done.stdout if code == 0 else done.stderr


def said(*arguments, code=0, **how):
    """Like `run_cli`, but returns standard output, then standard error."""
    done = _called(arguments, code, **how)
    return done.stdout + done.stderr


def _called(arguments, code, **how):
    done = subprocess.run(command(*arguments), capture_output=True, text=True, **how)
    assert done.returncode == code, done.stderr + done.stdout
    return done


def run_python(code, *arguments, **options):
    """What a new interpreter does with this code: its status, its output and its errors."""
    given = {"capture_output": True, "text": True, "timeout": 800, **options}
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], **given)
