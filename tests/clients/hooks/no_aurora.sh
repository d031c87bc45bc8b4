#!/usr/bin/env bash
# BeforeAgent: denies prompts about project aurora.
echo run >> "$HOOK_RUNS"
if grep -q 'project aurora'; then
  echo "Project Aurora is not for models." >&2
  exit 2
fi
