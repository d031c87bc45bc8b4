"""A conversation with a tool and reasoning through the OpenAI SDK, with one of its APIs.

Prints, for each mode, the last text of each turn and the words that the tool looked up, as JSON.
"""

import json
import sys

import openai
from transport import http_client

LOOKUP = {
    "name": "lookup",
    "description": "Looks a word up.",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {"word": {"type": "string"}},
        "required": ["word"],
        "additionalProperties": False,
    },
}
MODEL = "gpt-5.1"

CLIENT = openai.OpenAI(http_client=http_client(openai.DefaultHttpxClient))


def main(api, streamed, prompts):
    ask = {"chat": ask_chat, "responses": ask_responses}[api]
    history, texts, words = [], [], []
    for prompt in prompts:
        history.append({"role": "user", "content": prompt})
        text, calls = ask(streamed, history)
        while calls:
            for call_id, arguments in calls:
                word = json.loads(arguments)["word"]
                words.append(word)
                history.append(result(api, call_id, f"{word} means {word}"))
            text, calls = ask(streamed, history)
        texts.append(text)
    return {"texts": texts, "words": words}


def ask_chat(streamed, history):
    """Calls the model and adds its answer to the history. Returns the text and the tool calls of the answer."""
    request = {"model": MODEL, "messages": history, "tools": [{"type": "function", "function": LOOKUP}]}
    if streamed:
        with CLIENT.chat.completions.stream(**request) as stream:
            completion = stream.get_final_completion()
    else:
        completion = CLIENT.chat.completions.create(**request)
    message = completion.choices[0].message
    calls = [(it.id, it.function.arguments) for it in message.tool_calls or []]
    tool_calls = [{"id": it.id, "type": "function",
                   "function": {"name": it.function.name, "arguments": it.function.arguments}}
                  for it in message.tool_calls or []]
    history.append({"role": "assistant", "content": message.content} | ({"tool_calls": tool_calls} if calls else {}))
    return message.content, calls


def ask_responses(streamed, history):
    request = {"model": MODEL, "input": history, "tools": [{"type": "function", **LOOKUP}], "store": False,
               "reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"]}
    if streamed:
        with CLIENT.responses.stream(**request) as stream:
            response = stream.get_final_response()
    else:
        response = CLIENT.responses.create(**request)
    history += [it.model_dump(exclude_none=True, exclude={"parsed_arguments", "parsed"}) for it in response.output]
    for item in history:
        for part in item["content"] if item.get("type") == "message" else []:
            part.pop("parsed", None)
    return response.output_text, [(it.call_id, it.arguments) for it in response.output if it.type == "function_call"]


def result(api, call_id, text):
    if api == "chat":
        return {"role": "tool", "tool_call_id": call_id, "content": text}
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def outcome(api, streamed, prompts):
    try:
        return main(api, streamed, prompts)
    except openai.APIStatusError as error:
        return {"status": error.status_code, "message": error.message}


if __name__ == "__main__":
    api, modes, prompts = sys.argv[1:]
    print(json.dumps([outcome(api, mode == "streamed", json.loads(prompts)) for mode in modes.split(",")]))
