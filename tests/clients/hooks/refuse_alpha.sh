#!/usr/bin/env bash
# BeforeTool: denies calls whose input contains `alpha`.
if grep -q alpha; then
  echo "alpha is private" >&2
  exit 2
fi
