#!/bin/sh
# AfterTool: adds context to every result.
echo '{"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": "scanned: clean"}}'
