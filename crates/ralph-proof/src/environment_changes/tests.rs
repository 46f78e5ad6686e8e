use super::*;
use crate::tree_changes::TreeChanges;

/// Paths with their contents.
type FileSlice<'a> = &'a [(&'a str, &'a str)];

/// `+path`, `~path` and `-path` for files that were added, modified and removed.
fn compare(before: FileSlice<'_>, now: FileSlice<'_>) -> Vec<String> {
    let roots = ["node_modules", ".venv"];
    let before = EnvironmentRecord::sample(&roots, before);
    let now = EnvironmentRecord::sample(&["node_modules", ".venv", "venv"], now);
    let describe = |file: ChangedInstalledFile| {
        let sign = match file.difference {
            FileDifference::Added => '+',
            FileDifference::Modified => '~',
            FileDifference::Removed => '-',
        };
        format!("{sign}{}", file.path)
    };
    compare_records(&before, &now).into_iter().map(describe).collect()
}

#[test]
fn files_are_compared_by_content() {
    let old: FileSlice<'_> = &[("node_modules/a/index.js", "f1"), ("node_modules/.bin/a", "l1")];
    let rows: [(FileSlice<'_>, &[&str]); 8] = [
        (old, &[]),
        (&[("node_modules/a/index.js", "f2"), old[1]], &["~node_modules/a/index.js"]),
        (&[("node_modules/a/index.js", "x1"), old[1]], &["~node_modules/a/index.js"]),
        (&[old[0]], &["-node_modules/.bin/a"]),
        (&[old[0], old[1], ("node_modules/b/index.js", "f1")], &["+node_modules/b/index.js"]),
        // A package of the workspace is code of the project.
        (&[old[0], old[1], ("node_modules/@own/b", "p1")], &[]),
        // A link to a file: Node would load it instead of the package.
        (&[old[0], old[1], ("node_modules/a.js", "l1")], &["+node_modules/a.js"]),
        // There was no such environment at the start.
        (&[old[0], old[1], ("venv/lib/a.py", "f1")], &[]),
    ];
    for (now, expected) in rows {
        assert_eq!(compare(old, now), expected, "{now:?}");
    }
}

/// Content that was not known when the run started is different from any other.
#[test]
fn unknown_content_has_changed() {
    let old = [("node_modules/a/index.js", "?")];
    assert_eq!(compare(&old, &old), ["+node_modules/a/index.js"]);
    assert_eq!(compare(&old, &[]), ["-node_modules/a/index.js"]);
}

#[test]
fn a_link_into_the_project_does_not_replace_a_package() {
    let old = [("node_modules/a/index.js", "f1"), ("node_modules/b", "p1")];
    let now = [("node_modules/a", "p2"), ("node_modules/b", "p2")];
    assert_eq!(compare(&old, &now), ["-node_modules/a/index.js"]);
    let deeper = [old[0], old[1], ("node_modules/a/node_modules/c", "p2")];
    assert_eq!(compare(&old, &deeper), ["+node_modules/a/node_modules/c"]);
}

fn changed(files: &[&str]) -> Vec<ChangedInstalledFile> {
    let file = |file: &&str| {
        let difference = match &file[..1] {
            "+" => FileDifference::Added,
            "~" => FileDifference::Modified,
            _ => FileDifference::Removed,
        };
        ChangedInstalledFile { path: file[1..].to_string(), difference }
    };
    files.iter().map(file).collect()
}

fn packages(files: &[&str], dependencies: &DependencyChanges, facts: &PackageFacts) -> Vec<String> {
    let found = unexplained_packages(&changed(files), dependencies, facts);
    found.into_iter().map(|package| package.path).collect()
}

fn declared(files: &[(&str, &str, &str)]) -> DependencyChanges {
    DependencyChanges::find(&TreeChanges::sample(files))
}

/// R-V1b: without other dependencies, no package may change.
#[test]
fn packages_do_not_change_by_themselves() {
    let files = [
        "~node_modules/a/index.js",
        "~node_modules/a/package.json",
        "+node_modules/@s/b/index.js",
        "-node_modules/a/node_modules/c/index.js",
        "~node_modules/.bin/a",
        "+.venv/lib/python3/site-packages/d/e.py",
        "+.venv/lib/python3/site-packages/sitecustomize.py",
        "~.venv/bin/pytest",
    ];
    let none = DependencyChanges::default();
    assert_eq!(
        packages(&files, &none, &PackageFacts::default()),
        [
            ".venv/bin/pytest",
            ".venv/lib/python3/site-packages/d",
            ".venv/lib/python3/site-packages/sitecustomize.py",
            "node_modules/.bin",
            "node_modules/@s/b",
            "node_modules/a",
            "node_modules/a/node_modules/c",
        ]
    );
}

/// With a lock file of npm, exactly the packages may change whose entries do.
#[test]
fn the_lock_file_of_npm_explains_its_packages() {
    let lock = |a: &str| {
        format!(
            r#"{{"packages":{{"node_modules/a":{{"version":"{a}"}},"node_modules/b":{{"version":"1","license":"{a}"}}}}}}"#
        )
    };
    let declared = declared(&[
        ("package.json", "{}", r#"{"dependencies":{"a":"2"}}"#),
        ("package-lock.json", &lock("1"), &lock("2")),
    ]);
    let files = [
        "~node_modules/a/index.js",
        "~node_modules/a/test/node_modules/x/index.js",
        "+node_modules/.bin/a",
        "-node_modules/.bin/c",
        "~node_modules/b/index.js",
        "~node_modules/b/package.json",
        "+node_modules/c/index.js",
    ];
    let starts = |program: &str, package: &str| {
        (format!("node_modules/.bin/{program}"), format!("node_modules/{package}"))
    };
    let facts = |programs: [(String, String); 1]| PackageFacts {
        programs: programs.into(),
        ..PackageFacts::default()
    };
    let others = ["node_modules/b", "node_modules/c"];
    assert_eq!(packages(&files, &declared, &facts([starts("a", "a")])), others);
    for facts in [facts([starts("a", "b")]), PackageFacts::default()] {
        let all = [&["node_modules/.bin"][..], &others].concat();
        assert_eq!(packages(&files, &declared, &facts), all);
    }
}

/// Other lock files are not taken apart: a package may change together with its version.
#[test]
fn other_lock_files_explain_new_versions() {
    let declared = declared(&[("yarn.lock", "a@1:\n", "a@2:\n")]);
    let files = [
        "~node_modules/a/index.js",
        "~node_modules/a/package.json",
        "~node_modules/b/index.js",
        "~.venv/lib/python3/site-packages/c.py",
    ];
    assert_eq!(
        packages(&files, &declared, &PackageFacts::default()),
        [".venv/lib/python3/site-packages/c.py", "node_modules/b"]
    );
}

/// A distribution that keeps its version keeps its files, and code belongs to a distribution.
#[test]
fn python_packages_change_with_their_version() {
    let declared = declared(&[("requirements.txt", "a==1\n", "a==2\n")]);
    let site = ".venv/lib/python3/site-packages";
    let set = |names: &[&str]| names.iter().map(|name| format!("{site}/{name}")).collect();
    let mut installed: BTreeSet<String> = set(&["a/one.py"]);
    installed.insert(".venv/bin/a".to_string());
    let (kept, own) = (set(&["pytest/main.py"]), set(&["own.pth"]));
    let python = PythonFacts { kept, installed, own };
    let facts = PackageFacts { python, ..PackageFacts::default() };
    let files = [
        format!("~{site}/pytest/main.py"),
        format!("~{site}/a/one.py"),
        format!("-{site}/a/two.py"),
        format!("+{site}/shine.py"),
        format!("+{site}/a-2.dist-info/METADATA"),
        format!("+{site}/own.pth"),
        "+.venv/bin/a".to_string(),
        "~.venv/bin/python".to_string(),
        "-.venv/bin/b".to_string(),
    ];
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    assert_eq!(
        packages(&files, &declared, &facts),
        [".venv/bin/python".to_string(), format!("{site}/pytest"), format!("{site}/shine.py")]
    );
}

#[test]
fn the_files_of_a_distribution_are_listed() {
    let text = "a/b.py,sha256=x,3\n\"a/c,d.py\",sha256=y,4\na/__pycache__/b.pyc,,\n../../../bin/a,sha256=z,1\n../../../../../../x,,\nbroken\n";
    assert_eq!(
        parse_file_list(text, ".venv/lib/python3/site-packages"),
        [
            (".venv/lib/python3/site-packages/a/b.py".to_string(), true),
            (".venv/lib/python3/site-packages/a/c,d.py".to_string(), true),
            (".venv/lib/python3/site-packages/a/__pycache__/b.pyc".to_string(), false),
            (".venv/bin/a".to_string(), true),
        ]
    );
}

#[test]
fn a_description_names_the_first_packages() {
    let none = DependencyChanges::default();
    let files = ["~node_modules/a/lib/x.js", "+node_modules/b", "-.venv/pyvenv.cfg", "+.venv/x"];
    let found = unexplained_packages(&changed(&files), &none, &PackageFacts::default());
    insta::assert_snapshot!(describe_packages(&found), @"installed packages changed, and no declared dependency explains it: .venv/pyvenv.cfg (removed), .venv/x (added), node_modules/a (lib/x.js changed) and 1 more");
}
