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
