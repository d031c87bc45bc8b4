#!/usr/bin/env python3
"""BeforeModel: refuses a call as long as its history tells of turn 2."""

import json
import sys

messages = json.load(sys.stdin)["llm_request"]["messages"]
if any("turn 2" in it["content"] for it in messages):
    print(json.dumps({"decision": "deny", "reason": "No second turn."}))
