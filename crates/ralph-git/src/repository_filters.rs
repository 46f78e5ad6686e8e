//! Filters that a repository's own configuration names. Git runs them on files whose attributes ask for it when it
//! compares a file with a commit, so a question about the work tree would run a program of the repository. Filters of
//! the user or the system, such as those of git LFS, are the person's own and stay.

use std::collections::BTreeSet;

/// `--show-scope` needs git 2.26.
pub(crate) const LIST_FILTERS_ARGS: [&str; 7] =
    ["config", "--includes", "--show-scope", "--name-only", "--null", "--get-regexp", r"^filter\."];
/// Git exits with this code if nothing matches.
pub(crate) const NO_MATCH_EXIT_CODE: i32 = 1;

/// Scopes of the files that a person keeps outside of the repository.
const OWN_SCOPES: [&str; 2] = ["system", "global"];
const SEPARATOR: char = '\0';

/// Settings that switch off the filters in the output of [`LIST_FILTERS_ARGS`]. `None` if one of them cannot be.
pub(crate) fn disabling_settings(output: &[u8]) -> Option<Vec<String>> {
    let text = String::from_utf8(output.to_vec()).ok()?;
    let mut fields = text.split_terminator(SEPARATOR);
    let mut drivers = BTreeSet::new();
    while let Some(scope) = fields.next() {
        let name = fields.next()?;
        // `filter.<driver>.<key>`: the driver may contain dots.
        let driver =
            name.strip_prefix("filter.")?.rsplit_once('.').map_or("", |(driver, _)| driver);
        if !OWN_SCOPES.contains(&scope) {
            // On a command line the name would end at the sign.
            if driver.contains('=') {
                return None;
            }
            drivers.insert(driver.to_string());
        }
    }
    let disabled = drivers.iter().flat_map(|driver| {
        ["clean=", "smudge=", "process=", "required=false"]
            .map(|setting| format!("filter.{driver}.{setting}"))
    });
    Some(disabled.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_of_the_repository_are_switched_off() {
        for (output, expected) in [
            ("", Some("")),
            ("global\0filter.lfs.clean\0system\0filter.a.process\0", Some("")),
            (
                "global\0filter.lfs.clean\0local\0filter.a.b.clean\0local\0filter.a.b.required\0",
                Some(
                    "filter.a.b.clean= filter.a.b.smudge= filter.a.b.process= filter.a.b.required=false",
                ),
            ),
            (
                "worktree\0filter.x y.process\0",
                Some(
                    "filter.x y.clean= filter.x y.smudge= filter.x y.process= filter.x y.required=false",
                ),
            ),
            ("local\0filter.a=b.clean\0", None),
            ("local\0other.x\0", None),
            ("local\0", None),
        ] {
            let found = disabling_settings(output.as_bytes()).map(|settings| settings.join(" "));
            assert_eq!(found.as_deref(), expected, "{output:?}");
        }
    }
}
