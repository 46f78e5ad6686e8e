//! Go: `go.mod`. Every module gets its own gates, because `./...` does not descend into nested modules.

use ralph_core::gate::ReportFormat;

use super::gate_draft::{GateAspect, GateDraft};
use super::project_dir::{DetectionNotes, ProjectDir};

const LINTER_FILES: [&str; 4] =
    [".golangci.yml", ".golangci.yaml", ".golangci.toml", ".golangci.json"];

pub(super) fn go_gates(place: &ProjectDir<'_>, notes: &mut DetectionNotes) -> Vec<GateDraft> {
    if !place.has_entry("go.mod") || place.read_text("go.mod", notes).is_none() {
        return Vec::new();
    }
    let source = place.relative("go.mod");
    let why = format!("`{source}` defines a module");
    let mut drafts = vec![
        GateDraft::from_words(place, "tests", GateAspect::Test, &["go", "test", "-json", "./..."])
            .with_report(ReportFormat::GoTestJson)
            .covering(&["go test", "go build"])
            .with_reason(&source, why.clone()),
        GateDraft::from_words(place, "vet", GateAspect::Lint, &["go", "vet", "./..."])
            .covering(&["go vet"])
            .with_reason(&source, why),
    ];
    if let Some(file) = place.first_present(&LINTER_FILES) {
        let source = place.relative(file);
        drafts.push(
            GateDraft::from_words(place, "lint", GateAspect::Lint, &["golangci-lint", "run"])
                .with_tool(place.find_tools(&["golangci-lint", "go"]))
                .covering(&["golangci-lint"])
                .with_reason(&source, format!("`{source}` sets up golangci-lint")),
        );
    }
    drafts
}
