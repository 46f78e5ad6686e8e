//! Builds a bounded text section by section, and reserves room for its closing part.

use super::LONGEST_HANDOVER;
use ralph_core::reason::{self, ReasonContext};
use ralph_core::redact::Redactor;

/// Reserved for the line with the number of omitted items.
const MORE: usize = 40;
/// A shorter quotation is not worth its marks.
const LEAST_QUOTE: usize = 80;

pub(super) struct HandoverPage<'a> {
    text: String,
    length: usize,
    reason_context: &'a ReasonContext<'a>,
    closing: &'static str,
}

impl<'a> HandoverPage<'a> {
    pub(super) fn new(
        opening: String,
        reason_context: &'a ReasonContext<'a>,
        closing: &'static str,
    ) -> Self {
        let length = opening.chars().count() + closing.chars().count();
        Self { text: opening, length, reason_context, closing }
    }

    pub(super) fn redactor(&self) -> &'a Redactor {
        self.reason_context.redactor
    }

    fn room(&self) -> usize {
        LONGEST_HANDOVER.saturating_sub(self.length)
    }

    fn push(&mut self, block: &str) {
        self.length += block.chars().count();
        self.text.push_str(block);
    }

    pub(super) fn list(&mut self, heading: &str, most: usize, items: &[String]) {
        self.list_of(heading, most, (items, 0));
    }

    /// The first items, as many as fit, and the number of the rest. `unlisted` more are counted but not given.
    pub(super) fn list_of(
        &mut self,
        heading: &str,
        most: usize,
        (items, unlisted): (&[String], usize),
    ) {
        let heading = format!("\n## {heading}\n\n");
        let room = most.min(self.room()).saturating_sub(heading.chars().count() + MORE);
        let mut listed = String::new();
        let mut length = 0;
        let mut shown = 0;
        for item in items {
            length += item.chars().count() + 1;
            if length > room {
                break;
            }
            listed.push_str(item);
            listed.push('\n');
            shown += 1;
        }
        if shown == 0 {
            return;
        }
        let left_out = (items.len() - shown).saturating_add(unlisted);
        if left_out > 0 {
            listed.push_str(&format!("- and {left_out} more\n"));
        }
        self.push(&heading);
        self.push(&listed);
    }

    /// Foreign text. Every line needs room for its mark, so a text of many short lines is cut earlier.
    pub(super) fn quote(&mut self, heading: &str, label: &str, foreign: &str, most: usize) {
        if foreign.trim().is_empty() {
            return;
        }
        let heading = format!("\n## {heading}\n\n");
        let room = self.room().saturating_sub(heading.chars().count());
        let room = room.min(most + most / 4);
        let fitting = (1..=16)
            .map(|part| most * (17 - part) / 16)
            .take_while(|most| *most >= LEAST_QUOTE)
            .map(|most| reason::fence_text(label, foreign.trim(), most, self.reason_context))
            .find(|fenced| fenced.chars().count() <= room);
        if let Some(fenced) = fitting {
            self.push(&heading);
            self.push(&fenced);
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str(self.closing);
        self.text
    }
}
