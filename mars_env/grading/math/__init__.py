"""Finds, reads and compares answers to mathematical questions."""
