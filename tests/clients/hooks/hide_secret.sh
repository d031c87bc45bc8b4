#!/usr/bin/env bash
# AfterTool: a result that holds the secret is not for the model.
if grep -q 'the-secret-word'; then
  echo "this result is not for models" >&2
  exit 2
fi
