//! Determines a file's language from its name, and whether a test runner would collect it.

/// Languages with similar syntax share a variant: JSX, TypeScript and Vue are `JavaScript`, C++ is `C`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Rust,
    JavaScript,
    Python,
    Go,
    Java,
    Kotlin,
    CSharp,
    C,
    Swift,
    Scala,
    Php,
    Ruby,
    Shell,
    /// Shell with `@test` blocks.
    Bats,
    /// `#` starts a comment and quotes do not nest: YAML, TOML, INI, make, Docker.
    Config,
    Sql,
    Html,
    Css,
    /// A line that begins like a comment counts as one.
    Unknown,
    /// Not code, or not written by hand: documents, data, lock files, bundles.
    Prose,
}

/// The language of a script that names its interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScriptLanguage {
    pub(crate) language: Language,
    /// The usual ending of its files.
    pub(crate) ending: &'static str,
}

/// A language whose tests can be analysed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TestLanguage {
    Rust,
    JavaScript,
    Python,
    Go,
    /// Java and Kotlin.
    Java,
    /// C and C++, with the macros of their test libraries.
    C,
    /// Tests of shell scripts.
    Bats,
}

impl Language {
    pub const ALL: [Self; 20] = [
        Self::Rust,
        Self::JavaScript,
        Self::Python,
        Self::Go,
        Self::Java,
        Self::Kotlin,
        Self::CSharp,
        Self::C,
        Self::Swift,
        Self::Scala,
        Self::Php,
        Self::Ruby,
        Self::Shell,
        Self::Bats,
        Self::Config,
        Self::Sql,
        Self::Html,
        Self::Css,
        Self::Unknown,
        Self::Prose,
    ];

    pub fn from_path(path: &str) -> Self {
        if is_generated(path) { Self::Prose } else { Self::of_name(path) }
    }

    /// The language that the name stands for, even if the file seems to be generated.
    pub fn of_name(path: &str) -> Self {
        let name = file_name(path);
        match name {
            "Dockerfile" | "Containerfile" | "Makefile" | "makefile" | "GNUmakefile"
            | "justfile" | "Justfile" | ".env" | ".gitignore" | ".dockerignore" => {
                return Self::Config;
            }
            "Gemfile" | "Rakefile" | "Podfile" => return Self::Ruby,
            "Jenkinsfile" => return Self::Java,
            _ if name.starts_with("Dockerfile.") => return Self::Config,
            _ => {}
        }
        let Some((_, extension)) = name.rsplit_once('.') else {
            return Self::Unknown;
        };
        match extension {
            "rs" => Self::Rust,
            "js" | "jsx" | "mjs" | "cjs" | "ts" | "tsx" | "mts" | "cts" | "vue" | "svelte"
            | "astro" => Self::JavaScript,
            "py" | "pyi" | "pyx" => Self::Python,
            "go" => Self::Go,
            "java" | "groovy" | "gradle" => Self::Java,
            "kt" | "kts" => Self::Kotlin,
            "cs" => Self::CSharp,
            "c" | "h" | "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" | "m" | "mm" | "cu" => Self::C,
            "swift" => Self::Swift,
            "scala" | "sc" => Self::Scala,
            "php" => Self::Php,
            "rb" | "rake" => Self::Ruby,
            "sh" | "bash" | "zsh" | "ksh" => Self::Shell,
            "bats" => Self::Bats,
            "yml" | "yaml" | "toml" | "ini" | "cfg" | "conf" | "mk" | "properties"
            | "dockerfile" | "just" => Self::Config,
            "sql" => Self::Sql,
            "html" | "htm" | "xml" => Self::Html,
            "css" | "scss" | "sass" | "less" => Self::Css,
            "md" | "markdown" | "mdx" | "rst" | "txt" | "adoc" | "org" | "tex" | "json"
            | "jsonl" | "json5" | "jsonc" | "csv" | "tsv" | "lock" | "svg" | "snap" | "ipynb"
            | "po" | "log" | "tap" | "sum" | "patch" | "diff" => Self::Prose,
            _ => Self::Unknown,
        }
    }

