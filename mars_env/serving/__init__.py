"""Teams at work: they answer questions without a reference, in Python or behind an OpenAI-compatible API."""

from mars_env.serving.answering import Answerer, make_question, solve
from mars_env.serving.server import TeamServer
from mars_env.serving.solution import Solution

__all__ = ["Answerer", "Solution", "TeamServer", "make_question", "solve"]
