#!/usr/bin/env bash
# AfterAgent: rejects the first answer of each turn.
if grep -q '"stop_hook_active": *false'; then
  echo "Say it again, politely." >&2
  exit 2
fi
