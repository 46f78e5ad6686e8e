#!/bin/sh
# Is to hold the agent until the tests pass, and has a mistake that is easy to make: a stop knows no `deny`.
sh tests.sh > log 2>&1 && exit 0
printf '{"decision": "deny", "reason": "the tests fail: %s"}\n' "$(tail -1 log)"
