//! Turns the events of the Markdown parser into items, headings and notes.

use super::check::{self, Check};
use super::document::Document;
use super::section::{self, Says, Section};
use super::{Heading, MOST_ITEMS, Note, Plan, garbled, paths};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};
use ralph_core::requirement::Weight;
use ralph_core::source::Garbled;
use ralph_core::source::checklist::{Mark, mark};
use ralph_core::source::list::Item;
use ralph_core::text;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

const LONGEST_TEXT: usize = 2_000;
const LONGEST_IN_NAME: usize = 60;
const MOST_NOTES: usize = 200;

const NEVER_ENDS_CODE: &str =
    "the code block that starts here is never closed; boxes in it do not count";
const NEVER_ENDS_COMMENT: &str =
    "the comment that starts here is never closed; boxes in it do not count";
const NO_BOX: &str = "`[]` is not a box; write `[ ]`";
const NO_TEXT: &str = "a box without text does not count";
const PERHAPS_OPTIONAL: &str =
    "this section is required; add `(optional)` to its heading if it is not";
const SECOND_CHECK: &str = "the item already has a check; this one is ignored";

pub(super) fn read(document: Document) -> Result<Plan, Garbled> {
    let mut walk = Walk::new(&document);
    for (event, range) in Parser::new_ext(&document.text, Options::empty()).into_offset_iter() {
        walk.step(event, range);
        if walk.drafts.len() > MOST_ITEMS || walk.headings.len() > MOST_ITEMS {
            return Err(garbled("it has more than 20,000 items or headings"));
        }
    }
    let Walk { drafts, headings, title, mut notes, .. } = walk;
    notes.splice(0..0, document.notes);
    notes.truncate(MOST_NOTES);
    Ok(Plan { title, headings, items: named(drafts), notes })
}

/// The state of a walk over the events.
struct Walk<'a> {
    document: &'a Document,
    /// The offset after which only white space follows.
    content_end: usize,
    block: Block<'a>,
    place: Place,
    quotes: usize,
    sections: Vec<Section>,
    /// The open list items, outermost first.
    open: Vec<Open>,
    drafts: Vec<Draft>,
    headings: Vec<Heading>,
    title: Option<String>,
    notes: Vec<Note>,
}

/// The kind of block that the current inline text belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Prose,
    Heading(u8),
    /// Code and HTML, which are not part of the text.
    Shown,
}

/// An open list item.
struct Open {
    /// Whether its first text has been read.
    first: First,
    /// The item with a box that this one is, or is nested in.
    draft: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum First {
    Awaited,
    Past,
}

struct Draft {
    heading: Option<String>,
    line: u32,
    name: String,
    text: String,
    done: bool,
    weight: Weight,
    check: Option<Vec<String>>,
    names: Vec<String>,
}

/// The inline text of one block.
#[derive(Default)]
struct Block<'a> {
    start: Option<usize>,
    end: usize,
    spans: Vec<Span<'a>>,
}

struct Span<'a> {
    kind: Kind,
    range: Range<usize>,
    text: CowStr<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Code,
}

/// How code spans are rendered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Code {
    InBackticks,
    Plain,
    Left,
}

impl<'a> Walk<'a> {
    fn new(document: &'a Document) -> Self {
        Self {
            document,
            content_end: document.text.trim_end().len(),
            block: Block::default(),
            place: Place::Prose,
            quotes: 0,
            sections: Vec::new(),
            open: Vec::new(),
            drafts: Vec::new(),
            headings: Vec::new(),
            title: None,
            notes: Vec::new(),
        }
    }

