//! Turns the events of the Markdown parser into items, headings and notes.

use super::document::PlanDocument;
use super::item_check::{self, PlanCheck};
use super::section::{self, OptionalHint, PlanSection};
use super::{MarkdownPlan, PlanHeading, PlanNote, invalid_plan, paths};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};
use ralph_core::input_bounds::MAX_LIST_ITEMS;
use ralph_core::requirement::RequirementWeight;
use ralph_core::source::SourceError;
use ralph_core::source::checklist::{Checkbox, parse_checkbox};
use ralph_core::source::item_check::ItemCheck;
use ralph_core::source::work_list::ListItem;
use ralph_core::text;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

const MAX_TEXT_CHARS: usize = 2_000;
const MAX_NAME_PART_CHARS: usize = 60;
const MAX_NOTES: usize = 200;

const UNCLOSED_CODE: &str =
    "the code block that starts here is never closed; boxes in it do not count";
const UNCLOSED_COMMENT: &str =
    "the comment that starts here is never closed; boxes in it do not count";
const NOT_A_BOX: &str = "`[]` is not a box; write `[ ]`";
const NO_TEXT: &str = "a box without text does not count";
const PERHAPS_OPTIONAL: &str =
    "this section is required; add `(optional)` to its heading if it is not";
const SECOND_CHECK: &str = "the item already has a check; this one is ignored";

pub(super) fn parse_document(document: PlanDocument) -> Result<MarkdownPlan, SourceError> {
    let mut walk = PlanWalk::new(&document);
    for (event, range) in Parser::new_ext(&document.text, Options::empty()).into_offset_iter() {
        walk.handle_event(event, range);
        if walk.drafts.len() > MAX_LIST_ITEMS || walk.headings.len() > MAX_LIST_ITEMS {
            return Err(invalid_plan("it has more than 20,000 items or headings"));
        }
    }
    let PlanWalk { drafts, headings, title, mut notes, .. } = walk;
    notes.splice(0..0, document.notes);
    notes.truncate(MAX_NOTES);
    Ok(MarkdownPlan { title, headings, items: name_items(drafts), notes })
}

/// The state of a walk over the events.
struct PlanWalk<'a> {
    document: &'a PlanDocument,
    /// The offset after which only white space follows.
    content_end: usize,
    block: InlineBlock<'a>,
    context: TextContext,
    quotes: usize,
    sections: Vec<PlanSection>,
    /// The open list items, outermost first.
    open: Vec<OpenListItem>,
    drafts: Vec<PlanItemDraft>,
    headings: Vec<PlanHeading>,
    title: Option<String>,
    notes: Vec<PlanNote>,
}

/// The kind of block that the current inline text belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextContext {
    Prose,
    Heading(u8),
    /// Code and HTML, which are not part of the text.
    NotText,
}

/// An open list item.
struct OpenListItem {
    is_first_text_read: bool,
    /// The item with a box that this one is, or is nested in.
    draft: Option<usize>,
}

struct PlanItemDraft {
    heading: Option<String>,
    line: u32,
    name: String,
    text: String,
    done: bool,
    weight: RequirementWeight,
    check: Option<ItemCheck>,
    names: Vec<String>,
}

/// The inline text of one block.
#[derive(Default)]
struct InlineBlock<'a> {
    start: Option<usize>,
    end: usize,
    spans: Vec<InlineSpan<'a>>,
}

struct InlineSpan<'a> {
    kind: SpanKind,
    range: Range<usize>,
    text: CowStr<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SpanKind {
    Text,
    Code,
}

/// How code spans are rendered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CodeRendering {
    InBackticks,
    Plain,
    Omitted,
}

impl<'a> PlanWalk<'a> {
    fn new(document: &'a PlanDocument) -> Self {
        Self {
            document,
            content_end: document.text.trim_end().len(),
            block: InlineBlock::default(),
            context: TextContext::Prose,
            quotes: 0,
            sections: Vec::new(),
            open: Vec::new(),
            drafts: Vec::new(),
            headings: Vec::new(),
            title: None,
            notes: Vec::new(),
        }
    }

