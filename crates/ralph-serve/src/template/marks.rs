//! The marks of states: one shape each, drawn once per page and used by name. The only markup that is not made by a template.

use maud::{Markup, html};

const SYMBOLS: &str = include_str!("../../assets/marks.svg");

/// The definitions of all marks, for the top of a page.
pub(crate) fn symbols() -> Markup {
    #[expect(
        clippy::disallowed_types,
        reason = "a file of this crate, without any text from elsewhere"
    )]
    use maud::PreEscaped;
    PreEscaped(SYMBOLS.to_string())
}

/// The mark of a state, beside its word. `name` is a name of ours, never text from elsewhere.
pub(crate) fn mark(name: &'static str) -> Markup {
    html! { svg.mark aria-hidden="true" { use href={ "#m-" (name) } {} } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_has_a_name_of_its_own() {
        let names: Vec<_> =
            SYMBOLS.split("id=\"m-").skip(1).filter_map(|part| part.split('"').next()).collect();
        let unique: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        assert!(names.contains(&"green"));
    }
}
