"""What to run: a command or Python source, with its input and files."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mars_env.errors import ConfigError
from mars_env.text import brief


@dataclass(frozen=True, slots=True)
class Job:
    """One untrusted program and its input. It has either `source` or `argv`.

    Attributes:
        source: Python source, run as a script ``main.py`` by the sandbox's warm interpreter: the fastest way.
        argv: A command: a program inside the sandbox and its arguments.
        arguments: Arguments of the script, for `source`.
        files: Files to write into its working directory first, by relative path.
        environment: Environment variables in addition to the sandbox's own few.
    """

    source: str | bytes | None = None
    argv: tuple[str, ...] | None = None
    arguments: tuple[str, ...] = ()
    stdin: bytes = b""
    files: Mapping[str, bytes] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.source is None) == (self.argv is None):
            raise ConfigError("a job has either source or argv")
        environment = (*self.environment, *self.environment.values())
        texts = (*(self.argv or ()), *self.arguments, *environment, *self.files)
        if wrong := [text for text in texts if not isinstance(text, str)]:
            raise ConfigError(f"a job's command, file names and environment are strings: {brief(wrong[0])}")
        for name, content in {"stdin": self.stdin, **self.files}.items():
            if not isinstance(content, bytes | bytearray):
                raise ConfigError(f"a job's {name!r} must be bytes, not {type(content).__name__}: encode it")
        if "\0" in "".join(texts):
            raise ConfigError("a job's command, arguments, file names and environment hold no NUL")
        if self.argv == () or any(not name or "=" in name for name in self.environment):
            raise ConfigError("a command must not be empty, nor an environment variable's name, or hold '='")
        for path in self.files:
            normal = posixpath.normpath(path)
            if not path or normal.startswith(("/", "..")) or normal == ".":
                raise ConfigError(f"a job's files are below its working directory, not at {path!r}")

    @property
    def source_bytes(self) -> bytes | None:
        """The source as UTF-8; what cannot be encoded is kept, and the compiler refuses it."""
        return self.source.encode("utf-8", "surrogatepass") if isinstance(self.source, str) else self.source


def job_of(program: Job | str | Sequence[str], stdin: bytes | str, files: Mapping[str, bytes]) -> Job:
    """A job from source or a command as a list."""
    if isinstance(program, Job):
        if stdin or files:
            raise ConfigError("a Job holds its own stdin and files")
        return program
    data = stdin.encode("utf-8", "surrogatepass") if isinstance(stdin, str) else stdin
    if isinstance(program, str):
        return Job(source=program, stdin=data, files=files)
    return Job(argv=tuple(program), stdin=data, files=files)
