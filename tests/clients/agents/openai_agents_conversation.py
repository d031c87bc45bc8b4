"""A conversation with a tool, another agent as a tool, and reasoning through OpenAI's Agents SDK, with one of its APIs.

Prints, for each mode, the last text of each turn and the words that the tool looked up, as JSON. The optional last
argument is a file that stores the conversation. With Responses, the conversation is then compacted after each turn
whose prompt contains `long`.
"""

import asyncio
import json
import sys

import openai
from agents import (
    Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesCompactionSession, OpenAIResponsesModel, Runner,
    SQLiteSession, function_tool, set_tracing_disabled,
)
from openai.types.shared import Reasoning

WORDS = []
SETTINGS = {
    "chat": ModelSettings(),
    "responses": ModelSettings(store=False, reasoning=Reasoning(summary="auto"),
                               response_include=["reasoning.encrypted_content"]),
}


@function_tool
def lookup(word: str) -> str:
    """Looks a word up."""
    WORDS.append(word)
    return f"{word} means {word}"


def agent(api, name, *tools):
    model = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}[api]
    return Agent(name=name, instructions=f"Answer as a {name}.", model=model("gpt-5.1", openai.AsyncOpenAI()),
                 model_settings=SETTINGS[api], tools=[lookup, *tools])


def stored_session(api, file, prompt):
    """The conversation stored in a file."""
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
        items = prompt if file else [*history, {"role": "user", "content": prompt}]
        session = stored_session(api, file, prompt) if file else None
        if streamed:
            result = Runner.run_streamed(talker, items, session=session)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(talker, items, session=session)
        history = result.to_input_list()
        texts.append(result.final_output)
    return {"texts": texts, "words": [*WORDS]}


async def outcomes(api, modes, prompts, file=None):
    """Outcome of the same prompts in each mode, `streamed` or `whole`."""
    return [await outcome(api, mode == "streamed", prompts, file) for mode in modes]


async def outcome(api, streamed, prompts, file):
    WORDS.clear()
    try:
        return await main(api, streamed, prompts, file)
    except openai.APIStatusError as error:
        return {"status": error.status_code, "message": error.message}


if __name__ == "__main__":
    api, modes, prompts, *file = sys.argv[1:]
    print(json.dumps(asyncio.run(outcomes(api, modes.split(","), json.loads(prompts), *file))))
