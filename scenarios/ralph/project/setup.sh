# What a person does once: install the program where the plugin expects it, and approve the gates.
set -e
git init -q
git add -A
git -c user.name=p -c user.email=p@example.org commit -qm start
mkdir -p ~/.ralph/bin
ln -s "$(command -v ralph)" ~/.ralph/bin/ralph
ralph trust --hash "$(ralph trust --json | jq -r .hash)"
