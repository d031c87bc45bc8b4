"""A conversation with a tool through LangChain.

Prints the last text of each turn and the words that the tool looked up, as JSON.
"""

import json
import os
import sys

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_google_genai import ChatGoogleGenerativeAI

WORDS = []


@tool
def lookup(word: str) -> str:
    """Looks a word up."""
    WORDS.append(word)
    return f"{word} means {word}"


def main(streamed, prompts):
    model = ChatGoogleGenerativeAI(
        model="gemini-2.5-flash", base_url=os.environ["GOOGLE_GEMINI_BASE_URL"], api_key=os.environ["GEMINI_API_KEY"]
    ).bind_tools([lookup])
    history, texts = [], []
    for prompt in prompts:
        history.append(HumanMessage(prompt))
        history.append(ask(model, streamed, history))
        while calls := history[-1].tool_calls:
            history += [ToolMessage(lookup.invoke(it["args"]), tool_call_id=it["id"], name=it["name"]) for it in calls]
            history.append(ask(model, streamed, history))
        texts.append(history[-1].text)
    return {"texts": texts, "words": WORDS}


def ask(model, streamed, history):
    if not streamed:
        return model.invoke(history)
    first, *rest = model.stream(history)
    return sum(rest, start=first)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1] == "streamed", json.loads(sys.argv[2]))))
