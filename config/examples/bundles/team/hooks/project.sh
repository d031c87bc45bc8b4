#!/bin/sh
# Denies prompts about a project.
if grep -q "Project Aurora"; then
  echo "Project Aurora is not discussed with models" >&2
  exit 2
fi
