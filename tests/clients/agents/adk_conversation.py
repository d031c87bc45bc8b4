"""A conversation with a tool through the Agent Development Kit.

Prints the last text of each turn and the words that the tool looked up, as JSON.
"""

import asyncio
import json
import sys

from google.adk.agents import Agent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.runners import InMemoryRunner
from google.genai import types

WORDS = []


def lookup(word: str) -> dict:
    """Looks a word up."""
    WORDS.append(word)
    return {"output": f"{word} means {word}"}


async def main(streamed, prompts):
    agent = Agent(name="talker", model="gemini-2.5-flash", instruction="Answer.", tools=[lookup])
    runner = InMemoryRunner(agent=agent, app_name="talk")
    session = await runner.session_service.create_session(app_name="talk", user_id="somebody")
    mode = StreamingMode.SSE if streamed else StreamingMode.NONE
    texts = []
    for prompt in prompts:
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        events = [it async for it in runner.run_async(
            user_id="somebody", session_id=session.id, new_message=message, run_config=RunConfig(streaming_mode=mode)
        )]
        final = [it for it in events if it.is_final_response() and not it.partial]
        texts.append("".join(part.text or "" for part in final[-1].content.parts))
    return {"texts": texts, "words": WORDS}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1] == "streamed", json.loads(sys.argv[2])))))
