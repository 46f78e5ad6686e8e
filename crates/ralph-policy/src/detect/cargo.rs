//! Rust: `Cargo.toml`.

use ralph_core::gate::ReportFormat;

use super::gate_draft::{GateAspect, GateDraft};
use super::project_dir::{DetectionNotes, ProjectDir};
use super::{ToolLookup, project_dir};

/// The files that the formatter reads.
const FMT_PATHS: [&str; 4] = ["**/*.rs", "**/Cargo.toml", "**/rustfmt.toml", "**/.rustfmt.toml"];

pub(super) fn cargo_gates(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<GateDraft> {
    if !place.has_entry("Cargo.toml") {
        return Vec::new();
    }
    let source = place.relative("Cargo.toml");
    let Some(text) = place.read_text("Cargo.toml", notes) else { return Vec::new() };
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
        test_gate(place, scope, notes).with_reason(&source, why.clone()),
        GateDraft::from_words(
            place,
            "clippy",
            GateAspect::Lint,
            &[&["cargo", "clippy"], scope, &clippy].concat(),
        )
        .with_report(ReportFormat::CargoJson)
        .with_tool(place.find_tools(&["cargo", "cargo-clippy"]))
        .covering(&["cargo clippy", "cargo check"])
        .with_reason(&source, why.clone()),
        GateDraft::from_words(
            place,
            "fmt",
            GateAspect::Format,
            &["cargo", "fmt", "--all", "--check"],
        )
        .with_paths(&FMT_PATHS)
        .with_tool(place.find_tools(&["cargo", "cargo-fmt"]))
        .covering(&["cargo fmt"])
        .with_reason(&source, why),
    ];
    drafts.extend(audit_gates(place));
    drafts
}

fn test_gate(place: &ProjectDir<'_>, scope: &[&str], notes: &mut DetectionNotes) -> GateDraft {
    let covered = ["cargo test", "cargo nextest", "cargo build", "cargo check"];
    let nextest = place.path(".config/nextest.toml");
    if ralph_sys::fs::exists(&nextest)
        && matches!(place.find_tool("cargo-nextest"), ToolLookup::Found(_))
    {
        let shown = project_dir::join_relative(&place.cwd, ".config/nextest.toml");
        notes.add(&format!(
            "`{shown}`: nextest does not run doc tests; add a gate with `cargo test --doc` for them"
        ));
        return GateDraft::from_words(
            place,
            "tests",
            GateAspect::Test,
            &[&["cargo", "nextest", "run"], scope].concat(),
        )
        .with_counted_tests()
        .covering(&covered);
    }
    GateDraft::from_words(place, "tests", GateAspect::Test, &[&["cargo", "test"], scope].concat())
        .with_counted_tests()
        .covering(&covered)
}

/// Advisory gates: an advisory published about a dependency is not the agent's fault.
fn audit_gates(place: &ProjectDir<'_>) -> Vec<GateDraft> {
    let mut drafts = Vec::new();
    if place.has_entry("deny.toml") {
        let source = place.relative("deny.toml");
        drafts.push(
            GateDraft::from_words(place, "deny", GateAspect::Audit, &["cargo", "deny", "check"])
                .with_tool(place.find_tools(&["cargo", "cargo-deny"]))
                .covering(&["cargo deny"])
                .advisory()
                .with_reason(&source, format!("`{source}` sets up cargo-deny")),
        );
    }
    let audit = ".cargo/audit.toml";
    if ralph_sys::fs::exists(&place.path(audit)) {
        let source = place.relative(audit);
        drafts.push(
            GateDraft::from_words(place, "audit", GateAspect::Audit, &["cargo", "audit"])
                .with_tool(place.find_tools(&["cargo", "cargo-audit"]))
                .covering(&["cargo audit"])
                .advisory()
                .with_reason(&source, format!("`{source}` sets up cargo-audit")),
        );
    }
    drafts
}
