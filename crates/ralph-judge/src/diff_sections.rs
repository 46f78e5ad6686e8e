//! Splits a unified diff into the parts of its files. Tolerant: the diff is a fact of ours, but the text in it is not.

/// The part of a diff that is about one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiffSection<'a> {
    /// The path after the change, or before it if the file was deleted.
    pub(crate) path: String,
    pub(crate) text: &'a str,
}

/// The parts of a diff, in order. Text before the first file is left out.
pub(crate) fn split_diff(diff: &str) -> Vec<DiffSection<'_>> {
    let mut starts: Vec<usize> = Vec::new();
    let mut at = 0;
    let mut previous_is_old = false;
    // A diff without `diff --git` lines begins each file with `---` and `+++`.
    let has_headers = diff.lines().any(|line| line.starts_with("diff --git "));
    let mut old_at = 0;
    for line in diff.split_inclusive('\n') {
        if has_headers && line.starts_with("diff --git ") {
            starts.push(at);
        } else if !has_headers && previous_is_old && line.starts_with("+++ ") {
            starts.push(old_at);
        }
        previous_is_old = line.starts_with("--- ");
        if previous_is_old {
            old_at = at;
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([diff.len()]);
    let texts = starts.iter().zip(ends).filter_map(|(from, to)| diff.get(*from..to));
    texts.filter_map(|text| Some(DiffSection { path: section_path(text)?, text })).collect()
}

/// The file before the change, as far as the diff shows it: context and removed lines.
pub(crate) fn old_side(section: &str) -> String {
    one_side(section, '-')
}

/// The file after the change, as far as the diff shows it: context and added lines.
pub(crate) fn new_side(section: &str) -> String {
    one_side(section, '+')
}

fn one_side(section: &str, mark: char) -> String {
    let mut out = String::new();
    let mut is_in_hunk = false;
    for line in section.lines() {
        if line.starts_with("@@") {
            is_in_hunk = true;
        } else if is_in_hunk && let Some(text) = line.strip_prefix([mark, ' ']) {
            out.push_str(text);
            out.push('\n');
        }
    }
    out
}

fn section_path(section: &str) -> Option<String> {
    let mut old = None;
    for line in section.lines().take_while(|line| !line.starts_with("@@")) {
        if let Some(path) = line.strip_prefix("+++ ")
            && let Some(path) = clean_path(path)
        {
            return Some(path);
        }
        if let Some(path) = line.strip_prefix("--- ") {
            old = clean_path(path);
        }
        if let Some(path) = line.strip_prefix("rename to ") {
            return Some(path.to_string());
        }
    }
    old.or_else(|| {
        // Mode changes and empty files have no `+++` line. Both names are the same then.
        let names = section.lines().next()?.strip_prefix("diff --git ")?;
        let (_, new) = names.split_once(" b/")?;
        Some(new.to_string())
    })
}

/// `b/src/a.rs`, with a tab and a date after it in some diffs; `None` for `/dev/null`.
fn clean_path(path: &str) -> Option<String> {
    let path = path.split('\t').next().unwrap_or(path).trim_end();
    let path = path.trim_matches('"');
    if path == "/dev/null" {
        return None;
    }
    let path = path.strip_prefix("a/").or_else(|| path.strip_prefix("b/")).unwrap_or(path);
    Some(path.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "\
diff --git a/src/a.rs b/src/a.rs
index 1..2 100644
--- a/src/a.rs
+++ b/src/a.rs
@@ -1,3 +1,3 @@
 fn a() {
-    assert!(one);
+    let two = 2;
 }
diff --git a/old.rs b/old.rs
deleted file mode 100644
--- a/old.rs
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
";

    #[test]
    fn a_diff_is_split_by_file_with_its_sides() {
        let found: Vec<_> = split_diff(DIFF)
            .into_iter()
            .map(|section| {
                format!("{}\n{}\n{}", section.path, old_side(section.text), new_side(section.text))
            })
            .collect();
        assert_eq!(
            found,
            [
                "src/a.rs\nfn a() {\n    assert!(one);\n}\n\nfn a() {\n    let two = 2;\n}\n",
                "old.rs\ngone\n\n",
                "run.sh\n\n",
            ]
        );
        let plain =
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-c\n+d\n";
        let paths: Vec<_> = split_diff(plain).into_iter().map(|section| section.path).collect();
        assert_eq!(paths, ["x", "y"]);
        assert!(split_diff("nothing\n").is_empty());
    }
}
