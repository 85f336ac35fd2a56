"""Answers to mathematical questions: found, read and compared."""
