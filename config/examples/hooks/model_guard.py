#!/usr/bin/env python3
"""BeforeModel: only the models in $ALLOWED; $SWAP holds old=new pairs."""

import json
import os
import sys

model = json.load(sys.stdin)["llm_request"]["model"].removeprefix("models/")
swaps = dict(pair.split("=", 1) for pair in os.environ.get("SWAP", "").split())
wanted = swaps.get(model, model)

if wanted not in os.environ["ALLOWED"].split():
    answer = {"decision": "deny", "reason": f"The model {model} is not allowed here."}
elif wanted != model:
    answer = {
        "systemMessage": f"{wanted} answers instead of {model}.",
        "hookSpecificOutput": {
            "hookEventName": "BeforeModel",
            "llm_request": {"model": wanted},
        },
    }
else:
    answer = {}
json.dump(answer, sys.stdout)
