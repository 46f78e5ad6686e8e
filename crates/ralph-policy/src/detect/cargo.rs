//! Rust: `Cargo.toml`.

use ralph_core::gate::Format;

use super::draft::{Aspect, Draft};
use super::place::{Notes, Place};
use super::{Tool, place};

/// The files that the formatter reads.
const FORMATTED: [&str; 4] = ["**/*.rs", "**/Cargo.toml", "**/rustfmt.toml", "**/.rustfmt.toml"];

pub(super) fn look(place: &Place<'_>, notes: &mut Notes) -> Vec<Draft> {
    if !place.has("Cargo.toml") {
        return Vec::new();
    }
    let source = place.relative("Cargo.toml");
    let Some(text) = place.text("Cargo.toml", notes) else { return Vec::new() };
    let Ok(manifest) = text.parse::<toml::Table>() else {
        notes.add(&format!("`{source}` is not valid TOML"));
        return Vec::new();
    };
    let scope: &[&str] =
        match (manifest.contains_key("workspace"), manifest.contains_key("package")) {
            (true, _) => &["--workspace"],
            (false, true) => &[],
            (false, false) => return Vec::new(),
        };
    let kind = if scope.is_empty() { "package" } else { "workspace" };
    let why = format!("`{source}` defines a {kind}");
    let clippy = ["--all-targets", "--message-format=json", "--", "-D", "warnings"];
    let mut drafts = vec![
        tests(place, scope, notes).because(&source, why.clone()),
        Draft::argv(
            place,
            "clippy",
            Aspect::Lint,
            &[&["cargo", "clippy"], scope, &clippy].concat(),
        )
        .report(Format::CargoJson)
        .needs(place.tools(&["cargo", "cargo-clippy"]))
        .covers(&["cargo clippy", "cargo check"])
        .because(&source, why.clone()),
        Draft::argv(place, "fmt", Aspect::Format, &["cargo", "fmt", "--all", "--check"])
            .paths(&FORMATTED)
            .needs(place.tools(&["cargo", "cargo-fmt"]))
            .covers(&["cargo fmt"])
            .because(&source, why),
    ];
    drafts.extend(audits(place));
    drafts
}

fn tests(place: &Place<'_>, scope: &[&str], notes: &mut Notes) -> Draft {
    let covered = ["cargo test", "cargo nextest", "cargo build", "cargo check"];
    let nextest = place.path(".config/nextest.toml");
    if ralph_sys::fs::exists(&nextest) && matches!(place.tool("cargo-nextest"), Tool::Found(_)) {
        let shown = place::join(&place.cwd, ".config/nextest.toml");
        notes.add(&format!(
            "`{shown}`: nextest does not run doc tests; add a gate with `cargo test --doc` for them"
        ));
        return Draft::argv(
            place,
            "tests",
            Aspect::Test,
            &[&["cargo", "nextest", "run"], scope].concat(),
        )
        .counting()
        .covers(&covered);
    }
    Draft::argv(place, "tests", Aspect::Test, &[&["cargo", "test"], scope].concat())
        .counting()
        .covers(&covered)
}

/// Advisory gates: an advisory published about a dependency is not the agent's fault.
fn audits(place: &Place<'_>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    if place.has("deny.toml") {
        let source = place.relative("deny.toml");
        drafts.push(
            Draft::argv(place, "deny", Aspect::Audit, &["cargo", "deny", "check"])
                .needs(place.tools(&["cargo", "cargo-deny"]))
                .covers(&["cargo deny"])
                .advisory()
                .because(&source, format!("`{source}` sets up cargo-deny")),
        );
    }
    let audit = ".cargo/audit.toml";
    if ralph_sys::fs::exists(&place.path(audit)) {
        let source = place.relative(audit);
        drafts.push(
            Draft::argv(place, "audit", Aspect::Audit, &["cargo", "audit"])
                .needs(place.tools(&["cargo", "cargo-audit"]))
                .covers(&["cargo audit"])
                .advisory()
                .because(&source, format!("`{source}` sets up cargo-audit")),
        );
    }
    drafts
}
