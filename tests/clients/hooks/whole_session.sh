#!/bin/sh
# SessionStart: adds context to the session.
echo '{"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "known in the whole session"}}'
