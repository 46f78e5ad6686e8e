//! `ralph judge presets`: the instructions of each kind of judge, to read or to start one's own from.

use crate::cmd::print_json;
use crate::failure::CommandFailure;
use crate::term;
use crate::text_table::{ColumnSide, TextTable};
use clap::Args;
use clap::builder::PossibleValuesParser;
use ralph_judge::presets::{PRESET_KINDS, kind_name, kind_question, preset_text};
use serde::Serialize;

#[derive(Args)]
#[command(after_help = "\
Examples:
  ralph judge presets
  ralph judge presets adversarial > review.md

A judge with `prompt = \"review.md\"` uses that file instead of the preset.
How to answer is added to both.")]
pub(crate) struct PresetsArgs {
    /// Print the instructions of this kind
    #[arg(value_name = "KIND", value_parser = PossibleValuesParser::new(PRESET_KINDS.map(kind_name)))]
    kind: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct PresetsView<'a> {
    v: u8,
    presets: &'a [PresetView],
}

#[derive(Serialize)]
struct PresetView {
    kind: &'static str,
    question: &'static str,
    text: &'static str,
}

pub(crate) fn run(args: &PresetsArgs) -> Result<(), CommandFailure> {
    let is_meant = |kind: &str| args.kind.as_deref().is_none_or(|wanted| wanted == kind);
    let presets: Vec<_> = PRESET_KINDS
        .into_iter()
        .map(|kind| PresetView {
            kind: kind_name(kind),
            question: kind_question(kind),
            text: preset_text(kind),
        })
        .filter(|preset| is_meant(preset.kind))
        .collect();
    match (args.json, &presets[..]) {
        (true, presets) => print_json(&PresetsView { v: 1, presets }).map(drop),
        (false, [preset]) if args.kind.is_some() => term::out(preset.text).map(drop),
        (false, presets) => term::out(&preset_table(presets)).map(drop),
    }
}

fn preset_table(presets: &[PresetView]) -> String {
    let cells = |preset: &PresetView| vec![preset.kind.to_string(), preset.question.to_string()];
    let rows: Vec<_> = presets.iter().map(cells).collect();
    TextTable {
        columns: &[("KIND", ColumnSide::Left), ("QUESTION", ColumnSide::Left)],
        rows: &rows,
        indent: "",
        header_style: term::BOLD,
    }
    .render()
}