    fn handle_event(&mut self, event: Event<'a>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start_tag(&tag, &range),
            Event::End(tag) => self.end_tag(tag),
            Event::Text(text) => self.add_span(SpanKind::Text, range, text),
            Event::Code(text) => self.add_span(SpanKind::Code, range, text),
            Event::InlineHtml(html) if html.starts_with("<!--") => {}
            Event::InlineHtml(html) => self.add_span(SpanKind::Text, range, html),
            Event::SoftBreak | Event::HardBreak => {
                self.add_span(SpanKind::Text, range, CowStr::Borrowed(" "));
            }
            Event::Rule => self.close_block(),
            Event::Html(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::TaskListMarker(_) => {}
        }
    }

    fn start_tag(&mut self, tag: &Tag<'a>, range: &Range<usize>) {
        if is_inline(tag) {
            self.block.start.get_or_insert(range.start);
            return;
        }
        self.close_block();
        if *tag == Tag::Item {
            let draft = self.open.last().and_then(|item| item.draft);
            self.open.push(OpenListItem { is_first_text_read: false, draft });
            return;
        }
        if *tag == Tag::Paragraph {
            return;
        }
        if let Tag::Heading { level, .. } = tag {
            self.context = TextContext::Heading(*level as u8);
        } else if matches!(tag, Tag::BlockQuote(_)) {
            self.quotes += 1;
        } else if let Tag::CodeBlock(kind) = tag {
            self.context = TextContext::NotText;
            if matches!(kind, CodeBlockKind::Fenced(_)) && self.is_open_fence(range) {
                self.add_note(range.start, UNCLOSED_CODE);
            }
        } else if *tag == Tag::HtmlBlock {
            self.context = TextContext::NotText;
            let html = self.source(range.clone());
            if html.trim_start().starts_with("<!--") && !html.contains("-->") {
                self.add_note(range.start, UNCLOSED_COMMENT);
            }
        }
        if let Some(item) = self.open.last_mut() {
            item.is_first_text_read = true;
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        if matches!(tag, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link | TagEnd::Image) {
            return;
        }
        self.close_block();
        if tag == TagEnd::Item {
            self.open.pop();
        } else if matches!(tag, TagEnd::BlockQuote(_)) {
            self.quotes = self.quotes.saturating_sub(1);
        } else if matches!(tag, TagEnd::Heading(_) | TagEnd::CodeBlock | TagEnd::HtmlBlock) {
            self.context = TextContext::Prose;
        }
    }

    fn add_span(&mut self, kind: SpanKind, range: Range<usize>, text: CowStr<'a>) {
        if self.context == TextContext::NotText {
            return;
        }
        self.block.start.get_or_insert(range.start);
        self.block.end = self.block.end.max(range.end);
        self.block.spans.push(InlineSpan { kind, range, text });
    }

    /// Handles the inline text of a block that is complete.
    fn close_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        let Some(start) = block.start else { return };
        if self.quotes > 0 {
            return;
        }
        if let TextContext::Heading(level) = self.context {
            if self.open.is_empty() {
                self.add_heading(level, start, &block);
            }
            return;
        }
        let Some(item) = self.open.last_mut() else { return };
        let is_first = !std::mem::replace(&mut item.is_first_text_read, true);
        let draft = item.draft;
        match (is_first, parse_checkbox(self.source(start..block.end))) {
            (true, Some(mark)) => self.add_item(start, &block, mark),
            (true, None) if self.source(start..block.end).starts_with("[] ") => {
                self.add_note(start, NOT_A_BOX);
            }
            _ => {
                if let Some(draft) = draft {
                    let cuts = self.take_checks(draft, start..block.end);
                    self.add_names(draft, &block, &cuts);
                }
            }
        }
    }

