#!/usr/bin/env python3
"""BeforeTool: no file is read beyond 2000 lines at once.

In the protocols of LLxprt Code and Tabnine, `tool_input` replaces the arguments,
so all of them are given. LLxprt Code sends `systemMessage` to the model too.
"""
import json
import sys

LINES = 2000

arguments = json.load(sys.stdin)["tool_input"]
if arguments.get("limit", LINES + 1) > LINES:
    answer = {
        "systemMessage": f"At most {LINES} lines are read at once; ask for the rest by `offset`.",
        "hookSpecificOutput": {"tool_input": {**arguments, "limit": LINES}},
    }
    json.dump(answer, sys.stdout)
