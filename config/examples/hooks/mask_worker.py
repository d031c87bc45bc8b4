#!/usr/bin/env python3
"""BeforeModel, as a worker: masks mail addresses in what the model receives."""

import json
import re
import sys

EMAIL = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")


def answer(event):
    messages = event["llm_request"]["messages"]
    masked = [{**it, "content": EMAIL.sub("[REDACTED:email]", it["content"])} for it in messages]
    if masked == messages:
        return {}
    output = {"hookEventName": "BeforeModel", "llm_request": {"messages": masked}}
    return {"hookSpecificOutput": output}


# A call is one line, and so is its answer. Whatever goes wrong ends the worker,
# which fails the call and starts another one.
for line in sys.stdin.buffer:
    call = json.loads(line)
    print(json.dumps({"id": call["id"], "output": answer(call["input"])}), flush=True)
