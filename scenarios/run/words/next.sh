# Writes the first word whose feature is open, and ticks it. It can be killed at any point and run again.
list=.claude/data/ralph-loops/words/feature_list.json
n=$(jq '[.features[].passes] | index(false) | select(. != null) + 1' $list)
[ -n "$n" ] || exit 0
grep -qx "word-$n" words.txt || echo "word-$n" >> words.txt
jq ".features[$n - 1].passes = true" $list > ~/new.json && mv ~/new.json $list
