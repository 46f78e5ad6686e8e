//! Checks the globs of a policy: lists that name files, and selections, which can also exclude some of them with `!`.

use globset::GlobBuilder;
use ralph_core::text;

use super::value::MAX_PATTERN_BYTES;

/// Whether a glob is relative to the project and can be parsed.
pub fn check_glob(text: &str) -> Result<(), String> {
    if text.starts_with('!') {
        return Err("only `paths` and `when` can exclude files with `!`; a name that begins with it is written `\\!…`".to_string());
    }
    if text.is_empty() || text.len() > MAX_PATTERN_BYTES {
        return Err(format!("expected 1 to {MAX_PATTERN_BYTES} bytes"));
    }
    if text.starts_with('/') || text.starts_with("./") || text.split('/').any(|part| part == "..") {
        return Err(
            "globs are relative to the project: no leading `/` or `./`, no `..`".to_string()
        );
    }
    GlobBuilder::new(text)
        .literal_separator(true)
        .build()
        .map(drop)
        .map_err(|error| text::clean_line(&error.kind().to_string(), 200))
}

/// A glob, or one after a `!`.
pub(super) fn check_selected_glob(text: &str) -> Result<(), String> {
    check_glob(text.strip_prefix('!').unwrap_or(text))
}

/// Such a selection would match nothing.
pub(super) fn only_excludes(globs: &[String]) -> bool {
    !globs.is_empty() && globs.iter().all(|glob| glob.starts_with('!'))
}
