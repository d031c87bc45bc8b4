#!/usr/bin/env python3
"""AfterTool: the model does not read private keys. A denial's reason is sent in
the place of the tool's result; context is appended to it.
"""
import json
import sys

event = json.load(sys.stdin)
result = json.dumps(event["tool_response"])
if "PRIVATE KEY-----" in result:
    answer = {"decision": "deny", "reason": "The result is hidden: there is a private key in it."}
else:
    note = f"{event['tool_name']} was looked through for private keys."
    answer = {"hookSpecificOutput": {"additionalContext": note}}
json.dump(answer, sys.stdout)
