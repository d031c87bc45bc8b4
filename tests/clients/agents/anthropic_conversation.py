"""A conversation with a tool and thinking through the Anthropic SDK.

Prints, for each mode, the last text of each turn and the words that the tool looked up, as JSON.
"""

import json
import sys

import anthropic
from transport import http_client

LOOKUP = {
    "name": "lookup",
    "description": "Looks a word up.",
    "input_schema": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
}

CLIENT = anthropic.Anthropic(http_client=http_client(anthropic.DefaultHttpxClient))


def main(streamed, prompts):
    history, texts, words = [], [], []
    for prompt in prompts:
        history.append({"role": "user", "content": prompt})
        while calls := [it for it in ask(streamed, history) if it.type == "tool_use"]:
            words += [it.input["word"] for it in calls]
            history.append({"role": "user", "content": [result(it) for it in calls]})
        texts.append("".join(it.text for it in history[-1]["content"] if it.type == "text"))
    return {"texts": texts, "words": words}


def ask(streamed, history):
    """Calls the model and adds its answer to the history. Returns the blocks of the answer."""
    request = {"model": "claude-sonnet-4-5", "max_tokens": 2048, "messages": history, "tools": [LOOKUP],
               "thinking": {"type": "enabled", "budget_tokens": 1024}}
    if streamed:
        with CLIENT.messages.stream(**request) as stream:
            message = stream.get_final_message()
    else:
        message = CLIENT.messages.create(**request)
    history.append({"role": "assistant", "content": message.content})
    return message.content


def result(call):
    word = call.input["word"]
    return {"type": "tool_result", "tool_use_id": call.id, "content": f"{word} means {word}"}


def outcome(streamed, prompts):
    try:
        return main(streamed, prompts)
    except anthropic.APIStatusError as error:
        return {"status": error.status_code, "message": error.message}


if __name__ == "__main__":
    modes, prompts = sys.argv[1:]
    print(json.dumps([outcome(mode == "streamed", json.loads(prompts)) for mode in modes.split(",")]))
