# What a person does once: a policy, a repository, and the gate approved.
set -e
printf '[[gate]]\nname = "tests"\nrun = ["sh", "tests.sh"]\n' > ralph.toml
git init --quiet
git config user.name you
git config user.email you@localhost
git add --all
git commit --quiet --message 'a beginning'
ralph trust --hash "$(ralph trust --json | jq -r .hash)" > ~/trusted
