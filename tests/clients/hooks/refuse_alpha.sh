#!/usr/bin/env bash
# BeforeTool: refuses to read alpha.
if grep -q alpha; then
  echo "alpha is nobody's business" >&2
  exit 2
fi
