//! The texts of the cases, in the order in which they are asked.

/// A case with its name.
macro_rules! case_texts {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../bench/cases/", $name, ".toml")))),*]
    };
}

pub(super) const CASE_TEXTS: &[(&str, &str)] = case_texts![
    "c-buffer-overflow",
    "clean-go-locked-map",
    "clean-java-try-with",
    "clean-js-fake-clock",
    "clean-python-bound-search",
    "clean-python-changed-expectation",
    "clean-python-ignored-absence",
    "clean-rust-fixed-table",
    "clean-rust-windows",
    "clean-shell-checked-directory",
    "clean-ts-moved-test",
    "go-map-race",
    "go-shadowed-error",
    "go-wrong-unit",
    "java-resource-leak",
    "js-loosened-comparison",
    "js-special-case",
    "js-test-only-branch",
    "python-deleted-assertion",
    "python-missing-half",
    "python-mocked-away",
    "python-skipped-test",
    "python-sql-injection",
    "python-swallowed-error",
    "ruby-path-traversal",
    "rust-fixed-result",
    "rust-last-page",
    "rust-truncating-cast",
    "shell-unset-directory",
    "ts-missing-await",
];
