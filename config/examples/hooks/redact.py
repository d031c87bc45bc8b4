#!/usr/bin/env python3
"""AfterModel: masks mail addresses and AWS keys in the text of an answer."""

import json
import re
import sys

DETECTORS = {
    "email": re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+"),
    "aws_key": re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"),
}


def mask(text):
    for name, detector in DETECTORS.items():
        text = detector.sub(f"[REDACTED:{name}]", text)
    return text


candidates = json.load(sys.stdin)["llm_response"].get("candidates", [])
shown = [candidate.get("content", {}).get("parts", []) for candidate in candidates]
masked = [[mask(part) for part in parts] for parts in shown]

# No output leaves the answer as it is.
if masked != shown:
    answer = {"candidates": [{"content": {"role": "model", "parts": parts}} for parts in masked]}
    output = {"hookEventName": "AfterModel", "llm_response": answer}
    json.dump({"hookSpecificOutput": output}, sys.stdout)