    fn step(&mut self, event: Event<'a>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(&tag, &range),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.inline(Kind::Text, range, text),
            Event::Code(text) => self.inline(Kind::Code, range, text),
            Event::InlineHtml(html) if html.starts_with("<!--") => {}
            Event::InlineHtml(html) => self.inline(Kind::Text, range, html),
            Event::SoftBreak | Event::HardBreak => {
                self.inline(Kind::Text, range, CowStr::Borrowed(" "));
            }
            Event::Rule => self.close_block(),
            Event::Html(_)
            | Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: &Tag<'a>, range: &Range<usize>) {
        if is_inline(tag) {
            self.block.start.get_or_insert(range.start);
            return;
        }
        self.close_block();
        if *tag == Tag::Item {
            let draft = self.open.last().and_then(|item| item.draft);
            self.open.push(Open { first: First::Awaited, draft });
            return;
        }
        if *tag == Tag::Paragraph {
            return;
        }
        if let Tag::Heading { level, .. } = tag {
            self.place = Place::Heading(*level as u8);
        } else if matches!(tag, Tag::BlockQuote(_)) {
            self.quotes += 1;
        } else if let Tag::CodeBlock(kind) = tag {
            self.place = Place::Shown;
            if matches!(kind, CodeBlockKind::Fenced(_)) && self.is_open_fence(range) {
                self.note(range.start, NEVER_ENDS_CODE);
            }
        } else if *tag == Tag::HtmlBlock {
            self.place = Place::Shown;
            let html = self.source(range.clone());
            if html.trim_start().starts_with("<!--") && !html.contains("-->") {
                self.note(range.start, NEVER_ENDS_COMMENT);
            }
        }
        if let Some(item) = self.open.last_mut() {
            item.first = First::Past;
        }
    }

    fn end(&mut self, tag: TagEnd) {
        if matches!(tag, TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link | TagEnd::Image) {
            return;
        }
        self.close_block();
        if tag == TagEnd::Item {
            self.open.pop();
        } else if matches!(tag, TagEnd::BlockQuote(_)) {
            self.quotes = self.quotes.saturating_sub(1);
        } else if matches!(tag, TagEnd::Heading(_) | TagEnd::CodeBlock | TagEnd::HtmlBlock) {
            self.place = Place::Prose;
        }
    }

    fn inline(&mut self, kind: Kind, range: Range<usize>, text: CowStr<'a>) {
        if self.place == Place::Shown {
            return;
        }
        self.block.start.get_or_insert(range.start);
        self.block.end = self.block.end.max(range.end);
        self.block.spans.push(Span { kind, range, text });
    }

