#!/usr/bin/env python3
"""AfterModel: masks every digit of every chunk, thoughts included."""

import json
import os
import re
import sys

with open(os.environ["HOOK_RUNS"], "a") as runs:
    runs.write("run\n")
response = json.load(sys.stdin)["llm_response"]
for candidate in response["candidates"]:
    content = candidate["content"]
    content["parts"] = [re.sub(r"\d", "#", it) for it in content["parts"]]
masked = {"candidates": response["candidates"]}
print(json.dumps({"hookSpecificOutput": {"hookEventName": "AfterModel", "llm_response": masked}}))
