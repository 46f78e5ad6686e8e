# What a person does once: create a repository and approve the gates.
set -e
git init --quiet
git config user.name you
git config user.email you@localhost
git add --all
git commit --quiet --message 'a beginning'
ralph trust --hash "$(ralph trust --json | jq -r .hash)" > ~/trusted
