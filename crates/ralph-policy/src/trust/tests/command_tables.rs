//! Commands that execute files in every way that is known, and ordinary commands, with what is sealed for each.

use super::{TrustSandbox, gate_toml, unsealed_scripts};
use insta::assert_snapshot;
use std::os::unix::fs::PermissionsExt;

const FILES: [&str; 22] = [
    "app.py",
    "cases/x",
    "chk/a.awk",
    "chk/a.pl",
    "chk/a.sh",
    "chk/b.sh",
    "chk/run.py",
    "chk/sub/run.sh",
    "list",
    "list.txt",
    "main.sh",
    "node_modules/.bin/eslint",
    "pkg/a/check.sh",
    "pkg/a/package.json",
    "pkg/b/check.sh",
    "src/a.js",
    "tests/test_a.py",
    "tests/test_b.sh",
    "tools/verify-all",
    "want/a.txt",
    "frontend/package.json",
    "README.md",
];

fn project(command: &str) -> TrustSandbox {
    let mut place =
        TrustSandbox::new(&gate_toml(&format!("shell = {}", serde_json::Value::from(command))));
    for file in FILES {
        let text =
            if file.ends_with("package.json") { r#"{"scripts":{"test":"jest"}}"# } else { "" };
        place = place.write(&format!("project/{file}"), text);
    }
    std::fs::create_dir(place.path("project/.git")).unwrap();
    for program in ["tools/verify-all", "node_modules/.bin/eslint"] {
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.path("project").join(program), mode).unwrap();
    }
    place
}

/// What is sealed for a command, and after `?` what cannot be.
fn sealed_for(command: &str) -> String {
    let place = project(command);
    let names = place.reference_names();
    let names = names.split(", ").skip(1).map(str::to_string);
    let config = place.config();
    let unsealed = unsealed_scripts(&place.path("project"), &config.policy.gates).unwrap();
    let unknown = unsealed.into_iter().map(|one| format!("?{}", one.command));
    names.chain(unknown).collect::<Vec<_>>().join(", ")
}

fn shown(commands: &[(&str, &str)]) -> String {
    let row = |(id, command): &(&str, &str)| {
        let command = command.replace('\n', "⏎");
        format!("{id} {command}\n    {}\n", sealed_for(&command.replace('⏎', "\n")))
    };
    commands.iter().map(row).collect()
}