    fn add_heading(&mut self, level: u8, start: usize, block: &InlineBlock<'a>) {
        let source = &self.document.text;
        let title = block.render(source, &[], CodeRendering::Plain);
        let title = text::clean_line(&title, MAX_TEXT_CHARS);
        let line = self.document.line_at(start);
        self.headings.push(PlanHeading { level, text: title.clone(), line });
        let is_title = self.headings.len() == 1 && level == 1;
        if is_title {
            self.title = Some(title.clone());
        }
        self.sections.truncate(self.sections.partition_point(|section| section.level < level));
        let above =
            self.sections.last().map_or(RequirementWeight::Required, |section| section.weight);
        // The title names the whole plan, which cannot be optional.
        let hint = if is_title {
            OptionalHint::Nothing
        } else {
            section::optional_hint(&block.render(source, &[], CodeRendering::Omitted))
        };
        let weight = match hint {
            OptionalHint::Optional => RequirementWeight::Advisory,
            OptionalHint::Perhaps | OptionalHint::Nothing => above,
        };
        if hint == OptionalHint::Perhaps && weight == RequirementWeight::Required {
            self.add_note(start, PERHAPS_OPTIONAL);
        }
        let title = text::truncate(&title, MAX_NAME_PART_CHARS);
        self.sections.push(PlanSection { level, title, weight });
    }

    fn add_item(&mut self, start: usize, block: &InlineBlock<'a>, mark: Checkbox) {
        let inner = start + mark.length..block.end;
        let the_box = start..inner.start;
        let mut cuts = vec![the_box];
        let index = self.drafts.len();
        let section = self.sections.last();
        let above = self.open.last().and_then(|item| item.draft);
        let is_advisory = mark.weight == RequirementWeight::Advisory
            || section.is_some_and(|section| section.weight == RequirementWeight::Advisory)
            || above
                .and_then(|above| self.drafts.get(above))
                .is_some_and(|above| above.weight == RequirementWeight::Advisory);
        let draft = PlanItemDraft {
            heading: section.map(|section| section.title.clone()),
            line: self.document.line_at(start),
            name: String::new(),
            text: String::new(),
            done: mark.done,
            weight: if is_advisory {
                RequirementWeight::Advisory
            } else {
                RequirementWeight::Required
            },
            check: None,
            names: Vec::new(),
        };
        self.drafts.push(draft);
        let source = self.source(inner.clone());
        let mut name_end = inner.end;
        if let Some((at, check)) = item_check::trailing_check(source) {
            name_end = inner.start + at;
            if self.set_check(index, name_end, check) {
                cuts.push(name_end..inner.end);
            }
        }
        let first_line = source.find('\n').map_or(inner.end, |at| inner.start + at);
        cuts.extend(self.take_checks(index, first_line..name_end.max(first_line)));
        let whole = block.render(&self.document.text, &cuts, CodeRendering::InBackticks);
        let whole = text::clean_line(&whole, MAX_TEXT_CHARS);
        cuts.push(name_end..inner.end);
        let plain = block.render(&self.document.text, &cuts, CodeRendering::Plain);
        if whole.is_empty() {
            self.drafts.truncate(index);
            self.add_note(start, NO_TEXT);
            return;
        }
        self.add_names(index, block, &cuts);
        if let Some(item) = self.open.last_mut() {
            item.draft = Some(index);
        }
        if let Some(draft) = self.drafts.get_mut(index) {
            if section::is_marked_optional(&plain) {
                draft.weight = RequirementWeight::Advisory;
            }
            draft.name = text::clean_line(&plain, MAX_NAME_PART_CHARS);
            draft.text = whole;
        }
    }

    /// Sets the item's check from the lines that name one, and returns the ranges of those lines.
    fn take_checks(&mut self, draft: usize, range: Range<usize>) -> Vec<Range<usize>> {
        let source = self.source(range.clone());
        let mut cuts = Vec::new();
        let mut at = range.start;
        for line in source.split_inclusive('\n') {
            let mut lines = at..at + line.len();
            at = lines.end;
            let Some(mut check) = item_check::parse_check_line(line) else { continue };
            let goes_on = item_check::has_open_backtick(line);
            if goes_on {
                lines.end = range.end;
                let all = self.source(lines.clone()).replace('\n', " ");
                check = item_check::parse_check_line(&all).unwrap_or(check);
            }
            if self.set_check(draft, lines.start, check) {
                cuts.push(lines);
            }
            if goes_on {
                break;
            }
        }
        cuts
    }

