"""Talks through OpenAI's Agents SDK by one of its APIs, with a tool, another agent as a tool, and reasoning; prints, for each way to ask, the
last text of each turn and the words looked up, as JSON.

A file named last keeps the conversation; with Responses it is then summed up after each turn that has `long` in it.
"""

import asyncio
import json
import sys

import openai
from agents import (
    Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesCompactionSession, OpenAIResponsesModel, Runner, SQLiteSession,
    function_tool, set_tracing_disabled,
)
from openai.types.shared import Reasoning

WORDS = []
SETTINGS = {
    "chat": ModelSettings(),
    "responses": ModelSettings(store=False, reasoning=Reasoning(summary="auto"), response_include=["reasoning.encrypted_content"]),
}


@function_tool
def lookup(word: str) -> str:
    """Looks a word up."""
    WORDS.append(word)
    return f"{word} means {word}"


def agent(api, name, *tools):
    model = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}[api]
    return Agent(name=name, instructions=f"Answer as a {name}.", model=model("gpt-5.1", openai.AsyncOpenAI()), model_settings=SETTINGS[api],
                 tools=[lookup, *tools])


def kept(api, file, prompt):
    """The conversation in a file."""
    session = SQLiteSession("talk", file)
    if api == "chat":
        return session
    return OpenAIResponsesCompactionSession("talk", session, client=openai.AsyncOpenAI(), compaction_mode="input",
                                            should_trigger_compaction=lambda _: "long" in prompt)


async def main(api, streamed, prompts, file):
    set_tracing_disabled(True)  # traces go to the vendor's own host
    talker = agent(api, "talker", agent(api, "expert").as_tool("ask_expert", "Asks an expert."))
    history, texts = [], []
    for prompt in prompts:
        asked = prompt if file else [*history, {"role": "user", "content": prompt}]
        session = kept(api, file, prompt) if file else None
        if streamed:
            result = Runner.run_streamed(talker, asked, session=session)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(talker, asked, session=session)
        history = result.to_input_list()
        texts.append(result.final_output)
    return {"texts": texts, "words": [*WORDS]}


async def talk(api, ways, prompts, file=None):
    """The outcome of the same prompts for each way: `streamed` and `whole`."""
    return [await outcome(api, way == "streamed", prompts, file) for way in ways]


async def outcome(api, streamed, prompts, file):
    WORDS.clear()
    try:
        return await main(api, streamed, prompts, file)
    except openai.APIStatusError as error:
        return {"status": error.status_code, "message": error.message}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(talk(sys.argv[1], sys.argv[2].split(","), json.loads(sys.argv[3]), *sys.argv[4:]))))
