"""Serve what examples/train_locally.py trained as one model, and ask it with the official client.

pip install openai
python examples/train_locally.py
python examples/serve_trained.py runs/trained
"""

import asyncio
import sys

import openai

from mars_env.serving import Answerer, TeamServer

FOLDER = sys.argv[1] if len(sys.argv) > 1 else "runs/trained"
AGENTS = f"team:{FOLDER}?function=mars_env.miniature.agents:team"  # with the library's prompts: team:FOLDER
QUESTION = "Work modulo 1000. Start with a = 882. Then b = a - 27, c = b - 65. What is c?"


async def main():
    """Serve, ask once, print the answer and how sure the team is."""
    answerer = Answerer("solve-verify-correct", AGENTS)
    async with (
        TeamServer(answerer, name="team", out="runs/served") as server,
        openai.AsyncOpenAI(base_url=server.url, api_key="none") as client,
    ):
        messages = [{"role": "user", "content": QUESTION}]
        answer = await client.chat.completions.create(model="team", messages=messages, seed=1)
        print(answer.choices[0].message.content)
        print(answer.model_extra["mars_env"])


asyncio.run(main())
