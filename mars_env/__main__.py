"""`python -m mars_env` is `mars-env`: the command line, which Ctrl-C ends without a traceback."""

import signal
import sys


def main() -> None:
    """Run the command line."""
    try:
        from mars_env.cli import main as run

        run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one does not wait for what is under way
        sys.exit(130)


if __name__ == "__main__":
    main()
