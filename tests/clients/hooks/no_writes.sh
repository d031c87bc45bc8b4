#!/usr/bin/env bash
# BeforeTool: denies calls of `write_file`.
if grep -q '"tool_name": *"write_file"'; then
  echo "nothing is written here" >&2
  exit 2
fi
