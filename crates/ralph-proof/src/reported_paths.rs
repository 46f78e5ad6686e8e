//! Files that count as code although a runner reports them as tests. No naming convention knows their name or directory,
//! so their old version was not run on the new code.

use std::collections::BTreeSet;
use std::path::Path;

use ralph_check::Language;
use ralph_core::test_cases::TestCases;

/// The names of the tests that a gate reported.
#[derive(Clone, Copy)]
pub(crate) struct ReportedCases<'a> {
    /// The directory of the gate, relative to the project. Paths in the names may be relative to it.
    pub directory: &'a str,
    pub cases: &'a TestCases,
}

/// The changed files with code that tests are named after, as runners of scripts do, and pytest with `python_files`.
pub(crate) fn code_reported_as_tests(
    changed_code: &[String],
    reported: &[ReportedCases<'_>],
) -> Vec<String> {
    let (mut scripts, mut modules) = (BTreeSet::new(), BTreeSet::new());
    for one in reported {
        let cases = one.cases;
        for name in cases.passed.iter().chain(&cases.failed).chain(&cases.skipped) {
            scripts.insert(name.split(" > ").next().unwrap_or(name));
            modules.extend(reported_modules(name).into_iter().map(|it| (one.directory, it)));
        }
    }
    let directories: BTreeSet<&str> = reported.iter().map(|one| one.directory).collect();
    let has_reported_module = |path: &str| {
        directories.iter().any(|directory| {
            let below = Path::new(path).strip_prefix(directory).ok().and_then(Path::to_str);
            let module = below.and_then(python_module);
            module.is_some_and(|module| modules.contains(&(*directory, module)))
        })
    };
    let is_reported = |path: &&String| {
        has_reported_module(path) || may_be_test(path) && scripts.contains(path.as_str())
    };
    changed_code.iter().filter(is_reported).cloned().collect()
}

/// `qa/check_cart.py` is `qa.check_cart`.
fn python_module(path: &str) -> Option<String> {
    Some(path.strip_suffix(".py")?.replace('/', "."))
}

/// The modules of Python that may contain a test: of `qa/check_cart.py::test_adds`,
/// `pytest > qa.check_cart.TestCart > test_adds` and `qa.check_cart.CartCase.test_adds`. None for an example in the
/// documentation of a module, because the module is code all the same. The name of an example contains the module's.
fn reported_modules(name: &str) -> Vec<String> {
    if let Some((file, test)) = name.split_once("::") {
        let module = python_module(file).filter(|_| !is_example_name(test));
        return module.into_iter().collect();
    }
    let (mut path, is_test) = if let Some((groups, test)) = name.rsplit_once(" > ") {
        let path = groups.rsplit(" > ").next().unwrap_or(groups);
        (path, !is_example_name(test) && test != path)
    } else if let Some((path, test)) = name.rsplit_once('.') {
        (path, test.starts_with("test"))
    } else {
        return Vec::new();
    };
    if !is_test {
        return Vec::new();
    }
    // The names of classes follow that of the module.
    let mut modules = vec![path.to_string()];
    while let Some((outer, last)) = path.rsplit_once('.')
        && last.starts_with(char::is_uppercase)
    {
        modules.push(outer.to_string());
        path = outer;
    }
    modules
}

/// Parameters, which are in brackets, may contain anything.
fn is_example_name(test: &str) -> bool {
    test.split('[').next().unwrap_or(test).contains('.')
}

/// Whether the name of a test shows that it is in this file.
pub(crate) fn is_named_after(test: &str, file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let stem = name.split('.').next().unwrap_or(name);
    test.contains(file) || test.split(['.', ' ', '/', ':']).any(|part| part == stem)
}

/// The changed files that contain the tests; `None` if the name of a test shows none of them.
pub(crate) fn files_of_tests<'a>(
    changed: &[&String],
    tests: impl Iterator<Item = &'a str>,
) -> Option<Vec<String>> {
    let mut files = Vec::new();
    for test in tests {
        let found = changed.iter().filter(|file| is_named_after(test, file));
        let known = files.len();
        files.extend(found.map(ToString::to_string));
        if files.len() == known {
            return None;
        }
    }
    files.sort();
    files.dedup();
    Some(files)
}

