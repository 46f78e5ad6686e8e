//! Go: `func TestX(t *testing.T)` and similar functions in `_test.go` files, including suite methods.

use super::{Case, Running, Skips, body_after, short, stricter};
use crate::source::Source;
use crate::words;
use alloc::vec::Vec;

const SKIPS: [&str; 6] = ["t.Skip(", "t.Skipf(", "t.SkipNow(", "b.Skip(", "f.Skip(", "s.T().Skip("];

pub(super) fn cases(source: &Source<'_>) -> Vec<Case> {
    if !source.is_test {
        return Vec::new();
    }
    let whole_file = build_constraint(source.text);
    let code = &source.code;
    let skips = Skips::find(source, &SKIPS);
    let mut found = Vec::new();
    for at in words::find_all(code, "func") {
        let mut name_at = words::skip_space(code, at + "func".len());
        if code.as_bytes().get(name_at) == Some(&b'(')
            && let Some(close) = source.brackets.close_of(name_at)
        {
            name_at = words::skip_space(code, close + 1);
        }
        let name = words::word_at(code, name_at);
        if !is_test(name) {
            continue;
        }
        if let Some(body) = body_after(source, name_at + name.len()) {
            let inside = skips.inside(&body);
            found.push(Case {
                name: short(name),
                at: name_at,
                body,
                running: stricter(whole_file.clone(), inside),
                focused: None,
                assertions_above: 0,
            });
        }
    }
    found
}

/// `TestX` and `Test_x`, not `Testing`.
fn is_test(name: &str) -> bool {
    let rest =
        ["Test", "Benchmark", "Fuzz", "Example"].iter().find_map(|kind| name.strip_prefix(kind));
    rest.is_some_and(|rest| {
        !rest.starts_with(|char: char| char.is_lowercase()) && name != "TestMain"
    })
}

fn build_constraint(text: &str) -> Running {
    let head =
        text.lines().take(40).map(str::trim).take_while(|line| !line.starts_with("package "));
    let constraints = head.filter_map(|line| {
        line.strip_prefix("//go:build ").or_else(|| line.strip_prefix("// +build "))
    });
    constraints.fold(Running::Always, |running, constraint| {
        let named = short(&alloc::format!("//go:build {constraint}"));
        let never = matches!(constraint.trim(), "ignore" | "never" | "disabled" | "skip");
        let own = if never { Running::Never(named) } else { Running::Sometimes(named) };
        stricter(own, running)
    })
}
