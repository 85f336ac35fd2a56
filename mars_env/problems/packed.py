"""Unpacks LiveCodeBench's private tests: base64 of zlib of a pickle, of which only plain data is accepted."""

from __future__ import annotations

import base64
import binascii
import io
import pickle
import zlib
from typing import Any

from mars_env.problems.rows import BadField

MAX_UNPACKED = 1 << 30
"""The largest size of a compressed field after unpacking, in bytes."""


class _PlainUnpickler(pickle.Unpickler):
    """Loads texts, numbers, lists and mappings; refuses a pickle that names any class or function."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}, but only plain data is allowed")


def unpack(text: str, field: str) -> Any:
    """Decode base64 of zlib of a pickle that contains only plain data.

    Raises:
        BadField: It is something else; the message names the field.

    Example:
        >>> unpack(base64.b64encode(zlib.compress(pickle.dumps('[1]'))).decode(), "tests")
        '[1]'
        >>> unpack(base64.b64encode(zlib.compress(pickle.dumps(print))).decode(), "tests")
        Traceback (most recent call last):
        mars_env.problems.rows.BadField: field 'tests' cannot be unpickled (it names builtins.print, but only plain data is allowed)
    """  # noqa: E501
    try:
        unzip = zlib.decompressobj()
        data = unzip.decompress(base64.b64decode(text, validate=False), MAX_UNPACKED)
        if not unzip.eof:
            raise BadField(field, f"is cut off, or larger than {MAX_UNPACKED} bytes")
    except (binascii.Error, zlib.error, ValueError) as error:
        if isinstance(error, BadField):
            raise
        raise BadField(field, f"is neither JSON nor base64 of zlib ({error})") from error
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except pickle.UnpicklingError as error:
        raise BadField(field, f"cannot be unpickled ({error})") from error
    except Exception as error:  # a broken pickle can raise almost anything
        raise BadField(field, f"cannot be unpickled ({type(error).__name__})") from error
