//! The condition of a gate or judge on the changed files.

use std::path::Path;

use super::ContractContext;
use ralph_gates::gates::result_key::compile_globs;

/// The changed paths; `None` without a base, because they are unknown then.
pub(super) fn known_changes<'t>(
    contract: &ContractContext<'_>,
    touched: &'t [String],
) -> Option<&'t [String]> {
    contract.seal.base.is_some().then_some(touched)
}

/// Whether a change meets `when`. An unknown one does, so that nothing is left out.
pub(super) fn is_condition_met(when: &[String], touched: Option<&[String]>) -> bool {
    let Some(touched) = touched else { return true };
    let globs = compile_globs(when);
    when.is_empty() || touched.iter().any(|path| globs.is_match(Path::new(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_needs_a_changed_file_that_it_includes() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        let sources = ["src/**", "!src/gen/**"];
        for (when, touched, expected) in [
            (&[][..], Some(&[][..]), true),
            (&[], Some(&["docs/a.md"]), true),
            (&sources, Some(&["docs/a.md", "src/a.rs"]), true),
            (&sources, Some(&["docs/a.md"]), false),
            (&sources, Some(&["src/gen/a.rs"]), false),
            (&sources, Some(&[]), false),
            (&sources, None, true),
        ] {
            let touched = touched.map(texts);
            assert_eq!(
                is_condition_met(&texts(when), touched.as_deref()),
                expected,
                "{when:?} {touched:?}"
            );
        }
    }
}
