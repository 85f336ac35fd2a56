"""What runs behind the walls: sent there as code, by a bare interpreter that has nothing of the library.

Its modules import each other and what the interpreter brings, and only modules that start fast.
"""
