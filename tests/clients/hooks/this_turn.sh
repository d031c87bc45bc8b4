#!/bin/sh
# BeforeAgent: something to know in this turn.
echo run >> "$HOOK_RUNS"
runs=$(wc -l < "$HOOK_RUNS" | tr -d ' ')
echo "{\"hookSpecificOutput\": {\"hookEventName\": \"BeforeAgent\", \"additionalContext\": \"known in turn $runs\"}}"
