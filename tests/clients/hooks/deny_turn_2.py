#!/usr/bin/env python3
"""BeforeModel: denies a call whose history contains `turn 2`."""

import json
import sys

messages = json.load(sys.stdin)["llm_request"]["messages"]
if any("turn 2" in it["content"] for it in messages):
    print(json.dumps({"decision": "deny", "reason": "No second turn."}))
