#!/usr/bin/env bash
# AfterTool: what the sun means is not for the model.
if grep -q 'sun means sun'; then
  echo "this meaning is not for models" >&2
  exit 2
fi