    /// Handles the inline text of a block that is complete.
    fn close_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        let Some(start) = block.start else { return };
        if self.quotes > 0 {
            return;
        }
        if let Place::Heading(level) = self.place {
            if self.open.is_empty() {
                self.heading(level, start, &block);
            }
            return;
        }
        let Some(item) = self.open.last_mut() else { return };
        let first = std::mem::replace(&mut item.first, First::Past);
        let draft = item.draft;
        match (first, mark(self.source(start..block.end))) {
            (First::Awaited, Some(mark)) => self.item(start, &block, mark),
            (First::Awaited, None) if self.source(start..block.end).starts_with("[] ") => {
                self.note(start, NO_BOX);
            }
            (First::Awaited | First::Past, _) => {
                if let Some(draft) = draft {
                    let cuts = self.checks(draft, start..block.end);
                    self.names(draft, &block, &cuts);
                }
            }
        }
    }

    fn heading(&mut self, level: u8, start: usize, block: &Block<'a>) {
        let source = &self.document.text;
        let title = block.shown(source, &[], Code::Plain);
        let title = text::line(&title, LONGEST_TEXT);
        let line = self.document.line(start);
        self.headings.push(Heading { level, text: title.clone(), line });
        let is_title = self.headings.len() == 1 && level == 1;
        if is_title {
            self.title = Some(title.clone());
        }
        self.sections.truncate(self.sections.partition_point(|section| section.level < level));
        let above = self.sections.last().map_or(Weight::Required, |section| section.weight);
        // The title names the whole plan, which cannot be optional.
        let hint = if is_title {
            Says::Nothing
        } else {
            section::says(&block.shown(source, &[], Code::Left))
        };
        let weight = match hint {
            Says::Optional => Weight::Advisory,
            Says::Perhaps | Says::Nothing => above,
        };
        if hint == Says::Perhaps && weight == Weight::Required {
            self.note(start, PERHAPS_OPTIONAL);
        }
        let title = text::cut(&title, LONGEST_IN_NAME);
        self.sections.push(Section { level, title, weight });
    }

    fn item(&mut self, start: usize, block: &Block<'a>, mark: Mark) {
        let inner = start + mark.length..block.end;
        let the_box = start..inner.start;
        let mut cuts = vec![the_box];
        let index = self.drafts.len();
        let section = self.sections.last();
        let above = self.open.last().and_then(|item| item.draft);
        let is_advisory = mark.weight == Weight::Advisory
            || section.is_some_and(|section| section.weight == Weight::Advisory)
            || above
                .and_then(|above| self.drafts.get(above))
                .is_some_and(|above| above.weight == Weight::Advisory);
        let draft = Draft {
            heading: section.map(|section| section.title.clone()),
            line: self.document.line(start),
            name: String::new(),
            text: String::new(),
            done: mark.done,
            weight: if is_advisory { Weight::Advisory } else { Weight::Required },
            check: None,
            names: Vec::new(),
        };
        self.drafts.push(draft);
        let source = self.source(inner.clone());
        let mut name_end = inner.end;
        if let Some((at, check)) = check::at_end(source) {
            name_end = inner.start + at;
            if self.check(index, name_end, check) {
                cuts.push(name_end..inner.end);
            }
        }
        let first_line = source.find('\n').map_or(inner.end, |at| inner.start + at);
        cuts.extend(self.checks(index, first_line..name_end.max(first_line)));
        let whole = block.shown(&self.document.text, &cuts, Code::InBackticks);
        let whole = text::line(&whole, LONGEST_TEXT);
        cuts.push(name_end..inner.end);
        let plain = block.shown(&self.document.text, &cuts, Code::Plain);
        if whole.is_empty() {
            self.drafts.truncate(index);
            self.note(start, NO_TEXT);
            return;
        }
        self.names(index, block, &cuts);
        if let Some(item) = self.open.last_mut() {
            item.draft = Some(index);
        }
        if let Some(draft) = self.drafts.get_mut(index) {
            if section::is_marked(&plain) {
                draft.weight = Weight::Advisory;
            }
            draft.name = text::line(&plain, LONGEST_IN_NAME);
            draft.text = whole;
        }
    }

    /// Sets the item's check from the lines that name one, and returns the ranges of those lines.
    fn checks(&mut self, draft: usize, range: Range<usize>) -> Vec<Range<usize>> {
        let source = self.source(range.clone());
        let mut cuts = Vec::new();
        let mut at = range.start;
        for line in source.split_inclusive('\n') {
            let mut lines = at..at + line.len();
            at = lines.end;
            let Some(mut check) = check::of_line(line) else { continue };
            let goes_on = check::goes_on(line);
            if goes_on {
                lines.end = range.end;
                let all = self.source(lines.clone()).replace('\n', " ");
                check = check::of_line(&all).unwrap_or(check);
            }
            if self.check(draft, lines.start, check) {
                cuts.push(lines);
            }
            if goes_on {
                break;
            }
        }
        cuts
    }

    /// Sets the item's check; returns whether it was set.
    fn check(&mut self, draft: usize, at: usize, check: Check) -> bool {
        let words = match check {
            Check::Command(words) => words,
            Check::Unusable(why) => {
                self.note(at, why);
                return false;
            }
        };
        let Some(draft) = self.drafts.get_mut(draft) else { return false };
        if draft.check.is_some() {
            self.note(at, SECOND_CHECK);
            return false;
        }
        draft.check = Some(words);
        true
    }

    fn names(&mut self, draft: usize, block: &Block<'a>, cuts: &[Range<usize>]) {
        let Some(draft) = self.drafts.get_mut(draft) else { return };
        // A command is not a path, even if one of its words is.
        let prose = block.shown(&self.document.text, cuts, Code::Left);
        for span in block.spans.iter().filter(|span| span.kind == Kind::Code) {
            if !span.text.contains(' ') && !cuts.iter().any(|cut| cut.contains(&span.range.start)) {
                paths::add_from(&span.text, &mut draft.names);
            }
        }
        paths::add_from(&prose, &mut draft.names);
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

    fn note(&mut self, at: usize, what: &'static str) {
        if self.notes.len() < MOST_NOTES {
            self.notes.push(Note { line: Some(self.document.line(at)), what });
        }
    }
}

impl Block<'_> {
    /// Renders the text without markup and without the ranges in `cuts`.
    fn shown(&self, source: &str, cuts: &[Range<usize>], code: Code) -> String {
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
                Kind::Text if is_whole => out.push_str(&span.text),
                Kind::Text => out.push_str(source.get(range).unwrap_or_default()),
                Kind::Code if code == Code::Left || !is_whole => out.push(' '),
                Kind::Code if code == Code::Plain => out.push_str(&span.text.replace('`', "'")),
                Kind::Code => {
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
fn named(drafts: Vec<Draft>) -> Vec<Item> {
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
        items.push(Item {
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
