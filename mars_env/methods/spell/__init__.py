"""SPELL: one model asks, answers and judges questions about documents."""
