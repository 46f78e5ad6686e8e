//! The difference between two texts, in the client's format.

use imara_diff::{Algorithm, Diff, InternedInput};
use serde_json::{Value, json};

const CONTEXT: u32 = 3;

pub(super) fn structured_patch(before: &str, after: &str) -> Vec<Value> {
    let (before, after): (Vec<&str>, Vec<&str>) =
        (before.lines().collect(), after.lines().collect());
    let mut input = InternedInput::default();
    input.update_before(before.iter().copied());
    input.update_after(after.iter().copied());
    let diff = Diff::compute(Algorithm::Histogram, &input);
    let mut groups: Vec<Vec<imara_diff::Hunk>> = Vec::new();
    for hunk in diff.hunks() {
        match groups.last_mut() {
            Some(group)
                if group
                    .last()
                    .is_some_and(|last| hunk.before.start <= last.before.end + 2 * CONTEXT) =>
            {
                group.push(hunk);
            }
            Some(_) | None => groups.push(vec![hunk]),
        }
    }
    groups.iter().map(|group| hunk_json(group, &before, &after)).collect()
}

fn hunk_json(group: &[imara_diff::Hunk], before: &[&str], after: &[&str]) -> Value {
    let line =
        |lines: &[&str], at: u32| lines.get(at as usize).copied().unwrap_or_default().to_owned();
    let first = group.first().map(|hunk| (hunk.before.start, hunk.after.start)).unwrap_or_default();
    let lead = CONTEXT.min(first.0).min(first.1);
    let (from, from_after) = (first.0 - lead, first.1 - lead);
    let last = group.last().map(|hunk| hunk.before.end).unwrap_or_default();
    let length = u32::try_from(before.len()).unwrap_or(u32::MAX);
    let to = last.saturating_add(CONTEXT).min(length);
    let mut lines = Vec::new();
    let (mut removed, mut added) = (0, 0);
    let mut at = from;
    for hunk in group {
        for context in at..hunk.before.start {
            lines.push(format!(" {}", line(before, context)));
        }
        for gone in hunk.before.clone() {
            lines.push(format!("-{}", line(before, gone)));
            removed += 1;
        }
        for new in hunk.after.clone() {
            lines.push(format!("+{}", line(after, new)));
            added += 1;
        }
        at = hunk.before.end;
    }
    for context in at..to {
        lines.push(format!(" {}", line(before, context)));
    }
    let old_lines = to - from;
    json!({
        "oldStart": from + 1,
        "oldLines": old_lines,
        "newStart": from_after + 1,
        "newLines": old_lines - removed + added,
        "lines": lines,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As recorded from the client.
    #[test]
    fn hunks_equal_the_clients() {
        let edited = structured_patch("alpha\nbeta\n", "alpha\ngamma\n");
        let whole = structured_patch("alpha\ngamma\n", "whole\n");
        assert_eq!(
            (edited, whole),
            (
                vec![
                    json!({"oldStart":1,"oldLines":2,"newStart":1,"newLines":2,"lines":[" alpha","-beta","+gamma"]})
                ],
                vec![
                    json!({"oldStart":1,"oldLines":2,"newStart":1,"newLines":1,"lines":["-alpha","-gamma","+whole"]})
                ],
            )
        );
        assert_eq!(structured_patch("same\n", "same\n"), Vec::<Value>::new());
    }

    #[test]
    fn distant_changes_are_separate_hunks() {
        let before: Vec<String> = (1..=20).map(|line| line.to_string()).collect();
        let mut after = before.clone();
        after[1] = "two".to_owned();
        after[17] = "eighteen".to_owned();
        let hunks = structured_patch(&before.join("\n"), &after.join("\n"));
        let places: Vec<_> =
            hunks.iter().map(|hunk| (&hunk["oldStart"], &hunk["oldLines"])).collect();
        assert_eq!(places, [(&json!(1), &json!(5)), (&json!(15), &json!(6))]);
    }
}
