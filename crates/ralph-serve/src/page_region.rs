//! The parts of a page that are replaced on their own.

use maud::Markup;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A page as it is now, in regions.
#[derive(Debug)]
pub(crate) struct LiveView {
    pub(crate) title: String,
    /// A sentence about the newest question, which is announced when it changes.
    pub(crate) news: Option<String>,
    pub(crate) regions: Vec<PageRegion>,
    /// A change in one of these makes the page out of date.
    pub(crate) directories: BTreeSet<PathBuf>,
}

/// An element with an id. Ids are made of ids of runs and numbers, never of text.
#[derive(Debug)]
pub(crate) struct PageRegion {
    pub(crate) id: String,
    pub(crate) markup: Markup,
    /// The elements of a list, if the region is one. While their order stays, they are replaced one by one.
    pub(crate) rows: Vec<PageRow>,
}

#[derive(Debug)]
pub(crate) struct PageRow {
    pub(crate) id: String,
    pub(crate) markup: Markup,
}

impl PageRegion {
    pub(crate) fn new(id: &str, markup: Markup) -> Self {
        Self { id: id.to_string(), markup, rows: Vec::new() }
    }
}

/// What the client has.
#[derive(Debug, Default)]
pub(crate) struct RegionMemory {
    /// `None` before the first message.
    title: Option<String>,
    news: Option<String>,
    regions: BTreeMap<String, RememberedRegion>,
}

#[derive(Debug)]
struct RememberedRegion {
    html: String,
    rows: Vec<(String, String)>,
}

impl RegionMemory {
    /// The events that bring the client up to date. `None` if it is.
    pub(crate) fn update_message(&mut self, view: &LiveView, number: u64) -> Option<String> {
        let mut patch = String::new();
        for region in &view.regions {
            let next = RememberedRegion {
                html: region.markup.0.clone(),
                rows: region
                    .rows
                    .iter()
                    .map(|row| (row.id.clone(), row.markup.0.clone()))
                    .collect(),
            };
            match self.regions.get(&region.id) {
                Some(known) if known.html == next.html => continue,
                Some(known) if has_same_order(known, &next) => {
                    for ((_, old), (_, new)) in known.rows.iter().zip(&next.rows) {
                        if old != new {
                            patch.push_str(new);
                        }
                    }
                }
                Some(_) | None => patch.push_str(&next.html),
            }
            self.regions.insert(region.id.clone(), next);
        }
        let mut message = String::new();
        if !patch.is_empty() {
            push_event(&mut message, "patch", number, &patch);
        }
        if self.title.as_ref() != Some(&view.title) {
            push_event(&mut message, "title", number, &view.title);
            self.title = Some(view.title.clone());
        }
        // A person who just opened the page reads it; only what comes later is announced.
        if let Some(news) = &view.news
            && self.news.replace(news.clone()).is_some_and(|known| known != *news)
        {
            push_event(&mut message, "news", number, news);
        }
        if view.news.is_none() {
            self.news = Some(String::new());
        }
        (!message.is_empty()).then_some(message)
    }
}

fn has_same_order(known: &RememberedRegion, next: &RememberedRegion) -> bool {
    let ids = |region: &RememberedRegion| -> Vec<String> {
        region.rows.iter().map(|(id, _)| id.clone()).collect()
    };
    !known.rows.is_empty() && ids(known) == ids(next)
}

fn push_event(message: &mut String, kind: &str, number: u64, data: &str) {
    message.push_str(&format!("event: {kind}\nid: {number}\n"));
    for line in data.split(['\n', '\r']) {
        message.push_str(&format!("data: {line}\n"));
    }
    message.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use maud::html;

    fn view(rows: &[(&str, &str)], title: &str, news: Option<&str>) -> LiveView {
        let rows: Vec<_> = rows
            .iter()
            .map(|(id, text)| PageRow {
                id: (*id).to_string(),
                markup: html! { li id=(id) { (text) } },
            })
            .collect();
        let markup = html! { ul #list { @for row in &rows { (row.markup) } } };
        LiveView {
            title: title.to_string(),
            news: news.map(ToString::to_string),
            regions: vec![PageRegion { id: "list".to_string(), markup, rows }],
            directories: BTreeSet::new(),
        }
    }

    #[test]
    fn a_row_is_sent_alone_until_the_order_changes() {
        let mut memory = RegionMemory::default();
        let mut next = |view: LiveView| memory.update_message(&view, 7).unwrap_or_default();
        let first = next(view(&[("a", "1"), ("b", "2")], "ralph", None));
        insta::assert_snapshot!(first, @r#"
        event: patch
        id: 7
        data: <ul id="list"><li id="a">1</li><li id="b">2</li></ul>

        event: title
        id: 7
        data: ralph
        "#);
        assert_eq!(next(view(&[("a", "1"), ("b", "2")], "ralph", None)), "");
        insta::assert_snapshot!(next(view(&[("a", "1"), ("b", "3\n<b>")], "ralph", Some("a asks"))), @r#"
        event: patch
        id: 7
        data: <li id="b">3
        data: &lt;b&gt;</li>

        event: news
        id: 7
        data: a asks
        "#);
        insta::assert_snapshot!(next(view(&[("b", "3"), ("a", "1")], "(1) ralph", Some("a asks"))), @r#"
        event: patch
        id: 7
        data: <ul id="list"><li id="b">3</li><li id="a">1</li></ul>

        event: title
        id: 7
        data: (1) ralph
        "#);
    }
}
