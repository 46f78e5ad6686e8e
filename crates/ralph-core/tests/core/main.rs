//! The core from the outside: what it decides, what it says, what it reads and writes, and the laws it keeps.

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
