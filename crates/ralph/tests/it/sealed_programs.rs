//! The programs that decide a run: those of the gates, and ralph's own git.

use crate::sandbox::{SESSION, Sandbox, without_proof, write_program};
use insta::assert_snapshot;
use std::fs;

const PASSING: &str = "#!/bin/sh\nexit 0\n";
const FAILING: &str = "#!/bin/sh\nexit 1\n";

/// A project whose gates run `tool` from an installed package and `pytest` from `PATH`. Both pass.
fn project_with_programs() -> Sandbox {
    let sandbox = Sandbox::new();
    let root = sandbox.root().display().to_string();
    write_program(&sandbox.root().join("bin/pytest"), "#!/bin/sh\ntrue\n");
    let sandbox = sandbox.env("PATH", &format!("{root}/early:{root}/bin:/usr/bin:/bin"));
    sandbox.write(
        "ralph.toml",
        without_proof("[[gate]]\nname = \"tests\"\nshell = \"cd src && pytest\"\n\n[[gate]]\nname = \"lint\"\nrun = [\"npx\", \"tool\"]\n"),
    );
    write_program(&sandbox.root().join("bin/npx"), "#!/bin/sh\nexec node_modules/.bin/\"$1\"\n");
    write_program(&sandbox.project().join("node_modules/.bin/tool"), "#!/bin/sh\ntrue\n");
    sandbox.write(".gitignore", "node_modules\n.venv\n");
    sandbox.write("package.json", "{}\n");
    sandbox.write("src/app.py", "1\n");
    sandbox.commit();
    sandbox.approve_policy();
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("src/app.py", "2\n");
    sandbox
}

/// The findings of the requirement `tools` after a stop, if it is open.
fn tools_findings(sandbox: &Sandbox) -> String {
    let stop = sandbox.send_stop(SESSION, "");
    let lines = stop
        .stderr
        .lines()
        .filter(|line| line.contains("different program") || line.contains("git that ralph"));
    let found: Vec<&str> = lines.map(str::trim).collect();
    if found.is_empty() && !stop.is_block() {
        "free".to_string()
    } else {
        found.join("\n").replace(&sandbox.root().display().to_string(), "~")
    }
}

/// A program that appears before the sealed one is detected wherever it is in a shell line.
#[test]
fn a_fake_runner_earlier_on_the_path_holds() {
    let sandbox = project_with_programs();
    write_program(&sandbox.root().join("early/pytest"), PASSING);
    assert_snapshot!(tools_findings(&sandbox), @"│ tests runs a different program than at the start: `~/early/pytest`");
    fs::remove_file(sandbox.root().join("early/pytest")).unwrap();
    assert_eq!(tools_findings(&sandbox), "free");
}

#[test]
fn a_replaced_runner_holds() {
    let sandbox = project_with_programs();
    write_program(&sandbox.root().join("bin/pytest"), PASSING);
    sandbox.write("package.json", "{ }\n");
    assert_snapshot!(tools_findings(&sandbox), @"│ tests runs a different program than at the start: `~/bin/pytest`");
}

/// A package manager may replace an installed program, but only together with the declared dependencies.
#[test]
fn an_installed_program_may_change_only_with_a_manifest() {
    let sandbox = project_with_programs();
    write_program(&sandbox.project().join("node_modules/.bin/tool"), PASSING);
    assert_snapshot!(tools_findings(&sandbox), @"│ lint runs a different program than at the start: `~/project/node_modules/.bin/tool`");
    // Neither its layout nor anything else in it counts.
    sandbox.write("package.json", "{\n \"version\": \"2\" }\n");
    assert_ne!(tools_findings(&sandbox), "free");
    sandbox.write("package.json", "{ \"devDependencies\": { \"tool\": \"2\" } }\n");
    assert_eq!(tools_findings(&sandbox), "free");
}

/// ralph runs the git that it found when the run began, not the one that the `PATH` of a hook finds.
#[test]
fn a_fake_git_on_the_path_of_the_hook_is_not_run() {
    let sandbox = project_with_programs();
    let trace = sandbox.root().join("git-was-run");
    let fake = format!("#!/bin/sh\necho \"$@\" >> {}\nexit 1\n", trace.display());
    write_program(&sandbox.root().join("early/git"), &fake);
    assert_eq!(tools_findings(&sandbox), "free");
    assert!(!trace.exists(), "{}", fs::read_to_string(trace).unwrap());
}

