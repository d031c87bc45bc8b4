#!/usr/bin/env bash
# AfterTool: hides a result that contains the secret.
if grep -q 'the-secret-word'; then
  echo "this result is not for models" >&2
  exit 2
fi