/// Whether a runner reports examples of this file as tests: pytest names the file or its module.
pub(crate) fn runs_examples(path: &str, cases: &[&TestCases]) -> bool {
    let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
    let module = stem.replace('/', ".");
    let module = module.strip_prefix("src.").unwrap_or(&module);
    let is_prose = Language::from_path(path) == Language::Prose;
    let mut names = cases.iter().flat_map(|one| one.passed.iter().chain(&one.failed));
    names.any(|name| {
        let is_module = !is_prose
            && name.split(" > ").flat_map(|part| part.split("::")).any(|part| {
                part.strip_prefix(module)
                    .is_some_and(|rest| rest.starts_with('.') || rest.is_empty())
            });
        name.contains(path) || is_module
    })
}

/// `false` for languages whose tests are recognized by file name or text: groups of their tests may be named after the
/// file that they test. Tests of Python are named after their module.
fn may_be_test(path: &str) -> bool {
    match Language::from_path(path) {
        Language::Rust
        | Language::JavaScript
        | Language::Python
        | Language::Go
        | Language::Java
        | Language::Kotlin
        | Language::Config
        | Language::Sql
        | Language::Html
        | Language::Css
        | Language::Prose => false,
        Language::CSharp
        | Language::C
        | Language::Swift
        | Language::Scala
        | Language::Php
        | Language::Ruby
        | Language::Shell
        | Language::Bats
        | Language::Unknown => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_are_reported_by_their_path_are_tests() {
        let names = |names: &[&str]| TestCases {
            passed: names.iter().map(ToString::to_string).collect(),
            ..TestCases::default()
        };
        let all = [names(&["qa/add.sh", "lib/parser.js > parses"]), names(&["qa/a.rb > one"])];
        let all = all.each_ref().map(|cases| ReportedCases { directory: "", cases });
        let code = ["qa/add.sh", "qa/a.rb", "add.sh", "lib/parser.js"].map(str::to_string);
        assert_eq!(code_reported_as_tests(&code, &all), ["qa/add.sh", "qa/a.rb"]);
    }

    /// R-V1b: `python_files` of pytest can name any file.
    #[test]
    fn modules_of_python_with_reported_tests_are_tests() {
        for (directory, path, name, is_test) in [
            ("", "qa/check_a.py", "qa/check_a.py::test_x[1.5]", true),
            ("", "qa/check_a.py", "qa/check_a.py::TestA::test_x", true),
            ("", "qa/check_a.py", "pytest > qa.check_a > test_x", true),
            ("", "qa/check_a.py", "pytest > qa.check_a.TestA > test_x", true),
            ("", "qa/check_a.py", "qa/check_a.py > pytest > qa.check_a > test_x", true),
            ("", "qa/check_a.py", "qa.check_a.CaseA.test_x", true),
            ("api", "api/qa/check_a.py", "qa/check_a.py::test_x", true),
            ("", "api/qa/check_a.py", "qa/check_a.py::test_x", false),
            ("", "qa/check_a.py", "pytest > qa.check_ab > test_x", false),
            ("", "shop.py", "pytest > shop.tests.test_a > test_x", false),
            ("", "qa/check_a.py", "pytest > tests.qa.check_a > test_x", false),
            // Examples in the documentation of code.
            ("", "cart.py", "cart.py::cart.total", false),
            ("", "cart.py", "pytest > cart > cart.total", false),
            ("", "cart.py", "pytest > cart > cart", false),
            ("", "cart.py", "cart.Cart.total", false),
        ] {
            let cases = TestCases { passed: vec![name.to_string()], ..TestCases::default() };
            let reported = [ReportedCases { directory, cases: &cases }];
            let found = code_reported_as_tests(&[path.to_string()], &reported);
            assert_eq!(!found.is_empty(), is_test, "{directory} {path} {name}");
        }
    }

    #[test]
    fn files_are_found_by_the_names_of_their_tests() {
        let changed = ["src/zone.test.js", "tests/test_cart.py"].map(str::to_string);
        let changed: Vec<&String> = changed.iter().collect();
        for (tests, expected) in [
            (&["src/zone.test.js > fixed"][..], Some("src/zone.test.js")),
            (
                &["pytest > tests.test_cart > test_a", "tests/test_cart.py::b"],
                Some("tests/test_cart.py"),
            ),
            (
                &["src/zone.test.js > fixed", "tests.test_cart.A.b"],
                Some("src/zone.test.js tests/test_cart.py"),
            ),
            (&["src/zone.test.js > fixed", "example.com/shop > TestTotal"], None),
        ] {
            let files = files_of_tests(&changed, tests.iter().copied());
            assert_eq!(files.map(|files| files.join(" ")).as_deref(), expected, "{tests:?}");
        }
    }
}
