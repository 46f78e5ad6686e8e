//! Files that count as code although a runner reports them as tests. No naming convention knows their directory, so their
//! old version was not run on the new code.

use std::collections::BTreeSet;

use ralph_check::Language;
use ralph_core::test_cases::TestCases;

/// The changed files with code that tests are named after, as runners of scripts do.
pub(crate) fn code_reported_as_tests<'a>(
    changed_code: &[String],
    cases: impl Iterator<Item = &'a TestCases>,
) -> Vec<String> {
    let mut reported: BTreeSet<&str> = BTreeSet::new();
    for one in cases {
        let names = one.passed.iter().chain(&one.failed).chain(&one.skipped);
        reported.extend(names.map(|name| name.split(" > ").next().unwrap_or(name)));
    }
    let is_reported = |path: &&String| may_be_test(path) && reported.contains(path.as_str());
    changed_code.iter().filter(is_reported).cloned().collect()
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
/// file that they test.
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
        let code = ["qa/add.sh", "qa/a.rb", "add.sh", "lib/parser.js"].map(str::to_string);
        assert_eq!(code_reported_as_tests(&code, all.iter()), ["qa/add.sh", "qa/a.rb"]);
    }
}
