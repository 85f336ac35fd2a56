"""Unpacks LiveCodeBench's private tests: base64 of zlib of a pickle, of which only plain data is accepted."""

import base64
import io
import pickle
import pickletools
import zlib
from typing import Any

from mars_env.problems.rows import BadField
from mars_env.text import describe_error

_MAX_BYTES = 1 << 30  # of a field after unpacking


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, but only plain data is allowed")


def unpack(text: str, field: str) -> Any:
    """The plain data in base64 of zlib of a pickle; raises BadField for anything else."""
    try:
        unzip = zlib.decompressobj()
        data = unzip.decompress(base64.b64decode(text, validate=False), _MAX_BYTES)
    except (zlib.error, ValueError) as error:
        raise BadField(field, f"is neither JSON nor base64 of zlib ({error})") from error
    if not unzip.eof:
        raise BadField(field, f"is cut off, or larger than {_MAX_BYTES} bytes")
    try:
        # A place in a table makes room for the whole table; genops reads no more than there is.
        if any("PUT" in code.name and (n or 0) > len(data) for code, n, _ in pickletools.genops(data)):
            raise pickle.UnpicklingError("it numbers more values than it has")
        return _PlainUnpickler(io.BytesIO(data)).load()
    except Exception as error:  # a broken pickle can raise almost anything
        raise BadField(field, f"cannot be unpickled ({describe_error(error)})") from error