    /// Sets the item's check; returns whether it was set.
    fn set_check(&mut self, draft: usize, at: usize, check: PlanCheck) -> bool {
        let check = match check {
            PlanCheck::Command(check) => check,
            PlanCheck::Unusable(why) => {
                self.add_note(at, why);
                return false;
            }
        };
        let Some(draft) = self.drafts.get_mut(draft) else { return false };
        if draft.check.is_some() {
            self.add_note(at, SECOND_CHECK);
            return false;
        }
        draft.check = Some(check);
        true
    }

    fn add_names(&mut self, draft: usize, block: &InlineBlock<'a>, cuts: &[Range<usize>]) {
        let Some(draft) = self.drafts.get_mut(draft) else { return };
        // A command is not a path, even if one of its words is.
        let prose = block.render(&self.document.text, cuts, CodeRendering::Omitted);
        for span in block.spans.iter().filter(|span| span.kind == SpanKind::Code) {
            if !span.text.contains(' ') && !cuts.iter().any(|cut| cut.contains(&span.range.start)) {
                paths::add_paths_from(&span.text, &mut draft.names);
            }
        }
        paths::add_paths_from(&prose, &mut draft.names);
    }

    /// Whether the fence is closed only by the end of the file.
    fn is_open_fence(&self, range: &Range<usize>) -> bool {
        let source = self.source(range.clone()).trim_end();
        let last = source.rsplit_once('\n').map_or("", |(_, last)| last.trim());
        let is_fence = ['`', '~'].iter().any(|mark| last.chars().all(|char| char == *mark));
        range.end >= self.content_end && !(is_fence && last.len() >= 3)
    }

    fn source(&self, range: Range<usize>) -> &'a str {
        self.document.text.get(range).unwrap_or_default()
    }

    fn add_note(&mut self, at: usize, what: &'static str) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(PlanNote { line: Some(self.document.line_at(at)), message: what });
        }
    }
}

impl InlineBlock<'_> {
    /// Renders the text without markup and without the ranges in `cuts`.
    fn render(&self, source: &str, cuts: &[Range<usize>], code: CodeRendering) -> String {
        let mut out = String::new();
        for span in &self.spans {
            let mut range = span.range.clone();
            for cut in cuts {
                if cut.contains(&range.start) {
                    range.start = cut.end.min(range.end);
                } else if range.contains(&cut.start) {
                    range.end = cut.start;
                }
            }
            let is_whole = range == span.range;
            match span.kind {
                _ if range.is_empty() => {}
                SpanKind::Text if is_whole => out.push_str(&span.text),
                SpanKind::Text => out.push_str(source.get(range).unwrap_or_default()),
                SpanKind::Code if code == CodeRendering::Omitted || !is_whole => out.push(' '),
                SpanKind::Code if code == CodeRendering::Plain => {
                    out.push_str(&span.text.replace('`', "'"));
                }
                SpanKind::Code => {
                    out.push('`');
                    out.push_str(&span.text.replace('`', "'"));
                    out.push('`');
                }
            }
        }
        out
    }
}

fn is_inline(tag: &Tag<'_>) -> bool {
    matches!(tag, Tag::Emphasis | Tag::Strong | Tag::Link { .. } | Tag::Image { .. })
}

/// Names items by heading and text, and makes the names unique.
fn name_items(drafts: Vec<PlanItemDraft>) -> Vec<ListItem> {
    let mut taken = HashSet::new();
    let mut counts: HashMap<String, u32> = HashMap::new();
    let mut items = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let base = match &draft.heading {
            Some(heading) if !heading.is_empty() => {
                format!("{heading}: {}", draft.name)
            }
            Some(_) | None => draft.name,
        };
        let base = base.replace('`', "'");
        let count = counts.entry(base.clone()).or_insert(0);
        let mut name = base.clone();
        loop {
            *count += 1;
            if *count > 1 {
                name = format!("{base} ({count})");
            }
            if taken.insert(name.clone()) {
                break;
            }
        }
        items.push(ListItem {
            name,
            text: draft.text,
            steps: Vec::new(),
            done: draft.done,
            check: draft.check,
            weight: draft.weight,
            line: Some(draft.line),
            names: draft.names,
        });
    }
    items
}
