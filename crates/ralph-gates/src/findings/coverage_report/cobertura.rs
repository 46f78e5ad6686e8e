//! Reads Cobertura's XML, as coverage.py, c8, gcovr, coverlet and others write it. The document is streamed, and no entity
//! of its own is expanded.

use super::{CoverageDraft, DraftName};
use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use ralph_core::line_set::LineRange;
use std::borrow::Cow;

const MAX_DEPTH: usize = 100;
const MAX_SOURCES: usize = 20;
const UNPARSED: &str = "the report cannot be parsed";

#[derive(Default)]
struct CoberturaParser {
    depth: usize,
    sources: Vec<String>,
    /// The text of the open `<source>`.
    source: Option<String>,
    file: Option<DraftName>,
    has_root: bool,
    is_complete: bool,
}

pub(super) fn read_cobertura(text: &str, draft: &mut CoverageDraft) -> Result<(), &'static str> {
    if text.trim().is_empty() {
        return Err("the report is empty");
    }
    // A banner may precede the document.
    let starts = ["<?xml", "<coverage"].iter().filter_map(|open| text.find(open));
    let start = starts.min().ok_or(UNPARSED)?;
    let mut reader = Reader::from_str(text.get(start..).unwrap_or_default());
    let mut parser = CoberturaParser::default();
    while !parser.is_complete {
        match reader.read_event().map_err(|_| UNPARSED)? {
            Event::Start(element) => {
                parser.depth += 1;
                if parser.depth > MAX_DEPTH {
                    return Err(UNPARSED);
                }
                parser.open(&element, draft)?;
            }
            Event::Empty(element) => {
                parser.open(&element, draft)?;
                parser.close(element.local_name().as_ref());
                parser.is_complete |= parser.depth == 0;
            }
            Event::End(element) => {
                parser.depth = parser.depth.saturating_sub(1);
                parser.close(element.local_name().as_ref());
                parser.is_complete |= parser.depth == 0;
            }
            Event::Text(words) => {
                if let Some(source) = &mut parser.source {
                    source.push_str(&words.xml10_content());
                }
            }
            Event::Eof => break,
            Event::CData(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_)
            | Event::GeneralRef(_) => {}
        }
    }
    match (parser.has_root, parser.is_complete) {
        (false, _) => Err(UNPARSED),
        (true, false) => Err("the report is truncated"),
        (true, true) => Ok(()),
    }
}

impl CoberturaParser {
    fn open(
        &mut self,
        element: &BytesStart<'_>,
        draft: &mut CoverageDraft,
    ) -> Result<(), &'static str> {
        match element.local_name().as_ref() {
            "coverage" => self.has_root = true,
            "source" if self.sources.len() < MAX_SOURCES => self.source = Some(String::new()),
            "class" => {
                let name = attribute(element, "filename").ok_or(UNPARSED)?;
                let sources = self.sources.clone();
                self.file = DraftName::new(&name).map(|file| DraftName { sources, ..file });
            }
            "line" => {
                let number = attribute(element, "number").and_then(|text| text.parse::<u32>().ok());
                let hits = attribute(element, "hits").and_then(|text| text.parse::<f64>().ok());
                let (Some(line), Some(hits)) = (number, hits) else { return Err(UNPARSED) };
                if let Some(file) = &self.file {
                    draft.add(file, LineRange::new(line, line), hits > 0.0);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, name: &str) {
        match name {
            "class" => self.file = None,
            "source" => {
                let source = self.source.take().map(|source| source.trim().to_string());
                self.sources.extend(source.filter(|source| !source.is_empty()));
            }
            _ => {}
        }
    }
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = element.attributes();
    let mut attributes = attributes.with_checks(false).flatten();
    let found = attributes.find(|attribute| attribute.key.local_name().as_ref() == name)?;
    found.normalized_value(XmlVersion::Implicit1_0).ok().map(Cow::into_owned)
}
