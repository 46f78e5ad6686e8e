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
    use crate::template::facts;
    use ralph_deck::page::RunStanding;
    use std::collections::{BTreeMap, BTreeSet};

    const STYLE: &str = include_str!("../../assets/style.css");

    /// The drawing of every mark, by its name.
    fn drawings() -> BTreeMap<&'static str, &'static str> {
        let symbols = SYMBOLS.split("<symbol id=\"m-").skip(1);
        let drawings: Vec<_> = symbols
            .map(|symbol| {
                let (name, rest) = symbol.split_once('"').unwrap();
                let (_, drawing) = rest.split_once('>').unwrap();
                (name, drawing.split_once("</symbol>").unwrap().0)
            })
            .collect();
        let by_name: BTreeMap<_, _> = drawings.iter().copied().collect();
        assert_eq!(by_name.len(), drawings.len(), "two marks share a name");
        by_name
    }

    /// The colour variable that the style sheet gives to a class.
    fn color_of(class: &str) -> &'static str {
        let rules = STYLE.split('}').filter_map(|rule| rule.rsplit_once('{'));
        let mut colors = rules.filter_map(|(selectors, body)| {
            let selectors = selectors.rsplit_once("*/").map_or(selectors, |(_, rest)| rest);
            let applies = selectors.split(',').any(|one| one.trim() == format!(".{class}"));
            let color = body.split_once("--st: var(--")?.1.split_once(')')?.0;
            applies.then_some(color)
        });
        colors.next().unwrap_or_else(|| panic!("`{class}` has no colour"))
    }

    /// R-U2c: every final status has a mark of its own on the page.
    #[test]
    fn every_state_has_a_drawing_of_its_own() {
        let drawings = drawings();
        let shapes: BTreeSet<_> = drawings.values().collect();
        assert_eq!(shapes.len(), drawings.len(), "two marks look the same");
        let missing: Vec<_> = RunStanding::ALL
            .iter()
            .map(|standing| standing.key())
            .filter(|name| !drawings.contains_key(name))
            .collect();
        assert_eq!(missing, Vec::<&str>::new());
    }

    /// The colour of a state beside the attention that the run needs. What a person paused or has to resume has its own.
    #[test]
    fn every_state_has_a_color() {
        let shown: Vec<_> = RunStanding::ALL
            .iter()
            .map(|standing| {
                let attention = format!("{:?}", standing.attention());
                format!("{} {} {attention}", standing.key(), color_of(facts::hue(*standing)))
            })
            .collect();
        insta::assert_snapshot!(shown.join("\n"), @"
        working ink-2 InProgress
        waiting ink-2 InProgress
        asks you NeedsPerson
        paused ink-2 Closed
        orphaned broken Broken
        unprotected broken Broken
        parked you NotDone
        verified done Done
        accepted done Done
        green unproven Unproven
        claimed unproven Unproven
        exhausted not-done NotDone
        stuck not-done NotDone
        needs_human you NeedsPerson
        needs_review you NeedsPerson
        gate_broken broken Broken
        rate_limited not-done NotDone
        cancelled closed Closed
        overridden closed Closed
        crashed broken Broken
        ");
    }
}
