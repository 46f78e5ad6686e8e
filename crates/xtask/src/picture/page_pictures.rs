//! The pictures of web pages in `docs`, and the record of what they show.
//!
//! Fonts differ between machines, so pixels are not compared. The record beside the pictures has the text of each page and
//! a digest of everything else that decides how it looks. A picture is out of date when the
//! current page differs from its record.

use crate::{browser, disk, print, shell};
use anyhow::{Context, Result, bail};
use ralph_home::journal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const RECORD: &str = "pictures.json";
const MAX_PICTURE_BYTES: usize = 150_000;
const REMEDY: &str = "run `cargo xtask picture`";

/// What a page shows, with times and numbers masked.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ShownPage {
    /// A digest of markup, style and size.
    look: String,
    text: Vec<String>,
}

/// A picture as it is stored.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RecordedPicture {
    /// The digest of the file, so that no other file takes its place.
    file: String,
    #[serde(flatten)]
    shown: ShownPage,
}

fn docs() -> PathBuf {
    shell::repository_root().join("docs")
}

/// Takes all pictures and records what they show.
pub(crate) fn take(program: Option<&Path>) -> Result<()> {
    let mut record = BTreeMap::new();
    for (name, shown) in shown_pages(program, Some(&docs()))? {
        let file = picture_digest(&name)?;
        print::print_line(&format!("wrote `docs/{name}`"));
        record.insert(name, RecordedPicture { file, shown });
    }
    let text = serde_json::to_string_pretty(&record)?;
    disk::write_file(&docs().join(RECORD), format!("{text}\n").as_bytes())
}

/// Fails if a picture is missing, too large, replaced, or shows a page that looks different now.
pub(crate) fn check(program: Option<&Path>) -> Result<()> {
    let record = disk::read_text(&docs().join(RECORD))?;
    let record: BTreeMap<String, RecordedPicture> = serde_json::from_str(&record)?;
    let shown = shown_pages(program, None)?;
    if !shown.keys().eq(record.keys()) {
        bail!("`docs/{RECORD}` has other pictures than the pages; {REMEDY}");
    }
    for (name, page) in &shown {
        let stored = record.get(name).context("a picture")?;
        if picture_digest(name)? != stored.file {
            bail!("`docs/{name}` is not the picture in `docs/{RECORD}`; {REMEDY}");
        }
        if let Some(difference) = describe_difference(&stored.shown, page) {
            bail!("`docs/{name}` is out of date: {difference}; {REMEDY}");
        }
        print::print_line(&format!("`docs/{name}` shows the page as it is"));
    }
    Ok(())
}

fn shown_pages(
    program: Option<&Path>,
    pictures: Option<&Path>,
) -> Result<BTreeMap<String, ShownPage>> {
    let described = browser::describe_pictures(program, pictures)?;
    serde_json::from_str(&described).context("the browser described the pictures differently")
}

fn picture_digest(name: &str) -> Result<String> {
    let bytes = disk::read(&docs().join(name))?;
    if bytes.len() > MAX_PICTURE_BYTES {
        bail!("`docs/{name}` has {} bytes, at most {MAX_PICTURE_BYTES} are allowed", bytes.len());
    }
    Ok(journal::hash_bytes(&bytes))
}

fn describe_difference(stored: &ShownPage, shown: &ShownPage) -> Option<String> {
    let mut lines = stored.text.iter().zip(&shown.text);
    let differ = lines.find(|(old, new)| old != new);
    if let Some((old, new)) = differ {
        return Some(format!("it shows `{old}`, and the page shows `{new}`"));
    }
    let (old, new) = (stored.text.len(), shown.text.len());
    if old != new {
        let beyond = if old > new { &stored.text } else { &shown.text };
        let text = beyond.get(old.min(new)).map_or("", String::as_str);
        let place = if old > new { "the picture" } else { "the page" };
        return Some(format!("only {place} shows `{text}`"));
    }
    (stored.look != shown.look).then(|| "the page has another markup, style or size".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(look: &str, text: &[&str]) -> ShownPage {
        let text = text.iter().map(|line| (*line).to_owned()).collect();
        ShownPage { look: look.to_owned(), text }
    }

    #[test]
    fn a_picture_is_compared_with_the_page_by_text_and_look() {
        let stored = page("a", &["Board", "Insights", "3 runs"]);
        let difference = |shown: &ShownPage| describe_difference(&stored, shown);
        let shown = |text: &[&str]| difference(&page("a", text));
        assert_eq!(shown(&["Board", "Insights", "3 runs"]), None);
        assert_eq!(
            shown(&["Board", "Stats", "3 runs"]).unwrap(),
            "it shows `Insights`, and the page shows `Stats`"
        );
        assert_eq!(shown(&["Board", "Insights"]).unwrap(), "only the picture shows `3 runs`");
        assert_eq!(
            shown(&["Board", "Insights", "3 runs", "States"]).unwrap(),
            "only the page shows `States`"
        );
        assert_eq!(
            difference(&page("b", &["Board", "Insights", "3 runs"])).unwrap(),
            "the page has another markup, style or size"
        );
    }
}
