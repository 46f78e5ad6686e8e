//! Installs ralph's hooks into an agent's settings, removes them again, and checks the whole setup (`ralph doctor`).

pub mod doctor;
pub mod install;
