//! Puts ralph into an agent's settings, and takes it out again without a trace.

mod jsonc;
pub mod layers;
