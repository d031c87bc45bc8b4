#!/usr/bin/env bash
# BeforeTool: an agent that wants to write is stopped.
if grep -q '"tool_name": *"write_file"'; then
  echo '{"continue": false, "stopReason": "Writing is the end of it."}'
fi
