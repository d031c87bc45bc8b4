#!/bin/sh
# SessionStart: something to know in the whole session.
echo '{"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "known in the whole session"}}'
