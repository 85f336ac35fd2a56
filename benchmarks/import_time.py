"""Import time: `import mars_env` against pettingzoo, and `mars-env --help` against a bare typer program.

    python benchmarks/import_time.py [--rounds 15]

Prints CPU seconds of whole processes (median, minimum, maximum; interleaved) and the ratios of their medians.
All include the start of the interpreter. Bytecode is cached in a separate folder, so that the rounds compile
nothing.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile

BARE = (
    "import typer\napp = typer.Typer(add_completion=False)\n"
    "@app.command()\ndef one(): 'One.'\n@app.command()\ndef two(): 'Two.'\napp()"
)
COMMANDS = {
    "import pettingzoo": ["-c", "import pettingzoo"],
    "import mars_env": ["-c", "import mars_env"],
    "import both": ["-c", "import mars_env, pettingzoo"],
    "a bare typer program --help": ["-c", BARE, "--help"],
    "mars-env --help": ["-m", "mars_env", "--help"],
}


def cpu_seconds(arguments, bytecode):
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode, "PYTHONDONTWRITEBYTECODE": ""}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    seconds = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as bytecode:
        for arguments in COMMANDS.values():
            cpu_seconds(arguments, bytecode)  # compiles, and warms the file cache
        for _ in range(rounds):
            for name, arguments in COMMANDS.items():
                seconds[name].append(cpu_seconds(arguments, bytecode))
    for name, found in seconds.items():
        print(f"{name:30} {statistics.median(found):.3f} s ({min(found):.3f} to {max(found):.3f})")
    middle = {name: statistics.median(found) for name, found in seconds.items()}
    alone = middle["import pettingzoo"]
    print(f"import mars_env: {middle['import mars_env'] / alone:.2f} times pettingzoo")
    print(f"import both: {middle['import both'] / alone:.2f} times pettingzoo")
    print(f"--help: {middle['mars-env --help'] / middle['a bare typer program --help']:.2f} times bare typer")


if __name__ == "__main__":
    main()
