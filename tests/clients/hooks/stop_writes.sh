#!/usr/bin/env bash
# BeforeTool: stops an agent that calls `write_file`.
if grep -q '"tool_name": *"write_file"'; then
  echo '{"continue": false, "stopReason": "Writing is the end of it."}'
fi