    /// The language of a text that begins with `#!`.
    pub(crate) fn of_script(text: &str) -> Option<ScriptLanguage> {
        let mut words = text.lines().next()?.strip_prefix("#!")?.split_whitespace();
        let mut program = file_name(words.next()?);
        if program == "env" {
            program = file_name(words.find(|word| !word.starts_with('-') && !word.contains('='))?);
        }
        // `python3.13`
        let (language, ending) = match program.trim_end_matches(|char: char| !char.is_alphabetic())
        {
            "python" | "pypy" | "uv" => (Self::Python, "py"),
            "node" | "nodejs" | "deno" | "bun" | "tsx" | "ts-node" => (Self::JavaScript, "js"),
            "ruby" => (Self::Ruby, "rb"),
            "php" => (Self::Php, "php"),
            "sh" | "bash" | "dash" | "zsh" | "ksh" => (Self::Shell, "sh"),
            _ => return None,
        };
        Some(ScriptLanguage { language, ending })
    }
}

impl Language {
    pub(crate) fn test_language(self) -> Option<TestLanguage> {
        match self {
            Self::Rust => Some(TestLanguage::Rust),
            Self::JavaScript => Some(TestLanguage::JavaScript),
            Self::Python => Some(TestLanguage::Python),
            Self::Go => Some(TestLanguage::Go),
            Self::Java | Self::Kotlin => Some(TestLanguage::Java),
            Self::C => Some(TestLanguage::C),
            Self::Bats => Some(TestLanguage::Bats),
            Self::CSharp
            | Self::Swift
            | Self::Scala
            | Self::Php
            | Self::Ruby
            | Self::Shell
            | Self::Config
            | Self::Sql
            | Self::Html
            | Self::Css
            | Self::Unknown
            | Self::Prose => None,
        }
    }
}

/// Whether the test runner of its language looks for tests in a file of this name. Any Rust file may contain tests.
pub fn is_test_file(path: &str) -> bool {
    let name = file_name(path);
    match Language::from_path(path) {
        Language::Rust | Language::Bats => true,
        Language::Python => {
            name.starts_with("test_") || name.ends_with("_test.py") || name == "tests.py"
        }
        Language::JavaScript => {
            let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
            [".test", ".spec", ".cy", ".e2e"].iter().any(|end| stem.ends_with(end))
                || is_below_dir(path, &["__tests__", "test", "tests", "spec", "e2e"])
        }
        Language::Go => name.ends_with("_test.go"),
        Language::Java | Language::Kotlin | Language::CSharp | Language::Scala => {
            let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
            ["Test", "Tests", "IT", "Spec", "TestCase"].iter().any(|end| stem.ends_with(end))
                || stem.starts_with("Test")
                || is_below_dir(path, &["test", "androidTest"])
        }
        Language::Ruby => name.ends_with("_spec.rb") || name.ends_with("_test.rb"),
        Language::Php => name.ends_with("Test.php"),
        Language::Swift => name.ends_with("Tests.swift") || name.ends_with("Test.swift"),
        Language::C => {
            let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem).to_ascii_lowercase();
            stem.starts_with("test_")
                || ["_test", "_tests", "_unittest", "-test"].iter().any(|end| stem.ends_with(end))
                || is_below_dir(path, &["test", "tests", "unittests"])
        }
        Language::Shell
        | Language::Config
        | Language::Sql
        | Language::Html
        | Language::Css
        | Language::Unknown
        | Language::Prose => false,
    }
}

/// Whether a file of this name contains only tests, so that it can be run without the change to the code.
pub fn contains_only_tests(path: &str) -> bool {
    if Language::from_path(path) != Language::Rust {
        return is_test_file(path);
    }
    let name = file_name(path);
    is_below_dir(path, &["tests"])
        || name == "tests.rs"
        || name.ends_with("_tests.rs")
        || name.ends_with("_test.rs")
}

