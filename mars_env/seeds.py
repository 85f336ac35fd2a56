"""Seeds: every random choice derives from one run seed and the name of what is chosen."""

import hashlib


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed that depends on every part and on nothing else, in any process and order of calls.

    Example:
        >>> derive_seed(0, "aime/3#1", "0.2") == derive_seed(0, "aime/3#1", "0.2")
        True
        >>> derive_seed(0, "1", "0") == derive_seed(0, "10")
        False
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        data = f"{type(part).__name__}:{part}".encode("utf-8", "surrogatepass")  # of models' strings
        digest.update(len(data).to_bytes(4, "little") + data)
    return int.from_bytes(digest.digest(), "little") >> 1
