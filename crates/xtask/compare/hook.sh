#!/usr/bin/env bash
# ralph's idle and armed Stop hook as a bash script, for comparison: one `jq` process per query, and no other process
# where bash itself can do the work.
set -euo pipefail

{ read -r event; read -r session; } < <(jq -r '.hook_event_name, .session_id')
[[ $event == Stop && $session =~ ^[A-Za-z0-9_-]+$ ]] || exit 0

pointer=$LOOP_HOME/sessions/$session
[[ -f $pointer ]] || exit 0
directory=$(<"$pointer")

iteration=0 limit=0
while IFS= read -r line; do
  case $line in
    '- Iteration: '*) iteration=${line#*: } ;;
    '- Max Iterations: '*) limit=${line#*: } ;;
  esac
done < "$directory/progress.txt"
(( limit == 0 || iteration < limit )) || exit 0

features=$(jq -r '
  [.features[] | select(.passes | not)] as $open
  | if $open == [] then empty else
      "\($open | length) of \(.features | length) features do not pass yet. Next is \($open[0].id): \($open[0].description)",
      ($open[0].steps | to_entries[] | "\(.key + 1). \(.value)")
    end' "$directory/feature_list.json")

shopt -s nullglob
files=("$LOOP_HOME/state/$session/tasks/"*.json)
tasks=
if (( ${#files[@]} > 0 )); then
  tasks=$(jq -rs '
    map(select(.status != "completed")) | if . == [] then empty else
      "\(length) tasks are open", (.[:10][] | "- \(.subject)")
    end' "${files[@]}")
fi
[[ -n $features || -n $tasks ]] || exit 0

(( iteration += 1 ))
changed=$directory/.progress.$$
while IFS= read -r line; do
  case $line in
    '- Iteration: '*) line="- Iteration: $iteration" ;;
  esac
  printf '%s\n' "$line"
done < "$directory/progress.txt" > "$changed"
mv "$changed" "$directory/progress.txt"

printf 'iteration %s: the work is not done\n%s\n%s\n' "$iteration" "$features" "$tasks" >&2
exit 2
