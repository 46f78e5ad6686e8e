//! The text of a settings file, edited in place: every byte that is not part of a change stays.
//!
//! [`SettingsDocument::remove`] exactly undoes [`SettingsDocument::insert`], except in a container that was empty: to
//! restore that, the caller saves its [`SettingsDocument::inside`] first. After every change the text is parsed again
//! and must have the expected value, otherwise the change is rejected.

use std::ops::Range;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use serde_json::Value;

use super::jsonc::{self, BYTE_ORDER_MARK, SettingsTextError};

/// The path of a value in the settings. If a key appears twice, the last one counts.
pub(super) type SettingsPath<'a> = &'a [SettingsPathStep<'a>];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SettingsPathStep<'a> {
    Key(&'a str),
    Index(usize),
}

#[derive(Clone, Debug)]
pub(super) struct SettingsDocument {
    mark: Option<char>,
    text: String,
}

/// The layout of an item inserted into an empty container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InsertLayout {
    Lines,
    Inline,
}

/// The span of a container in the text, with its items.
struct ContainerSpan {
    range: Range<usize>,
    items: Vec<ContainerItem>,
}

/// The span of a list element, or of a key with its value.
struct ContainerItem {
    whole: Range<usize>,
    name: Option<String>,
}

impl SettingsDocument {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, SettingsTextError> {
        let whole = jsonc::decode_settings(bytes)?;
        let text = whole.strip_prefix(BYTE_ORDER_MARK);
        let mark = text.map(|_| BYTE_ORDER_MARK);
        let document = Self { mark, text: text.unwrap_or(whole).to_string() };
        match jsonc::parse_jsonc(&document.text)? {
            None | Some(ast::Value::Object(_)) => Ok(document),
            Some(other) => {
                let place = other.range().start;
                Err(SettingsTextError::at(
                    &document.text,
                    place,
                    "settings must be an object, `{…}`",
                ))
            }
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        let mut whole: String = self.mark.into_iter().collect();
        whole.push_str(&self.text);
        whole.into_bytes()
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether the text has no value, only white space or comments.
    pub(super) fn is_blank(&self) -> bool {
        matches!(jsonc::parse_jsonc(&self.text), Ok(None))
    }

    /// Replaces the whole text, if it parses.
    pub(super) fn set_text(&mut self, text: String) -> Result<(), SettingsTextError> {
        jsonc::parse_jsonc(&text)?;
        self.text = text;
        Ok(())
    }

    /// The whole value; an empty object if there is none.
    pub(super) fn value(&self) -> Value {
        let parsed = jsonc::parse_jsonc(&self.text).ok().flatten();
        parsed.map_or_else(
            || Value::Object(serde_json::Map::new()),
            |parsed| jsonc::to_json_value(&parsed),
        )
    }

    pub(super) fn get(&self, path: SettingsPath<'_>) -> Option<Value> {
        let parsed = jsonc::parse_jsonc(&self.text).ok()??;
        Some(jsonc::to_json_value(descend(&parsed, path)?))
    }

    /// The text of a value.
    pub(super) fn raw(&self, path: SettingsPath<'_>) -> Option<&str> {
        let parsed = jsonc::parse_jsonc(&self.text).ok()??;
        let range = descend(&parsed, path)?.range();
        self.text.get(range.start..range.end)
    }

    /// The text between the brackets of a container.
    pub(super) fn inside(&self, path: SettingsPath<'_>) -> Option<&str> {
        let raw = self.raw(path)?;
        raw.get(1..raw.len().checked_sub(1)?)
    }

    /// The number of entries of a container; `None` if the value is not a container.
    pub(super) fn len(&self, path: SettingsPath<'_>) -> Option<usize> {
        self.find(path).map(|found| found.items.len())
    }

    /// An error at the position of a value.
    pub(super) fn error_at(&self, path: SettingsPath<'_>, why: &str) -> SettingsTextError {
        let parsed = jsonc::parse_jsonc(&self.text).ok().flatten();
        let start = parsed.as_ref().and_then(|parsed| Some(descend(parsed, path)?.range().start));
        SettingsTextError::at(&self.text, start.unwrap_or_default(), why)
    }

    /// Inserts `item`, a value or a key with its value, at the end of a container.
    pub(super) fn insert(
        &mut self,
        path: SettingsPath<'_>,
        item: &str,
        layout: InsertLayout,
    ) -> Result<(), SettingsTextError> {
        let found = self.container(path)?;
        let splices = match found.items.last() {
            None => vec![self.first_item_splice(&found, item, layout)],
            Some(last) => self.append_splices(&found, last, item),
        };
        let entry = format!("{{{item}}}");
        let mut expected = self.value();
        match value_at(&mut expected, path) {
            Some(Value::Object(fields)) => {
                let entry: Value = serde_json::from_str(&entry).unwrap_or_default();
                fields.extend(entry.as_object().cloned().unwrap_or_default());
            }
            Some(Value::Array(list)) => {
                let value = jsonc::parse_jsonc(item)?.map(|value| jsonc::to_json_value(&value));
                list.push(value.unwrap_or_default());
            }
            Some(_) | None => {}
        }
        self.apply_splices(splices, &expected)
    }

    /// Removes an entry of a container, with its comma.
    pub(super) fn remove(
        &mut self,
        path: SettingsPath<'_>,
        index: usize,
    ) -> Result<(), SettingsTextError> {
        let found = self.container(path)?;
        let Some(item) = found.items.get(index) else {
            return Err(self.error_at(path, "there is no such entry"));
        };
        let mut expected = self.value();
        match (value_at(&mut expected, path), &item.name) {
            (Some(Value::Object(fields)), Some(name)) => {
                let earlier = found.items.iter().take(index).any(|other| other.name == item.name);
                if earlier {
                    return Err(self.error_at(path, &format!("`{name}` appears twice")));
                }
                fields.remove(name);
            }
            (Some(Value::Array(list)), None) if index < list.len() => {
                list.remove(index);
            }
            (Some(_) | None, _) => {}
        }
        let end = found.range.end.saturating_sub(1);
        let next = found.items.get(index + 1).map_or(end, |next| next.whole.start);
        let mut cuts = vec![self.with_space_before(&item.whole)];
        let comma_after = find_comma(&self.text, item.whole.end..next);
        let before = index.checked_sub(1).and_then(|index| found.items.get(index));
        cuts.extend(match (comma_after, before) {
            (Some(comma), _) => Some(comma),
            (None, Some(before)) => find_comma(&self.text, before.whole.end..item.whole.start),
            (None, None) => None,
        });
        let narrow: Vec<_> =
            [item.whole.clone()].into_iter().chain(cuts.iter().skip(1).cloned()).collect();
        // If removing the space would join lines, as after a comment, the space stays.
        self.apply_splices(deletions(cuts), &expected)
            .or_else(|_| self.apply_splices(deletions(narrow), &expected))
    }

    /// Removes a key of an object. A missing key is not an error.
    pub(super) fn remove_key(
        &mut self,
        path: SettingsPath<'_>,
        name: &str,
    ) -> Result<(), SettingsTextError> {
        let items = self.container(path)?.items;
        let named = items.iter().rposition(|item| item.name.as_deref() == Some(name));
        named.map_or(Ok(()), |index| self.remove(path, index))
    }

    /// Replaces a value.
    pub(super) fn set(
        &mut self,
        path: SettingsPath<'_>,
        raw: &str,
    ) -> Result<(), SettingsTextError> {
        let mut expected = self.value();
        let value =
            jsonc::parse_jsonc(raw)?.map(|value| jsonc::to_json_value(&value)).unwrap_or_default();
        let Some(found) = self.value_range(path) else {
            return Err(self.error_at(path, "it does not exist"));
        };
        if let Some(place) = value_at(&mut expected, path) {
            *place = value;
        }
        self.apply_splices(vec![(found, raw.to_string())], &expected)
    }

    /// Replaces the text between the brackets of a container.
    pub(super) fn set_inside(
        &mut self,
        path: SettingsPath<'_>,
        inside: &str,
    ) -> Result<(), SettingsTextError> {
        let raw = self.raw(path).unwrap_or_default();
        let mut brackets = raw.chars();
        let (open, close) = (brackets.next().unwrap_or('{'), brackets.next_back().unwrap_or('}'));
        self.set(path, &format!("{open}{inside}{close}"))
    }

    fn first_item_splice(
        &self,
        found: &ContainerSpan,
        item: &str,
        layout: InsertLayout,
    ) -> (Range<usize>, String) {
        let range = found.range.start + 1..found.range.end.saturating_sub(1);
        let kept = self.text.get(range.clone()).unwrap_or_default().trim_end();
        let inside = match layout {
            InsertLayout::Inline if kept.is_empty() => item.to_string(),
            InsertLayout::Inline | InsertLayout::Lines => {
                let outer = line_indent_at(&self.text, found.range.start);
                let newline = self.newline();
                let inner = format!("{outer}{}", self.indent_unit());
                let item = indent_item(item, &inner, newline);
                format!("{kept}{newline}{inner}{item}{newline}{outer}")
            }
        };
        (range, inside)
    }

    fn append_splices(
        &self,
        found: &ContainerSpan,
        last: &ContainerItem,
        item: &str,
    ) -> Vec<(Range<usize>, String)> {
        let end = last.whole.end;
        let close = found.range.end.saturating_sub(1);
        let line_start = line_indent_at(&self.text, last.whole.start);
        let is_first_on_line = self.line_before(last.whole.start).trim().is_empty();
        let newline = self.newline();
        let (gap, item) = if is_first_on_line {
            (format!("{newline}{line_start}"), indent_item(item, line_start, newline))
        } else {
            (self.gap(found).to_string(), item.to_string())
        };
        let comma = find_comma(&self.text, end..close);
        let from = comma.as_ref().map_or(end, |comma| comma.end);
        let remark = if is_first_on_line { end_of_comments(&self.text, from..close) } else { from };
        let point = |at: usize| at..at;
        match comma {
            Some(_) => vec![(point(remark), format!("{gap}{item},"))],
            None if remark == end => vec![(point(end), format!(",{gap}{item}"))],
            None => vec![(point(end), ",".to_string()), (point(remark), format!("{gap}{item}"))],
        }
    }

    /// The space between the entries of a container on one line.
    fn gap(&self, found: &ContainerSpan) -> &str {
        let [.., one, other] = found.items.as_slice() else { return " " };
        let between = self.text.get(one.whole.end..other.whole.start).unwrap_or_default();
        match between.strip_prefix(',') {
            Some(gap) if gap.chars().all(|char| char == ' ') => gap,
            Some(_) | None => " ",
        }
    }

    fn apply_splices(
        &mut self,
        mut splices: Vec<(Range<usize>, String)>,
        expected: &Value,
    ) -> Result<(), SettingsTextError> {
        splices.sort_by_key(|(range, _)| range.start);
        let mut text = self.text.clone();
        for (range, new) in splices.iter().rev() {
            if text.get(range.clone()).is_none() {
                return Err(SettingsTextError::at(
                    &self.text,
                    range.start,
                    "it cannot be changed safely",
                ));
            }
            text.replace_range(range.clone(), new);
        }
        let became =
            jsonc::parse_jsonc(&text).ok().flatten().map(|parsed| jsonc::to_json_value(&parsed));
        if became.as_ref() != Some(expected) {
            let place = splices.first().map_or(0, |(range, _)| range.start);
            return Err(SettingsTextError::at(&self.text, place, "it cannot be changed safely"));
        }
        self.text = text;
        Ok(())
    }

    fn container(&self, path: SettingsPath<'_>) -> Result<ContainerSpan, SettingsTextError> {
        self.find(path).ok_or_else(|| self.error_at(path, "it is neither an object nor a list"))
    }

    fn find(&self, path: SettingsPath<'_>) -> Option<ContainerSpan> {
        let parsed = jsonc::parse_jsonc(&self.text).ok()??;
        let (range, items) = match descend(&parsed, path)? {
            ast::Value::Object(object) => {
                let items = object.properties.iter().map(|property| ContainerItem {
                    whole: property.range.start..property.range.end,
                    name: Some(property.name.as_str().to_string()),
                });
                (object.range, items.collect())
            }
            ast::Value::Array(array) => {
                let items = array.elements.iter().map(|element| {
                    let range = element.range();
                    ContainerItem { whole: range.start..range.end, name: None }
                });
                (array.range, items.collect())
            }
            ast::Value::StringLit(_)
            | ast::Value::NumberLit(_)
            | ast::Value::BooleanLit(_)
            | ast::Value::NullKeyword(_) => return None,
        };
        Some(ContainerSpan { range: range.start..range.end, items })
    }

    fn value_range(&self, path: SettingsPath<'_>) -> Option<Range<usize>> {
        let parsed = jsonc::parse_jsonc(&self.text).ok()??;
        let range = descend(&parsed, path)?.range();
        Some(range.start..range.end)
    }

    fn with_space_before(&self, range: &Range<usize>) -> Range<usize> {
        let before = self.text.get(..range.start).unwrap_or_default();
        before.trim_end().len()..range.end
    }

    fn line_before(&self, offset: usize) -> &str {
        let before = self.text.get(..offset).unwrap_or_default();
        before.rsplit('\n').next().unwrap_or_default()
    }

    fn newline(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// One level of indentation, in the style of the file.
    fn indent_unit(&self) -> &str {
        let first = self.find(&[]).and_then(|root| root.items.into_iter().next());
        let indent = first.map(|first| line_indent_at(&self.text, first.whole.start));
        indent.filter(|indent| !indent.is_empty()).unwrap_or("  ")
    }
}

fn deletions(cuts: Vec<Range<usize>>) -> Vec<(Range<usize>, String)> {
    cuts.into_iter().map(|cut| (cut, String::new())).collect()
}

fn descend<'a, 'b>(
    value: &'b ast::Value<'a>,
    path: SettingsPath<'_>,
) -> Option<&'b ast::Value<'a>> {
    path.iter().try_fold(value, |value, step| match (value, step) {
        (ast::Value::Object(object), SettingsPathStep::Key(name)) => {
            let mut properties = object.properties.iter().rev();
            properties.find(|property| property.name.as_str() == *name).map(|found| &found.value)
        }
        (ast::Value::Array(array), SettingsPathStep::Index(index)) => array.elements.get(*index),
        (_, SettingsPathStep::Key(_) | SettingsPathStep::Index(_)) => None,
    })
}

fn value_at<'a>(value: &'a mut Value, path: SettingsPath<'_>) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, step| match step {
        SettingsPathStep::Key(name) => value.get_mut(*name),
        SettingsPathStep::Index(index) => value.get_mut(*index),
    })
}

/// The indentation of the line at `offset`.
fn line_indent_at(text: &str, offset: usize) -> &str {
    let before = text.get(..offset).unwrap_or_default();
    let line = before.rsplit('\n').next().unwrap_or_default();
    let width = line.len() - line.trim_start_matches([' ', '\t']).len();
    line.get(..width).unwrap_or_default()
}

/// Indents the lines of `item` after the first.
fn indent_item(item: &str, indent: &str, newline: &str) -> String {
    item.replace('\n', &format!("{newline}{indent}"))
}

/// Finds the comma between the space and comments of a range.
fn find_comma(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let mut offset = range.start;
    while offset < range.end {
        let rest = text.get(offset..range.end)?;
        if rest.starts_with(',') {
            return Some(offset..offset + 1);
        }
        offset += match comment_length(rest) {
            Some(length) => length,
            None => rest.chars().next()?.len_utf8(),
        };
    }
    None
}

/// The end of the comments that follow on the same line.
fn end_of_comments(text: &str, range: Range<usize>) -> usize {
    let mut end = range.start;
    while let Some(rest) = text.get(end..range.end) {
        let space = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        let length = rest.get(space..).and_then(comment_length);
        match length.and_then(|length| Some((length, rest.get(space..space + length)?))) {
            Some((length, comment)) if !comment.contains('\n') => end += space + length,
            Some(_) | None => break,
        }
    }
    end
}

/// The length of the comment at the start of a text, without its line end.
fn comment_length(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        Some(text.find(['\r', '\n']).unwrap_or(text.len()))
    } else if text.starts_with("/*") {
        text.get(2..)?.find("*/").map(|end| end + 4)
    } else {
        None
    }
}
