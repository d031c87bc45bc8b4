#!/usr/bin/env python3
"""Any event: keeps its input for the case to look at."""

import json
import os
import sys

line = json.dumps(json.load(sys.stdin))
with open(os.environ["HOOK_EVENTS"], "a") as events:
    events.write(f"{line}\n")
