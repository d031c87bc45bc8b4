#!/bin/sh
# BeforeAgent: adds context to the turn.
echo run >> "$HOOK_RUNS"
runs=$(wc -l < "$HOOK_RUNS" | tr -d ' ')
echo "{\"hookSpecificOutput\": {\"hookEventName\": \"BeforeAgent\", \"additionalContext\": \"known in turn $runs\"}}"
