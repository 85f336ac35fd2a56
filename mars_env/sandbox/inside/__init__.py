"""What runs behind the walls. It is sent there as code and run by a bare interpreter without the library.

Its modules import each other and the standard library, and only modules that import fast.
"""
