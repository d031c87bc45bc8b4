#!/usr/bin/env python3
"""BeforeModel: answers should not depend on luck. Overrides one parameter of
the call; those that are not given stay as they were.
"""
import json
import sys

request = json.load(sys.stdin)["llm_request"]
if request["config"].get("temperature") != 0:
    answer = {
        "decision": "approve",
        "hookSpecificOutput": {
            "hookEventName": "BeforeModel",
            "llm_request": {"config": {"temperature": 0}},
        },
    }
    json.dump(answer, sys.stdout)
