//! The inks of a frame, and the colours that a terminal shows them in.

use ralph_deck::page::Attention;
use ratatui_core::style::{Color, Modifier, Style};

/// How many colours the terminal has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColorDepth {
    None,
    /// The terminal's own colours, so that its theme decides how they look. Never a background.
    Named,
}

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextInk {
    Plain,
    Strong,
    /// Less important than what is around it.
    Quiet,
    /// The hue of the attention that a run needs.
    Attention(Attention),
    Good,
    Bad,
    Unclear,
}

pub(crate) fn ink_style(ink: TextInk, colors: ColorDepth) -> Style {
    let style = match ink {
        TextInk::Plain => Style::new(),
        TextInk::Strong => Style::new().add_modifier(Modifier::BOLD),
        TextInk::Quiet => Style::new().add_modifier(Modifier::DIM),
        TextInk::Attention(attention) => match attention {
            Attention::InProgress => Style::new().fg(Color::Blue),
            Attention::Done => Style::new().fg(Color::Green),
            Attention::Unproven => Style::new().fg(Color::Cyan),
            Attention::NeedsPerson => Style::new().fg(Color::Magenta),
            Attention::NotDone => Style::new().fg(Color::Yellow),
            Attention::Broken => Style::new().fg(Color::Red),
            Attention::Closed => Style::new().fg(Color::DarkGray),
        },
        TextInk::Good => Style::new().fg(Color::Green),
        TextInk::Bad => Style::new().fg(Color::Red),
        TextInk::Unclear => Style::new().fg(Color::Yellow),
    };
    match colors {
        ColorDepth::Named => style,
        ColorDepth::None => Style { fg: None, ..style },
    }
}
