#!/usr/bin/env bash
# AfterAgent: the first answer of a turn is not polite enough.
if grep -q '"stop_hook_active": *false'; then
  echo "Say it again, politely." >&2
  exit 2
fi
