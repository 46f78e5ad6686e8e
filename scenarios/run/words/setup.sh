# What a person does once: write a list of words as features, create a repository, and approve the gates and checks.
set -e
list=.claude/data/ralph-loops/words
mkdir -p $list
echo 'Work through feature_list.json, one feature at a time: `sh next.sh` says the next word.' > $list/RALPH_PROMPT.md
jq -n --argjson count "$1" '{features: [range(1; $count + 1) | {
  id: ., description: "Say word \(.)", steps: ["Put word \(.) into words.txt, once"], passes: false,
  verify: ["sh", "check.sh", "word-\(.)"]}]}' > $list/feature_list.json
printf '[[gate]]\nname = "tests"\nrun = ["sh", "tests.sh"]\n' > ralph.toml
git init --quiet
git config user.name you
git config user.email you@localhost
git add --all
git commit --quiet --message 'a beginning'
ralph trust --hash "$(ralph trust --json | jq -r .hash)" > ~/trusted
ralph trust --features $list --hash "$(ralph trust --features $list --json | jq -r .lists[0].hash)" >> ~/trusted
