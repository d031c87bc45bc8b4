#!/bin/sh
# BeforeModel: returns an empty output after 20 seconds.
echo run >> "$HOOK_RUNS"
sleep 20
