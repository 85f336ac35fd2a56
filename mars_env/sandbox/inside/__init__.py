"""What runs behind the walls. It is sent there as code and run by a bare interpreter without the library.

Its modules import each other, and of the standard library only what imports fast: neither pathlib nor typing.
"""
