#!/usr/bin/env bash
# BeforeToolSelection: the model may call the tools named as arguments.
set -euo pipefail
cat >/dev/null # the request does not matter
names=$(printf ',"%s"' "$@")
cat <<JSON
{"hookSpecificOutput": {"hookEventName": "BeforeToolSelection",
  "toolConfig": {"mode": "AUTO", "allowedFunctionNames": [${names#,}]}}}
JSON
