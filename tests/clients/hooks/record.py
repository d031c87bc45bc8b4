#!/usr/bin/env python3
"""Any event: appends its input to the file `HOOK_EVENTS`."""

import json
import os
import sys

line = json.dumps(json.load(sys.stdin))
with open(os.environ["HOOK_EVENTS"], "a") as events:
    events.write(f"{line}\n")
