"""Asks through the Google Gen AI SDK for Python, in the way its argument names, and prints what it got as JSON."""

import json
import sys

from google import genai
from google.genai import errors

MODEL = "gemini-2.5-flash"


def main(mode):
    client = genai.Client()
    if mode == "whole":
        return told([[client.models.generate_content(model=MODEL, contents="turn 1")]])
    if mode == "stream":
        return told([list(client.models.generate_content_stream(model=MODEL, contents="turn 1"))])
    chat = client.chats.create(model=MODEL)
    return told([list(chat.send_message_stream(f"turn {it}")) for it in [1, 2, 3]])


def told(answers):
    """The text of each answer, and the number of chunks of the last one."""
    texts = ["".join(chunk.text or "" for chunk in chunks) for chunks in answers]
    return {"texts": texts, "chunks": len(answers[-1])}


if __name__ == "__main__":
    try:
        print(json.dumps(main(sys.argv[1])))
    except errors.APIError as error:
        print(json.dumps({"status": error.code, "message": error.message}))
