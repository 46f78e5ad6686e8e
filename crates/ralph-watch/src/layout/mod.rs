//! Turns pages into the lines of a screen.

pub(crate) mod board_layout;
mod board_row_lines;
mod comparison_lines;
pub(crate) mod matrix_lines;
pub(crate) mod run_layout;
mod tab_lines;
mod timeline_lines;
