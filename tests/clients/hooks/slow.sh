#!/bin/sh
# BeforeModel: thinks for 20 seconds and has nothing to say.
echo run >> "$HOOK_RUNS"
sleep 20
