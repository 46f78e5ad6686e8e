//! Tests of the checks on the text of a change.

#[cfg(test)]
mod integrity;
#[cfg(test)]
mod lines;
