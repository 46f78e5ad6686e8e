# What a person does once: write a policy, create a repository and approve the gate.
set -e
printf '[[gate]]\nname = "tests"\nrun = ["sh", "tests.sh"]\n' > ralph.toml
git init --quiet
git config user.name you
git config user.email you@localhost
git add --all
git commit --quiet --message 'a beginning'
ralph trust --hash "$(ralph trust --json | jq -r .hash)" > ~/trusted
