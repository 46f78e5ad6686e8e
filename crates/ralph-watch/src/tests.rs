//! Whole frames, and what keys do.

mod board_frames;
mod color_frames;
mod dialog_frames;
mod filter_table;
mod frames;
mod key_tables;
mod random_keys;
mod run_frames;
mod tab_frames;
