use super::*;
use crate::config::{self, ProjectConfig};
use insta::assert_snapshot;
use std::os::unix::fs::{PermissionsExt, symlink};

struct TrustSandbox {
    root: tempfile::TempDir,
}

impl TrustSandbox {
    fn new(policy: &str) -> Self {
        let place = Self { root: tempfile::tempdir().unwrap() };
        place.write("project/ralph.toml", policy)
    }

    fn path(&self, path: &str) -> PathBuf {
        fs::resolve(self.root.path()).unwrap().join(path)
    }

    fn write(self, path: &str, text: &str) -> Self {
        let path = self.path(path);
        fs::create_private_dir(path.parent().unwrap()).unwrap();
        fs::replace(&path, text.as_bytes(), Durability::Cached).unwrap();
        self
    }

    fn home(&self) -> RalphHome {
        RalphHome::new(self.path("home"))
    }

    fn config(&self) -> ProjectConfig {
        config::load(&self.path("project"), &self.home()).unwrap()
    }

    fn subject(&self) -> ApprovalSubject {
        self.subject_with("/bin").unwrap()
    }

    fn subject_with(&self, path: &str) -> Result<ApprovalSubject, TrustError> {
        policy_subject(&self.home(), &self.config(), &env_with_path(path))
    }

    fn reference_names(&self) -> String {
        let names: Vec<_> =
            self.subject().references.into_iter().map(|called| called.name).collect();
        names.join(", ").replace(&*self.path("").to_string_lossy(), "/")
    }

    fn approve(&self) {
        let search_path = find_programs(&self.config(), &env_with_path("/bin"));
        approve(&self.home(), &self.subject(), &search_path).unwrap();
    }
}

fn env_with_path(path: &str) -> Env {
    Env::from_pairs([("PATH", path)], None, Vec::new())
}

fn gate_toml(command: &str) -> String {
    format!("[[gate]]\nname = \"a\"\n{command}\n")
}

/// A project with scripts of every kind.
fn project_with_scripts(command: &str) -> TrustSandbox {
    let place = TrustSandbox::new(&gate_toml(command))
        .write("outside.sh", "")
        .write("elsewhere/x.sh", "")
        .write("project/check.sh", "")
        .write("project/web/lint.sh", "")
        .write("project/web/a b.txt", "")
        .write("project/web/deep/x", "")
        .write("project/web/deep/made", "#!/bin/sh\n")
        .write("project/web/deep/check", "#!/bin/sh\n")
        .write("project/web/test_a.py", "")
        .write("project/web/a.ts", "")
        .write("project/eslint.config.js", "")
        .write("project/Makefile", "include rules.mk\ntest:\n\t./check.sh\n")
        .write("project/rules.mk", "-include web/none.mk rules.mk web/more.mk\n")
        .write("project/web/more.mk", "")
        .write("project/web/Makefile", "")
        .write("project/justfile", "import 'check.sh'\n")
        .write(
            "project/package.json",
            r#"{"scripts":{"test":"npm run unit","pretest":"node check.sh","unit":"npm test","all":"yarn lint && yarn all","lint":"x"}}"#,
        )
        .write("project/web/main.js", "")
        .write("project/web/main.check.js", "")
        .write("project/web/tool.sh", "")
        .write(
            "project/web/package.json",
            r#"{"scripts":{"lint":"./lint.sh","other":"x","i":"echo \"Error: no test specified\" && exit 1"},"main":"main.js","bin":{"a":"./main.check.js","b":"tool.sh"},"directories":{"bin":"deep"}}"#,
        );
    symlink("../outside.sh", place.path("project/linked.sh")).unwrap();
    symlink("web/lint.sh", place.path("project/inner.sh")).unwrap();
    symlink("../elsewhere", place.path("project/out")).unwrap();
    place
}

