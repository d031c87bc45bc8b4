"""Talks through OpenAI's Agents SDK by one of its APIs, with a tool; prints, for each way to ask, the last text of each turn and the words
looked up, as JSON."""

import asyncio
import json
import sys

import openai
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled

WORDS = []


@function_tool
def lookup(word: str) -> str:
    """Looks a word up."""
    WORDS.append(word)
    return f"{word} means {word}"


async def main(api, streamed, prompts):
    set_tracing_disabled(True)  # traces go to the vendor's own host
    model = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}[api]
    agent = Agent(name="talker", instructions="Answer.", model=model("gpt-5.1", openai.AsyncOpenAI()), tools=[lookup])
    history, texts = [], []
    for prompt in prompts:
        history.append({"role": "user", "content": prompt})
        if streamed:
            result = Runner.run_streamed(agent, history)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, history)
        history = result.to_input_list()
        texts.append(result.final_output)
    return {"texts": texts, "words": [*WORDS]}


async def talk(api, ways, prompts):
    """The outcome of the same prompts for each way: `streamed` and `whole`."""
    return [await outcome(api, way == "streamed", prompts) for way in ways]


async def outcome(api, streamed, prompts):
    WORDS.clear()
    try:
        return await main(api, streamed, prompts)
    except openai.APIStatusError as error:
        return {"status": error.status_code, "message": error.message}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(talk(sys.argv[1], sys.argv[2].split(","), json.loads(sys.argv[3])))))