#[test]
fn a_replaced_git_holds() {
    let sandbox = Sandbox::new();
    let git = sandbox.root().join("bin/git");
    write_program(&git, "#!/bin/sh\nexec /usr/bin/git \"$@\"\n");
    let path = format!("{}/bin:/usr/bin:/bin", sandbox.root().display());
    let sandbox = sandbox.env("PATH", &path);
    sandbox.write("ralph.toml", without_proof("[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n"));
    sandbox.commit();
    sandbox.approve_policy();
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "done\n");
    write_program(&git, "#!/bin/sh\n# other\nexec /usr/bin/git \"$@\"\n");
    assert_snapshot!(tools_findings(&sandbox), @"│ the git that ralph runs was replaced: `~/bin/git`");
}

/// R-V1h: a script that did not exist chooses its programs, but none that is younger than the run.
#[test]
fn a_new_script_runs_programs_that_were_there() {
    let sandbox = Sandbox::new();
    let root = sandbox.root().to_owned();
    write_program(&root.join("bin/npm"), "#!/bin/sh\ntrue\n");
    write_program(&root.join("bin/runner"), "#!/bin/sh\ntrue\n");
    let sandbox = sandbox.env("PATH", &format!("{0}/early:{0}/bin:/usr/bin:/bin", root.display()));
    sandbox.write(
        "ralph.toml",
        without_proof("[[gate]]\nname = \"tests\"\nrun = [\"npm\", \"test\"]\n"),
    );
    sandbox.commit();
    sandbox.approve_policy();
    let started = sandbox.ralph_with_input(
        ["start", "--session", SESSION, "--goal-file", "-"],
        b"begin the project\n",
    );
    let notes: Vec<&str> = started.stdout.lines().filter(|line| line.contains("note")).collect();
    assert_snapshot!(notes.join("\n"), @"      note    gate tests runs the script `test`, which does not exist yet: the agent writes it and chooses its programs");
    sandbox.write("package.json", r#"{ "scripts": { "test": "runner --all" } }"#);
    write_program(&root.join("early/runner"), PASSING);
    assert_snapshot!(tools_findings(&sandbox), @"│ tests runs a different program than at the start: `~/early/runner`");
    fs::remove_file(root.join("early/runner")).unwrap();
    assert_eq!(tools_findings(&sandbox), "free");
}

/// R-V1j: with a `PATH` in the policy, `ralph trust` shows the programs that run, and a run seals them.
#[test]
fn trust_shows_and_a_run_seals_the_programs_of_the_policys_own_path() {
    let sandbox = Sandbox::new();
    let root = sandbox.root().to_owned();
    write_program(&root.join("bin/check"), FAILING);
    write_program(&root.join("own/check"), "#!/bin/sh\ntrue\n");
    let sandbox = sandbox.env("PATH", &format!("{}/bin:/usr/bin:/bin", root.display()));
    sandbox.write(
        "ralph.toml",
        without_proof(&format!("[environment.set]\nPATH = \"{0}/front:{0}/own:/usr/bin:/bin\"\n\n[[gate]]\nname = \"tests\"\nrun = [\"check\"]\n\n[[gate]]\nname = \"line\"\nshell = \"cd . && check --all\"\n", root.display())),
    );
    sandbox.commit();
    let shown = sandbox.ralph(["trust"]).stdout.replace(&root.display().to_string(), "~");
    let gates: Vec<&str> = shown.lines().skip_while(|line| *line != "gates:").take(8).collect();
    assert_snapshot!(gates.join("\n"), @"
    gates:
      tests
        check
        check → ~/own/check
      line
        /bin/sh -c 'cd . && check --all'
        check → ~/own/check
    ");
    sandbox.approve_policy();
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "done\n");
    write_program(&root.join("front/check"), PASSING);
    assert_snapshot!(tools_findings(&sandbox), @"
    │ tests runs a different program than at the start: `~/front/check`
    │ line runs a different program than at the start: `~/front/check`
    ");
    fs::remove_file(root.join("front/check")).unwrap();
    // A change of the other one does not matter: no gate runs it.
    write_program(&root.join("bin/check"), PASSING);
    assert_eq!(tools_findings(&sandbox), "free");
}

/// R-V1j: `ralph trust` shows the environment that the policy gives to gates, and the program that really runs in it.
#[test]
fn trust_shows_the_environment_and_the_program_that_runs_in_it() {
    let sandbox = Sandbox::new();
    let root = sandbox.root().to_owned();
    write_program(&root.join("bin/uv"), "#!/bin/sh\nexec .ci/bin/\"$2\"\n");
    for program in [".venv/bin/pytest", ".ci/bin/pytest"] {
        write_program(&sandbox.project().join(program), "#!/bin/sh\ntrue\n");
    }
    let sandbox = sandbox.env("PATH", &format!("{}/bin:/usr/bin:/bin", root.display()));
    let policy = "[environment]\npass = [\"DATABASE_URL\"]\n\n[environment.set]\nUV_PROJECT_ENVIRONMENT = \".ci\"\n\n[[gate]]\nname = \"tests\"\nrun = [\"uv\", \"run\", \"pytest\"]\nenv = [\"LICENSE_FILE\"]\n";
    sandbox.write("ralph.toml", without_proof(policy));
    sandbox.write(".gitignore", ".venv\n.ci\n");
    sandbox.commit();
    let shown = sandbox.ralph(["trust"]).stdout;
    let until = shown.find("\nthe hash covers").unwrap();
    assert_snapshot!(sandbox.normalize(&shown[..until]), @"
    $ROOT/project

    gates:
      tests
        uv run pytest
        uv → $ROOT/bin/uv
        pytest → $ROOT/project/.ci/bin/pytest

    they run with CI=true (`[environment] ci = false` leaves it out)

    environment of gates:
      UV_PROJECT_ENVIRONMENT=.ci
      from your environment: DATABASE_URL
      from your environment, for tests: LICENSE_FILE
    ");
    sandbox.approve_policy();
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "done\n");
    write_program(&sandbox.project().join(".ci/bin/pytest"), PASSING);
    assert_snapshot!(tools_findings(&sandbox), @"│ tests runs a different program than at the start: `~/project/.ci/bin/pytest`");
}

/// What a directory of the project on `PATH` holds is sealed: a gate's script may call any program in it.
#[test]
fn programs_of_a_directory_in_the_project_are_sealed() {
    let sandbox = Sandbox::new();
    let tools = sandbox.project().join("tools");
    write_program(&tools.join("helper"), "#!/bin/sh\ntrue\n");
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let sandbox = sandbox.env("PATH", &path);
    sandbox.write("ralph.toml", without_proof("[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n"));
    sandbox.commit();
    let shown = sandbox.ralph(["trust"]).stdout;
    let shown: Vec<&str> = shown.lines().filter(|line| line.contains("`PATH` contains")).collect();
    assert_snapshot!(shown.join("\n"), @"  `PATH` contains `tools` of the project: the hash covers its programs");
    sandbox.approve_policy();
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("tools/notes.txt", "no program\n");
    let policy_lines = || {
        let stop = sandbox.send_stop(SESSION, "");
        let lines: Vec<&str> =
            stop.stderr.lines().filter(|line| line.contains("sealed because")).collect();
        lines.join("\n")
    };
    write_program(&tools.join("python3"), PASSING);
    write_program(&tools.join("helper"), PASSING);
    assert_snapshot!(policy_lines(), @"
    │ `tools/helper` changed; sealed because gates look for programs in its directory
    │ `tools/python3` is new; sealed because gates look for programs in its directory
    ");
    let unapproved = sandbox.ralph(["gate", "run"]);
    assert_snapshot!(format!("{:?}\n{}", unapproved.code, unapproved.stderr), @"
    Some(3)
    error: this policy is not approved, so nothing was run
      hint: `ralph trust` shows what would run and asks for approval
    ");
    fs::remove_file(tools.join("python3")).unwrap();
    write_program(&tools.join("helper"), "#!/bin/sh\ntrue\n");
    assert_eq!(policy_lines(), "");
    assert_eq!(sandbox.ralph(["gate", "run"]).code, Some(0));
}

/// ralph never runs a git that the project contains, whatever `PATH` says, not even before there is a run.
#[test]
fn a_git_in_the_project_is_not_run() {
    let sandbox = Sandbox::new();
    let trace = sandbox.root().join("git-was-run");
    let fake = format!("#!/bin/sh\necho \"$@\" >> {}\nexec /usr/bin/git \"$@\"\n", trace.display());
    write_program(&sandbox.project().join("bin/git"), &fake);
    let linked = sandbox.root().join("linked");
    std::os::unix::fs::symlink(sandbox.project().join("bin"), &linked).unwrap();
    sandbox.write("ralph.toml", without_proof("[[gate]]\nname = \"tests\"\nrun = [\"true\"]\n"));
    sandbox.commit();
    let path = format!("{}/bin:{}:/usr/bin:/bin", sandbox.project().display(), linked.display());
    let sandbox = sandbox.env("PATH", &path);
    sandbox.approve_policy();
    for command in [&["init", "--yes"][..], &["doctor"], &["status"], &["gate", "run"], &["prove"]]
    {
        sandbox.ralph(command);
    }
    sandbox.start_run(["--goal-file", "-"]);
    sandbox.write("work", "done\n");
    assert_eq!(tools_findings(&sandbox), "free");
    assert!(!trace.exists(), "{}", fs::read_to_string(trace).unwrap());
}