/// R-V1h: the files that a command executes are sealed, or the command is reported and the run ends at most `green`.
#[test]
fn whatever_a_command_executes_is_sealed_or_reported() {
    assert_snapshot!(shown(&[
        ("1a", "for d in pkg/*/; do (cd \"$d\" && sh check.sh) || exit 1; done"),
        ("1a", "cd \"$(git rev-parse --show-toplevel)/chk\" && sh a.sh"),
        ("1a", "cd ch* && sh a.sh"),
        ("1a", "cd \"$PWD/chk\" && sh a.sh"),
        ("1a", "cd \"$(pwd)/chk\" && sh a.sh"),
        ("1a", "D=chk; cd $D/sub && sh run.sh"),
        ("1a", "for d in a b; do (cd pkg/$d && sh check.sh) || exit 1; done"),
        ("1a", "cd pkg && cd a && sh check.sh"),
        ("1a", "cd pkg/$d && sh check.sh"),
        ("1a", "cd \"$(dirname x)\" && sh a.sh"),
        ("1a", "pushd \"$PWD/chk\" >/dev/null && bash a.sh"),
        ("1a", "find pkg -name check.sh -execdir sh check.sh {} +"),
        ("1a", "for p in pkg/*; do npm --prefix $p test || exit 1; done"),
        ("1a", "env -C chk sh a.sh"),
        ("1b", "PATH=\"$PWD/tools:$PATH\"; verify-all"),
        ("1b", "PATH=$PWD/tools:$PATH verify-all"),
        ("1b", "export PATH=\"$(pwd)/tools:$PATH\"; verify-all"),
        ("1b", "PATH=$X/tools:$PATH verify-all"),
        ("1b", "PATH=node_modules/.bin:$PATH eslint ."),
        ("1c", "timeout -s KILL 60 sh chk/*.sh"),
        ("1c", "env -u FOO sh chk/*.sh"),
        ("1c", "ls chk/*.sh | xargs -d '\\n' -n1 sh"),
        ("1c", "xargs -a list.txt -n 1 sh"),
        ("1c", "flock F sh chk/*.sh"),
        ("1c", "find chk -name '*.sh' -exec env sh {} +"),
        ("1c", "find chk -name '*.sh' -exec timeout 9 sh {} +"),
        ("1c", "ls ./chk/*.sh | xargs -n 1 env"),
        ("1c", "busybox sh chk/*.sh"),
        ("1d", "case x in x) cat chk/*.sh | sh;; esac"),
        ("1d", "case x in x) ls chk | xargs -n 1 sh ;; esac"),
        ("1d", "case x in x) cat list | sh;; esac"),
        ("1d", "cat <<END\nhi\nEND\nchk/*.sh"),
        ("1d", "x=$(printf \"a\\\"b\"); chk/*.sh"),
        ("1d", "case x in x) true;; esac"),
        ("1e", "eval 'sh chk/*.sh'"),
        ("1e", "eval sh 'chk/*.sh'"),
        ("1e", "echo 'sh chk/*.sh' | sh"),
        ("1e", "CMD='sh chk/*.sh'; sh -c \"$CMD\""),
        ("1e", "CMD='sh chk/*.sh'; $CMD"),
        ("1e", "trap 'sh chk/*.sh; exit $?' EXIT; true"),
        ("1e", "flock F -c 'sh chk/*.sh'"),
        ("1e", "env -S 'sh chk/*.sh'"),
        ("1e", "bash <<< 'sh chk/*.sh'"),
        ("1e", "T='chk/a.sh chk/b.sh'; for t in $T; do sh $t; done"),
        ("1f", "sh chk/[[:alpha:]].sh"),
        ("1f", "bash -O dotglob -c 'for t in chk/*; do bash $t || exit 1; done'"),
        ("1f", "bash -O extglob -c 'sh chk/@(a|b).sh'"),
        ("1f", "bash -O globstar -c 'for t in chk/**/a.sh; do bash $t || exit 1; done'"),
        ("1g", "awk -f chk/*.awk app.py"),
        ("1g", "f=chk/a; awk -f $f.awk app.py"),
        ("1g", "awk -f $x app.py"),
        ("1g", "python3 -c 'exec(open(\"chk/run.py\").read())'"),
        ("1g", "python3 -c 'import runpy; runpy.run_path(\"chk/run.py\")'"),
        ("1g", "python3 -c 'import runpy, sys; runpy.run_path(sys.argv[1])' x"),
        ("1g", "perl -e 'do \"./chk/a.pl\"; '"),
        ("1h", "cat chk/*.sh > /tmp/all.sh; sh /tmp/all.sh"),
        ("1h", "cp chk/a.sh /tmp/x; sh /tmp/x/a.sh"),
        ("1h", "for t in $(cat list); do sh chk/a.sh $t || exit 1; done"),
        ("1h", "for t in $(ls cases); do sh chk/a.sh cases/$t || exit 1; done"),
        ("1h", "while read t; do sh chk/a.sh $t || exit 1; done < list"),
        ("1h", "cat list | while read t; do sh chk/a.sh $t || exit 1; done"),
        ("1h", "cat list | xargs -n1 sh chk/a.sh"),
        ("1h", "run-parts --exit-on-error chk"),
        ("1i", "sh main.sh | diff - want/*.txt"),
        ("1i", "x=want/a; sh main.sh | diff - $x.txt"),
        ("1i", "sh main.sh | diff - \"$x\""),
        ("b", "f() { sh chk/*.sh; }; f"),
        ("b", "f() { sh \"chk/$1\"; }; f a.sh"),
    ]), @r#"
    1a for d in pkg/*/; do (cd "$d" && sh check.sh) || exit 1; done
        pkg/*, pkg/a/check.sh, pkg/b/check.sh
    1a cd "$(git rev-parse --show-toplevel)/chk" && sh a.sh
        chk/a.sh
    1a cd ch* && sh a.sh
        ch*, chk/a.sh
    1a cd "$PWD/chk" && sh a.sh
        chk/a.sh
    1a cd "$(pwd)/chk" && sh a.sh
        chk/a.sh
    1a D=chk; cd $D/sub && sh run.sh
        chk/sub/run.sh
    1a for d in a b; do (cd pkg/$d && sh check.sh) || exit 1; done
        pkg/a/check.sh, pkg/b/check.sh
    1a cd pkg && cd a && sh check.sh
        pkg/a/check.sh
    1a cd pkg/$d && sh check.sh
        ?cd pkg/$d
    1a cd "$(dirname x)" && sh a.sh
        ?cd $
    1a pushd "$PWD/chk" >/dev/null && bash a.sh
        chk/a.sh
    1a find pkg -name check.sh -execdir sh check.sh {} +
        ?sh check.sh {} +
    1a for p in pkg/*; do npm --prefix $p test || exit 1; done
        pkg/*, pkg/a/package.json: scripts.test
    1a env -C chk sh a.sh
        chk/a.sh
    1b PATH="$PWD/tools:$PATH"; verify-all
        tools/verify-all
    1b PATH=$PWD/tools:$PATH verify-all
        tools/verify-all
    1b export PATH="$(pwd)/tools:$PATH"; verify-all
        tools/verify-all
    1b PATH=$X/tools:$PATH verify-all
        ?PATH=$X/tools:$PATH
    1b PATH=node_modules/.bin:$PATH eslint .
        
    1c timeout -s KILL 60 sh chk/*.sh
        chk/*.sh, chk/a.sh, chk/b.sh
    1c env -u FOO sh chk/*.sh
        chk/*.sh, chk/a.sh, chk/b.sh
    1c ls chk/*.sh | xargs -d '\n' -n1 sh
        ?xargs -d \n -n1 sh
    1c xargs -a list.txt -n 1 sh
        list.txt, ?xargs -a list.txt -n 1 sh
    1c flock F sh chk/*.sh
        chk/*.sh, chk/a.sh, chk/b.sh
    1c find chk -name '*.sh' -exec env sh {} +
        ?sh {} +
    1c find chk -name '*.sh' -exec timeout 9 sh {} +
        ?sh {} +
    1c ls ./chk/*.sh | xargs -n 1 env
        ?xargs -n 1 env
    1c busybox sh chk/*.sh
        chk/*.sh, chk/a.sh, chk/b.sh
    1d case x in x) cat chk/*.sh | sh;; esac
        ?case x in x) cat chk/*.sh | sh;; esac
    1d case x in x) ls chk | xargs -n 1 sh ;; esac
        ?case x in x) ls chk | xargs -n 1 sh ;; esac
    1d case x in x) cat list | sh;; esac
        list, ?case x in x) cat list | sh;; esac
    1d cat <<END⏎hi⏎END⏎chk/*.sh
        ?cat <<END hi END chk/*.sh
    1d x=$(printf "a\"b"); chk/*.sh
        chk/*.sh, chk/a.sh, chk/b.sh
    1d case x in x) true;; esac
        
    1e eval 'sh chk/*.sh'
        chk/*.sh, chk/a.sh, chk/b.sh
    1e eval sh 'chk/*.sh'
        chk/*.sh, chk/a.sh, chk/b.sh
    1e echo 'sh chk/*.sh' | sh
        chk/*.sh, chk/a.sh, chk/b.sh
    1e CMD='sh chk/*.sh'; sh -c "$CMD"
        chk/*.sh, chk/a.sh, chk/b.sh
    1e CMD='sh chk/*.sh'; $CMD
        chk/*.sh, chk/a.sh, chk/b.sh
    1e trap 'sh chk/*.sh; exit $?' EXIT; true
        chk/*.sh, chk/a.sh, chk/b.sh
    1e flock F -c 'sh chk/*.sh'
        chk/*.sh, chk/a.sh, chk/b.sh
    1e env -S 'sh chk/*.sh'
        chk/*.sh, chk/a.sh, chk/b.sh
    1e bash <<< 'sh chk/*.sh'
        chk/*.sh, chk/a.sh, chk/b.sh
    1e T='chk/a.sh chk/b.sh'; for t in $T; do sh $t; done
        chk/a.sh, chk/b.sh
    1f sh chk/[[:alpha:]].sh
        ?chk/[[:alpha:]].sh
    1f bash -O dotglob -c 'for t in chk/*; do bash $t || exit 1; done'
        chk/*, chk/a.awk, chk/a.pl, chk/a.sh, chk/b.sh, chk/run.py, ?bash -O dotglob -c
    1f bash -O extglob -c 'sh chk/@(a|b).sh'
        ?sh chk/@(a|b).sh
    1f bash -O globstar -c 'for t in chk/**/a.sh; do bash $t || exit 1; done'
        chk/**/a.sh, chk/a.sh, ?bash -O globstar -c
    1g awk -f chk/*.awk app.py
        chk/*.awk, chk/a.awk
    1g f=chk/a; awk -f $f.awk app.py
        chk/a.awk
    1g awk -f $x app.py
        ?awk $x
    1g python3 -c 'exec(open("chk/run.py").read())'
        chk/run.py
    1g python3 -c 'import runpy; runpy.run_path("chk/run.py")'
        chk/run.py
    1g python3 -c 'import runpy, sys; runpy.run_path(sys.argv[1])' x
        ?import runpy, sys; runpy.run_path(sys.argv[1])
    1g perl -e 'do "./chk/a.pl"; '
        chk/a.pl
    1h cat chk/*.sh > /tmp/all.sh; sh /tmp/all.sh
        ?sh /tmp/all.sh
    1h cp chk/a.sh /tmp/x; sh /tmp/x/a.sh
        chk/a.sh, ?sh /tmp/x/a.sh
    1h for t in $(cat list); do sh chk/a.sh $t || exit 1; done
        chk/a.sh, ?for t in $(…)
    1h for t in $(ls cases); do sh chk/a.sh cases/$t || exit 1; done
        chk/a.sh, ?for t in $(…)
    1h while read t; do sh chk/a.sh $t || exit 1; done < list
        chk/a.sh, list
    1h cat list | while read t; do sh chk/a.sh $t || exit 1; done
        chk/a.sh, ?while read t
    1h cat list | xargs -n1 sh chk/a.sh
        chk/a.sh, ?xargs -n1 sh chk/a.sh
    1h run-parts --exit-on-error chk
        chk/*, chk/a.awk, chk/a.pl, chk/a.sh, chk/b.sh, chk/run.py
    1i sh main.sh | diff - want/*.txt
        want/*.txt, want/a.txt
    1i x=want/a; sh main.sh | diff - $x.txt
        want/a.txt
    1i sh main.sh | diff - "$x"
        ?diff - $x
    b f() { sh chk/*.sh; }; f
        chk/*.sh, chk/a.sh, chk/b.sh
    b f() { sh "chk/$1"; }; f a.sh
        chk/a.sh, ?sh chk/$1
    "#);
}

/// A false doubt costs every run of an honest project its `verified`.
#[test]
fn ordinary_commands_are_understood() {
    let rows = shown(&[
        ("-", "cargo test --jobs $(nproc)"),
        ("-", "npm test"),
        ("-", "cd frontend && npm test"),
        ("-", "cd \"frontend\" && npx tsc --noEmit"),
        ("-", "pytest -q tests"),
        ("-", "go test ./..."),
        ("-", "make check"),
        ("-", "test \"$(sh main.sh)\" = hello"),
        ("-", "sh main.sh | grep -q goodbye"),
        ("-", "! grep -rn later src"),
        ("-", "for f in tests/*.sh; do sh \"$f\" || exit 1; done"),
        ("-", "set -e; cargo fmt --check; cargo test"),
        ("-", "FOO=1 cargo test"),
        ("-", "shellcheck *.sh"),
        ("-", "npx eslint . --format json > \"$RALPH_REPORT\""),
        ("-", "sleep 2; sh chk/a.sh"),
        ("-", "test ! -e broken && echo 1 passed"),
        ("-", "echo b >> \"$RAN\"; grep -q tested README.md"),
        ("-", "node --test \"src/**/*.test.js\""),
        ("-", "NODE_OPTIONS=--experimental-vm-modules npx jest --coverage"),
        ("-", "npx mocha -r ts-node/register 'tests/**/*.ts'"),
        ("-", "python3 -m pytest -q tests/test_*.py"),
        ("-", "pytest -k python tests/*.py"),
        ("-", "timeout -s KILL 60 pytest -k \"$K\" tests/*.py"),
        ("-", "for f in $(git ls-files '*.sh'); do bash -n \"$f\" || exit 1; done"),
        ("-", "git ls-files '*.sh' | xargs shellcheck"),
        ("-", "git ls-files -z '*.py' | xargs -0 python3 -m py_compile"),
        ("-", "find src -name '*.js' -exec node --check {} \\;"),
        ("-", "git diff --exit-code && git -C \"$PWD\" status"),
        ("-", "rm -f *.tmp && mkdir -p build && cd build && cmake .. && make -j$(nproc)"),
        ("-", "cc -o build/t tests/*.c && ./build/t"),
        ("-", "python3 -c 'import app; assert app.f(2) == 4'"),
        (
            "-",
            "python3 -c \"import subprocess; assert b'hi' in subprocess.run(['sh', 'main.sh'], capture_output=True).stdout\"",
        ),
        ("-", "node -e \"const a = require('./src/a.js'); if (/x/.exec(a.f())) process.exit(1)\""),
        ("-", "[ \"$(python3 app.py \"$X\")\" = 3 ]"),
        ("-", "for i in 1 2 3; do sh main.sh $i | grep -q ok || exit 1; done"),
        ("-", "for i in $(seq 1 3); do sh chk/a.sh $i || exit 1; done"),
        ("-", "cd \"$(git rev-parse --show-toplevel)\" && npm test"),
        ("-", "sh main.sh > out.txt && diff out.txt want/a.txt"),
        ("-", "tmp=$(mktemp); sh main.sh | tee $tmp | grep -q ok; diff $tmp want/a.txt"),
        ("-", "diff <(sh main.sh) want/a.txt"),
        ("-", "test -z \"$(gofmt -l .)\" && go vet ./..."),
        ("-", "uv run pytest -q && uvx ruff check ."),
        ("-", "poetry run python -m pytest \"$@\""),
        ("-", "docker compose up -d && npm run e2e; docker compose down"),
        ("-", "if [ -f \"$X\" ]; then cargo test; fi"),
        ("-", "test $((1 << 2)) = 4"),
        ("-", "awk '{ s += $1 } END { exit s != 3 }' README.md"),
        ("-", "sed -n '/^x*$/p' README.md | wc -l"),
        ("-", "jq -e '.a[] | select(.b == \"c\")' README.md"),
        ("-", "bash -c 'set -euo pipefail; npm ci; npm test'"),
        ("-", "find . -name '*.orig' | wc -l | grep -qx 0"),
        ("-", "while ! curl -s localhost:3000; do sleep 1; done; npm run e2e"),
        ("-", "trap 'kill $PID' EXIT; npm start & PID=$!; npm test"),
        ("-", "export CI=1; npx playwright test"),
        ("-", "grep -c '^ok' \"$RALPH_REPORT\""),
        ("-", "perl -ne 'exit 1 if /later/' src/*.js"),
        ("-", "ruby -Itest -e 'Dir[\"./test/*_test.rb\"].each { |f| require f }'"),
    ]);
    assert!(rows.lines().all(|line| !line.contains("    ?") && !line.contains(", ?")), "{rows}");
    assert_snapshot!(rows, @r#"
    - cargo test --jobs $(nproc)
        
    - npm test
        
    - cd frontend && npm test
        frontend/package.json: scripts.test
    - cd "frontend" && npx tsc --noEmit
        
    - pytest -q tests
        
    - go test ./...
        
    - make check
        
    - test "$(sh main.sh)" = hello
        
    - sh main.sh | grep -q goodbye
        
    - ! grep -rn later src
        
    - for f in tests/*.sh; do sh "$f" || exit 1; done
        tests/*.sh, tests/test_b.sh
    - set -e; cargo fmt --check; cargo test
        
    - FOO=1 cargo test
        
    - shellcheck *.sh
        
    - npx eslint . --format json > "$RALPH_REPORT"
        
    - sleep 2; sh chk/a.sh
        chk/a.sh
    - test ! -e broken && echo 1 passed
        
    - echo b >> "$RAN"; grep -q tested README.md
        
    - node --test "src/**/*.test.js"
        
    - NODE_OPTIONS=--experimental-vm-modules npx jest --coverage
        
    - npx mocha -r ts-node/register 'tests/**/*.ts'
        
    - python3 -m pytest -q tests/test_*.py
        
    - pytest -k python tests/*.py
        
    - timeout -s KILL 60 pytest -k "$K" tests/*.py
        
    - for f in $(git ls-files '*.sh'); do bash -n "$f" || exit 1; done
        
    - git ls-files '*.sh' | xargs shellcheck
        
    - git ls-files -z '*.py' | xargs -0 python3 -m py_compile
        
    - find src -name '*.js' -exec node --check {} \;
        
    - git diff --exit-code && git -C "$PWD" status
        
    - rm -f *.tmp && mkdir -p build && cd build && cmake .. && make -j$(nproc)
        
    - cc -o build/t tests/*.c && ./build/t
        
    - python3 -c 'import app; assert app.f(2) == 4'
        
    - python3 -c "import subprocess; assert b'hi' in subprocess.run(['sh', 'main.sh'], capture_output=True).stdout"
        main.sh
    - node -e "const a = require('./src/a.js'); if (/x/.exec(a.f())) process.exit(1)"
        src/a.js
    - [ "$(python3 app.py "$X")" = 3 ]
        
    - for i in 1 2 3; do sh main.sh $i | grep -q ok || exit 1; done
        
    - for i in $(seq 1 3); do sh chk/a.sh $i || exit 1; done
        chk/a.sh
    - cd "$(git rev-parse --show-toplevel)" && npm test
        
    - sh main.sh > out.txt && diff out.txt want/a.txt
        main.sh, want/a.txt
    - tmp=$(mktemp); sh main.sh | tee $tmp | grep -q ok; diff $tmp want/a.txt
        main.sh, want/a.txt
    - diff <(sh main.sh) want/a.txt
        want/a.txt
    - test -z "$(gofmt -l .)" && go vet ./...
        
    - uv run pytest -q && uvx ruff check .
        
    - poetry run python -m pytest "$@"
        
    - docker compose up -d && npm run e2e; docker compose down
        
    - if [ -f "$X" ]; then cargo test; fi
        
    - test $((1 << 2)) = 4
        
    - awk '{ s += $1 } END { exit s != 3 }' README.md
        README.md
    - sed -n '/^x*$/p' README.md | wc -l
        README.md
    - jq -e '.a[] | select(.b == "c")' README.md
        
    - bash -c 'set -euo pipefail; npm ci; npm test'
        
    - find . -name '*.orig' | wc -l | grep -qx 0
        
    - while ! curl -s localhost:3000; do sleep 1; done; npm run e2e
        
    - trap 'kill $PID' EXIT; npm start & PID=$!; npm test
        
    - export CI=1; npx playwright test
        
    - grep -c '^ok' "$RALPH_REPORT"
        
    - perl -ne 'exit 1 if /later/' src/*.js
        
    - ruby -Itest -e 'Dir["./test/*_test.rb"].each { |f| require f }'
    "#);
}
