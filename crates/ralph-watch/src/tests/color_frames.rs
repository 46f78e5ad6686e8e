//! The colours of frames, where the terminal has them.

use super::frames::{board, opened_run};
use crate::palette::ColorDepth;
use crate::watch_state::WatchState;
use ratatui_core::style::Color;
use std::collections::BTreeSet;

/// The texts of a frame that have a colour, line by line.
fn colored_texts(state: &WatchState, colors: ColorDepth) -> String {
    let mut state = state.clone();
    state.look.colors = colors;
    state.settle();
    let buffer = state.draw();
    let mut lines = Vec::new();
    for y in 0..buffer.area.height {
        let mut texts: Vec<(Color, String)> = Vec::new();
        for x in 0..buffer.area.width {
            let cell = buffer.cell((x, y)).unwrap();
            assert_eq!(cell.bg, Color::Reset, "a background at {x}, {y}");
            match texts.last_mut() {
                Some((color, text)) if *color == cell.fg => text.push_str(cell.symbol()),
                Some(_) | None => texts.push((cell.fg, cell.symbol().to_string())),
            }
        }
        let colored = texts.iter().filter(|(color, _)| *color != Color::Reset);
        let line: Vec<_> =
            colored.map(|(color, text)| format!("{color}: {}", text.trim_end())).collect();
        if !line.is_empty() {
            lines.push(format!("{y:2} {}", line.join(", ")));
        }
    }
    lines.join("\n")
}

#[test]
fn colors_of_the_board() {
    insta::assert_snapshot!(colored_texts(&board(80, 24), ColorDepth::Named), @r"
     3 Magenta: ?, Magenta: asks
     6 Red: #, Red: gate broken
     7 Magenta: !, Magenta: needs review
    10 Blue: •, Blue: working
    12 Blue: …, Blue: waiting
    14 Blue: ≡, Blue: queue goals
    17 Yellow: =, Yellow: stuck
    18 Cyan: ~, Cyan: claimed
    19 Green: ✓, Green: verified
    20 Green: ✓, Green: verified
    ");
}

#[test]
fn colors_of_a_run() {
    insta::assert_snapshot!(colored_texts(&opened_run(80, 24), ColorDepth::Named), @r"
     0 Magenta: asks
    11 Green: ✓, Red: ✗, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: met
    12 Red: 12, Red: ✗, Red: 9, Red: ✗, Red: 7, Red: 6, Red: 4, Red: 2, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: met
    13 Red: ✗, Red: ✗, Red: ✗, Red: ✗, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: met
    14 Green: ✓, Green: ✓, Green: ✓, Red: ✗, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: met
    15 Red: 11, Red: 3, Red: 2, Red: 2, Red: 2 findings
    16 Red: ✗, Green: ✓, Green: ✓, Green: ✓, Green: met
    17 Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Green: ✓, Red: 2, Green: ✓, Green: met
    20 Yellow: asks
    ");
}

#[test]
fn no_colors_without_color_depth() {
    for state in [board(80, 24), opened_run(80, 24), opened_run(160, 50)] {
        assert_eq!(colored_texts(&state, ColorDepth::None), "");
    }
}

/// Colours differ where the attention differs, so that they add to the marks instead of confusing them.
#[test]
fn every_attention_has_a_color_of_its_own() {
    use crate::palette::{TextInk, ink_style};
    use ralph_deck::page::RunStanding;
    let all = RunStanding::ALL.map(RunStanding::attention);
    let names: BTreeSet<_> = all.iter().map(|attention| format!("{attention:?}")).collect();
    let colors: BTreeSet<_> = all
        .iter()
        .map(|attention| ink_style(TextInk::Attention(*attention), ColorDepth::Named).fg)
        .map(|color| format!("{color:?}"))
        .collect();
    assert_eq!((colors.len(), colors.contains("None")), (names.len(), false));
}
