//! Tests of the core through its public API: decisions, texts, file formats, and properties that hold for any sequence
//! of events.

#[cfg(test)]
mod anchor;
#[cfg(test)]
mod chunk;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod driven;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod features;
#[cfg(test)]
mod host;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod orchestrator;
#[cfg(test)]
mod pipeline;
#[cfg(test)]
mod reason;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod table;
#[cfg(test)]
mod typed;
mod words;