/// R-S3a: the hash covers the policy and the scripts of the repository that it refers to.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases, or one story with its whole output")]
fn every_file_that_a_command_names_is_hashed() {
    let mut shown = String::new();
    for command in [
        "run = ['cargo', 'test']",
        "run = ['./check.sh', '--fast']",
        "run = ['bash', 'web/lint.sh', 'nowhere.sh', '/bin/sh', '../outside.sh']",
        "run = ['tool', '--config=web/lint.sh', '-fcheck.sh', '@web/a b.txt']",
        "cwd = 'web'\nrun = ['./lint.sh', '../check.sh']",
        "run = ['sh', '-c', 'cd web && ./lint.sh']",
        "shell = 'cd web; \"./lint.sh\" <check.sh | cat \"web/a b.txt\"'",
        "run = ['npm', 'test']",
        "run = ['npm', 'run', 'lint', '--prefix', 'web']",
        "cwd = 'web/deep'\nrun = ['pnpm', 'lint']",
        "shell = 'yarn --silent all'",
        "run = ['npm', 'audit']",
        "run = ['make', '-C', 'web']",
        "run = ['make', 'test']",
        "cwd = 'web/deep'\nrun = ['just', 'test']",
        "run = ['linked.sh', 'inner.sh']",
        "cwd = 'out'\nrun = ['x.sh']",
        "run = ['python3', '-m', 'pytest', 'web/test_a.py']",
        "run = ['python3', 'web/test_a.py', 'web/a.ts']",
        "run = ['python3', 'web/test_a.py', 'test']",
        "run = ['/usr/bin/python3.11', '-u', 'web/test_a.py', '-m', 'x']",
        "run = ['grep', '-q', 'x', 'web/a b.txt']",
        "run = ['grep', '-f', 'web/a b.txt', 'check.sh']",
        "run = ['eslint', '-c', 'eslint.config.js', 'web/a.ts']",
        "run = ['shellcheck', 'check.sh']",
        "shell = 'grep -q x \"web/a b.txt\" && bash -n check.sh'",
        "run = ['node', 'web/main.js']",
        "run = ['node', 'web/main.check.js']",
        "shell = 'web/tool.sh && npm t'",
        "shell = 'web/deep/made && web/deep/check'",
        "shell = 'for t in web/m*.js web/deep/m*; do node $t; done'",
        "shell = 'for t in tool lint; do sh web/$t.sh; done'",
    ] {
        let place = project_with_scripts(command);
        shown.push_str(&format!(
            "{}\n    {}\n",
            command.replace('\n', "; "),
            place.reference_names()
        ));
    }
    assert_snapshot!(shown, @r#"
    run = ['cargo', 'test']
        ralph.toml
    run = ['./check.sh', '--fast']
        ralph.toml, check.sh
    run = ['bash', 'web/lint.sh', 'nowhere.sh', '/bin/sh', '../outside.sh']
        ralph.toml, web/lint.sh
    run = ['tool', '--config=web/lint.sh', '-fcheck.sh', '@web/a b.txt']
        ralph.toml, check.sh, web/a b.txt, web/lint.sh
    cwd = 'web'; run = ['./lint.sh', '../check.sh']
        ralph.toml, check.sh, web/lint.sh
    run = ['sh', '-c', 'cd web && ./lint.sh']
        ralph.toml, web/lint.sh
    shell = 'cd web; "./lint.sh" <check.sh | cat "web/a b.txt"'
        ralph.toml, check.sh, web/a b.txt, web/lint.sh
    run = ['npm', 'test']
        ralph.toml, check.sh, package.json: scripts.pretest, package.json: scripts.test, package.json: scripts.unit
    run = ['npm', 'run', 'lint', '--prefix', 'web']
        ralph.toml, package.json: scripts.lint, web/lint.sh, web/package.json: scripts.lint
    cwd = 'web/deep'; run = ['pnpm', 'lint']
        ralph.toml, web/lint.sh, web/package.json: scripts.lint
    shell = 'yarn --silent all'
        ralph.toml, package.json: scripts.all, package.json: scripts.lint
    run = ['npm', 'audit']
        ralph.toml
    run = ['make', '-C', 'web']
        ralph.toml, Makefile, rules.mk, web/Makefile, web/more.mk
    run = ['make', 'test']
        ralph.toml, Makefile, rules.mk, web/more.mk
    cwd = 'web/deep'; run = ['just', 'test']
        ralph.toml, check.sh, justfile
    run = ['linked.sh', 'inner.sh']
        ralph.toml, linked.sh -> /outside.sh, web/lint.sh
    cwd = 'out'; run = ['x.sh']
        ralph.toml, out -> /elsewhere
    run = ['python3', '-m', 'pytest', 'web/test_a.py']
        ralph.toml
    run = ['python3', 'web/test_a.py', 'web/a.ts']
        ralph.toml, web/test_a.py
    run = ['python3', 'web/test_a.py', 'test']
        ralph.toml, web/test_a.py
    run = ['/usr/bin/python3.11', '-u', 'web/test_a.py', '-m', 'x']
        ralph.toml, web/test_a.py
    run = ['grep', '-q', 'x', 'web/a b.txt']
        ralph.toml
    run = ['grep', '-f', 'web/a b.txt', 'check.sh']
        ralph.toml, check.sh, web/a b.txt
    run = ['eslint', '-c', 'eslint.config.js', 'web/a.ts']
        ralph.toml, eslint.config.js
    run = ['shellcheck', 'check.sh']
        ralph.toml
    shell = 'grep -q x "web/a b.txt" && bash -n check.sh'
        ralph.toml
    run = ['node', 'web/main.js']
        ralph.toml
    run = ['node', 'web/main.check.js']
        ralph.toml, web/main.check.js
    shell = 'web/tool.sh && npm t'
        ralph.toml, check.sh, package.json: scripts.pretest, package.json: scripts.test, package.json: scripts.unit
    shell = 'web/deep/made && web/deep/check'
        ralph.toml, web/deep/check
    shell = 'for t in web/m*.js web/deep/m*; do node $t; done'
        ralph.toml, web/deep/m*, web/deep/made, web/m*.js, web/main.check.js, web/main.js
    shell = 'for t in tool lint; do sh web/$t.sh; done'
        ralph.toml, web/lint.sh, web/tool.sh
    "#);
}

/// R-S3a: new or changed content never counts as approved.
#[test]
fn any_change_needs_a_new_approval_and_reverting_does_not() {
    let policy = gate_toml("run = ['npm', 'test', 'data.json']");
    let package = |test: &str| format!(r#"{{"scripts":{{"test":"{test}","dev":"{test}x"}}}}"#);
    let mut place = TrustSandbox::new(&policy)
        .write("project/package.json", &package("a"))
        .write("project/data.json", "1");
    assert!(!is_approved(&place.home(), &place.subject()));
    place.approve();
    let first = place.subject();
    assert!(is_approved(&place.home(), &first));
    assert_eq!(recorded_path(&place.home(), &first), Some("/bin".into()));

    let mut shown = String::new();
    for (path, text) in [
        ("ralph.toml", format!("{policy}# more\n")),
        ("ralph.toml", policy.replace("'npm', ", "'npm', '--silent', ")),
        ("ralph.toml", policy.clone() + "[[gate]]\nname = 'b'\nrun = ['true']\n"),
        ("package.json", package("b")),
        ("package.json", package("a").replace("ax", "other")),
        ("package.json", "{".to_string()),
        ("data.json", "2".to_string()),
    ] {
        let was = fs::read(&place.path("project").join(path), 10_000).unwrap();
        place = place.write(&format!("project/{path}"), &text);
        let now = place.subject();
        let last = last_approval(&place.home(), &now).unwrap().unwrap();
        let differences = now.differences(&last);
        let differences: Vec<_> =
            differences.iter().map(|one| format!("{:?} {}", one.kind, one.item)).collect();
        let approved = is_approved(&place.home(), &now);
        assert_eq!(approved, now.hash == first.hash, "{path} {text}");
        shown.push_str(&format!("{path}: approved {approved}; {}\n", differences.join(", ")));
        place = place.write(&format!("project/{path}"), std::str::from_utf8(&was).unwrap());
        assert!(is_approved(&place.home(), &place.subject()));
    }
    assert_snapshot!(shown, @"
    ralph.toml: approved false; Changed `ralph.toml`
    ralph.toml: approved false; Changed the command of `a`, Changed `ralph.toml`
    ralph.toml: approved false; Added the command of `b`, Changed `ralph.toml`
    package.json: approved false; Changed `package.json: scripts.test`
    package.json: approved true; 
    package.json: approved false; Added `package.json`, Removed `package.json: scripts.test`
    data.json: approved false; Changed `data.json`
    ");
    std::fs::remove_file(place.path("project/data.json")).unwrap();
    assert!(!is_approved(&place.home(), &place.subject()));
}

/// R-S3b: an approval is for this content in this project; it is neither inherited nor accepted when damaged.
#[test]
fn the_same_content_elsewhere_is_not_approved() {
    let place = TrustSandbox::new(&gate_toml("run = ['true']"))
        .write("other/ralph.toml", &gate_toml("run = ['true']"));
    place.approve();
    let here = place.subject();
    let other = config::load(&place.path("other"), &place.home()).unwrap();
    let there = policy_subject(&place.home(), &other, &env_with_path("/bin")).unwrap();
    assert_eq!(here.hash, there.hash);
    assert!(is_approved(&place.home(), &here) && !is_approved(&place.home(), &there));

    let file = place.home().approval(&here.project, &here.hash);
    assert_eq!(fs::stat(&file).unwrap().mode, 0o600);
    let copied = place.home().approval(&there.project, &there.hash);
    let bytes = fs::read(&file, 10_000).unwrap();
    fs::replace(&copied, &bytes, Durability::Cached).unwrap();
    assert!(!is_approved(&place.home(), &there));
    for damaged in ["", "{}", &String::from_utf8_lossy(&bytes).replace("\"v\": 1", "\"v\": 2")] {
        fs::replace(&file, damaged.as_bytes(), Durability::Cached).unwrap();
        assert!(!is_approved(&place.home(), &here), "{damaged}");
    }

    place.approve();
    assert_eq!(revoke_approvals(&place.home(), &here.project).unwrap(), 2);
    assert!(!is_approved(&place.home(), &here));
    assert_eq!(revoke_approvals(&place.home(), &here.project).unwrap(), 0);
}

#[test]
fn content_from_outside_the_repository_needs_no_approval() {
    let place = TrustSandbox::new("").write("project/check.sh", "");
    std::fs::remove_file(place.path("project/ralph.toml")).unwrap();
    assert!(!place.subject().needs_approval());
    let place = place.write("home/config.toml", &gate_toml("run = ['typos']"));
    assert!(!place.subject().needs_approval());
    assert!(is_approved(&place.home(), &place.subject()));
    // The person's own gate, but the repository's script.
    let place = place.write("home/config.toml", &gate_toml("run = ['./check.sh']"));
    assert!(place.subject().needs_approval());
    assert!(!is_approved(&place.home(), &place.subject()));
}

#[test]
fn a_long_enough_prefix_identifies_a_hash() {
    let subject = TrustSandbox::new("").subject();
    for (given, expected) in [
        (subject.hash.clone(), true),
        (subject.hash.to_uppercase(), true),
        (subject.hash[..12].to_string(), true),
        (subject.hash[..11].to_string(), false),
        (format!("{}0", subject.hash), false),
        (subject.hash[1..20].to_string(), false),
        (String::new(), false),
        ("ä".repeat(12), false),
    ] {
        assert_eq!(subject.matches_hash(&given), expected, "{given}");
    }
}

/// R-H3c: an approval records where the program of every gate was found, or that it was missing.
#[test]
fn programs_are_looked_up_on_the_path() {
    let policy = [
        "[[gate]]\nname = 'found'\nrun = ['tool', 'x']",
        "[[gate]]\nname = 'not-executable'\nrun = ['text']",
        "[[gate]]\nname = 'missing'\nrun = ['go', 'test']",
        "[[gate]]\nname = 'relative'\ncwd = 'web'\nrun = ['./tool']",
        "[[gate]]\nname = 'shell'\nshell = 'go test'",
    ];
    let place = TrustSandbox::new(&policy.join("\n"))
        .write("bin/tool", "")
        .write("bin/text", "")
        .write("project/web/tool", "");
    for path in ["bin/tool", "project/web/tool"] {
        std::fs::set_permissions(place.path(path), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("web:{}:/nowhere", place.path("bin").display());
    let found = find_programs(&place.config(), &env_with_path(&path));
    let root = place.path("").display().to_string();
    let lines = found.programs.iter().map(|program| {
        format!("{}: {} → {:?}\n", program.gate, program.program, program.found)
            .replace(&root, "$ROOT/")
    });
    assert_snapshot!(lines.collect::<String>(), @r#"
    found: tool → Some("$ROOT/bin/tool")
    not-executable: text → None
    missing: go → None
    relative: ./tool → Some("$ROOT/project/web/./tool")
    shell: /bin/sh → Some("/bin/sh")
    "#);
    assert_eq!(found.path, Some(path.replace("web:", "")));
    assert!(find_programs(&place.config(), &env_with_path("")).programs[0].found.is_none());
}

#[test]
fn displayed_commands_show_word_boundaries() {
    let argv =
        |words: &[&str]| GateInvocation::Argv(words.iter().map(ToString::to_string).collect());
    for (command, expected) in [
        (argv(&["npx", "tsc", "--noEmit"]), "npx tsc --noEmit"),
        (argv(&["sh", "-c", "rm -rf $X", ""]), "sh -c 'rm -rf $X' ''"),
        (argv(&["echo", "it's"]), r"echo 'it'\''s'"),
        (GateInvocation::Shell("a | b".to_string()), "/bin/sh -c 'a | b'"),
        (argv(&["a\u{202e}b\u{1b}[2K"]), r"'a\u{202e}b\u{1b}[2K'"),
        (
            GateInvocation::Shell("a\u{a0}# b\u{2800}".to_string()),
            r"/bin/sh -c 'a\u{a0}# b\u{2800}'",
        ),
    ] {
        assert_eq!(display_command(&command), expected);
    }
}

#[test]
fn commands_with_too_many_references_are_rejected() {
    let words: Vec<_> = (0..6000).map(|word| format!("'{word}'")).collect();
    let place = TrustSandbox::new(&gate_toml(&format!("run = [{}]", words.join(","))));
    assert!(matches!(place.subject_with("/bin"), Err(TrustError::TooManyReferences(_))));
    let scripts: Vec<_> =
        (0..5000).map(|at| format!("\"s{at}\":\"npm run s{}\"", at + 1)).collect();
    let place = TrustSandbox::new(&gate_toml("run = ['npm', 'run', 's0']"))
        .write("project/package.json", &format!("{{\"scripts\":{{{}}}}}", scripts.join(",")));
    assert!(matches!(place.subject_with("/bin"), Err(TrustError::TooManyReferences(_))));
}

/// A recipe of more than a megabyte can include scripts too.
#[test]
fn files_included_by_a_large_recipe_are_hashed() {
    let filler = "# a comment\n".repeat(200_000);
    let place = TrustSandbox::new(&gate_toml("run = [\"make\", \"test\"]"))
        .write("project/Makefile", &format!("{filler}include rules.mk\n"))
        .write("project/rules.mk", "");
    assert_eq!(place.reference_names(), "ralph.toml, Makefile, rules.mk");
    let place = place.write("project/Makefile", &"#".repeat(17 * 1024 * 1024));
    let error = place.subject_with("/bin").unwrap_err();
    let error = ralph_home::faults::describe_error(&error);
    assert_snapshot!(error.replace(&*place.path("").to_string_lossy(), "/"), @"cannot read `/project/Makefile`: it is larger than 16777216 bytes");
}

#[test]
fn revoking_deletes_approvals_of_any_version_and_reports_those_that_cannot_be_read() {
    let place = TrustSandbox::new(&gate_toml("run = [\"true\"]"));
    let (home, project) = (place.home(), place.path("project"));
    place.approve();
    let names = || fs::list(&home.trust(), 100).unwrap();
    let newer = format!("{{\"v\": 9, \"project\": \"{}\"}}", project.display());
    let elsewhere = "{\"v\": 9, \"project\": \"/elsewhere\"}";
    let place = place
        .write("home/trust/damaged", "{")
        .write("home/trust/elsewhere", elsewhere)
        .write("home/trust/newer", &newer);
    assert_eq!(revoke_approvals(&home, &project).unwrap(), 2);
    assert_eq!(names(), ["damaged", "elsewhere"]);

    // Not even root can read a link to itself.
    symlink("a-loop", place.path("home/trust/a-loop")).unwrap();
    place.approve();
    let error = ralph_home::faults::describe_error(&revoke_approvals(&home, &project).unwrap_err());
    assert_snapshot!(error.replace(&*place.path("").to_string_lossy(), "/"), @"cannot read `/home/trust/a-loop`: Too many levels of symbolic links (os error 40)");
    assert_eq!(names(), ["a-loop", "damaged", "elsewhere"]);
}

/// R-V1h: what an interpreter runs for a directory or a module, and a recipe without an extension, is hashed too.
#[test]
fn modules_directories_and_named_recipes_are_hashed() {
    for (command, expected) in [
        ("run = ['python3', 'qa']", "ralph.toml, qa/__main__.py"),
        ("run = ['python3', '-m', 'qa']", "ralph.toml, qa/__main__.py"),
        ("run = ['python3', '-m', 'qa.run']", "ralph.toml, qa/run.py"),
        ("run = ['node', 'qa']", "ralph.toml, qa/index.js"),
        ("run = ['make', '-f', 'rules', 'all']", "ralph.toml, rules"),
        ("run = ['make', '--file=rules', 'all']", "ralph.toml, rules"),
        ("run = ['wc', 'rules']", "ralph.toml"),
    ] {
        let mut place = TrustSandbox::new(&gate_toml(command));
        for file in ["qa/__main__.py", "qa/run.py", "qa/index.js", "rules"] {
            place = place.write(&format!("project/{file}"), "");
        }
        assert_eq!(place.reference_names(), expected, "{command}");
    }
}

/// R-S3a: an approval covers the programs of the project that the `PATH` of gates leads to, whether the policy sets it or
/// it was that of the person.
#[test]
fn programs_on_the_path_are_approved_too() {
    let write_program = |place: &TrustSandbox, path: &str, text: &str| {
        let path = place.path(path);
        fs::create_private_dir(path.parent().unwrap()).unwrap();
        fs::replace(&path, text.as_bytes(), Durability::Cached).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let own = "[environment.set]\nPATH = './bin:/usr/bin'\n";
    let gate = gate_toml("run = ['pytest']");
    for (policy, is_own) in [(format!("{own}{gate}"), true), (own.to_string(), true), (gate, false)]
    {
        let place = TrustSandbox::new(&policy).write("project/bin/notes.txt", "");
        write_program(&place, "project/bin/pytest", "exit 0");
        let bin = place.path("project/bin");
        let path = format!("{}:/bin", bin.display());
        let person = if is_own { "/bin" } else { path.as_str() };
        let subject = |path: &str| place.subject_with(path).unwrap();
        let is_covered = |path: &str| is_approved(&place.home(), &subject(path));
        let found = find_programs(&place.config(), &env_with_path(person));
        approve(&place.home(), &subject(person), &found).unwrap();
        let names: Vec<_> = subject(person).references.into_iter().map(|one| one.name).collect();
        assert_eq!(names.join(", "), "ralph.toml, bin/ on PATH, bin/pytest", "{policy}");
        // The `PATH` of another host does not matter, because gates run with that of the approval.
        assert!(is_covered(person) && is_covered("/usr/bin"), "{policy}");

        write_program(&place, "project/bin/pytest", "exit 1");
        assert!(!is_covered(person) && !is_covered("/usr/bin"), "{policy}");
        write_program(&place, "project/bin/pytest", "exit 0");
        assert!(is_covered(person), "{policy}");
        write_program(&place, "project/bin/python3", "exit 0");
        assert!(!is_covered(person) && !is_covered("/usr/bin"), "{policy}");
        fs::remove_file(&bin.join("pytest")).unwrap();
        fs::remove_file(&bin.join("python3")).unwrap();
        assert!(!is_covered(person) && !is_covered("/usr/bin"), "{policy}");
    }
}

/// A directory on the `PATH` that did not exist when it was approved is searched once it does.
#[test]
fn programs_may_not_appear_in_a_missing_directory_of_the_path() {
    let place = TrustSandbox::new(&gate_toml("run = ['pytest']"));
    let path = format!("{}:/bin", place.path("project/bin").display());
    let found = find_programs(&place.config(), &env_with_path(&path));
    approve(&place.home(), &place.subject_with(&path).unwrap(), &found).unwrap();
    let place = place.write("project/bin/pytest", "exit 0");
    let program = place.path("project/bin/pytest");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    for path in [path.as_str(), "/bin"] {
        assert!(!is_approved(&place.home(), &place.subject_with(path).unwrap()), "{path}");
    }
}

/// A work tree has its own copy of the programs, which the `PATH` of a copied approval leads to.
#[test]
fn a_copied_approval_leads_to_the_programs_of_the_copy() {
    let place = TrustSandbox::new(&gate_toml("run = ['pytest']"))
        .write("copy/ralph.toml", &gate_toml("run = ['pytest']"));
    for program in ["project/bin/pytest", "copy/bin/pytest"] {
        let program = place.path(program);
        fs::create_private_dir(program.parent().unwrap()).unwrap();
        fs::replace(&program, b"exit 0", Durability::Cached).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/bin", place.path("project/bin").display());
    let found = find_programs(&place.config(), &env_with_path(&path));
    approve(&place.home(), &place.subject_with(&path).unwrap(), &found).unwrap();
    copy_approvals(&place.home(), &place.path("project"), &place.path("copy")).unwrap();
    let copy = config::load(&place.path("copy"), &place.home()).unwrap();
    let subject = policy_subject(&place.home(), &copy, &env_with_path(&path)).unwrap();
    let path = recorded_path(&place.home(), &subject).unwrap();
    assert_eq!(path.to_string_lossy(), format!("{}:/bin", place.path("copy/bin").display()));
}

mod command_tables;
