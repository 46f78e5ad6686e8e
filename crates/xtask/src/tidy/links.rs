//! Checks that links between files of the repository are not broken.

use super::TidyFile;
use crate::shell;
use std::path::Path;

pub(crate) fn check_links(source: &TidyFile) -> Vec<String> {
    let directory = Path::new(&source.path).parent().unwrap_or(Path::new(""));
    let mut complaints = Vec::new();
    let mut is_code = false;
    for (number, line) in source.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        for target in link_targets(line).filter(|_| !is_code) {
            let path = target.split('#').next().unwrap_or_default();
            if !path.is_empty() && !shell::repository_root().join(directory).join(path).exists() {
                complaints.push(format!("{}:{}: broken link `{target}`", source.path, number + 1));
            }
        }
    }
    complaints
}

/// The targets of links in a line, except for URLs.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_ignored() {
        let line =
            "[a](docs/a.md) and [b](../b.md#part), [c](https://example.org/c) [d](#here \"title\")";
        assert_eq!(link_targets(line).collect::<Vec<_>>(), ["docs/a.md", "../b.md#part", "#here"]);
    }
}
