//! Tests of the core through its public API: decisions, texts, file formats, and properties that hold for any sequence
//! of events.

#[cfg(test)]
mod acceptance;
#[cfg(test)]
mod adjustments;
#[cfg(test)]
mod chunk;
#[cfg(test)]
mod decision_table;
#[cfg(test)]
mod disk_format;
#[cfg(test)]
mod driven_runs;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod features;
#[cfg(test)]
mod host;
#[cfg(test)]
mod judges;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod lessons;
#[cfg(test)]
mod orchestrator;
#[cfg(test)]
mod pipeline;
#[cfg(test)]
mod proof;
#[cfg(test)]
mod reason;
#[cfg(test)]
mod reminder;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod slash_command;
