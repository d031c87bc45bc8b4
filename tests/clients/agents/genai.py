"""Calls through the Google Gen AI SDK for Python: `whole`, `stream`, `chat` or `conversation`.

Prints the answers as JSON.
"""

import json
import sys

from google import genai
from google.genai import errors, types
from transport import HTTP2_ONLY

MODEL = "gemini-2.5-flash"


def main(mode, *rest):
    client = genai.Client(http_options=types.HttpOptions(client_args=HTTP2_ONLY))
    if mode == "whole":
        return summary([[client.models.generate_content(model=MODEL, contents="turn 1")]])
    if mode == "stream":
        return summary([list(client.models.generate_content_stream(model=MODEL, contents="turn 1"))])
    if mode == "conversation":
        return conversation(client, rest[0] == "streamed", json.loads(rest[1]))
    chat = client.chats.create(model=MODEL)
    return summary([list(chat.send_message_stream(f"turn {it}")) for it in [1, 2, 3]])


def summary(answers):
    """Text of each answer, and the number of chunks of the last one."""
    return {"texts": [text(it) for it in answers], "chunks": len(answers[-1])}


def text(chunks):
    return "".join(chunk.text or "" for chunk in chunks)


def conversation(client, streamed, prompts):
    """A chat with a tool, which the SDK runs: the last text of each turn, the session of each turn's last call, and the
    words that the tool looked up."""
    words = []

    def lookup(word: str) -> dict:
        """Looks a word up."""
        words.append(word)
        return {"output": f"{word} means {word}"}

    chat = client.chats.create(model=MODEL, config=types.GenerateContentConfig(tools=[lookup]))
    texts, sessions = [], []
    for prompt in prompts:
        chunks = list(chat.send_message_stream(prompt)) if streamed else [chat.send_message(prompt)]
        texts.append(text(chunks))
        sessions.append(chunks[-1].sdk_http_response.headers.get("x-hookgate-session"))
    return {"texts": texts, "sessions": sessions, "words": words}


if __name__ == "__main__":
    try:
        print(json.dumps(main(*sys.argv[1:])))
    except errors.APIError as error:
        print(json.dumps({"status": error.code, "message": error.message}))
