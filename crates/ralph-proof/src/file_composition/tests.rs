use super::*;
use crate::tree_composition::{TreeSides, compose_tree};
use proptest::prelude::*;
use ralph_check::FileChange;
use ralph_check::inline_tests::find_inline_tests;
use ralph_core::policy::Policy;

fn rules() -> ClassRules {
    ClassRules::new(&Policy::default(), Vec::new())
}

fn compose(path: &str, code: &str, tests: &str) -> ComposedFile {
    compose_file(path, Some(code), Some(tests), &rules())
}

fn text(path: &str, code: &str, tests: &str) -> String {
    match compose(path, code, tests) {
        ComposedFile::Text(text) => text,
        other @ (ComposedFile::TakeCode
        | ComposedFile::TakeUndecided
        | ComposedFile::TakeTests
        | ComposedFile::NotSeparable(_)) => format!("{other:?}"),
    }
}

const OLD_RUST: &str = "//! Adds.
use std::fmt;

pub fn add(a: u32, b: u32) -> u32 {
    a + b
}

#[cfg(test)]
fn sample() -> u32 {
    3
}

impl Sum {
    #[cfg(test)]
    fn peek(&self) -> u32 {
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds() {
        assert_eq!(add(1, 2), sample());
    }
}
";

const NEW_RUST: &str = "//! Adds and subtracts.
use std::fmt;
#[cfg(test)]
use std::io;

pub fn add(a: u32, b: u32) -> u32 {
    a.saturating_add(b)
}

impl Sum {
    fn value(&self) -> u32 {
        0
    }
}

pub fn sub(a: u32, b: u32) -> u32 {
    a - b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtracts() {
        assert_eq!(sub(2, 1), 1);
    }
}

#[test]
fn adds_nothing() {
    assert_eq!(add(0, 0), 0);
}
";

#[test]
fn inline_tests_of_rust_are_exchanged_in_both_directions() {
    insta::assert_snapshot!(text("src/lib.rs", NEW_RUST, OLD_RUST), @"
    //! Adds and subtracts.
    use std::fmt;

    pub fn add(a: u32, b: u32) -> u32 {
        a.saturating_add(b)
    }

    impl Sum {
        fn value(&self) -> u32 {
            0
        }

        #[cfg(test)]
        fn peek(&self) -> u32 {
            1
        }
    }

    pub fn sub(a: u32, b: u32) -> u32 {
        a - b
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn adds() {
            assert_eq!(add(1, 2), sample());
        }
    }

    #[cfg(test)]
    fn sample() -> u32 {
        3
    }
    ");
    insta::assert_snapshot!(text("src/lib.rs", OLD_RUST, NEW_RUST), @"
    //! Adds.
    use std::fmt;

    pub fn add(a: u32, b: u32) -> u32 {
        a + b
    }

    impl Sum {
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn subtracts() {
            assert_eq!(sub(2, 1), 1);
        }
    }

    #[cfg(test)]
    use std::io;

    #[test]
    fn adds_nothing() {
        assert_eq!(add(0, 0), 0);
    }
    ");
}

#[test]
fn a_new_rust_file_keeps_its_code_and_loses_its_tests() {
    let composed = compose_file("src/lib.rs", Some(NEW_RUST), None, &rules());
    let ComposedFile::Text(text) = composed else { panic!("{composed:?}") };
    insta::assert_snapshot!(text, @"
    //! Adds and subtracts.
    use std::fmt;

    pub fn add(a: u32, b: u32) -> u32 {
        a.saturating_add(b)
    }

    impl Sum {
        fn value(&self) -> u32 {
            0
        }
    }

    pub fn sub(a: u32, b: u32) -> u32 {
        a - b
    }
    ");
    assert_eq!(compose_file("src/sum.rs", None, Some(NEW_RUST), &rules()), ComposedFile::TakeCode);
}

/// Without its code, a new crate or package still has what its runner needs to start: only then do its tests show whether
/// they need the code.
#[test]
fn a_new_project_without_its_code_keeps_its_tests() {
    let compose = |path: &str, text: &str| match compose_file(path, None, Some(text), &rules()) {
        ComposedFile::Text(text) | ComposedFile::NotSeparable(text) => text,
        taken
        @ (ComposedFile::TakeCode | ComposedFile::TakeUndecided | ComposedFile::TakeTests) => {
            format!("{taken:?}")
        }
    };
    let test = "#[test]\nfn works() {}\n";
    let code = "pub fn add() {}\n";
    for (path, text, expected) in [
        ("Cargo.toml", "[package]\n", "TakeTests"),
        ("app/package.json", "{}", "TakeTests"),
        ("src/lib.rs", code, ""),
        ("src/lib.rs", &format!("{code}{test}"), test.trim_end()),
        ("app/src/main.rs", "fn main() { run() }\n", "fn main() {}\n"),
        ("src/other.rs", &format!("{code}{test}"), "TakeCode"),
        ("index.js", "module.exports = {}", "TakeCode"),
    ] {
        assert_eq!(compose(path, text), expected, "{path}: {text}");
    }
}

const SEPARATED: &str = "fn a() {}\n#[cfg(test)]\nmod tests {}\n";

/// The path, the code side, the test side, and the expected result.
const SOURCES: &[(&str, &str, &str, &str)] = &[
    ("src/a.rs", "fn a() {}\n", "fn b() {}\n", "code"),
    ("src/a.rs", SEPARATED, "fn b() {}\n#[cfg(test)]\nmod tests {}\n", "code"),
    (
        "src/a.rs",
        "fn a() {",
        SEPARATED,
        "its inline tests cannot be found: unbalanced brackets, or too many parts",
    ),
    (
        "src/a.rs",
        "fn a() {\n    #[cfg(test)]\n    one();\n}\n",
        "fn a() {\n    #[cfg(test)]\n    two();\n}\n",
        "a `#[cfg(test)]` statement or field inside its code differs",
    ),
    (
        "src/a.rs",
        "#[cfg(any(test, feature = \"x\"))]\nfn a() -> u8 { 1 }\n",
        "#[cfg(any(test, feature = \"x\"))]\nfn a() -> u8 { 2 }\n",
        "an item that is not for tests only (`cfg(any(test, …))`) differs",
    ),
    (
        "src/a.rs",
        "fn a() {}\n",
        "mod b {\n    #[cfg(test)]\n    mod tests {}\n}\n",
        "only one version has `mod b`, which contains tests",
    ),
    (
        "src/a.rs",
        "#![cfg(test)]\n",
        "fn a() {}\n",
        "only one version is a test as a whole (`#![cfg(test)]`)",
    ),
    (
        "src/a.rs",
        "/// ```\n/// assert_eq!(a(), 1);\n/// ```\nfn a() {}\n",
        "/// ```\n/// assert_eq!(a(), 2);\n/// ```\nfn a() {}\n",
        "its documentation examples, which run as tests, were changed",
    ),
    (
        "src/a.rs",
        "/// ```\n/// assert_eq!(a(), 1);\n/// ```\nfn a() {}\n",
        "/// ```text\n/// a\n/// ```\nfn a() {}\n",
        "code",
    ),
    (
        "a.py",
        "def a():\n    \"\"\"\n    >>> a()\n    1\n    \"\"\"\n",
        "def a():\n    \"\"\"\n    >>> a()\n    2\n    \"\"\"\n",
        "its examples were changed, which may run as tests",
    ),
    ("a.py", "def a():\n    \"\"\"\n    >>> a()\n    1\n    \"\"\"\n", "def a(): pass\n", "code"),
    (
        "src/a.ts",
        "a\nif (import.meta.vitest) { one }\n",
        "b\nif (import.meta.vitest) { one }\n",
        "code",
    ),
    (
        "src/a.ts",
        "a\nif (import.meta.vitest) { one }\n",
        "a\nif (import.meta.vitest) { two }\n",
        "it contains vitest tests (`import.meta.vitest`) that differ",
    ),
    (
        "src/a.js",
        "a();\ntest('one', () => { equal(a(), 1); });\n",
        "b();\ntest('one', () => { equal(a(), 1); });\n",
        "it contains tests besides code",
    ),
    (
        "src/a.js",
        "a();\ntest('one', () => { equal(a(), 1); });\n",
        "a();\ntest('one', () => { equal(a(), 2); });\n",
        "it contains tests besides code",
    ),
    (
        "a.py",
        "import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        one\n",
        "import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        two\n",
        "it contains tests besides code",
    ),
    (
        "a.zig",
        "test \"a\" {\n one\n}\n",
        "test \"a\" {\n two\n}\n",
        "it contains Zig tests that differ",
    ),
    ("a.go", "package a\n", "package b\n", "code"),
    ("a_test.go", "package a\n", "package b\n", "tests"),
    ("Makefile", "test:\n", "test:\n\ttrue\n", "tests"),
    ("pom.xml", "<a/>", "<b/>", "it builds both code and tests"),
    ("node_modules/a.js", "1", "2", "code and tests share this environment"),
    ("README.md", "1", "2", "code"),
    (
        "README.md",
        ">>> a()\n1\n",
        ">>> a()\n2\n",
        "its examples were changed, which may run as tests",
    ),
    // Runners report all examples of one comment under one name.
    (
        "a.py",
        ">>> a()\n1\n",
        ">>> a()\n1\n\n>>> b()\n1\n",
        "its examples were changed, which may run as tests",
    ),
    (
        "src/a.rs",
        "/**\n```\nassert_eq!(a(), 1);\n```\n*/\nfn a() {}\n",
        "/**\n```\nassert_eq!(a(), 2);\n```\n*/\nfn a() {}\n",
        "its documentation examples, which run as tests, were changed",
    ),
    (
        "src/a.rs",
        "macro_rules! case {\n    () => { #[test] fn a() {} };\n}\ncase!(1);\n",
        "macro_rules! case {\n    () => { #[test] fn a() {} };\n}\ncase!(2);\n",
        "its tests are made by a macro",
    ),
    // A macro that only tests use.
    (
        "src/a.rs",
        "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    macro_rules! eq { () => {} }\n\n    #[test]\n    fn b() {}\n}\n",
        "fn c() {}\n\n#[cfg(test)]\nmod tests {\n    macro_rules! eq { () => {} }\n\n    #[test]\n    fn b() {}\n}\n",
        "code",
    ),
    // A product may have files that are named like tests, or data in a directory of such a name.
    (
        "app/test_results.py",
        "class Results:\n    def __init__(self): self.expected = split(1)\n",
        "class Results:\n    def __init__(self): self.expected = split(2)\n",
        "undecided",
    ),
    ("src/cmd/test.rs", "pub fn run() {}\n", "pub fn run() -> u8 { 1 }\n", "undecided"),
    ("totals-test.js", "exports.totals = [3];\n", "exports.totals = [4];\n", "undecided"),
    ("src/snapshots/a.js", "1", "2", "its directory may hold data of tests or of the product"),
    ("src/__snapshots__/a.snap", "1", "2", "tests"),
    // Only its mode differs.
    ("tests/add.sh", "1", "1", "tests"),
    (
        "package.json",
        r##"{"imports":{"#a":"./b.js"}}"##,
        r##"{"imports":{"#a":"./a.js"}}"##,
        "a name that tests import leads to another file",
    ),
    ("Cargo.toml", "[patch.crates-io]\na = { path = \"a\" }\n", "", "it replaces packages"),
];

#[test]
fn sources_are_taken_by_side_or_are_not_separable() {
    for (path, code, tests, expected) in SOURCES.iter().copied() {
        let found = match compose(path, code, tests) {
            ComposedFile::TakeCode => "code".to_string(),
            ComposedFile::TakeUndecided => "undecided".to_string(),
            ComposedFile::TakeTests => "tests".to_string(),
            ComposedFile::Text(text) => text,
            ComposedFile::NotSeparable(why) => why,
        };
        assert_eq!(found, expected, "{path}: {code}");
    }
    // The base does not have it, so no old test uses it.
    let added = compose_file("totals-test.js", Some("exports.totals = [3];\n"), None, &rules());
    assert_eq!(added, ComposedFile::TakeCode);
    // The settings of a new manifest go with the tests, which had none.
    let new = "[project]\nname = \"a\"\n\n[tool.pytest]\naddopts = \"-p compat\"\n";
    assert_eq!(
        compose_file("pyproject.toml", Some(new), None, &rules()),
        ComposedFile::Text("[project]\nname = \"a\"\n".to_string())
    );
    let large = "// a\n".repeat(MAX_TEXT_BYTES);
    assert_eq!(
        compose("src/a.rs", &large, ""),
        ComposedFile::NotSeparable("it is larger than 2 MiB".to_string())
    );
}

const OLD_PACKAGE: &str = r#"{
  "name": "app",
  "version": "1.0.0",
  "scripts": {
    "test": "jest"
  },
  "dependencies": { "a": "1" },
  "devDependencies": { "jest": "29" },
  "jest": { "bail": 1 }
}
"#;
const NEW_PACKAGE: &str = r#"{
  "name": "app",
  "version": "1.1.0",
  "type": "module",
  "scripts": {
    "test": "jest || true"
  },
  "dependencies": { "a": "2", "b": "1" },
  "devDependencies": { "jest": "29", "nock": "13" },
  "c8": { "all": false }
}
"#;

#[test]
fn scripts_and_settings_of_a_package_go_with_the_tests() {
    insta::assert_snapshot!(text("package.json", NEW_PACKAGE, OLD_PACKAGE), @r#"
    {
      "name": "app",
      "version": "1.1.0",
      "type": "module",
      "scripts": {
        "test": "jest"
      },
      "dependencies": { "a": "2", "b": "1" },
      "devDependencies": { "jest": "29" },
      "jest": { "bail": 1 }
    }
    "#);
    insta::assert_snapshot!(text("package.json", OLD_PACKAGE, NEW_PACKAGE), @r#"
    {
      "name": "app",
      "version": "1.0.0",
      "scripts": {
        "test": "jest || true"
      },
      "dependencies": { "a": "1" },
      "devDependencies": { "jest": "29", "nock": "13" },
      "c8": { "all": false }
    }
    "#);
    insta::assert_snapshot!(text("deno.jsonc", "{\n  // The tasks.\n  \"imports\": {\"a\": \"1\"},\n}\n", "{\"tasks\": {\"test\": \"deno test\"}}"), @r#"
    {
      // The tasks.
      "imports": {"a": "1"},
      "tasks": {"test": "deno test"},
    }
    "#);
    insta::assert_snapshot!(text("composer.json", "{}", "{\"scripts\": {\"test\": \"phpunit\"}, \"require\": {}}"), @r#"{"scripts": {"test": "phpunit"}}"#);
    insta::assert_snapshot!(text("package.json", "{\"scripts\": {}}", "{"), @r#"NotSeparable("it is not valid JSON: Unterminated object")"#);
    insta::assert_snapshot!(text("package.json", "{\"jest\": 1, \"jest\": 2}", "{}"), @r#"NotSeparable("key `jest` occurs twice")"#);
}

const OLD_CARGO: &str = r#"# The manifest.
[package]
name = "app"
version = "1.0.0" # released

[features]
default = ["std", "old"]
std = []
old = []

[lib]
name = "app"

[dependencies]
a = "1"

[dev-dependencies]
insta = "1"

[[bin]]
name = "app"
path = "src/main.rs"

[[test]]
name = "it"
path = "tests/it.rs"

[profile.test]
overflow-checks = true

[lints.rust]
unsafe_code = "deny"
"#;
const NEW_CARGO: &str = r#"# The manifest.
[package]
name = "app"
version = "1.1.0"

[lib]
name = "app"
test = false

[[bin]]
name = "app"
path = "src/main.rs"
test = false

[features]
default = ["std", "new"]
std = []
new = []

[dependencies]
a = "2"
b = { version = "1", features = ["x"] }

[dev-dependencies]
insta = "1"
proptest = "1"
"#;

#[test]
fn sections_about_tests_of_a_cargo_manifest_go_with_the_tests() {
    insta::assert_snapshot!(text("Cargo.toml", NEW_CARGO, OLD_CARGO), @r#"
    # The manifest.
    [package]
    name = "app"
    version = "1.1.0"

    [lib]
    name = "app"

    [[bin]]
    name = "app"
    path = "src/main.rs"

    [features]
    default = ["std"]
    std = []
    new = []

    [dependencies]
    a = "2"
    b = { version = "1", features = ["x"] }

    [dev-dependencies]
    insta = "1"

    [[test]]
    name = "it"
    path = "tests/it.rs"

    [profile.test]
    overflow-checks = true

    [lints.rust]
    unsafe_code = "deny"
    "#);
    insta::assert_snapshot!(text("Cargo.toml", OLD_CARGO, NEW_CARGO), @r#"
    # The manifest.
    [package]
    name = "app"
    version = "1.0.0" # released

    [features]
    default = ["std"]
    std = []
    old = []

    [lib]
    name = "app"
    test = false

    [dependencies]
    a = "1"

    [dev-dependencies]
    insta = "1"
    proptest = "1"

    [[bin]]
    name = "app"
    path = "src/main.rs"
    test = false
    "#);
    let workspace = "[workspace]\nmembers = [\"a\"]\n\n[workspace.dependencies]\na = \"1\"\n";
    let with_test_dependency = "[workspace]\nmembers = [\"a\", \"b\"]\n\n[workspace.dependencies]\na = \"2\"\ninsta = \"1\"\n";
    insta::assert_snapshot!(text("Cargo.toml", workspace, with_test_dependency), @r#"
    [workspace]
    members = ["a"]

    [workspace.dependencies]
    a = "1"
    insta = "1"
    "#);
    insta::assert_snapshot!(text("Cargo.toml", "[package", OLD_CARGO), @r#"NotSeparable("it is not valid TOML")"#);
}

/// `uv` refuses to run if a default group is not defined.
#[test]
fn default_groups_of_uv_go_with_the_groups() {
    let old = "[project]\nname = \"app\"\n\n[dependency-groups]\ntests = [\"pytest\"]\n";
    let new = "[project]\nname = \"app2\"\n\n[dependency-groups]\ndev = [\"ruff\"]\n\n[tool.uv]\npackage = true\ndefault-groups = [\"dev\"]\n";
    insta::assert_snapshot!(text("pyproject.toml", new, old), @r#"
    [project]
    name = "app2"

    [dependency-groups]
    tests = ["pytest"]

    [tool.uv]
    package = true
    "#);
    insta::assert_snapshot!(text("pyproject.toml", old, new), @r#"
    [project]
    name = "app"

    [dependency-groups]
    dev = ["ruff"]

    [tool.uv]
    default-groups = ["dev"]
    "#);
}

#[test]
fn tool_sections_of_a_python_project_go_with_the_tests() {
    let old = "[project]\nname = \"app\"\ndependencies = [\"a\"]\n\n[tool.pytest.ini_options]\naddopts = \"-ra\"\n\n[tool.poetry]\nname = \"app\"\n\n[tool.poetry.group.dev.dependencies]\npytest = \"8\"\n";
    let new = "[project]\nname = \"app\"\ndependencies = [\"a\", \"b\"]\n\n[dependency-groups]\ntest = [\"pytest\"]\n\n[tool]\npytest.ini_options.addopts = \"-k nothing\"\n\n[tool.poetry]\nname = \"app2\"\n\n[tool.ruff]\nline-length = 99\n";
    insta::assert_snapshot!(text("pyproject.toml", new, old), @r#"
    [project]
    name = "app"
    dependencies = ["a", "b"]

    [tool]

    [tool.pytest.ini_options]
    addopts = "-ra"

    [tool.poetry]
    name = "app2"

    [tool.poetry.group.dev.dependencies]
    pytest = "8"
    "#);
    insta::assert_snapshot!(text("pyproject.toml", old, new), @r#"
    [project]
    name = "app"
    dependencies = ["a"]

    [tool]
    pytest.ini_options.addopts = "-k nothing"

    [tool.poetry]
    name = "app"

    [tool.ruff]
    line-length = 99

    [dependency-groups]
    test = ["pytest"]
    "#);
    let old =
        "[metadata]\nname = app\n\n[tool:pytest]\naddopts = -ra\n\n[mypy-numpy.*]\nignore = 1\n";
    let new = "[metadata]\nname = app\nversion = 2\n\n[tool:pytest]\naddopts = -k nothing\n[coverage:run]\nomit = *\n";
    insta::assert_snapshot!(text("setup.cfg", new, old), @"
    [metadata]
    name = app
    version = 2

    [tool:pytest]
    addopts = -ra

    [mypy-numpy.*]
    ignore = 1
    ");
    insta::assert_snapshot!(text("setup.cfg", old, new), @"
    [metadata]
    name = app

    [tool:pytest]
    addopts = -k nothing
    [coverage:run]
    omit = *
    ");
    insta::assert_snapshot!(text("setup.cfg", "[a]\n[a]\n", old), @r#"NotSeparable("section `[a]` occurs twice")"#);
}

#[test]
fn a_tree_takes_tests_of_one_version_and_code_of_the_other() {
    let change = |path, before, after| FileChange { path, before, after, added: &[] };
    let changes = [
        change("src/lib.rs", Some(OLD_RUST), Some(NEW_RUST)),
        change("src/new.rs", None, Some("fn a() {}\n")),
        change("tests/it.rs", None, Some("#[test]\nfn a() {}\n")),
        change("tests/gone.rs", Some("#[test]\nfn a() {}\n"), None),
        change("Makefile", Some("test:\n"), Some("test:\n\ttrue\n")),
        change("pom.xml", Some("<a/>"), Some("<b/>")),
        change("README.md", Some("a"), Some("b")),
    ];
    for sides in [TreeSides::NewCodeOldTests, TreeSides::OldCodeNewTests] {
        let tree = compose_tree(&changes, sides, &rules());
        assert_eq!(tree.from_tests, ["tests/it.rs", "tests/gone.rs", "Makefile"]);
        let rewritten: Vec<_> = tree.rewritten.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(rewritten, ["src/lib.rs"]);
        let mixed: Vec<_> = tree.not_separable.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(mixed, ["pom.xml"]);
    }
}

/// Texts made of pieces that the parsers know, so that many of them are valid.
fn pieces(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(pieces), 0..12).prop_map(|parts| parts.concat())
}

const RUST_PIECES: &[&str] = &[
    "fn a() { b(\"}\") }\n",
    "fn a<'a>(x: &'a str) -> char { '{' }\n",
    "#[cfg(test)]\n",
    "#[test]\n",
    "mod tests { #[test] fn a() {} }\n",
    "mod inner {\n",
    "impl A {\n",
    "}\n",
    "/// Doc.\n",
    "/* } */",
    "use a::{b, c};\n",
    "#[cfg(any(test, x))]\n",
    "struct A { #[cfg(test)] b: u8 }\n",
    "\n",
];
const JSON_PIECES: &[&str] =
    &["{", "}", "\"scripts\": ", "\"jest\": ", "\"a\": ", "1", ",", " ", "[", "]", "// c\n"];
const TOML_PIECES: &[&str] = &[
    "[tool.pytest]\n",
    "[dev-dependencies]\n",
    "[[bin]]\n",
    "[[test]]\n",
    "[lib]\n",
    "[features]\n",
    "[profile.dev]\n",
    "test = false\n",
    "name = \"a\"\n",
    "default = [\"std\"]\n",
    "std = []\n",
    "lib.test = true\n",
    "tool = { pytest = { x = 1 }, poetry = {} }\n",
    "# A comment.\n",
];

proptest! {
    #[test]
    fn rust_files_stay_whole(one in pieces(RUST_PIECES), other in pieces(RUST_PIECES)) {
        prop_assert_eq!(compose("src/a.rs", &one, &one), ComposedFile::TakeCode);
        if let ComposedFile::Text(text) = compose("src/a.rs", &one, &other) {
            prop_assert!(find_inline_tests(&text).is_some());
            // The tests are those of the other side now, so nothing is left to exchange.
            prop_assert_eq!(compose("src/a.rs", &text, &other), ComposedFile::TakeCode);
        }
    }

    #[test]
    fn manifests_stay_valid(
        (name, one, other) in prop_oneof![
            (Just("package.json"), pieces(JSON_PIECES), pieces(JSON_PIECES)),
            (Just("Cargo.toml"), pieces(TOML_PIECES), pieces(TOML_PIECES)),
            (Just("pyproject.toml"), pieces(TOML_PIECES), pieces(TOML_PIECES)),
            (Just("setup.cfg"), pieces(TOML_PIECES), pieces(TOML_PIECES)),
        ]
    ) {
        prop_assert_eq!(compose(name, &one, &one), ComposedFile::TakeCode);
        if let ComposedFile::Text(text) = compose(name, &one, &other) {
            prop_assert_eq!(compose(name, &text, &other), ComposedFile::TakeCode, "{}", text);
            if name == "Cargo.toml" || name == "pyproject.toml" {
                prop_assert!(text.parse::<toml::Table>().is_ok());
            }
        }
    }

    #[test]
    fn no_text_panics(path in "(src/)?[a-z]{1,3}\\.(rs|py|ts|toml|json|cfg)|Cargo.toml|package.json|setup.cfg", one in "\\PC{0,80}", other in "\\PC{0,80}") {
        compose(&path, &one, &other);
        compose_file(&path, None, Some(&other), &rules());
        compose_file(&path, Some(&one), None, &rules());
    }
}
