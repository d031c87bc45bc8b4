#!/usr/bin/env bash
# BeforeModel: refuses every request that speaks of project aurora.
input=$(cat)
if grep -qi 'project aurora' <<<"$input"; then
  echo '{"decision":"deny","reason":"Project Aurora is not to be discussed with a model."}'
fi