/// Whether it is a program that people run by hand, whose output is its result.
pub(crate) fn is_script(path: &str, text: &str) -> bool {
    let name = file_name(path).to_ascii_lowercase();
    let stem = name.split('.').next().unwrap_or_default();
    text.starts_with("#!")
        || matches!(stem, "cli" | "main" | "__main__" | "manage" | "gulpfile" | "gruntfile")
        || stem.ends_with("cli")
        || stem.starts_with("bench")
        || is_below_dir(
            path,
            &[
                "bin",
                "scripts",
                "script",
                "cli",
                "cmd",
                "tools",
                "examples",
                "example",
                "bench",
                "benches",
                "benchmark",
                "benchmarks",
                "build",
            ],
        )
}

/// Whether it is input of a test rather than a test that a runner collects, although it may look like one.
pub(crate) fn is_fixture(path: &str) -> bool {
    let is_input = is_below_dir(path, &["fixtures", "fixture", "__fixtures__", "testdata"]);
    let language = Language::from_path(path);
    let is_named = || [".test.", ".spec."].iter().any(|part| file_name(path).contains(part));
    is_input
        && (matches!(language, Language::Bats | Language::C | Language::Go)
            || language == Language::JavaScript && !is_named())
}

pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

pub(crate) fn is_below_dir(path: &str, directories: &[&str]) -> bool {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    parent.split('/').any(|part| directories.contains(&part))
}

fn is_generated(path: &str) -> bool {
    let name = file_name(path);
    is_below_dir(path, &["node_modules", "vendor", "third_party", "dist", "__snapshots__"])
        || [".min.js", ".min.css", ".bundle.js", ".pb.go", "_pb2.py", ".d.ts.map", ".js.map"]
            .iter()
            .any(|end| name.ends_with(end))
        || name.contains(".generated.")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R-S5b: a new test is run without the change only if it can be separated from the code.
    #[test]
    fn test_files_are_distinguished_from_code_by_name() {
        for (path, expected) in [
            ("src/lib.rs", false),
            ("src/parser/tests.rs", true),
            ("crates/a/tests/it/main.rs", true),
            ("src/latests.rs", false),
            ("src/app.py", false),
            ("tests/test_app.py", true),
            ("src/a.test.ts", true),
            ("a_test.go", true),
        ] {
            assert_eq!(contains_only_tests(path), expected, "{path}");
        }
    }

    #[test]
    fn names_determine_the_language() {
        for (path, language) in [
            ("src/lib.rs", Language::Rust),
            ("app/page.tsx", Language::JavaScript),
            ("x.svelte", Language::JavaScript),
            ("Makefile", Language::Config),
            ("docker/Dockerfile.dev", Language::Config),
            ("LICENSE", Language::Unknown),
            ("a.lua", Language::Unknown),
            ("docs/a.md", Language::Prose),
            ("package-lock.json", Language::Prose),
            ("web/node_modules/a/index.js", Language::Prose),
            ("web/app.min.js", Language::Prose),
            ("", Language::Unknown),
        ] {
            assert_eq!(Language::from_path(path), language, "{path}");
        }
    }

    #[test]
    fn test_files_are_recognised_by_name() {
        for (path, collected) in [
            ("tests/test_a.py", true),
            ("tests/a_test.py", true),
            ("tests/a_old.py", false),
            ("src/a.test.ts", true),
            ("src/a.test.ts.bak", false),
            ("src/__tests__/a.js", true),
            ("test/a.js", true),
            ("src/a.ts", false),
            ("a_test.go", true),
            ("a.go", false),
            ("src/test/java/AT.java", true),
            ("src/main/java/UserTest.java", true),
            ("src/main/java/User.java", false),
            ("src/a.rs", true),
            ("src/a.rs.disabled", false),
        ] {
            assert_eq!(is_test_file(path), collected, "{path}");
        }
    }
}
