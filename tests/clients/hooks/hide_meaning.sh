#!/usr/bin/env bash
# AfterTool: hides a result that contains `sun means sun`.
if grep -q 'sun means sun'; then
  echo "this meaning is not for models" >&2
  exit 2
fi
