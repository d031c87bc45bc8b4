#!/usr/bin/env bash
# BeforeTool: nothing is looked up.
echo "nothing is looked up" >&2
exit 2
